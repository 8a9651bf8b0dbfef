CREATE TABLE facts (
  name  TEXT PRIMARY KEY,
  value TEXT NOT NULL
);
-- The minimum schema number that a program must support to use this ledger.
INSERT INTO facts (name, value) VALUES ('needed_schema', '1');

-- held_cents is the amount that the journal has as reserved: the reserved cents, plus the unconfirmed cents beyond the charge.
CREATE TABLE orders (
  id              TEXT PRIMARY KEY,
  -- Scope of the idempotency key: the owner under a shared API key, otherwise the SHA-256 of the forwarded API key.
  namespace       TEXT NOT NULL,
  owner           TEXT NOT NULL,
  caller          TEXT NOT NULL,
  idempotency_key TEXT NOT NULL,
  upstream_key    TEXT NOT NULL,
  -- SHA-256 of the API key of the first attempt, in hex.
  api_key         TEXT NOT NULL,
  model_id        TEXT NOT NULL,
  -- SHA-256 of the model and the input values, in hex.
  digest          TEXT NOT NULL,
  -- SHA-256 of the exact input bytes, in hex.
  inputs_digest   TEXT NOT NULL DEFAULT '',
  -- Input bytes for the catalog; deleted when the order has an outcome.
  inputs          TEXT,
  state           INTEGER NOT NULL,
  leases          INTEGER NOT NULL,
  -- All times are microseconds since 1970, by the clock of this database.
  leased_until    BIGINT NOT NULL,
  order_time      BIGINT NOT NULL,
  retry_time      BIGINT NOT NULL,
  -- Time after which the order is not sent; 0 if it has no limit.
  expire_time     BIGINT NOT NULL DEFAULT 0,
  -- Reason why the order has no outcome yet.
  problem         TEXT NOT NULL DEFAULT '',
  -- 1: the order was open when the ledger was copied or restored. Only its caller or an operator may continue it.
  held            INTEGER NOT NULL DEFAULT 0,
  -- 1: an operator has decided the outcome.
  resolved        INTEGER NOT NULL DEFAULT 0,
  generation_id   TEXT,
  -- Time when the generation was recorded; 0 if there is none.
  placed_time     BIGINT NOT NULL DEFAULT 0,
  price_cents       BIGINT NOT NULL DEFAULT 0,
  -- Cents that are reserved in the budgets until the charge is known.
  reserved_cents    BIGINT NOT NULL,
  cost_cents        BIGINT,
  refunded_cents    BIGINT NOT NULL DEFAULT 0,
  unconfirmed_cents BIGINT NOT NULL DEFAULT 0,
  -- Operator who caused the latest change of money; empty for Easel.
  moved_by          TEXT NOT NULL DEFAULT '',
  -- Latest state of the generation, and its record as JSON.
  status          INTEGER NOT NULL DEFAULT 0,
  record          TEXT,
  observed_time   BIGINT NOT NULL DEFAULT 0,
  -- Time when the latest terminal state or the deletion was recorded; 0 if neither was recorded.
  ended_time      BIGINT NOT NULL DEFAULT 0,
  -- Time when the generation was first observed to have failed; 0 if never, -1 if it was only observed as refunded.
  failed_time     BIGINT NOT NULL DEFAULT 0,
  settled         INTEGER NOT NULL DEFAULT 0,
  -- 1: the charge was read in a terminal record.
  charge_final    INTEGER NOT NULL DEFAULT 0,
  -- 1: a refund was observed, possibly after a success.
  refunded        INTEGER NOT NULL DEFAULT 0,
  -- 1: the generation counts as deleted, because a call has deleted it or because it is presumed deleted.
  deleted         INTEGER NOT NULL DEFAULT 0,
  -- 1: the generation is only presumed deleted, because reads did not find it. The next read that finds it resets this to 0.
  presumed_deleted INTEGER NOT NULL DEFAULT 0,
  -- Time of the first read that did not find the generation; 0 if the latest read found it.
  absent_time     BIGINT NOT NULL DEFAULT 0,
  -- 1: the labels and the record were erased. They are not written again.
  erased          INTEGER NOT NULL DEFAULT 0,
  held_cents      BIGINT GENERATED ALWAYS AS (reserved_cents + MAX(0, unconfirmed_cents - COALESCE(cost_cents, 0))),
  CONSTRAINT orders_state CHECK (state IN (1, 2, 3)),
  CONSTRAINT orders_placed CHECK ((state = 2) = (generation_id IS NOT NULL)),
  CONSTRAINT orders_leases CHECK (leases >= 0),
  CONSTRAINT orders_inputs CHECK (inputs IS NULL OR state = 1),
  CONSTRAINT orders_money CHECK (price_cents >= 0 AND reserved_cents >= 0 AND unconfirmed_cents >= 0 AND COALESCE(cost_cents, 0) >= 0),
  CONSTRAINT orders_refund CHECK (refunded_cents BETWEEN 0 AND COALESCE(cost_cents, 0)),
  CONSTRAINT orders_refused_money CHECK (state <> 3 OR reserved_cents = 0 AND unconfirmed_cents = 0 AND cost_cents IS NULL),
  CONSTRAINT orders_settled_money CHECK (settled = 0 OR reserved_cents = 0),
  CONSTRAINT orders_open_money CHECK (state <> 1 OR cost_cents IS NULL AND settled = 0 AND status = 0),
  CONSTRAINT orders_status CHECK (status BETWEEN 0 AND 5),
  CONSTRAINT orders_truths CHECK (held IN (0, 1) AND resolved IN (0, 1) AND settled IN (0, 1) AND charge_final IN (0, 1) AND refunded IN (0, 1)
    AND deleted IN (0, 1) AND presumed_deleted IN (0, 1) AND erased IN (0, 1))
);
-- A caller can use an idempotency key only once, even if it moves to another team.
CREATE UNIQUE INDEX orders_key ON orders (namespace, idempotency_key) WHERE state <> 3;
CREATE UNIQUE INDEX orders_caller ON orders (caller, idempotency_key) WHERE state <> 3 AND caller <> '';
-- Forwarded API keys of one account see the same generations, and each key has its own orders. Under a shared API key,
-- a generation has at most one order. Orders without a generation have no entry in these indexes.
CREATE UNIQUE INDEX orders_generation ON orders (generation_id, namespace) WHERE generation_id IS NOT NULL;
CREATE UNIQUE INDEX orders_generation_held ON orders (generation_id) WHERE namespace <> api_key AND generation_id IS NOT NULL;
-- No index contains a column that changes while a generation runs, so that updates of the row change no index.
CREATE INDEX orders_open ON orders (owner, retry_time) WHERE state = 1;
CREATE INDEX orders_refused ON orders (owner, order_time) WHERE state = 3;
CREATE INDEX orders_time ON orders (order_time, id);
CREATE INDEX orders_owner ON orders (owner, order_time, id);
CREATE INDEX orders_owner_unsettled ON orders (owner, order_time, id) WHERE state = 2 AND settled = 0;
CREATE INDEX orders_model ON orders (owner, model_id, order_time, id);
CREATE INDEX orders_failed ON orders (owner, order_time, id) WHERE failed_time <> 0;
CREATE INDEX orders_deleted ON orders (owner, order_time, id) WHERE state = 2 AND deleted = 1;
CREATE INDEX orders_erasable ON orders (owner, order_time, id) WHERE erased = 0 AND (state = 3 OR state = 2 AND settled = 1);
CREATE INDEX orders_placed_time ON orders (placed_time) WHERE state = 2 AND placed_time <> 0;
CREATE INDEX orders_ended_time ON orders (ended_time) WHERE ended_time <> 0;
CREATE INDEX orders_moving ON orders (order_time, id) WHERE state = 2 AND settled = 0;
CREATE INDEX orders_doubted ON orders (order_time) WHERE state = 2 AND settled = 1 AND (unconfirmed_cents > 0 OR presumed_deleted = 1);

