package ledger

import (
	"database/sql"
	"database/sql/driver"
	"errors"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	_ "github.com/jackc/pgx/v5/stdlib" // PostgreSQL
	"go.opentelemetry.io/otel/attribute"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	modernc "modernc.org/sqlite"

	"github.com/easel-grpc/easel/internal/ledger/lifecycle"
)

// kind is the name of a kind of database, and of the folder of its migrations.
type kind string

const (
	postgresKind kind = "postgres"
	sqliteKind   kind = "sqlite"
)

// dialect is in what two databases differ.
type dialect struct {
	driver string
	kind   kind
	system attribute.KeyValue
	conns  int
	words  *strings.Replacer // of the statements
	begin  *sql.TxOptions    // of each transaction

	snapshot *sql.TxOptions // of one that reads the whole book
	still    *sql.TxOptions // of one that keeps others from writing meanwhile

	hasFacts      string // query that reports whether the database has a ledger
	migrationLock string // statement that waits for the migration of another replica; empty if there is none

	oneAtATime string        // the statement that lets one transaction at a time go on, until it ends; "" where one has all
	idle       time.Duration // how long a connection that nobody uses stays open; 0 is for ever
}

// databaseIdentity is another one in a database that pg_restore has filled: its own OID differs, or that of a table.
const databaseIdentity = `((SELECT oid FROM pg_database WHERE datname = current_database()) || '/' || 'orders'::regclass::oid)`

var postgres = dialect{
	driver: "pgx",
	kind:   postgresKind,
	system: semconv.DBSystemNamePostgreSQL,
	conns:  16,
	words: words("{now}", "(EXTRACT(EPOCH FROM clock_timestamp()) * 1000000)::BIGINT", "{same database}", "(SELECT value FROM facts WHERE name = '"+databaseFact+"') = "+databaseIdentity, "{lock}", "FOR UPDATE", "{lock at once}", "FOR UPDATE NOWAIT", "{take}", "FOR UPDATE SKIP LOCKED",
		"{in ids}", "= ANY (ARRAY(SELECT json_array_elements_text($1::json)))", "{in times}", "= ANY (ARRAY(SELECT json_array_elements_text($2::json)::BIGINT))", "{ids}", "json_array_elements_text($1::json) AS ids (id)",
		"{bytes}", `COLLATE "C"`, "{labels}", "json_each_text($1::json) AS labels (name, value)",
		"{month of order_time}", "(EXTRACT(EPOCH FROM date_trunc('month', to_timestamp(order_time / 1000000) AT TIME ZONE 'UTC')) * 1000000)::BIGINT"),
	hasFacts:      `SELECT to_regclass('facts') IS NOT NULL`,
	migrationLock: `SELECT pg_advisory_xact_lock(hashtext('easel schema'))`,

	oneAtATime: `SELECT pg_advisory_xact_lock(hashtext('easel total'))`,

	begin: &sql.TxOptions{Isolation: sql.LevelReadCommitted},

	snapshot: &sql.TxOptions{Isolation: sql.LevelRepeatableRead, ReadOnly: true},
	still:    &sql.TxOptions{Isolation: sql.LevelRepeatableRead},

	idle: 5 * time.Minute,
}

// A transaction of SQLite has the whole file: it begins with BEGIN IMMEDIATE, and one connection writes. Its
// clock is that of its one process.
var sqlite = dialect{
	driver: "sqlite",
	kind:   sqliteKind,
	system: semconv.DBSystemNameSQLite,
	conns:  1,
	words: words("{now}", "easel_now()", "{same database}", "TRUE", "{lock}", "", "{lock at once}", "", "{take}", "",
		"{in ids}", "IN (SELECT value FROM json_each($1))", "{in times}", "IN (SELECT value FROM json_each($2))", "{ids}", "(SELECT value AS id FROM json_each($1)) AS ids", " {bytes}", "", "{labels}", "(SELECT key AS name, value FROM json_each($1)) AS labels",
		"{month of order_time}", "CAST(strftime('%s', order_time / 1000000, 'unixepoch', 'start of month') AS INTEGER) * 1000000"),

	hasFacts: `SELECT EXISTS (SELECT 1 FROM sqlite_master WHERE name = 'facts')`,
}

// words puts those of a database into statements, and the constants that stand there by their names.
func words(own ...string) *strings.Replacer {
	for name, constant := range map[string]int{
		"{most open}": MostOpen, "{most refused}": MostRefused,
		"{open}": int(lifecycle.Open), "{placed}": int(lifecycle.Placed), "{refused}": int(lifecycle.Refused),
		"{failed}": int(lifecycle.Failed), "{succeeded}": int(lifecycle.Succeeded), "{refunded}": int(lifecycle.Refunded),
		"{reserve}": int(Reserve), "{charge}": int(Charge), "{refund}": int(Refund), "{release}": int(Release), "{resolve}": int(Resolve),
		"{waiting}": int(ContentWaiting), "{copied}": int(ContentCopied), "{not copied}": int(ContentFailed), "{doomed}": int(ContentDoomed),
		"{pending}": int(EventPending), "{sent}": int(EventSent), "{given up}": int(EventGivenUp),
	} {
		own = append(own, name, strconv.Itoa(constant))
	}
	return strings.NewReplacer(own...)
}

