package ledger

import (
	"database/sql"
	"database/sql/driver"
	"errors"
	"net/url"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	_ "github.com/jackc/pgx/v5/stdlib" // PostgreSQL
	"go.opentelemetry.io/otel/attribute"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	modernc "modernc.org/sqlite"
)

// kind is the name of a kind of database, and of the folder with its migrations.
type kind string

const (
	postgresKind kind = "postgres"
	sqliteKind   kind = "sqlite"
)

// dialect contains the properties of a kind of database.
type dialect struct {
	driver string
	kind   kind
	system attribute.KeyValue
	conns  int
	words  *strings.Replacer // replacements for the placeholders in statements; see words.go

	snapshot *sql.TxOptions // options of the transaction in which [Ledger.Verify] reads
	still    *sql.TxOptions // options of the transaction in which [Copy] reads the old ledger and seals it against further use

	hasFacts      string // query that reports whether the database has a ledger
	migrationLock string // statements that disable the timeouts, and then wait until no other replica is migrating the ledger; empty for SQLite

	oneAtATime string        // statement that makes transactions run one at a time; empty if the database has only one writer
	idle       time.Duration // time after which an idle connection is closed; zero means never
}

var postgres = dialect{
	driver:        "pgx",
	kind:          postgresKind,
	system:        semconv.DBSystemNamePostgreSQL,
	conns:         16,
	hasFacts:      `SELECT to_regclass('facts') IS NOT NULL`,
	migrationLock: `SET LOCAL statement_timeout = 0; SET LOCAL lock_timeout = 0; SELECT pg_advisory_xact_lock(hashtext('easel schema'))`,

	oneAtATime: `SELECT pg_advisory_xact_lock(hashtext('easel total'))`,

	snapshot: &sql.TxOptions{Isolation: sql.LevelRepeatableRead, ReadOnly: true},
	still:    &sql.TxOptions{Isolation: sql.LevelRepeatableRead},

	idle: 5 * time.Minute,
}

// sqlite is the dialect of SQLite. Only one connection writes. Its transactions start with BEGIN IMMEDIATE and lock the whole
// file. Only one process uses the file, so its clock serves as the database's clock.
var sqlite = dialect{
	driver:   "sqlite",
	kind:     sqliteKind,
	system:   semconv.DBSystemNameSQLite,
	conns:    1,
	hasFacts: `SELECT EXISTS (SELECT 1 FROM sqlite_master WHERE name = 'facts')`,
}

func init() {
	modernc.MustRegisterScalarFunction("easel_now", 0, func(*modernc.FunctionContext, []driver.Value) (driver.Value, error) {
		return time.Now().UnixMicro(), nil
	})
}

// sqliteOptions are the options of the connection that writes. A commit returns only after the write-ahead log is on disk.
// Deleted data is overwritten with zeros.
const sqliteOptions = "?_txlock=immediate&_pragma=busy_timeout(5000)&_pragma=journal_mode(WAL)&_pragma=journal_size_limit(67108864)&_pragma=synchronous(FULL)&_pragma=foreign_keys(ON)&_pragma=secure_delete(ON)"

// sqliteReading contains the options of SQLite's read-only connections. sqliteReaders is the number of these connections.
const (
	sqliteReading = "?_pragma=busy_timeout(5000)&_pragma=query_only(ON)"
	sqliteReaders = 4
)

// location contains the parsed URL of a ledger.
type location struct {
	dialect
	// writing is the DSN of the pool that writes. reading is the DSN of the pool that reads, or empty if the writing pool also
	// reads. offline is the DSN for commands that open a PostgreSQL ledger without a server. It omits the timeouts in [bounds].
	// For SQLite, offline is empty.
	writing, reading, offline string
	// file is the path of a SQLite file, or empty.
	file string
}

// InMemory is the URL of a ledger that exists only while its process runs. It uses SQLite over one connection that stays open.
const InMemory = "memory"

// sqliteInMemory is SQLite's name for an in-memory database.
const sqliteInMemory = ":memory:"

// IsDurable reports whether a ledger outlives its process. The argument is the ledger's URL, or its kind as returned by [Kind].
func IsDurable(url string) bool { return url != InMemory }

// Kind returns the kind of a ledger, such as "sqlite", from its URL. Unlike the URL, the kind never contains a password.
func Kind(url string) string {
	kind, _, _ := strings.Cut(url, ":")
	return kind
}

