-- +goose Up
CREATE TABLE facts (
  name  TEXT PRIMARY KEY,
  value TEXT NOT NULL
);

-- The oldest migration that a program has to know to work with this book.
INSERT INTO facts (name, value) VALUES ('needed_migration', '1');

CREATE TABLE orders (
  id              TEXT PRIMARY KEY,
  -- Whose idempotency keys these are: the owner behind a held API key, else the API key itself.
  namespace       TEXT NOT NULL,
  owner           TEXT NOT NULL,
  caller          TEXT NOT NULL,
  idempotency_key TEXT NOT NULL,
  upstream_key    TEXT NOT NULL,
  -- SHA-256 of the API key of the first attempt, in hex.
  api_key         TEXT NOT NULL,
  model_id        TEXT NOT NULL,
  -- SHA-256 over model and inputs by value, in hex.
  digest          TEXT NOT NULL,
  -- What goes to the catalog, until the order has an outcome.
  inputs          TEXT,
  state           INTEGER NOT NULL,
  claims          INTEGER NOT NULL,
  -- All times are microseconds since 1970, by the clock of this database.
  claimed_until   BIGINT NOT NULL,
  order_time      BIGINT NOT NULL,
  retry_time      BIGINT NOT NULL,
  generation_id   TEXT UNIQUE,
  -- When the id was recorded; 0 where there is none.
  placed_time     BIGINT NOT NULL DEFAULT 0,
  -- What the budgets hold for the order, until it is known what it has cost.
  reserved_cents    BIGINT NOT NULL,
  cost_cents        BIGINT,
  refunded_cents    BIGINT NOT NULL DEFAULT 0,
  unconfirmed_cents BIGINT NOT NULL DEFAULT 0,
  -- The newest state of the generation, and its record as JSON.
  status          INTEGER NOT NULL DEFAULT 0,
  record          TEXT,
  deleted         INTEGER NOT NULL DEFAULT 0,
  settled         INTEGER NOT NULL DEFAULT 0,
  observed_time   BIGINT NOT NULL DEFAULT 0,
  -- When the generation was first seen failed; 0 where it was not.
  failed_time     BIGINT NOT NULL DEFAULT 0
);
CREATE UNIQUE INDEX orders_key ON orders (namespace, idempotency_key) WHERE state <> 3;
CREATE INDEX orders_caller ON orders (caller, idempotency_key);
CREATE INDEX orders_open ON orders (retry_time) WHERE state = 1;
CREATE INDEX orders_unsettled ON orders (observed_time) WHERE state = 2 AND settled = 0;
CREATE INDEX orders_owner ON orders (owner, order_time, id);
CREATE INDEX orders_owner_unsettled ON orders (owner, order_time, id) WHERE state = 2 AND settled = 0;
CREATE INDEX orders_time ON orders (order_time, id);

CREATE TABLE labels (
  order_id TEXT NOT NULL REFERENCES orders (id),
  name     TEXT NOT NULL,
  value    TEXT NOT NULL,
  PRIMARY KEY (order_id, name)
);
CREATE INDEX labels_value ON labels (name, value);

-- Work that one process does for all.
CREATE TABLE duties (
  name          TEXT PRIMARY KEY,
  holder        TEXT NOT NULL,
  claimed_until BIGINT NOT NULL
);

CREATE TABLE budgets (
  owner          TEXT NOT NULL,
  -- "day" or "month".
  period         TEXT NOT NULL,
  start_time     BIGINT NOT NULL,
  -- Orders that have an id.
  orders         BIGINT NOT NULL DEFAULT 0,
  spent_cents    BIGINT NOT NULL DEFAULT 0,
  reserved_cents BIGINT NOT NULL DEFAULT 0,
  -- Of spent_cents without proof, and what came back beside it.
  unconfirmed_cents BIGINT NOT NULL DEFAULT 0,
  refunded_cents    BIGINT NOT NULL DEFAULT 0,
  -- The largest share of the limit of which the owner was told.
  told_percent      BIGINT NOT NULL DEFAULT 0,
  PRIMARY KEY (owner, period, start_time)
);

-- What owners are told, where they want to be. A row is written with what it tells of.
CREATE TABLE events (
  id         TEXT PRIMARY KEY,
  owner      TEXT NOT NULL,
  type       TEXT NOT NULL,
  -- What the event is about. Of one subject the events are sent in the order of their positions.
  subject    TEXT NOT NULL,
  position   BIGINT NOT NULL,
  -- Of a budget; else 0.
  percent    BIGINT NOT NULL,
  data       TEXT NOT NULL,
  state      INTEGER NOT NULL DEFAULT 0,
  attempts   BIGINT NOT NULL DEFAULT 0,
  problem    TEXT NOT NULL DEFAULT '',
  event_time BIGINT NOT NULL,
  -- Since when it is to be sent, and when next.
  begin_time BIGINT NOT NULL,
  next_time  BIGINT NOT NULL
);
CREATE INDEX events_pending ON events (owner, next_time) WHERE state = 0;
CREATE INDEX events_subject ON events (owner, subject, position);
CREATE INDEX events_owner ON events (owner, event_time);
CREATE INDEX events_unsent ON events (owner) WHERE state <> 1;

-- +goose Down
DROP TABLE events;
DROP TABLE budgets;
DROP TABLE duties;
DROP TABLE labels;
DROP TABLE orders;
DROP TABLE facts;
