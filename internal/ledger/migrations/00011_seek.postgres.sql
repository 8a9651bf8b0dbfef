-- +goose NO TRANSACTION
-- +goose Up
-- Who has an order, and since when, stands beside its labels: so a page of a label seeks.
ALTER TABLE labels ADD COLUMN IF NOT EXISTS order_owner TEXT, ADD COLUMN IF NOT EXISTS label_time BIGINT;

-- +goose StatementBegin
CREATE OR REPLACE FUNCTION place_label() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  SELECT owner, order_time INTO NEW.order_owner, NEW.label_time FROM orders WHERE id = NEW.order_id;
  RETURN NEW;
END $$;
-- +goose StatementEnd

-- The program of the release before writes neither.
DROP TRIGGER IF EXISTS labels_placed ON labels;
CREATE TRIGGER labels_placed BEFORE INSERT ON labels FOR EACH ROW WHEN (NEW.label_time IS NULL) EXECUTE FUNCTION place_label();
-- In pieces, so that no order waits for all of them. It may be broken off, and goes on then.
-- +goose StatementBegin
DO $$
DECLARE
  passed TEXT := '';
  piece TEXT;
BEGIN
  LOOP
    SELECT MAX(order_id) INTO piece FROM (SELECT order_id FROM labels WHERE order_id > passed ORDER BY order_id LIMIT 5000) AS next;
    EXIT WHEN piece IS NULL;
    UPDATE labels SET order_owner = owner, label_time = order_time FROM orders
      WHERE id = order_id AND label_time IS NULL AND order_id > passed AND order_id <= piece;
    COMMIT;
    passed := piece;
  END LOOP;
END $$;
-- +goose StatementEnd
DROP INDEX CONCURRENTLY IF EXISTS labels_owner;
CREATE INDEX CONCURRENTLY labels_owner ON labels (order_owner, name, value, label_time, order_id);
DROP INDEX CONCURRENTLY IF EXISTS labels_time;
CREATE INDEX CONCURRENTLY labels_time ON labels (name, value, label_time, order_id);
DROP INDEX CONCURRENTLY IF EXISTS labels_value;

-- No index names the state of a generation, so that its row changes where it stands until it has ended. What is refunded
-- and was never seen failed has -1 for the time of its failure.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION note_refund() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  NEW.failed_time := -1;
  RETURN NEW;
END $$;
-- +goose StatementEnd
DROP TRIGGER IF EXISTS orders_refunded ON orders;
CREATE TRIGGER orders_refunded BEFORE UPDATE OF status ON orders FOR EACH ROW WHEN (NEW.status = 5 AND NEW.failed_time = 0) EXECUTE FUNCTION note_refund();
UPDATE orders SET failed_time = -1 WHERE state = 2 AND status = 5 AND failed_time = 0;
DROP INDEX CONCURRENTLY IF EXISTS orders_failed;
CREATE INDEX CONCURRENTLY orders_failed ON orders (owner, order_time, id) WHERE failed_time <> 0;

-- The journal is written by statements whose plans a session keeps: those of a function in SQL it makes anew each time.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION add_movements(order_id TEXT, actor TEXT, held BIGINT, cost BIGINT, refunded BIGINT) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO movements (order_id, number, kind, cents, move_time, actor)
  SELECT $1, (SELECT COALESCE(MAX(m.number), 0) FROM movements AS m WHERE m.order_id = $1) + ROW_NUMBER() OVER (ORDER BY kind),
    kind, cents, (EXTRACT(EPOCH FROM clock_timestamp()) * 1000000)::BIGINT, $2
  FROM (VALUES (1, GREATEST($3, 0)), (2, $4), (3, $5), (4, GREATEST(-$3, 0))) AS moved (kind, cents)
  WHERE cents <> 0;
END $$;
-- +goose StatementEnd
