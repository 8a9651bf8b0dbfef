-- +goose Up
-- 1: a refund was seen, also after a success.
ALTER TABLE orders ADD COLUMN refunded INTEGER NOT NULL DEFAULT 0 CHECK (refunded IN (0, 1));
UPDATE orders SET refunded = 1 WHERE status = 5;