// Meaning returns a description of a ledger's durability for operators. The argument is the ledger's URL, or its kind as
// returned by [Kind].
func Meaning(url string) string {
	switch {
	case !IsDurable(url):
		return "in memory: orders are lost when the process stops, and are not shared between processes"
	case Kind(url) == "sqlite":
		return "in a file: orders survive a restart; only one process can use them"
	}
	return "in a database: orders survive a restart; any number of processes can use them"
}

// Check returns an error if a URL is invalid. The error does not contain the password.
func Check(url string) error {
	_, err := parseURL(url)
	return err
}

// parseURL parses EASEL_LEDGER_URL.
func parseURL(address string) (location, error) {
	if address == InMemory {
		return location{dialect: sqlite, writing: "file:" + sqliteInMemory + sqliteOptions}, nil
	}
	scheme, rest, _ := strings.Cut(address, ":")
	switch scheme {
	case "sqlite":
		if rest == "" || rest == sqliteInMemory {
			break
		}
		dsn := "file:" + (&url.URL{Path: rest}).EscapedPath()
		return location{dialect: sqlite, writing: dsn + sqliteOptions, reading: dsn + sqliteReading, file: rest}, nil
	case "postgres", "postgresql":
		if at, err := postgresPlace(address); err == nil {
			return at, nil
		}
	}
	return location{}, errors.New("EASEL_LEDGER_URL must be memory, sqlite:FILE, or postgres://USER:PASSWORD@HOST/DATABASE")
}

// connectTimeout is the default timeout of a connection attempt, in seconds.
const connectTimeout = "10"

// bounds contains the default settings of each PostgreSQL session. The timeouts are in milliseconds. The URL can override every
// setting except the isolation level. The timeouts have these effects:
//
//   - If the host of a client disappears during a transaction, the transaction's locks are released within ten seconds.
//   - If a client hangs during a transaction, the locks are released before other transactions stop waiting for them.
//   - A slow statement times out in the database before this process stops waiting for it. This distinguishes a slow database
//     from an unavailable one.
var bounds = map[string]string{
	"lock_timeout": "4000", "statement_timeout": "4500", "idle_in_transaction_session_timeout": "3000", "tcp_user_timeout": "10000",
	isolation: "read committed",
}

const isolation = "default_transaction_isolation"

// postgresPlace parses a PostgreSQL URL. Its errors may contain the password and must not be shown.
func postgresPlace(address string) (location, error) {
	u, err := url.Parse(address)
	if err != nil {
		return location{}, err
	}
	query := u.Query()
	if u.Host == "" && query.Get("host") == "" {
		return location{}, errors.New("host is missing")
	}
	if query.Get("connect_timeout") == "" {
		query.Set("connect_timeout", connectTimeout)
	}
	at := location{dialect: postgres}
	query.Set(isolation, bounds[isolation])
	u.RawQuery = encodeQuery(query)
	at.offline = u.String()
	for name, value := range bounds {
		if !query.Has(name) {
			query.Set(name, value)
		}
	}
	u.RawQuery = encodeQuery(query)
	at.writing = u.String()
	_, err = pgx.ParseConfig(at.offline)
	return at, err
}

// encodeQuery encodes a query for the PostgreSQL driver, which does not decode + as a space.
func encodeQuery(query url.Values) string { return strings.ReplaceAll(query.Encode(), "+", "%20") }

// open returns a pool of at most conns connections to the database with the given DSN. If connector is not nil, the pool uses
// the connector instead of the DSN, and the number of connections is not limited.
func (d dialect) open(dsn string, conns int, connector driver.Connector) (*pool, error) {
	if connector != nil {
		return d.newPool(sql.OpenDB(connector)), nil
	}
	db, err := sql.Open(d.driver, dsn)
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(conns)
	db.SetMaxIdleConns(conns) // the same as the maximum number of open connections, because opening a connection takes longer than writing an order
	db.SetConnMaxIdleTime(d.idle)
	return d.newPool(db), nil
}

// newPool creates the pool for a database.
func (d dialect) newPool(db *sql.DB) *pool {
	return &pool{DB: db, words: d.words, prepares: d.kind == sqliteKind, kept: map[string]statement{}}
}
