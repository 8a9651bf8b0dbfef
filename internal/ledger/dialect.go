package ledger

import (
	"database/sql"
	"database/sql/driver"
	"errors"
	"net/url"
	"strings"
	"time"

	"github.com/XSAM/otelsql"
	"github.com/jackc/pgx/v5"
	_ "github.com/jackc/pgx/v5/stdlib" // PostgreSQL
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"
	"go.opentelemetry.io/otel/attribute"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	modernc "modernc.org/sqlite"
)

// dialect is in what two databases differ.
type dialect struct {
	driver string
	goose  goose.Dialect
	system attribute.KeyValue
	conns  int
	words  *strings.Replacer // of the statements

	statements int // that are kept prepared
	locker     func() (lock.SessionLocker, error)
}

var postgres = dialect{
	driver: "pgx",
	goose:  goose.DialectPostgres,
	system: semconv.DBSystemNamePostgreSQL,
	conns:  16,
	words:  strings.NewReplacer("{now}", "(EXTRACT(EPOCH FROM clock_timestamp()) * 1000000)::BIGINT", "{lock}", "FOR UPDATE"),
	locker: func() (lock.SessionLocker, error) { return lock.NewPostgresSessionLocker() },
}

// A transaction of SQLite has the whole file: it begins with BEGIN IMMEDIATE, and there is one connection. Its
// clock is that of its one process.
var sqlite = dialect{
	driver: "sqlite",
	goose:  goose.DialectSQLite3,
	system: semconv.DBSystemNameSQLite,
	conns:  1,
	words:  strings.NewReplacer("{now}", "easel_now()", "{lock}", ""),

	statements: maxStatements,
}

func init() {
	modernc.MustRegisterScalarFunction("easel_now", 0, func(*modernc.FunctionContext, []driver.Value) (driver.Value, error) {
		return time.Now().UnixMicro(), nil
	})
}

// sqliteOptions make a file durable, and this process its only one: the journal goes to the disk before
// a commit returns.
const sqliteOptions = "?_txlock=immediate&_pragma=locking_mode(EXCLUSIVE)&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)&_pragma=foreign_keys(ON)"

// Check says what is wrong with a URL, without the password in it.
func Check(url string) error {
	_, _, err := parse(url)
	return err
}

// parse reads EASEL_LEDGER_URL.
func parse(address string) (d dialect, dsn string, err error) {
	scheme, rest, _ := strings.Cut(address, ":")
	switch scheme {
	case "sqlite":
		if rest == "" {
			break
		}
		return sqlite, "file:" + (&url.URL{Path: rest}).EscapedPath() + sqliteOptions, nil
	case "postgres", "postgresql":
		if dsn, err := postgresDSN(address); err == nil {
			return postgres, dsn, nil
		}
	}
	return dialect{}, "", errors.New("EASEL_LEDGER_URL must be sqlite:FILE, or postgres://USER:PASSWORD@HOST/DATABASE")
}

// connectTimeout is how many seconds a connection may take that the URL says nothing of.
const connectTimeout = "10"

// postgresDSN is a URL of PostgreSQL as the driver takes it. Its errors may repeat the password.
func postgresDSN(address string) (string, error) {
	u, err := url.Parse(address)
	if err != nil {
		return "", err
	}
	query := u.Query()
	if u.Host == "" && query.Get("host") == "" {
		return "", errors.New("it names no host")
	}
	if query.Get("connect_timeout") == "" {
		query.Set("connect_timeout", connectTimeout)
	}
	u.RawQuery = query.Encode()
	_, err = pgx.ParseConfig(u.String())
	return u.String(), err
}

// idleTime is how long a connection that nobody uses stays open.
const idleTime = 5 * time.Minute

// open opens a pool of traced connections.
func (d dialect) open(dsn string, connector driver.Connector) (*sql.DB, error) {
	options := []otelsql.Option{
		otelsql.WithAttributes(d.system),
		otelsql.WithSpanOptions(otelsql.SpanOptions{DisableErrSkip: true, OmitConnResetSession: true, OmitRows: true, OmitConnectorConnect: true}),
	}
	if connector != nil {
		return otelsql.OpenDB(connector, options...), nil
	}
	db, err := otelsql.Open(d.driver, dsn, options...)
	if err == nil {
		db.SetMaxOpenConns(d.conns)
		db.SetMaxIdleConns(d.conns) // a new connection costs PostgreSQL more than an order
		db.SetConnMaxIdleTime(idleTime)
	}
	return db, err
}
