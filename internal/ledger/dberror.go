package ledger

import (
	"context"
	"errors"
	"net"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
	modernc "modernc.org/sqlite"
)

// refusal is a database error with a remedy. Its text is one line, and starts with the name of the setting. It can be shown to
// operators, because error messages from both databases contain no passwords.
type refusal struct {
	cure string
	err  error
}

func (r *refusal) Error() string {
	return "EASEL_LEDGER_URL: " + r.cure + " (" + strings.Join(strings.Fields(r.err.Error()), " ") + ")"
}

func (r *refusal) Unwrap() error { return r.err }

// addRemedy adds the setting's name, EASEL_LEDGER_URL, and a remedy to a database error. It returns an error without a known
// remedy unchanged.
func addRemedy(err error) error {
	if cure := cureOf(err); cure != "" {
		return &refusal{cure, err}
	}
	return err
}

// cureOf returns the remedy for a database error, or "" for any other error.
func cureOf(err error) string {
	file, server := (*modernc.Error)(nil), (*pgconn.PgError)(nil)
	connection, dial := (*pgconn.ConnectError)(nil), net.Error(nil)
	switch known := (*refusal)(nil); {
	case errors.As(err, &known):
		return ""
	case errors.As(err, &file):
		return orElse(remedies[sqliteCodes[file.Code()&0xff]])
	case errors.As(err, &server):
		return orElse(remedies[server.Code])
	case errors.As(err, &connection) && !errors.Is(err, context.Canceled), errors.As(err, &dial) && !errors.Is(err, context.DeadlineExceeded):
		return "PostgreSQL can't be reached: check that it is running, and check host, port and sslmode"
	}
	return ""
}

func orElse(cure string) string {
	if cure == "" {
		return "database error"
	}
	return cure
}

// isContradiction reports whether an error means that a constraint of the database has rejected a change.
func isContradiction(err error) bool {
	if file, ok := errors.AsType[*modernc.Error](err); ok {
		return file.Code()&0xff == sqliteConstraint
	}
	server, ok := errors.AsType[*pgconn.PgError](err)
	return ok && strings.HasPrefix(server.Code, "23")
}

const sqliteConstraint = 19

// sqliteCodes maps SQLite's error codes to the keys in remedies.
var sqliteCodes = map[int]string{
	3: "rights", 5: "busy", 6: "busy", 8: "readonly", 10: "disk", 11: "damaged", 13: "53100", 14: "path", 23: "rights", 26: "damaged",
}

// remedies contains the remedies for database errors. The keys are PostgreSQL's error codes and the names in sqliteCodes.
var remedies = map[string]string{
	"busy":     "another process uses the file, and SQLite supports only one; stop the other process, or use a postgres:// ledger for replicas",
	"readonly": "ledger is read-only; allow this user to write to the file and its directory",
	"rights":   "access to the file denied; allow this user to write to the file and its directory",
	"path":     "file can't be opened; make sure that its directory exists and that this user can write there",
	"disk":     "disk error; check the disk, and restore a backup if the file is damaged",
	"damaged":  "file is damaged or not a ledger; use another file, or restore a backup",

	"53100": "disk of the ledger is full; free some space",
	"53300": "PostgreSQL has no free connection; raise max_connections (each replica uses up to 16)",
	"28P01": "PostgreSQL rejects the user or the password; correct them in the URL",
	"28000": "PostgreSQL denies this user access from this host; correct the user or pg_hba.conf",
	"3D000": "database not found; correct the name, or create it with CREATE DATABASE",
	"42501": "permission denied; make this user the owner of the database, or run easel ledger migrate as the owner and grant this user read and write access to the tables",
	"25006": "database is read-only; use the primary instead of a standby",
	"57P03": "PostgreSQL is starting or stopping; start Easel again when it is available",
	"57P01": "PostgreSQL is stopping, or an administrator closed the connection; wait until it is available",
	"57P02": "PostgreSQL is stopping, or an administrator closed the connection; wait until it is available",
}
