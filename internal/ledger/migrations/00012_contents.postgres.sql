-- +goose Up
-- The copies of results, which outlive the catalog's. A row is written with the end of the generation.
CREATE TABLE contents (
  generation_id TEXT PRIMARY KEY,
  owner         TEXT NOT NULL,
  -- 0: to be copied; 1: copied; 2: it could not be; 3: to be deleted.
  state         INTEGER NOT NULL DEFAULT 0 CHECK (state BETWEEN 0 AND 3),
  -- How often it was begun to be copied, and until when the last who has may go on.
  claims        BIGINT NOT NULL DEFAULT 0,
  claimed_until BIGINT NOT NULL DEFAULT 0,
  begin_time    BIGINT NOT NULL,
  next_time     BIGINT NOT NULL,
  problem       TEXT NOT NULL DEFAULT '',
  -- Of a copy: its name in the store, its size, its SHA-256 in hex, the checksums of its blocks, its media type, and its etag.
  object        TEXT NOT NULL DEFAULT '',
  size_bytes    BIGINT NOT NULL DEFAULT 0 CHECK (size_bytes >= 0),
  sha256        TEXT NOT NULL DEFAULT '',
  blocks        TEXT NOT NULL DEFAULT '',
  content_type  TEXT NOT NULL DEFAULT '',
  etag          TEXT NOT NULL DEFAULT '',
  copied_time   BIGINT NOT NULL DEFAULT 0,
  CHECK (state <> 1 OR object <> '' AND sha256 <> '' AND copied_time > 0)
);
CREATE INDEX contents_waiting ON contents (owner, next_time) WHERE state = 0;
CREATE INDEX contents_failed ON contents (owner, begin_time) WHERE state = 2;
CREATE INDEX contents_object ON contents (object) WHERE object <> '';
CREATE INDEX contents_doomed ON contents (next_time) WHERE state = 3;

-- Who may write orders may write this too.
-- +goose StatementBegin
DO $$
DECLARE
  grantee TEXT;
BEGIN
  FOR grantee IN SELECT DISTINCT CASE a.grantee WHEN 0 THEN 'PUBLIC' ELSE format('%I', pg_get_userbyid(a.grantee)) END
    FROM pg_class AS c, aclexplode(c.relacl) AS a WHERE c.oid = 'orders'::regclass AND a.privilege_type = 'INSERT'
  LOOP
    EXECUTE format('GRANT SELECT, INSERT, UPDATE, DELETE ON contents TO %s', grantee);
  END LOOP;
END $$;
-- +goose StatementEnd
