-- +goose Up
-- Who has changed what, beside orders that callers place: lines are only ever added.
CREATE TABLE audit (
  audit_time BIGINT NOT NULL,
  id         TEXT NOT NULL,
  -- Who, and from where: an address, a file or a host.
  actor      TEXT NOT NULL CHECK (actor <> ''),
  origin     TEXT NOT NULL,
  action     TEXT NOT NULL CHECK (action <> ''),
  subject    TEXT NOT NULL,
  -- Documents of JSON; '' is nothing.
  was        TEXT NOT NULL,
  became     TEXT NOT NULL,
  PRIMARY KEY (audit_time, id)
);

-- Who may write orders may add lines, and no more.
-- +goose StatementBegin
DO $$
DECLARE
  grantee TEXT;
BEGIN
  FOR grantee IN SELECT DISTINCT CASE a.grantee WHEN 0 THEN 'PUBLIC' ELSE format('%I', pg_get_userbyid(a.grantee)) END
    FROM pg_class AS c, aclexplode(c.relacl) AS a WHERE c.oid = 'orders'::regclass AND a.privilege_type = 'INSERT'
  LOOP
    EXECUTE format('GRANT SELECT, INSERT ON audit TO %s', grantee);
  END LOOP;
END $$;

CREATE FUNCTION keep_audit() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  RAISE EXCEPTION 'lines of the audit are only ever added';
END $$;
-- +goose StatementEnd

CREATE TRIGGER audit_kept BEFORE UPDATE OR DELETE OR TRUNCATE ON audit FOR EACH STATEMENT EXECUTE FUNCTION keep_audit();