-- order_owner and label_time repeat columns of the order, so that a list by label reads only one index.
CREATE TABLE labels (
  order_id    TEXT NOT NULL REFERENCES orders (id),
  name        TEXT NOT NULL,
  value       TEXT NOT NULL,
  order_owner TEXT NOT NULL,
  label_time  BIGINT NOT NULL,
  -- 1: the order counts toward the budget of this value. Erasing the order keeps the row.
  budgeted    INTEGER NOT NULL DEFAULT 0 CHECK (budgeted IN (0, 1)),
  PRIMARY KEY (order_id, name)
);
CREATE INDEX labels_owner ON labels (order_owner, name, value, label_time, order_id);
CREATE INDEX labels_time ON labels (name, value, label_time, order_id);

-- The journal of money. Rows are never changed or deleted. Triggers on orders write them, so that no program can change money
-- without a row here.
CREATE TABLE movements (
  order_id  TEXT NOT NULL,
  number    BIGINT NOT NULL,
  -- 1 reserve, 2 charge, 3 refund, 4 release, 5 resolve (decision of an operator).
  kind      INTEGER NOT NULL CHECK (kind BETWEEN 1 AND 5),
  -- A negative charge or refund reverses an earlier one, after an operator's decision.
  cents     BIGINT NOT NULL CHECK (kind = 5 AND cents = 0 OR kind IN (1, 4) AND cents > 0 OR kind IN (2, 3) AND cents <> 0),
  move_time BIGINT NOT NULL,
  -- Name of the operator; empty if Easel recorded the movement automatically.
  actor     TEXT NOT NULL CHECK (kind <> 5 OR actor <> ''),
  PRIMARY KEY (order_id, number)
) WITHOUT ROWID;

