-- +goose Up
ALTER TABLE orders
  -- What was reserved when the order was written down.
  ADD COLUMN price_cents BIGINT NOT NULL DEFAULT 0,
  -- The charge was read in a record that had ended.
  ADD COLUMN charge_final INTEGER NOT NULL DEFAULT 0,
  -- When a read did not find the generation, and none has found it since; 0 where there was none.
  ADD COLUMN absent_time BIGINT NOT NULL DEFAULT 0,
  -- Beside deleted: reads alone say so, and whoever sees the generation again undoes it.
  ADD COLUMN gone        INTEGER NOT NULL DEFAULT 0,
  -- An operator has said what became of the order.
  ADD COLUMN resolved    INTEGER NOT NULL DEFAULT 0;

-- Two forwarded API keys of one account see the same generations, and each has orders of its own. Behind a held API key
-- a generation has one order.
ALTER TABLE orders DROP CONSTRAINT orders_generation_id_key;
CREATE UNIQUE INDEX orders_generation ON orders (generation_id, namespace);
CREATE UNIQUE INDEX orders_generation_held ON orders (generation_id) WHERE namespace <> api_key;

-- A caller uses an idempotency key once, whatever its team.
DROP INDEX orders_caller;
CREATE UNIQUE INDEX orders_caller ON orders (caller, idempotency_key) WHERE state <> 3 AND caller <> '';

-- Owners are recovered in turn.
DROP INDEX orders_open;
CREATE INDEX orders_open ON orders (owner, retry_time) WHERE state = 1;

CREATE INDEX orders_unconfirmed ON orders (observed_time) WHERE state = 2 AND settled = 1 AND (unconfirmed_cents > 0 OR gone = 1);
