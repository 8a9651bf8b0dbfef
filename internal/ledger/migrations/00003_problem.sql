-- +goose Up
-- Why an order has no outcome yet: what its last attempt has met, the catalog's refusal of a repeat too.
ALTER TABLE orders ADD COLUMN problem TEXT NOT NULL DEFAULT '';

-- A key that a caller has used in another team is sought at each order: beside orders_caller, which has all but these.
CREATE INDEX orders_second ON orders (caller, idempotency_key) WHERE second = 1;
