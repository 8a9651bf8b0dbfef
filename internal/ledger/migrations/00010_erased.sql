-- +goose Up
-- 1: what names content was erased, and is not written again. The program of before writes a record again.
ALTER TABLE orders ADD COLUMN erased INTEGER NOT NULL DEFAULT 0;
