-- +goose Up
-- The journal of money: lines are only ever added. What an order holds and has cost, and with it the budgets, is what its
-- lines add up to. The rows of orders write them, so that no program can move money without.
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
);

-- Who may write orders may write this too: the rows of orders do it for them, with their rights.
-- +goose StatementBegin
DO $$
DECLARE
  grantee TEXT;
BEGIN
  FOR grantee IN SELECT DISTINCT CASE a.grantee WHEN 0 THEN 'PUBLIC' ELSE format('%I', pg_get_userbyid(a.grantee)) END
    FROM pg_class AS c, aclexplode(c.relacl) AS a WHERE c.oid = 'orders'::regclass AND a.privilege_type = 'INSERT'
  LOOP
    EXECUTE format('GRANT SELECT, INSERT, UPDATE, DELETE ON movements TO %s', grantee);
  END LOOP;
END $$;
-- +goose StatementEnd

-- Who has moved the money of an order last: "" is Easel.
ALTER TABLE orders ADD COLUMN moved_by TEXT NOT NULL DEFAULT '';


-- What an order holds in budgets: its reservation, or what may be spent beyond its charge and has no proof.
-- +goose StatementBegin
CREATE FUNCTION held_cents(reserved BIGINT, unconfirmed BIGINT, cost BIGINT) RETURNS BIGINT IMMUTABLE LANGUAGE sql
  AS 'SELECT reserved + GREATEST(0, unconfirmed - COALESCE(cost, 0))';
-- +goose StatementEnd

-- An order of before has its first lines when it moves, of what it held by then: no table is read for them here.
INSERT INTO facts (name, value) VALUES ('journal_since', CAST((EXTRACT(EPOCH FROM clock_timestamp()) * 1000000)::BIGINT AS TEXT));

-- +goose StatementBegin
CREATE FUNCTION add_movements(order_id TEXT, actor TEXT, held BIGINT, cost BIGINT, refunded BIGINT) RETURNS void LANGUAGE sql AS $$
  INSERT INTO movements (order_id, number, kind, cents, move_time, actor)
  SELECT $1, (SELECT COALESCE(MAX(m.number), 0) FROM movements AS m WHERE m.order_id = $1) + ROW_NUMBER() OVER (ORDER BY kind),
    kind, cents, (EXTRACT(EPOCH FROM clock_timestamp()) * 1000000)::BIGINT, $2
  FROM (VALUES (1, GREATEST($3, 0)), (2, $4), (3, $5), (4, GREATEST(-$3, 0))) AS moved (kind, cents)
  WHERE cents <> 0
$$;

CREATE FUNCTION write_movements() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
  held BIGINT := 0;
  cost BIGINT := 0;
  refunded BIGINT := 0;
BEGIN
  IF TG_OP = 'UPDATE' THEN
    held := held_cents(OLD.reserved_cents, OLD.unconfirmed_cents, OLD.cost_cents);
    cost := COALESCE(OLD.cost_cents, 0);
    refunded := OLD.refunded_cents;
    IF NOT EXISTS (SELECT 1 FROM movements AS m WHERE m.order_id = NEW.id AND m.kind <> 5) THEN
      PERFORM add_movements(NEW.id, 'before the journal', held, cost, refunded);
    END IF;
  END IF;
  PERFORM add_movements(NEW.id, NEW.moved_by, held_cents(NEW.reserved_cents, NEW.unconfirmed_cents, NEW.cost_cents) - held,
    COALESCE(NEW.cost_cents, 0) - cost, NEW.refunded_cents - refunded);
  RETURN NULL;
END $$;

CREATE FUNCTION keep_movements() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  RAISE EXCEPTION 'movements are only ever added';
END $$;
-- +goose StatementEnd

CREATE TRIGGER orders_written AFTER INSERT ON orders FOR EACH ROW WHEN (NEW.reserved_cents <> 0) EXECUTE FUNCTION write_movements();
CREATE TRIGGER orders_moved AFTER UPDATE OF reserved_cents, cost_cents, refunded_cents, unconfirmed_cents ON orders FOR EACH ROW
  WHEN ((OLD.reserved_cents, OLD.cost_cents, OLD.refunded_cents, OLD.unconfirmed_cents) IS DISTINCT FROM (NEW.reserved_cents, NEW.cost_cents, NEW.refunded_cents, NEW.unconfirmed_cents))
  EXECUTE FUNCTION write_movements();
CREATE TRIGGER movements_kept BEFORE UPDATE OR DELETE OR TRUNCATE ON movements FOR EACH STATEMENT EXECUTE FUNCTION keep_movements();

-- States that can't be. What stands in the book is looked at when it changes.
ALTER TABLE orders
  ADD CONSTRAINT orders_state CHECK (state IN (1, 2, 3)) NOT VALID,
  ADD CONSTRAINT orders_placed CHECK ((state = 2) = (generation_id IS NOT NULL)) NOT VALID,
  ADD CONSTRAINT orders_claims CHECK (claims >= 0) NOT VALID,
  ADD CONSTRAINT orders_inputs CHECK (inputs IS NULL OR state = 1) NOT VALID,
  ADD CONSTRAINT orders_money CHECK (price_cents >= 0 AND reserved_cents >= 0 AND unconfirmed_cents >= 0 AND COALESCE(cost_cents, 0) >= 0) NOT VALID,
  ADD CONSTRAINT orders_refund CHECK (refunded_cents BETWEEN 0 AND COALESCE(cost_cents, 0)) NOT VALID,
  ADD CONSTRAINT orders_refused_money CHECK (state <> 3 OR reserved_cents = 0 AND unconfirmed_cents = 0 AND cost_cents IS NULL) NOT VALID,
  ADD CONSTRAINT orders_settled_money CHECK (settled = 0 OR reserved_cents = 0) NOT VALID,
  ADD CONSTRAINT orders_open_money CHECK (state <> 1 OR cost_cents IS NULL AND settled = 0 AND status = 0) NOT VALID,
  ADD CONSTRAINT orders_status CHECK (status BETWEEN 0 AND 5) NOT VALID,
  ADD CONSTRAINT orders_truths CHECK (deleted IN (0, 1) AND gone IN (0, 1) AND settled IN (0, 1) AND charge_final IN (0, 1) AND resolved IN (0, 1) AND second IN (0, 1)) NOT VALID;
ALTER TABLE budgets
  ADD CONSTRAINT budgets_period CHECK (period IN ('day', 'month')) NOT VALID;
ALTER TABLE events
  ADD CONSTRAINT events_state CHECK (state IN (0, 1, 2)) NOT VALID,
  ADD CONSTRAINT events_percent CHECK (percent IN (0, 80, 100)) NOT VALID,
  ADD CONSTRAINT events_attempts CHECK (attempts >= 0) NOT VALID;
