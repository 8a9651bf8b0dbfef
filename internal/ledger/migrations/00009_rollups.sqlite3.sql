-- What they are for stands in the file of PostgreSQL.
-- +goose Up
CREATE TABLE rollups (
  period     TEXT NOT NULL CHECK (period IN ('day', 'month')),
  start_time BIGINT NOT NULL,
  owner      TEXT NOT NULL,
  caller     TEXT NOT NULL,
  model_id   TEXT NOT NULL,
  part       INTEGER NOT NULL CHECK (part IN (0, 1)),
  orders     BIGINT NOT NULL,
  failed     BIGINT NOT NULL,
  cost_cents        BIGINT NOT NULL,
  refunded_cents    BIGINT NOT NULL,
  reserved_cents    BIGINT NOT NULL,
  unconfirmed_cents BIGINT NOT NULL,
  PRIMARY KEY (period, owner, start_time, caller, model_id, part)
) WITHOUT ROWID;
CREATE INDEX rollups_time ON rollups (period, start_time);

INSERT INTO rollups (period, start_time, owner, caller, model_id, part, orders, failed, cost_cents, refunded_cents, reserved_cents, unconfirmed_cents)
SELECT period, start_time, owner, caller, model_id, 1, SUM(orders), SUM(failed), SUM(cost_cents), SUM(refunded_cents), SUM(reserved_cents), SUM(unconfirmed_cents) FROM (
  SELECT period, CASE period WHEN 'day' THEN order_day * 86400000000
      ELSE CAST(strftime('%s', order_day * 86400, 'unixepoch', 'start of month') AS INTEGER) * 1000000 END AS start_time,
    owner, caller, model_id, orders, failed, cost_cents, refunded_cents, reserved_cents, unconfirmed_cents
  FROM (SELECT order_time / 86400000000 AS order_day, owner, caller, model_id, COUNT(*) AS orders,
      COUNT(CASE WHEN status IN (3, 5) THEN 1 END) AS failed, SUM(COALESCE(cost_cents, 0)) AS cost_cents,
      SUM(refunded_cents) AS refunded_cents, SUM(reserved_cents) AS reserved_cents, SUM(unconfirmed_cents) AS unconfirmed_cents
    FROM orders WHERE state = 2 GROUP BY 1, 2, 3, 4) AS days, (SELECT 'day' AS period UNION ALL SELECT 'month') AS periods
) AS before GROUP BY period, start_time, owner, caller, model_id;

-- +goose StatementBegin
CREATE TRIGGER orders_rolled_in AFTER INSERT ON orders WHEN NEW.state = 2 BEGIN
  INSERT INTO rollups (period, start_time, owner, caller, model_id, part, orders, failed, cost_cents, refunded_cents, reserved_cents, unconfirmed_cents)
  SELECT period, start_time, NEW.owner, NEW.caller, NEW.model_id, 0, 1, NEW.status IN (3, 5), COALESCE(NEW.cost_cents, 0), NEW.refunded_cents, NEW.reserved_cents, NEW.unconfirmed_cents
  FROM (SELECT 'day' AS period, NEW.order_time / 86400000000 * 86400000000 AS start_time
    UNION ALL SELECT 'month', CAST(strftime('%s', NEW.order_time / 1000000, 'unixepoch', 'start of month') AS INTEGER) * 1000000) AS periods WHERE TRUE
  ON CONFLICT (period, owner, start_time, caller, model_id, part) DO UPDATE SET orders = orders + excluded.orders, failed = failed + excluded.failed,
    cost_cents = cost_cents + excluded.cost_cents, refunded_cents = refunded_cents + excluded.refunded_cents,
    reserved_cents = reserved_cents + excluded.reserved_cents, unconfirmed_cents = unconfirmed_cents + excluded.unconfirmed_cents;
END;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE TRIGGER orders_rolled AFTER UPDATE OF state, status, reserved_cents, cost_cents, refunded_cents, unconfirmed_cents ON orders
WHEN (OLD.state = 2 OR NEW.state = 2) AND (OLD.state <> NEW.state OR (OLD.status IN (3, 5)) <> (NEW.status IN (3, 5)) OR OLD.reserved_cents <> NEW.reserved_cents
  OR OLD.cost_cents IS NOT NEW.cost_cents OR OLD.refunded_cents <> NEW.refunded_cents OR OLD.unconfirmed_cents <> NEW.unconfirmed_cents) BEGIN
  INSERT INTO rollups (period, start_time, owner, caller, model_id, part, orders, failed, cost_cents, refunded_cents, reserved_cents, unconfirmed_cents)
  SELECT period, start_time, NEW.owner, NEW.caller, NEW.model_id, 0, (NEW.state = 2) - (OLD.state = 2),
    (NEW.state = 2) * (NEW.status IN (3, 5)) - (OLD.state = 2) * (OLD.status IN (3, 5)),
    (NEW.state = 2) * COALESCE(NEW.cost_cents, 0) - (OLD.state = 2) * COALESCE(OLD.cost_cents, 0),
    (NEW.state = 2) * NEW.refunded_cents - (OLD.state = 2) * OLD.refunded_cents,
    (NEW.state = 2) * NEW.reserved_cents - (OLD.state = 2) * OLD.reserved_cents,
    (NEW.state = 2) * NEW.unconfirmed_cents - (OLD.state = 2) * OLD.unconfirmed_cents
  FROM (SELECT 'day' AS period, NEW.order_time / 86400000000 * 86400000000 AS start_time
    UNION ALL SELECT 'month', CAST(strftime('%s', NEW.order_time / 1000000, 'unixepoch', 'start of month') AS INTEGER) * 1000000) AS periods WHERE TRUE
  ON CONFLICT (period, owner, start_time, caller, model_id, part) DO UPDATE SET orders = orders + excluded.orders, failed = failed + excluded.failed,
    cost_cents = cost_cents + excluded.cost_cents, refunded_cents = refunded_cents + excluded.refunded_cents,
    reserved_cents = reserved_cents + excluded.reserved_cents, unconfirmed_cents = unconfirmed_cents + excluded.unconfirmed_cents;
END;
-- +goose StatementEnd
