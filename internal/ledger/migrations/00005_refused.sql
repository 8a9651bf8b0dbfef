-- +goose Up
-- How many orders of an owner were refused lately is asked at each order, and what is older than a day goes.
CREATE INDEX orders_refused ON orders (owner, order_time) WHERE state = 3;
