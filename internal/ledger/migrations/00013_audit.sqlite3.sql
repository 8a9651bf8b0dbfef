-- Why stands in the file of PostgreSQL.
-- +goose Up
CREATE TABLE audit (
  audit_time BIGINT NOT NULL,
  id         TEXT NOT NULL,
  actor      TEXT NOT NULL CHECK (actor <> ''),
  origin     TEXT NOT NULL,
  action     TEXT NOT NULL CHECK (action <> ''),
  subject    TEXT NOT NULL,
  was        TEXT NOT NULL,
  became     TEXT NOT NULL,
  PRIMARY KEY (audit_time, id)
) WITHOUT ROWID;

-- +goose StatementBegin
CREATE TRIGGER audit_unchanged BEFORE UPDATE ON audit BEGIN
  SELECT RAISE(ABORT, 'lines of the audit are only ever added');
END;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE TRIGGER audit_kept BEFORE DELETE ON audit BEGIN
  SELECT RAISE(ABORT, 'lines of the audit are only ever added');
END;
-- +goose StatementEnd

-- INSERT OR REPLACE deletes without the trigger above.
-- +goose StatementBegin
CREATE TRIGGER audit_not_replaced BEFORE INSERT ON audit WHEN EXISTS (SELECT 1 FROM audit WHERE audit_time = NEW.audit_time AND id = NEW.id) BEGIN
  SELECT RAISE(ABORT, 'lines of the audit are only ever added');
END;
-- +goose StatementEnd
