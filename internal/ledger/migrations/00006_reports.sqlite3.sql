-- +goose Up
-- What the gates of processes tell each other. Tests alone use this table: a file of SQLite has one process.
CREATE TABLE shared_reports (
  -- SHA-256 of the API key, in hex.
  api_key   TEXT NOT NULL,
  -- The process, and when it has told its report, which is JSON.
  replica   TEXT NOT NULL,
  told_time BIGINT NOT NULL,
  report    TEXT NOT NULL,
  PRIMARY KEY (api_key, replica)
);