func init() {
	modernc.MustRegisterScalarFunction("easel_now", 0, func(*modernc.FunctionContext, []driver.Value) (driver.Value, error) {
		return time.Now().UnixMicro(), nil
	})
}

// sqliteOptions make a file durable: the journal goes to the disk before a commit returns. What is deleted is overwritten.
const sqliteOptions = "?_txlock=immediate&_pragma=busy_timeout(5000)&_pragma=journal_mode(WAL)&_pragma=journal_size_limit(67108864)&_pragma=synchronous(FULL)&_pragma=foreign_keys(ON)&_pragma=secure_delete(ON)"

// sqliteReading is for connections that read beside the one that writes.
const (
	sqliteReading = "?_pragma=busy_timeout(5000)&_pragma=query_only(ON)"
	sqliteReaders = 4
)

// place is where a ledger is.
type place struct {
	dialect
	// writing is the address of the pool that writes, reading that of another one beside it, and migrating that of
	// connections that change the schema: "" where the pool that writes does that too.
	writing, reading, migrating string
	// file is that of SQLite, "" where it is in memory.
	file string
}

// InMemory is the URL of a ledger that lives as long as its process: SQLite on one connection, which is never closed.
const InMemory = "memory"

// sqliteInMemory is what SQLite calls such a file.
const sqliteInMemory = ":memory:"

// IsDurable reports whether a URL, or a [Kind], is that of a ledger that outlives its process.
func IsDurable(url string) bool { return url != InMemory }

// Kind is the kind of ledger that a URL names, whose address may hold a password.
func Kind(url string) string {
	kind, _, _ := strings.Cut(url, ":")
	return kind
}

// Meaning says what it means for operators that the ledger is the one of a URL, or of a [Kind].
func Meaning(url string) string {
	switch {
	case !IsDurable(url):
		return "in memory: a stop forgets every order, and no two processes know of each other's"
	case Kind(url) == "sqlite":
		return "in a file, for one process: it outlives a stop"
	}
	return "in a database, for any number of processes: it outlives a stop"
}

// Check says what is wrong with a URL, without the password in it.
func Check(url string) error {
	_, err := parse(url)
	return err
}

// parse reads EASEL_LEDGER_URL.
func parse(address string) (place, error) {
	if address == InMemory {
		return place{dialect: sqlite, writing: "file:" + sqliteInMemory + sqliteOptions}, nil
	}
	scheme, rest, _ := strings.Cut(address, ":")
	switch scheme {
	case "sqlite":
		if rest == "" || rest == sqliteInMemory {
			break
		}
		dsn := "file:" + (&url.URL{Path: rest}).EscapedPath()
		return place{dialect: sqlite, writing: dsn + sqliteOptions, reading: dsn + sqliteReading, file: rest}, nil
	case "postgres", "postgresql":
		if at, err := postgresPlace(address); err == nil {
			return at, nil
		}
	}
	return place{}, errors.New("EASEL_LEDGER_URL must be memory, sqlite:FILE, or postgres://USER:PASSWORD@HOST/DATABASE")
}

// connectTimeout is how many seconds a connection may take that the URL says nothing of.
const connectTimeout = "10"

// bounds are the settings of each session of PostgreSQL that the URL says nothing of, in milliseconds, and its
// isolation, whatever the URL says: whoever vanishes in a transaction, host and all, holds its locks for no longer
// than ten seconds, and one that is stopped for less than others wait for them. A statement takes less than this side
// waits for it: the database that answers nothing is away, and one that says so is slow.
var bounds = map[string]string{
	"lock_timeout": "4000", "statement_timeout": "4500", "idle_in_transaction_session_timeout": "3000", "tcp_user_timeout": "10000",
	isolation: "read committed",
}

const isolation = "default_transaction_isolation"

// postgresPlace is where a URL of PostgreSQL leads. Its errors may repeat the password.
func postgresPlace(address string) (place, error) {
	u, err := url.Parse(address)
	if err != nil {
		return place{}, err
	}
	query := u.Query()
	if u.Host == "" && query.Get("host") == "" {
		return place{}, errors.New("it names no host")
	}
	if query.Get("connect_timeout") == "" {
		query.Set("connect_timeout", connectTimeout)
	}
	at := place{dialect: postgres}
	u.RawQuery = encoded(query)
	at.migrating = u.String()
	for name, value := range bounds {
		if !query.Has(name) || name == isolation {
			query.Set(name, value)
		}
	}
	u.RawQuery = encoded(query)
	at.writing = u.String()
	_, err = pgx.ParseConfig(at.migrating)
	return at, err
}

// encoded is a query as the driver of PostgreSQL reads it, for which + is no blank.
func encoded(query url.Values) string { return strings.ReplaceAll(query.Encode(), "+", "%20") }

// open opens a pool of so many connections.
func (d dialect) open(dsn string, conns int, connector driver.Connector) (*pool, error) {
	if connector != nil {
		return d.newPool(sql.OpenDB(connector)), nil
	}
	db, err := sql.Open(d.driver, dsn)
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(conns)
	db.SetMaxIdleConns(conns) // a new connection costs PostgreSQL more than an order
	db.SetConnMaxIdleTime(d.idle)
	return d.newPool(db), nil
}
