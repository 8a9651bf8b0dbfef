CREATE TABLE IF NOT EXISTS accounts (
	id         INTEGER PRIMARY KEY,
	name       TEXT    NOT NULL,
	daily_cap  INTEGER NOT NULL,        -- cents; zero means no cap
	created_at INTEGER NOT NULL
);

-- An account has one API key, and more after rotations.
CREATE TABLE IF NOT EXISTS api_keys (
	id         INTEGER PRIMARY KEY,
	account    INTEGER NOT NULL REFERENCES accounts,
	key_hash   BLOB    NOT NULL UNIQUE, -- SHA-256; the key itself is stored nowhere
	created_at INTEGER NOT NULL,
	revoked_at INTEGER
);

-- Times are Unix nanoseconds. due_at is the time of the next step: the end of a queued render, or the
-- refund of a failed one. It is NULL if there is no next step.
CREATE TABLE IF NOT EXISTS generations (
	id              INTEGER PRIMARY KEY,
	account         INTEGER NOT NULL REFERENCES accounts,
	public_id       TEXT    NOT NULL UNIQUE,
	idempotency_key TEXT,
	key_scope       INTEGER NOT NULL,   -- API key of the scope; zero means the account, less than zero an expired idempotency key
	request_hash    BLOB    NOT NULL,
	model           TEXT    NOT NULL,
	inputs          TEXT    NOT NULL,
	cost            INTEGER NOT NULL CHECK (cost > 0),
	state           TEXT    NOT NULL CHECK (state IN ('queued', 'succeeded', 'failed', 'refunded')),
	doom            TEXT    NOT NULL,   -- reason for a future failure; empty if it will succeed
	created_at      INTEGER NOT NULL,
	starts_at       INTEGER NOT NULL,
	due_at          INTEGER,
	finished_at     INTEGER,
	failure         TEXT    NOT NULL DEFAULT '',
	content_type    TEXT    NOT NULL DEFAULT '',
	content_size    INTEGER NOT NULL DEFAULT 0,
	content_etag    TEXT    NOT NULL DEFAULT '',
	text_output     TEXT    NOT NULL DEFAULT '',
	deleted_at      INTEGER
);
CREATE UNIQUE INDEX IF NOT EXISTS generations_once
	ON generations (account, key_scope, idempotency_key) WHERE idempotency_key IS NOT NULL;
CREATE INDEX IF NOT EXISTS generations_recent ON generations (account, id) WHERE deleted_at IS NULL;
CREATE INDEX IF NOT EXISTS generations_due ON generations (due_at) WHERE due_at IS NOT NULL;

CREATE TABLE IF NOT EXISTS content (
	generation INTEGER NOT NULL REFERENCES generations,
	part       INTEGER NOT NULL,
	bytes      BLOB    NOT NULL,
	PRIMARY KEY (generation, part)
) WITHOUT ROWID;

-- The ledger is append-only. The balance is the sum of cents. Each entry also has the running balance
-- and the running charges of its day, so that a create need not add up years.
CREATE TABLE IF NOT EXISTS ledger (
	id          INTEGER PRIMARY KEY AUTOINCREMENT,
	account     INTEGER NOT NULL REFERENCES accounts,
	kind        TEXT    NOT NULL CHECK (kind IN ('top_up', 'charge', 'refund')),
	cents       INTEGER NOT NULL,
	balance     INTEGER NOT NULL CHECK (balance >= 0),
	day         TEXT    NOT NULL,       -- UTC, such as 2006-01-02
	day_charges INTEGER NOT NULL,
	generation  INTEGER REFERENCES generations,
	note        TEXT    NOT NULL,
	at          INTEGER NOT NULL,
	CHECK ((kind = 'charge') = (cents < 0)),
	CHECK ((kind = 'top_up') = (generation IS NULL))
);
CREATE INDEX IF NOT EXISTS ledger_latest ON ledger (account, id);
CREATE UNIQUE INDEX IF NOT EXISTS ledger_one_charge ON ledger (generation) WHERE kind = 'charge';
CREATE UNIQUE INDEX IF NOT EXISTS ledger_one_refund ON ledger (generation) WHERE kind = 'refund';
CREATE TRIGGER IF NOT EXISTS ledger_no_update BEFORE UPDATE ON ledger
	BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
CREATE TRIGGER IF NOT EXISTS ledger_no_delete BEFORE DELETE ON ledger
	BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