CREATE TABLE budgets (
  -- The owner. A row with '*' is for the total budget of all owners, and only its told_percent is used.
  owner             TEXT NOT NULL,
  -- Name and value of a label, such as project=apollo; empty for the budget of the owner itself.
  label             TEXT NOT NULL DEFAULT '',
  period            TEXT NOT NULL,
  start_time        BIGINT NOT NULL,
  -- Number of orders with a generation.
  orders            BIGINT NOT NULL DEFAULT 0,
  spent_cents       BIGINT NOT NULL DEFAULT 0,
  reserved_cents    BIGINT NOT NULL DEFAULT 0,
  -- Part of spent_cents that no charge has confirmed.
  unconfirmed_cents BIGINT NOT NULL DEFAULT 0,
  refunded_cents    BIGINT NOT NULL DEFAULT 0,
  -- Highest threshold for which an event was written, in percent of the limit.
  told_percent      BIGINT NOT NULL DEFAULT 0,
  PRIMARY KEY (owner, label, period, start_time),
  CONSTRAINT budgets_period CHECK (period IN ('day', 'month'))
);
CREATE INDEX budgets_time ON budgets (period, start_time) WHERE label = '';

-- Sums of placed orders by day (UTC), so that a report need not read orders. Triggers on orders write them.
-- The collation sorts by bytes, like the pages of a report.
CREATE TABLE rollups (
  start_time BIGINT NOT NULL,
  owner      TEXT NOT NULL,
  caller     TEXT NOT NULL,
  model_id   TEXT NOT NULL,
  orders     BIGINT NOT NULL,
  -- Number of failed orders, including refunded ones.
  failed     BIGINT NOT NULL,
  cost_cents        BIGINT NOT NULL,
  refunded_cents    BIGINT NOT NULL,
  reserved_cents    BIGINT NOT NULL,
  unconfirmed_cents BIGINT NOT NULL,
  PRIMARY KEY (owner, start_time, caller, model_id)
) WITHOUT ROWID;
CREATE INDEX rollups_time ON rollups (start_time);

-- Events for owners. A row is written in the transaction of the change that it reports. A job delivers a pending event.
CREATE TABLE events (
  id         TEXT PRIMARY KEY,
  owner      TEXT NOT NULL,
  type       TEXT NOT NULL,
  -- Generation or budget that the event is about. Events about one subject are delivered in the order of their positions.
  subject    TEXT NOT NULL,
  position   BIGINT NOT NULL,
  -- Threshold of a budget; otherwise 0.
  percent    BIGINT NOT NULL,
  data       TEXT NOT NULL,
  -- 0: pending; 1: delivered; 2: abandoned; 3: kept, because the process that wrote the event had no receiver for its owner.
  state      INTEGER NOT NULL DEFAULT 0,
  attempts   BIGINT NOT NULL DEFAULT 0,
  problem    TEXT NOT NULL DEFAULT '',
  event_time BIGINT NOT NULL,
  -- Position in the event feed; null until a later transaction assigns it.
  feed_position BIGINT,
  CONSTRAINT events_state CHECK (state IN (0, 1, 2, 3)),
  CONSTRAINT events_percent CHECK (percent BETWEEN 0 AND 100),
  CONSTRAINT events_attempts CHECK (attempts >= 0)
);
CREATE UNIQUE INDEX events_feed ON events (feed_position);
CREATE INDEX events_feed_owner ON events (owner, feed_position);
CREATE INDEX events_unnumbered ON events (position, event_time) WHERE feed_position IS NULL;
CREATE INDEX events_subject ON events (owner, subject, position);
CREATE INDEX events_owner ON events (owner, event_time);
CREATE INDEX events_given_up ON events (owner) WHERE state = 2;
CREATE INDEX events_kept ON events (owner, event_time) WHERE state = 3;
CREATE INDEX events_old ON events (event_time) WHERE state <> 0;

