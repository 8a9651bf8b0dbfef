-- +goose Up
-- 1: the order was open when the ledger was copied or restored. Only its caller or an operator continues it.
ALTER TABLE orders ADD COLUMN held INTEGER NOT NULL DEFAULT 0 CHECK (held IN (0, 1));
