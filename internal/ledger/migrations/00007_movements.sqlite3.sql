-- SQLite adds no constraint to a table, so the tables are made anew. Why stands in the file of PostgreSQL.
-- +goose Up
CREATE TABLE movements (
  order_id  TEXT NOT NULL,
  number    BIGINT NOT NULL,
  -- 1 reserve, 2 charge, 3 refund, 4 release, 5 resolve: an operator's word.
  kind      INTEGER NOT NULL CHECK (kind BETWEEN 1 AND 5),
  -- A charge or refund below 0 takes one back, after an operator's word.
  cents     BIGINT NOT NULL CHECK (kind = 5 AND cents = 0 OR kind IN (1, 4) AND cents > 0 OR kind IN (2, 3) AND cents <> 0),
  move_time BIGINT NOT NULL,
  -- Who has moved it: "" is Easel, by what the catalog has said.
  actor     TEXT NOT NULL CHECK (kind <> 5 OR actor <> ''),
  PRIMARY KEY (order_id, number)
) WITHOUT ROWID;

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
  second            INTEGER NOT NULL DEFAULT 0,
  problem           TEXT NOT NULL DEFAULT '',
  moved_by          TEXT NOT NULL DEFAULT '',
  held_cents        BIGINT GENERATED ALWAYS AS (reserved_cents + MAX(0, unconfirmed_cents - COALESCE(cost_cents, 0))),
  CONSTRAINT orders_state CHECK (state IN (1, 2, 3)),
  CONSTRAINT orders_placed CHECK ((state = 2) = (generation_id IS NOT NULL)),
  CONSTRAINT orders_claims CHECK (claims >= 0),
  CONSTRAINT orders_inputs CHECK (inputs IS NULL OR state = 1),
  CONSTRAINT orders_money CHECK (price_cents >= 0 AND reserved_cents >= 0 AND unconfirmed_cents >= 0 AND COALESCE(cost_cents, 0) >= 0),
  CONSTRAINT orders_refund CHECK (refunded_cents BETWEEN 0 AND COALESCE(cost_cents, 0)),
  CONSTRAINT orders_refused_money CHECK (state <> 3 OR reserved_cents = 0 AND unconfirmed_cents = 0 AND cost_cents IS NULL),
  CONSTRAINT orders_settled_money CHECK (settled = 0 OR reserved_cents = 0),
  CONSTRAINT orders_open_money CHECK (state <> 1 OR cost_cents IS NULL AND settled = 0 AND status = 0),
  CONSTRAINT orders_status CHECK (status BETWEEN 0 AND 5),
  CONSTRAINT orders_truths CHECK (deleted IN (0, 1) AND gone IN (0, 1) AND settled IN (0, 1) AND charge_final IN (0, 1) AND resolved IN (0, 1) AND second IN (0, 1))
);
INSERT INTO orders_anew (
  id, namespace, owner, caller, idempotency_key, upstream_key, api_key, model_id, digest, inputs, state, claims,
  claimed_until, order_time, retry_time, generation_id, placed_time, reserved_cents, cost_cents, refunded_cents,
  unconfirmed_cents, status, record, deleted, settled, observed_time, failed_time, price_cents, charge_final,
  absent_time, gone, resolved, inputs_digest, second, problem)
SELECT
  id, namespace, owner, caller, idempotency_key, upstream_key, api_key, model_id, digest, inputs, state, claims,
  claimed_until, order_time, retry_time, generation_id, placed_time, reserved_cents, cost_cents, refunded_cents,
  unconfirmed_cents, status, record, deleted, settled, observed_time, failed_time, price_cents, charge_final,
  absent_time, gone, resolved, inputs_digest, second, problem
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
CREATE INDEX orders_second ON orders (caller, idempotency_key) WHERE second = 1;
CREATE INDEX orders_refused ON orders (owner, order_time) WHERE state = 3;

CREATE TABLE budgets_anew (
  owner          TEXT NOT NULL,
  period         TEXT NOT NULL,
  start_time     BIGINT NOT NULL,
  orders         BIGINT NOT NULL DEFAULT 0,
  spent_cents    BIGINT NOT NULL DEFAULT 0,
  reserved_cents BIGINT NOT NULL DEFAULT 0,
  unconfirmed_cents BIGINT NOT NULL DEFAULT 0,
  refunded_cents    BIGINT NOT NULL DEFAULT 0,
  told_percent      BIGINT NOT NULL DEFAULT 0,
  PRIMARY KEY (owner, period, start_time),
  CONSTRAINT budgets_period CHECK (period IN ('day', 'month'))
);
INSERT INTO budgets_anew (
  owner, period, start_time, orders, spent_cents, reserved_cents, unconfirmed_cents, refunded_cents, told_percent)
SELECT
  owner, period, start_time, orders, spent_cents, reserved_cents, unconfirmed_cents, refunded_cents, told_percent
FROM budgets;
DROP TABLE budgets;
ALTER TABLE budgets_anew RENAME TO budgets;