-- Copies of results. A copy may outlive the result in the catalog. When a success is recorded, the row is written in the same
-- transaction, together with the job that copies the result.
CREATE TABLE contents (
  generation_id TEXT PRIMARY KEY,
  owner         TEXT NOT NULL,
  -- 0: to be copied; 1: copied; 2: copying failed; 3: to be deleted.
  state         INTEGER NOT NULL DEFAULT 0 CHECK (state BETWEEN 0 AND 3),
  problem       TEXT NOT NULL DEFAULT '',
  -- Name of the copy in the store, size, SHA-256 in hex, media type, ETag.
  object        TEXT NOT NULL DEFAULT '',
  size_bytes    BIGINT NOT NULL DEFAULT 0 CHECK (size_bytes >= 0),
  sha256        TEXT NOT NULL DEFAULT '',
  content_type  TEXT NOT NULL DEFAULT '',
  etag          TEXT NOT NULL DEFAULT '',
  copied_time   BIGINT NOT NULL DEFAULT 0,
  CHECK (state <> 1 OR object <> '' AND sha256 <> '' AND copied_time > 0)
);
CREATE INDEX contents_failed ON contents (owner) WHERE state = 2;
CREATE INDEX contents_object ON contents (object) WHERE object <> '';
CREATE INDEX contents_doomed ON contents (generation_id) WHERE state = 3;

-- The audit log of changes by operators. Rows are never changed or deleted.
CREATE TABLE audit (
  audit_time BIGINT NOT NULL,
  id         TEXT NOT NULL,
  actor      TEXT NOT NULL CHECK (actor <> ''),
  -- Client address, file or host.
  origin     TEXT NOT NULL,
  action     TEXT NOT NULL CHECK (action <> ''),
  subject    TEXT NOT NULL,
  -- JSON documents, or empty.
  was        TEXT NOT NULL,
  became     TEXT NOT NULL,
  PRIMARY KEY (audit_time, id)
) WITHOUT ROWID;

-- Background work. A row is deleted when its work is done.
CREATE TABLE jobs (
  id         INTEGER PRIMARY KEY AUTOINCREMENT,
  kind       TEXT NOT NULL,
  -- Key of the row that the job is about; empty if there is only one job of the kind.
  ref        TEXT NOT NULL,
  owner      TEXT NOT NULL,
  -- Jobs of one owner and line run in the order of their ids. Jobs with an empty line run in any order.
  line       TEXT NOT NULL,
  cursor     TEXT NOT NULL DEFAULT '',
  -- begin_time: when the job was written or last succeeded. run_time: time of the next run, or the end of the lease.
  begin_time BIGINT NOT NULL,
  run_time   BIGINT NOT NULL,
  -- Number of leases so far. Only the holder of the latest lease may finish the job.
  fence      BIGINT NOT NULL DEFAULT 0,
  attempts   BIGINT NOT NULL DEFAULT 0,
  problem    TEXT NOT NULL DEFAULT '',
  CONSTRAINT jobs_ref UNIQUE (kind, ref)
);
CREATE INDEX jobs_due ON jobs (kind, owner, run_time, id);
CREATE INDEX jobs_age ON jobs (kind, owner, begin_time);
CREATE INDEX jobs_line ON jobs (owner, line, id) WHERE line <> '';

-- Replicas that poll the catalog. They divide the poll rate among themselves.
CREATE TABLE replicas (
  id        TEXT PRIMARY KEY,
  seen_time BIGINT NOT NULL
);

CREATE TRIGGER orders_written AFTER INSERT ON orders BEGIN
  INSERT INTO movements (order_id, number, kind, cents, move_time, actor)
  SELECT NEW.id, (SELECT COALESCE(MAX(number), 0) + 1 FROM movements WHERE order_id = NEW.id), 1, NEW.held_cents, easel_now(), NEW.moved_by
  WHERE NEW.held_cents > 0;
END;
CREATE TRIGGER orders_moved AFTER UPDATE OF reserved_cents, cost_cents, refunded_cents, unconfirmed_cents ON orders
WHEN OLD.held_cents <> NEW.held_cents OR OLD.cost_cents IS NOT NEW.cost_cents OR OLD.refunded_cents <> NEW.refunded_cents BEGIN
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

