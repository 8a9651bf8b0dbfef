-- +goose Up
-- Why an order has no outcome yet: what its last attempt has met, the catalog's refusal of a repeat too.
ALTER TABLE orders ADD COLUMN problem TEXT NOT NULL DEFAULT '';
