package ledger

import (
	"context"
	"errors"
	"net"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
	modernc "modernc.org/sqlite"
)

// refusal is an error of the database, in one line that names the setting and the remedy. The messages of both databases
// never contain a password.
type refusal struct {
	cure string
	err  error
}

func (r *refusal) Error() string {
	return "EASEL_LEDGER_URL: " + r.cure + " (" + strings.Join(strings.Fields(r.err.Error()), " ") + ")"
}

func (r *refusal) Unwrap() error { return r.err }

// unusable adds the setting and the remedy to an error of the database. It returns other errors unchanged.
func unusable(err error) error {
	if cure := cureOf(err); cure != "" {
		return &refusal{cure, err}
	}
	return err
}

// cureOf returns the remedy for an error of the database, empty for other errors.
func cureOf(err error) string {
	file, server := (*modernc.Error)(nil), (*pgconn.PgError)(nil)
	connection, dial := (*pgconn.ConnectError)(nil), net.Error(nil)
	switch known := (*refusal)(nil); {
	case errors.As(err, &known):
		return ""
	case errors.As(err, &file):
		return orElse(cures[sqliteCodes[file.Code()&0xff]])
	case errors.As(err, &server):
		return orElse(cures[server.Code])
	case errors.As(err, &connection) && !errors.Is(err, context.Canceled), errors.As(err, &dial) && !errors.Is(err, context.DeadlineExceeded):
		return "PostgreSQL can't be reached: check host, port and sslmode, and that it listens there"
	}
	return ""
}

func orElse(cure string) string {
	if cure == "" {
		return "the database refuses to work as a ledger"
	}
	return cure
}

// contradicts reports whether a constraint of the database has rejected a change.
func contradicts(err error) bool {
	if file, ok := errors.AsType[*modernc.Error](err); ok {
		return file.Code()&0xff == sqliteConstraint
	}
	server, ok := errors.AsType[*pgconn.PgError](err)
	return ok && strings.HasPrefix(server.Code, "23")
}

const sqliteConstraint = 19

// sqliteCodes maps codes of SQLite to the keys of the remedies.
var sqliteCodes = map[int]string{
	3: "rights", 5: "busy", 6: "busy", 8: "readonly", 10: "disk", 11: "damaged", 13: "53100", 14: "path", 23: "rights", 26: "damaged",
}

// The remedies by the codes of PostgreSQL and by names for those of SQLite.
var cures = map[string]string{
	"busy":     "another process has the file, and a SQLite file is for one process: end the other process, or use a postgres:// ledger for replicas",
	"readonly": "the ledger is read-only: let this user write the file and its directory",
	"rights":   "the file may not be used: let this user write the file and its directory",
	"path":     "the file can't be opened: its directory has to exist, and this user has to be allowed to write there",
	"disk":     "the disk can't read or write the ledger: check the disk, and restore a backup if the file is damaged",
	"damaged":  "the file is damaged or no ledger: name another file, or restore a backup",

	"53100": "the disk of the ledger is full: make room",
	"53300": "PostgreSQL has no connection left: raise its max_connections, each replica takes up to 16",
	"28P01": "PostgreSQL refuses the user or the password: correct them",
	"28000": "PostgreSQL lets this user not in from here: correct the user, or PostgreSQL's pg_hba.conf",
	"3D000": "there is no such database: correct the name, or create it with CREATE DATABASE",
	"42501": "this user lacks rights: make it the owner of a database of its own, so that it can create and write tables, or run easel ledger migrate as the owner and let this user read and write them",
	"25006": "the database is read-only: name the primary, and not a standby",
	"57P03": "PostgreSQL is starting or stopping: start Easel again when it is up",
	"57P01": "PostgreSQL is stopping, or an administrator has ended the connection: wait until it is up again",
	"57P02": "PostgreSQL is stopping, or an administrator has ended the connection: wait until it is up again",
}
