-- +goose NO TRANSACTION
-- +goose Up
-- An index for each filter of a list, and for each look for what is due or old. No index has a time that changes while a
-- generation is only looked at: so its row changes where it stands. They are filled beside orders, and one that was
-- interrupted is made anew.
DROP INDEX CONCURRENTLY IF EXISTS orders_model;
CREATE INDEX CONCURRENTLY orders_model ON orders (owner, model_id, order_time, id);
DROP INDEX CONCURRENTLY IF EXISTS orders_failed;
CREATE INDEX CONCURRENTLY orders_failed ON orders (owner, order_time, id) WHERE state = 2 AND deleted = 0 AND status IN (3, 5);
DROP INDEX CONCURRENTLY IF EXISTS orders_deleted;
CREATE INDEX CONCURRENTLY orders_deleted ON orders (owner, order_time, id) WHERE state = 2 AND deleted = 1;
DROP INDEX CONCURRENTLY IF EXISTS orders_moving;
CREATE INDEX CONCURRENTLY orders_moving ON orders (order_time, id) WHERE state = 2 AND settled = 0;
DROP INDEX CONCURRENTLY IF EXISTS orders_doubted;
CREATE INDEX CONCURRENTLY orders_doubted ON orders (order_time) WHERE state = 2 AND settled = 1 AND (unconfirmed_cents > 0 OR gone = 1);
DROP INDEX CONCURRENTLY IF EXISTS orders_unsettled;
DROP INDEX CONCURRENTLY IF EXISTS orders_unconfirmed;

DROP INDEX CONCURRENTLY IF EXISTS budgets_time;
CREATE INDEX CONCURRENTLY budgets_time ON budgets (period, start_time);

DROP INDEX CONCURRENTLY IF EXISTS events_next;
CREATE INDEX CONCURRENTLY events_next ON events (owner, next_time, event_time, id) WHERE state = 0;
DROP INDEX CONCURRENTLY IF EXISTS events_waiting;
CREATE INDEX CONCURRENTLY events_waiting ON events (begin_time) WHERE state = 0;
DROP INDEX CONCURRENTLY IF EXISTS events_old;
CREATE INDEX CONCURRENTLY events_old ON events (event_time) WHERE state <> 0;
DROP INDEX CONCURRENTLY IF EXISTS events_pending;

-- Room for the next version of a row beside it.
ALTER TABLE orders SET (fillfactor = 80);
ALTER TABLE budgets SET (fillfactor = 50);
