-- +goose Up
-- The replicas that poll the catalog, which divide the rate of polls. Only simulated replicas and tests have several here.
CREATE TABLE replicas (
  id        TEXT PRIMARY KEY,
  seen_time BIGINT NOT NULL
);
