-- +goose NO TRANSACTION
-- +goose Up
-- What was placed and has cost, by day and month (UTC), so that a report reads no orders. The rows of orders write it, as
-- they write the journal; orders without an outcome are few, and counted where they stand.
CREATE TABLE IF NOT EXISTS rollups (
  period     TEXT NOT NULL CHECK (period IN ('day', 'month')),
  start_time BIGINT NOT NULL,
  -- In the order of bytes, as pages of reports are.
  owner      TEXT COLLATE "C" NOT NULL,
  caller     TEXT COLLATE "C" NOT NULL,
  model_id   TEXT COLLATE "C" NOT NULL,
  -- 1 is what stood in the book before there were rollups.
  part       INTEGER NOT NULL CHECK (part IN (0, 1)),
  orders     BIGINT NOT NULL,
  -- Of the orders, refunded ones too.
  failed     BIGINT NOT NULL,
  cost_cents        BIGINT NOT NULL,
  refunded_cents    BIGINT NOT NULL,
  reserved_cents    BIGINT NOT NULL,
  unconfirmed_cents BIGINT NOT NULL,
  PRIMARY KEY (period, owner, start_time, caller, model_id, part)
) WITH (fillfactor = 50);
CREATE INDEX IF NOT EXISTS rollups_time ON rollups (period, start_time);

-- Who may write orders may write this too: the rows of orders do it for them, with their rights.
-- +goose StatementBegin
DO $$
DECLARE
  grantee TEXT;
BEGIN
  FOR grantee IN SELECT DISTINCT CASE a.grantee WHEN 0 THEN 'PUBLIC' ELSE format('%I', pg_get_userbyid(a.grantee)) END
    FROM pg_class AS c, aclexplode(c.relacl) AS a WHERE c.oid = 'orders'::regclass AND a.privilege_type = 'INSERT'
  LOOP
    EXECUTE format('GRANT SELECT, INSERT, UPDATE, DELETE ON rollups TO %s', grantee);
  END LOOP;
END $$;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE OR REPLACE FUNCTION write_rollups() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
  is_now INTEGER := (NEW.state = 2)::INTEGER;
  was INTEGER := COALESCE((OLD.state = 2)::INTEGER, 0);
BEGIN
  INSERT INTO rollups AS r (period, start_time, owner, caller, model_id, part, orders, failed, cost_cents, refunded_cents, reserved_cents, unconfirmed_cents)
  SELECT period, start_time, NEW.owner, NEW.caller, NEW.model_id, 0, is_now - was,
    is_now * (NEW.status IN (3, 5))::INTEGER - was * COALESCE((OLD.status IN (3, 5))::INTEGER, 0),
    is_now * COALESCE(NEW.cost_cents, 0) - was * COALESCE(OLD.cost_cents, 0),
    is_now * NEW.refunded_cents - was * COALESCE(OLD.refunded_cents, 0),
    is_now * NEW.reserved_cents - was * COALESCE(OLD.reserved_cents, 0),
    is_now * NEW.unconfirmed_cents - was * COALESCE(OLD.unconfirmed_cents, 0)
  FROM (VALUES ('day', NEW.order_time / 86400000000 * 86400000000),
    ('month', (EXTRACT(EPOCH FROM date_trunc('month', to_timestamp(NEW.order_time / 1000000) AT TIME ZONE 'UTC')) * 1000000)::BIGINT)) AS periods (period, start_time)
  ON CONFLICT (period, owner, start_time, caller, model_id, part) DO UPDATE SET orders = r.orders + excluded.orders, failed = r.failed + excluded.failed,
    cost_cents = r.cost_cents + excluded.cost_cents, refunded_cents = r.refunded_cents + excluded.refunded_cents,
    reserved_cents = r.reserved_cents + excluded.reserved_cents, unconfirmed_cents = r.unconfirmed_cents + excluded.unconfirmed_cents;
  RETURN NULL;
END $$;
-- +goose StatementEnd

-- At the commit, so that nobody waits for these rows longer than for it.
DROP TRIGGER IF EXISTS orders_rolled_in ON orders;
CREATE CONSTRAINT TRIGGER orders_rolled_in AFTER INSERT ON orders DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN (NEW.state = 2) EXECUTE FUNCTION write_rollups();
DROP TRIGGER IF EXISTS orders_rolled ON orders;
CREATE CONSTRAINT TRIGGER orders_rolled AFTER UPDATE OF state, status, reserved_cents, cost_cents, refunded_cents, unconfirmed_cents ON orders DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
  WHEN ((OLD.state = 2 OR NEW.state = 2) AND (OLD.state, OLD.status IN (3, 5), OLD.reserved_cents, OLD.cost_cents, OLD.refunded_cents, OLD.unconfirmed_cents)
    IS DISTINCT FROM (NEW.state, NEW.status IN (3, 5), NEW.reserved_cents, NEW.cost_cents, NEW.refunded_cents, NEW.unconfirmed_cents))
  EXECUTE FUNCTION write_rollups();

-- All that stands in the book less what was rolled up by now: one statement sees both at one time, and locks nobody out.
INSERT INTO rollups AS r (period, start_time, owner, caller, model_id, part, orders, failed, cost_cents, refunded_cents, reserved_cents, unconfirmed_cents)
SELECT period, start_time, owner, caller, model_id, 1, SUM(orders), SUM(failed), SUM(cost_cents), SUM(refunded_cents), SUM(reserved_cents), SUM(unconfirmed_cents) FROM (
  SELECT period, CASE period WHEN 'day' THEN order_day * 86400000000
      ELSE (EXTRACT(EPOCH FROM date_trunc('month', to_timestamp(order_day * 86400) AT TIME ZONE 'UTC')) * 1000000)::BIGINT END AS start_time,
    owner, caller, model_id, orders, failed, cost_cents, refunded_cents, reserved_cents, unconfirmed_cents
  FROM (SELECT order_time / 86400000000 AS order_day, owner COLLATE "C" AS owner, caller COLLATE "C" AS caller, model_id COLLATE "C" AS model_id, COUNT(*) AS orders,
      COUNT(CASE WHEN status IN (3, 5) THEN 1 END) AS failed, SUM(COALESCE(cost_cents, 0)) AS cost_cents,
      SUM(refunded_cents) AS refunded_cents, SUM(reserved_cents) AS reserved_cents, SUM(unconfirmed_cents) AS unconfirmed_cents
    FROM orders WHERE state = 2 GROUP BY 1, 2, 3, 4) AS days, (VALUES ('day'), ('month')) AS periods (period)
  UNION ALL SELECT period, start_time, owner, caller, model_id, -orders, -failed, -cost_cents, -refunded_cents, -reserved_cents, -unconfirmed_cents FROM rollups
) AS missing GROUP BY period, start_time, owner, caller, model_id
ON CONFLICT (period, owner, start_time, caller, model_id, part) DO UPDATE SET orders = r.orders + excluded.orders, failed = r.failed + excluded.failed,
  cost_cents = r.cost_cents + excluded.cost_cents, refunded_cents = r.refunded_cents + excluded.refunded_cents,
  reserved_cents = r.reserved_cents + excluded.reserved_cents, unconfirmed_cents = r.unconfirmed_cents + excluded.unconfirmed_cents;