CREATE TABLE events_anew (
  id         TEXT PRIMARY KEY,
  owner      TEXT NOT NULL,
  type       TEXT NOT NULL,
  subject    TEXT NOT NULL,
  position   BIGINT NOT NULL,
  percent    BIGINT NOT NULL,
  data       TEXT NOT NULL,
  state      INTEGER NOT NULL DEFAULT 0,
  attempts   BIGINT NOT NULL DEFAULT 0,
  problem    TEXT NOT NULL DEFAULT '',
  event_time BIGINT NOT NULL,
  begin_time BIGINT NOT NULL,
  next_time  BIGINT NOT NULL,
  CONSTRAINT events_state CHECK (state IN (0, 1, 2)),
  CONSTRAINT events_percent CHECK (percent IN (0, 80, 100)),
  CONSTRAINT events_attempts CHECK (attempts >= 0)
);
INSERT INTO events_anew (
  id, owner, type, subject, position, percent, data, state, attempts, problem, event_time, begin_time, next_time)
SELECT
  id, owner, type, subject, position, percent, data, state, attempts, problem, event_time, begin_time, next_time
FROM events;
DROP TABLE events;
ALTER TABLE events_anew RENAME TO events;
CREATE INDEX events_pending ON events (owner, next_time) WHERE state = 0;
CREATE INDEX events_subject ON events (owner, subject, position);
CREATE INDEX events_owner ON events (owner, event_time);
CREATE INDEX events_unsent ON events (owner) WHERE state <> 1;

-- An order of before has its first lines when it moves, of what it held by then: no table is read for them here.
INSERT INTO facts (name, value) VALUES ('journal_since', CAST(easel_now() AS TEXT));

-- +goose StatementBegin
CREATE TRIGGER orders_written AFTER INSERT ON orders BEGIN
  INSERT INTO movements (order_id, number, kind, cents, move_time, actor)
  SELECT NEW.id, (SELECT COALESCE(MAX(number), 0) + 1 FROM movements WHERE order_id = NEW.id), 1, NEW.held_cents, easel_now(), NEW.moved_by
  WHERE NEW.held_cents > 0;
END;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE TRIGGER orders_moved AFTER UPDATE OF reserved_cents, cost_cents, refunded_cents, unconfirmed_cents ON orders
WHEN OLD.held_cents <> NEW.held_cents OR OLD.cost_cents IS NOT NEW.cost_cents OR OLD.refunded_cents <> NEW.refunded_cents BEGIN
  INSERT INTO movements (order_id, number, kind, cents, move_time, actor)
  SELECT NEW.id, (SELECT COALESCE(MAX(number), 0) + 1 FROM movements WHERE order_id = NEW.id), 1, OLD.held_cents, easel_now(), 'before the journal'
  WHERE OLD.held_cents > 0 AND NOT EXISTS (SELECT 1 FROM movements WHERE order_id = NEW.id AND kind <> 5 AND (kind >= 1 OR actor <> 'before the journal'));
  INSERT INTO movements (order_id, number, kind, cents, move_time, actor)
  SELECT NEW.id, (SELECT COALESCE(MAX(number), 0) + 1 FROM movements WHERE order_id = NEW.id), 2, COALESCE(OLD.cost_cents, 0), easel_now(), 'before the journal'
  WHERE COALESCE(OLD.cost_cents, 0) > 0 AND NOT EXISTS (SELECT 1 FROM movements WHERE order_id = NEW.id AND kind <> 5 AND (kind >= 2 OR actor <> 'before the journal'));
  INSERT INTO movements (order_id, number, kind, cents, move_time, actor)
  SELECT NEW.id, (SELECT COALESCE(MAX(number), 0) + 1 FROM movements WHERE order_id = NEW.id), 3, OLD.refunded_cents, easel_now(), 'before the journal'
  WHERE OLD.refunded_cents > 0 AND NOT EXISTS (SELECT 1 FROM movements WHERE order_id = NEW.id AND kind <> 5 AND (kind >= 3 OR actor <> 'before the journal'));
  INSERT INTO movements (order_id, number, kind, cents, move_time, actor)
  SELECT NEW.id, (SELECT COALESCE(MAX(number), 0) + 1 FROM movements WHERE order_id = NEW.id), 1, NEW.held_cents - OLD.held_cents, easel_now(), NEW.moved_by
  WHERE NEW.held_cents - OLD.held_cents > 0;
  INSERT INTO movements (order_id, number, kind, cents, move_time, actor)
  SELECT NEW.id, (SELECT COALESCE(MAX(number), 0) + 1 FROM movements WHERE order_id = NEW.id), 2, COALESCE(NEW.cost_cents, 0) - COALESCE(OLD.cost_cents, 0), easel_now(), NEW.moved_by
  WHERE COALESCE(NEW.cost_cents, 0) - COALESCE(OLD.cost_cents, 0) <> 0;
  INSERT INTO movements (order_id, number, kind, cents, move_time, actor)
  SELECT NEW.id, (SELECT COALESCE(MAX(number), 0) + 1 FROM movements WHERE order_id = NEW.id), 3, NEW.refunded_cents - OLD.refunded_cents, easel_now(), NEW.moved_by
  WHERE NEW.refunded_cents - OLD.refunded_cents <> 0;
  INSERT INTO movements (order_id, number, kind, cents, move_time, actor)
  SELECT NEW.id, (SELECT COALESCE(MAX(number), 0) + 1 FROM movements WHERE order_id = NEW.id), 4, OLD.held_cents - NEW.held_cents, easel_now(), NEW.moved_by
  WHERE OLD.held_cents - NEW.held_cents > 0;
END;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE TRIGGER movements_unchanged BEFORE UPDATE ON movements BEGIN
  SELECT RAISE(ABORT, 'movements are only ever added');
END;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE TRIGGER movements_kept BEFORE DELETE ON movements BEGIN
  SELECT RAISE(ABORT, 'movements are only ever added');
END;
-- +goose StatementEnd
