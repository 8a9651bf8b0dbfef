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
  ADD COLUMN resolved    INTEGER NOT NULL DEFAULT 0,
  -- SHA-256 of the inputs as they are sent, in hex, where they are not stored; "" where that is not known.
  ADD COLUMN inputs_digest TEXT NOT NULL DEFAULT '',
  -- Its caller has used its idempotency key for an older order too, of another team: once that was possible.
  ADD COLUMN second      INTEGER NOT NULL DEFAULT 0;

UPDATE orders SET
  price_cents = CASE WHEN cost_cents IS NULL THEN reserved_cents + unconfirmed_cents ELSE 0 END,
  charge_final = CASE WHEN status >= 3 AND cost_cents IS NOT NULL THEN 1 ELSE 0 END,
  -- Nobody knows by whose word it is deleted. What is will not be seen again.
  gone = deleted,
  second = CASE WHEN caller <> '' AND state <> 3 AND EXISTS (SELECT 1 FROM orders AS older WHERE older.caller = orders.caller
    AND older.idempotency_key = orders.idempotency_key AND older.state <> 3 AND (older.order_time, older.id) < (orders.order_time, orders.id)) THEN 1 ELSE 0 END;

-- Two forwarded API keys of one account see the same generations, and each has orders of its own. Behind a held API key
-- a generation has one order.
ALTER TABLE orders DROP CONSTRAINT orders_generation_id_key;
CREATE UNIQUE INDEX orders_generation ON orders (generation_id, namespace);
CREATE UNIQUE INDEX orders_generation_held ON orders (generation_id) WHERE namespace <> api_key;

-- A caller uses an idempotency key once, whatever its team.
DROP INDEX orders_caller;
CREATE UNIQUE INDEX orders_caller ON orders (caller, idempotency_key) WHERE state <> 3 AND caller <> '' AND second = 0;

-- Owners are recovered in turn.
DROP INDEX orders_open;
CREATE INDEX orders_open ON orders (owner, retry_time) WHERE state = 1;

CREATE INDEX orders_unconfirmed ON orders (observed_time) WHERE state = 2 AND settled = 1 AND (unconfirmed_cents > 0 OR gone = 1);