CREATE TRIGGER movements_unchanged BEFORE UPDATE ON movements BEGIN
  SELECT RAISE(ABORT, 'movements are only ever added');
END;
CREATE TRIGGER movements_kept BEFORE DELETE ON movements BEGIN
  SELECT RAISE(ABORT, 'movements are only ever added');
END;

CREATE TRIGGER audit_unchanged BEFORE UPDATE ON audit BEGIN
  SELECT RAISE(ABORT, 'lines of the audit are only ever added');
END;
CREATE TRIGGER audit_kept BEFORE DELETE ON audit BEGIN
  SELECT RAISE(ABORT, 'lines of the audit are only ever added');
END;
-- INSERT OR REPLACE deletes a row without firing audit_kept.
CREATE TRIGGER audit_not_replaced BEFORE INSERT ON audit WHEN EXISTS (SELECT 1 FROM audit WHERE audit_time = NEW.audit_time AND id = NEW.id) BEGIN
  SELECT RAISE(ABORT, 'lines of the audit are only ever added');
END;

CREATE TRIGGER orders_refunded AFTER UPDATE OF status ON orders WHEN NEW.status = 5 AND NEW.failed_time = 0 BEGIN
  UPDATE orders SET failed_time = -1 WHERE id = NEW.id;
END;

CREATE TRIGGER orders_rolled_in AFTER INSERT ON orders WHEN NEW.state = 2 BEGIN
  INSERT INTO rollups (start_time, owner, caller, model_id, orders, failed, cost_cents, refunded_cents, reserved_cents, unconfirmed_cents)
  SELECT NEW.order_time / 86400000000 * 86400000000, NEW.owner, NEW.caller, NEW.model_id, 1, NEW.status IN (3, 5), COALESCE(NEW.cost_cents, 0), NEW.refunded_cents, NEW.reserved_cents, NEW.unconfirmed_cents
  WHERE TRUE
  ON CONFLICT (owner, start_time, caller, model_id) DO UPDATE SET orders = orders + excluded.orders, failed = failed + excluded.failed,
    cost_cents = cost_cents + excluded.cost_cents, refunded_cents = refunded_cents + excluded.refunded_cents,
    reserved_cents = reserved_cents + excluded.reserved_cents, unconfirmed_cents = unconfirmed_cents + excluded.unconfirmed_cents;
END;
CREATE TRIGGER orders_rolled AFTER UPDATE OF state, status, reserved_cents, cost_cents, refunded_cents, unconfirmed_cents ON orders
WHEN (OLD.state = 2 OR NEW.state = 2) AND (OLD.state <> NEW.state OR (OLD.status IN (3, 5)) <> (NEW.status IN (3, 5)) OR OLD.reserved_cents <> NEW.reserved_cents
  OR OLD.cost_cents IS NOT NEW.cost_cents OR OLD.refunded_cents <> NEW.refunded_cents OR OLD.unconfirmed_cents <> NEW.unconfirmed_cents) BEGIN
  INSERT INTO rollups (start_time, owner, caller, model_id, orders, failed, cost_cents, refunded_cents, reserved_cents, unconfirmed_cents)
  SELECT NEW.order_time / 86400000000 * 86400000000, NEW.owner, NEW.caller, NEW.model_id, (NEW.state = 2) - (OLD.state = 2),
    (NEW.state = 2) * (NEW.status IN (3, 5)) - (OLD.state = 2) * (OLD.status IN (3, 5)),
    (NEW.state = 2) * COALESCE(NEW.cost_cents, 0) - (OLD.state = 2) * COALESCE(OLD.cost_cents, 0),
    (NEW.state = 2) * NEW.refunded_cents - (OLD.state = 2) * OLD.refunded_cents,
    (NEW.state = 2) * NEW.reserved_cents - (OLD.state = 2) * OLD.reserved_cents,
    (NEW.state = 2) * NEW.unconfirmed_cents - (OLD.state = 2) * OLD.unconfirmed_cents
  WHERE TRUE
  ON CONFLICT (owner, start_time, caller, model_id) DO UPDATE SET orders = orders + excluded.orders, failed = failed + excluded.failed,
    cost_cents = cost_cents + excluded.cost_cents, refunded_cents = refunded_cents + excluded.refunded_cents,
    reserved_cents = reserved_cents + excluded.reserved_cents, unconfirmed_cents = unconfirmed_cents + excluded.unconfirmed_cents;
END;
