-- +goose Up
-- The replicas that poll the catalog, which divide the rate of polls.
CREATE TABLE replicas (
  id        TEXT PRIMARY KEY,
  seen_time BIGINT NOT NULL
);
-- +goose StatementBegin
DO $$
DECLARE
  grantee TEXT;
BEGIN
  FOR grantee IN SELECT DISTINCT CASE a.grantee WHEN 0 THEN 'PUBLIC' ELSE format('%I', pg_get_userbyid(a.grantee)) END
    FROM pg_class AS c, aclexplode(c.relacl) AS a WHERE c.oid = 'orders'::regclass AND a.privilege_type = 'INSERT'
  LOOP
    EXECUTE format('GRANT SELECT, INSERT, UPDATE, DELETE ON replicas TO %s', grantee);
  END LOOP;
END $$;
-- +goose StatementEnd
