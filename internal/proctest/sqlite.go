package proctest

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"strings"
	"testing"
)

// Connector is a [driver.Connector] for the SQLite file of a ledger. A test can use several connectors to the same file
// to simulate several processes that share a ledger.
type Connector struct {
	// Prepare, if not nil, is called before each statement. The connections do not support direct execution, so every
	// statement is prepared first.
	Prepare func()
	// Committed, if not nil, is called after each commit with the error of the commit. Its result replaces that error.
	Committed func(error) error

	sqlite driver.Driver
	dsn    string
}

// NewConnector returns a connector that opens the file of the SQLite ledger with the given URL.
func NewConnector(t testing.TB, url string) *Connector {
	t.Helper()
	db, err := sql.Open("sqlite", ":memory:")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	return &Connector{sqlite: db.Driver(), dsn: "file:" + strings.TrimPrefix(url, "sqlite:") + "?_txlock=immediate&_pragma=busy_timeout(5000)"}
}

// Connect implements [driver.Connector].
func (c *Connector) Connect(context.Context) (driver.Conn, error) {
	conn, err := c.sqlite.Open(c.dsn)
	return connection{conn, c}, err
}

// Driver implements [driver.Connector].
func (c *Connector) Driver() driver.Driver { return c.sqlite }

type connection struct {
	driver.Conn
	connector *Connector
}

// BeginTx implements [driver.ConnBeginTx].
func (c connection) BeginTx(ctx context.Context, options driver.TxOptions) (driver.Tx, error) {
	tx, err := c.Conn.(driver.ConnBeginTx).BeginTx(ctx, options)
	return transaction{tx, c.connector}, err
}

// Prepare implements [driver.Conn].
func (c connection) Prepare(query string) (driver.Stmt, error) {
	if c.connector.Prepare != nil {
		c.connector.Prepare()
	}
	return c.Conn.Prepare(query)
}

type transaction struct {
	driver.Tx
	connector *Connector
}

// Commit implements [driver.Tx].
func (t transaction) Commit() error {
	err := t.Tx.Commit()
	if t.connector.Committed != nil {
		err = t.connector.Committed(err)
	}
	return err
}
