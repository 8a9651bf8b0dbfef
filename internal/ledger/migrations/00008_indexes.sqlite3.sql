-- What they are for stands in the file of PostgreSQL.
-- +goose Up
CREATE INDEX orders_model ON orders (owner, model_id, order_time, id);
CREATE INDEX orders_failed ON orders (owner, order_time, id) WHERE state = 2 AND deleted = 0 AND status IN (3, 5);
CREATE INDEX orders_deleted ON orders (owner, order_time, id) WHERE state = 2 AND deleted = 1;
CREATE INDEX orders_moving ON orders (order_time, id) WHERE state = 2 AND settled = 0;
CREATE INDEX orders_doubted ON orders (order_time) WHERE state = 2 AND settled = 1 AND (unconfirmed_cents > 0 OR gone = 1);
DROP INDEX orders_unsettled;
DROP INDEX orders_unconfirmed;

CREATE INDEX budgets_time ON budgets (period, start_time);

CREATE INDEX events_next ON events (owner, next_time, event_time, id) WHERE state = 0;
CREATE INDEX events_waiting ON events (begin_time) WHERE state = 0;
CREATE INDEX events_old ON events (event_time) WHERE state <> 0;
DROP INDEX events_pending;
