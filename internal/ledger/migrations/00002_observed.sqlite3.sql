-- SQLite drops no constraint of a table, so the table is made anew. Why stands in the file of PostgreSQL.
-- +goose Up
CREATE TABLE orders_anew (
  id              TEXT PRIMARY KEY,
  namespace       TEXT NOT NULL,
  owner           TEXT NOT NULL,
  caller          TEXT NOT NULL,
  idempotency_key TEXT NOT NULL,
  upstream_key    TEXT NOT NULL,
  api_key         TEXT NOT NULL,
  model_id        TEXT NOT NULL,
  digest          TEXT NOT NULL,
  inputs          TEXT,
  state           INTEGER NOT NULL,
  claims          INTEGER NOT NULL,
  claimed_until   BIGINT NOT NULL,
  order_time      BIGINT NOT NULL,
  retry_time      BIGINT NOT NULL,
  generation_id   TEXT,
  placed_time     BIGINT NOT NULL DEFAULT 0,
  reserved_cents    BIGINT NOT NULL,
  cost_cents        BIGINT,
  refunded_cents    BIGINT NOT NULL DEFAULT 0,
  unconfirmed_cents BIGINT NOT NULL DEFAULT 0,
  status          INTEGER NOT NULL DEFAULT 0,
  record          TEXT,
  deleted         INTEGER NOT NULL DEFAULT 0,
  settled         INTEGER NOT NULL DEFAULT 0,
  observed_time   BIGINT NOT NULL DEFAULT 0,
  failed_time     BIGINT NOT NULL DEFAULT 0,
  price_cents       BIGINT NOT NULL DEFAULT 0,
  charge_final      INTEGER NOT NULL DEFAULT 0,
  absent_time       BIGINT NOT NULL DEFAULT 0,
  gone              INTEGER NOT NULL DEFAULT 0,
  resolved          INTEGER NOT NULL DEFAULT 0,
  inputs_digest     TEXT NOT NULL DEFAULT '',
  second            INTEGER NOT NULL DEFAULT 0
);
INSERT INTO orders_anew (
  id, namespace, owner, caller, idempotency_key, upstream_key, api_key, model_id, digest,
  inputs, state, claims, claimed_until, order_time, retry_time, generation_id, placed_time, reserved_cents,
  cost_cents, refunded_cents, unconfirmed_cents, status, record, deleted, settled, observed_time, failed_time,
  price_cents, charge_final, gone, second)
SELECT
  id, namespace, owner, caller, idempotency_key, upstream_key, api_key, model_id, digest,
  inputs, state, claims, claimed_until, order_time, retry_time, generation_id, placed_time, reserved_cents,
  cost_cents, refunded_cents, unconfirmed_cents, status, record, deleted, settled, observed_time, failed_time,
  CASE WHEN cost_cents IS NULL THEN reserved_cents + unconfirmed_cents ELSE 0 END,
  CASE WHEN status >= 3 AND cost_cents IS NOT NULL THEN 1 ELSE 0 END,
  deleted,
  CASE WHEN caller <> '' AND state <> 3 AND EXISTS (SELECT 1 FROM orders AS older WHERE older.caller = orders.caller
    AND older.idempotency_key = orders.idempotency_key AND older.state <> 3 AND (older.order_time, older.id) < (orders.order_time, orders.id)) THEN 1 ELSE 0 END
FROM orders;

CREATE TABLE labels_kept AS SELECT order_id, name, value FROM labels;
DROP TABLE labels;
DROP TABLE orders;
ALTER TABLE orders_anew RENAME TO orders;
CREATE TABLE labels (
  order_id TEXT NOT NULL REFERENCES orders (id),
  name     TEXT NOT NULL,
  value    TEXT NOT NULL,
  PRIMARY KEY (order_id, name)
);
CREATE INDEX labels_value ON labels (name, value);
INSERT INTO labels (order_id, name, value) SELECT order_id, name, value FROM labels_kept;
DROP TABLE labels_kept;

CREATE UNIQUE INDEX orders_key ON orders (namespace, idempotency_key) WHERE state <> 3;
CREATE INDEX orders_open ON orders (owner, retry_time) WHERE state = 1;
CREATE INDEX orders_unsettled ON orders (observed_time) WHERE state = 2 AND settled = 0;
CREATE INDEX orders_owner ON orders (owner, order_time, id);
CREATE INDEX orders_owner_unsettled ON orders (owner, order_time, id) WHERE state = 2 AND settled = 0;
CREATE INDEX orders_time ON orders (order_time, id);
CREATE UNIQUE INDEX orders_generation ON orders (generation_id, namespace);
CREATE UNIQUE INDEX orders_generation_held ON orders (generation_id) WHERE namespace <> api_key;
CREATE UNIQUE INDEX orders_caller ON orders (caller, idempotency_key) WHERE state <> 3 AND caller <> '' AND second = 0;
CREATE INDEX orders_unconfirmed ON orders (observed_time) WHERE state = 2 AND settled = 1 AND (unconfirmed_cents > 0 OR gone = 1);
