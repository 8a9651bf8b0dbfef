-- +goose Up
-- The polls that processes share: a cache, which the crash of a database may empty.
CREATE UNLOGGED TABLE shared_keys (
  -- SHA-256 of the API key, in hex.
  api_key      TEXT PRIMARY KEY,
  -- The version that the row began with: its time, so that no version comes back.
  born         BIGINT NOT NULL,
  version      BIGINT NOT NULL,
  -- When a sweep was claimed last, and when one was answered.
  swept_time   BIGINT NOT NULL DEFAULT 0,
  seen_time    BIGINT NOT NULL DEFAULT 0,
  paused_until BIGINT NOT NULL DEFAULT 0,
  -- What is left of the rate as of a time, and what calls have spent that it has not made up for.
  tokens       DOUBLE PRECISION NOT NULL,
  owed         DOUBLE PRECISION NOT NULL DEFAULT 0,
  filled_time  BIGINT NOT NULL,
  full_list    INTEGER NOT NULL DEFAULT 0,
  -- Who has claimed polls within the last minute, as JSON.
  replicas     TEXT NOT NULL DEFAULT '{}'
);

CREATE UNLOGGED TABLE shared_states (
  api_key      TEXT NOT NULL,
  -- In the order of bytes, in which readers compare what they have read: a database may have another.
  id           TEXT COLLATE "C" NOT NULL,
  version      BIGINT NOT NULL DEFAULT 0,
  claimed_time BIGINT NOT NULL DEFAULT 0,
  seen_time    BIGINT NOT NULL DEFAULT 0,
  etag         TEXT NOT NULL DEFAULT '',
  -- The etag of the record in the list; "" where the list carries none.
  listed       TEXT,
  record       TEXT NOT NULL DEFAULT '',
  -- 1: the generation has ended. What has not, and what the list carries, is kept as long as the row of its API key; all
  -- else is deleted an hour after it was polled or changed.
  ended        INTEGER NOT NULL DEFAULT 0,
  PRIMARY KEY (api_key, id)
);
CREATE INDEX shared_states_version ON shared_states (api_key, version, id);
CREATE INDEX shared_states_seen ON shared_states (seen_time) WHERE ended = 1 OR COALESCE(listed, '') = '';
