-- Why stands in the file of PostgreSQL.
-- +goose Up
ALTER TABLE labels ADD COLUMN order_owner TEXT;
ALTER TABLE labels ADD COLUMN label_time BIGINT;
UPDATE labels SET (order_owner, label_time) = (SELECT owner, order_time FROM orders WHERE id = order_id);

-- +goose StatementBegin
CREATE TRIGGER labels_placed AFTER INSERT ON labels WHEN NEW.label_time IS NULL BEGIN
  UPDATE labels SET (order_owner, label_time) = (SELECT owner, order_time FROM orders WHERE id = NEW.order_id) WHERE order_id = NEW.order_id AND name = NEW.name;
END;
-- +goose StatementEnd
CREATE INDEX labels_owner ON labels (order_owner, name, value, label_time, order_id);
CREATE INDEX labels_time ON labels (name, value, label_time, order_id);
DROP INDEX labels_value;

-- +goose StatementBegin
CREATE TRIGGER orders_refunded AFTER UPDATE OF status ON orders WHEN NEW.status = 5 AND NEW.failed_time = 0 BEGIN
  UPDATE orders SET failed_time = -1 WHERE id = NEW.id;
END;
-- +goose StatementEnd
UPDATE orders SET failed_time = -1 WHERE state = 2 AND status = 5 AND failed_time = 0;
DROP INDEX orders_failed;
CREATE INDEX orders_failed ON orders (owner, order_time, id) WHERE failed_time <> 0;
