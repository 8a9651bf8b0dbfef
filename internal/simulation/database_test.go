package simulation

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
)

// database is an in-memory SQLite database that all replicas share. It executes one transaction at a time. Each process
// uses it through its own gateway, which simulates slow, refused and lost connections.
type database struct {
	world  *world
	conn   driver.Conn
	kept   map[string]driver.Stmt // cache of the prepared statements that have parameters, keyed by text
	locked chan struct{}          // lock on the connection and the cache, held while the channel contains a value
	clock  string                 // SQL expression for the current time

	mu      sync.Mutex
	trouble ledgerTrouble
	count   map[string]int // number of calls of database.hasTrouble, keyed by process name
	met     int            // number of operations that the current fault has affected
}

// ledgerTrouble is a fault of the ledger.
type ledgerTrouble struct {
	sort    ledgerSort
	process string // prefix of the names of the affected processes; empty means all
}

// ledgerSort is a kind of ledger fault.
type ledgerSort int

const (
	noTrouble    ledgerSort = iota
	slowLedger              // a transaction takes seconds
	ledgerAway              // connections are refused
	ledgerMute              // queries get no responses
	ledgerFull              // writes fail
	commitLost              // the connection is lost during a commit, which may or may not succeed
	commitSilent            // the replica's host vanishes before the commit, so the database releases the locks only after sessionTime
)

// sessionTime is the time after which the database aborts the transaction of a silent session.
const sessionTime = 5 * time.Second

var (
	errLedgerAway = errors.New("connection refused")
	errLedgerFull = errors.New("the disk is full")
	errCommitLost = errors.New("the connection was lost")
)

// noted lists the columns of the orders table that the journal records.
var noted = []string{
	"id", "owner", "caller", "upstream_key", "api_key", "state", "generation_id", "leases", "leased_until", "order_time",
	"reserved_cents", "cost_cents", "refunded_cents", "unconfirmed_cents", "settled", "status", "deleted",
}

// journal contains statements that create tables and triggers in addition to the ledger's own tables. The triggers
// record each change to orders and budgets.
var journal = []string{
	`CREATE TABLE simulated_orders (at, ` + strings.Join(noted, ", ") + `)`,
	`CREATE TABLE simulated_budgets (at, owner, period, start_time, spent_cents, reserved_cents)`,
	`CREATE TRIGGER simulated_insert AFTER INSERT ON orders BEGIN
		INSERT INTO simulated_orders SELECT {now}, NEW.` + strings.Join(noted, ", NEW.") + `; END`,
	`CREATE TRIGGER simulated_update AFTER UPDATE ON orders BEGIN
		INSERT INTO simulated_orders SELECT {now}, NEW.` + strings.Join(noted, ", NEW.") + `; END`,
	`CREATE TRIGGER simulated_new_budget AFTER INSERT ON budgets WHEN NEW.label = '' BEGIN
		INSERT INTO simulated_budgets SELECT {now}, NEW.owner, NEW.period, NEW.start_time, NEW.spent_cents, NEW.reserved_cents; END`,
	`CREATE TRIGGER simulated_budget AFTER UPDATE ON budgets WHEN NEW.label = '' BEGIN
		INSERT INTO simulated_budgets SELECT {now}, NEW.owner, NEW.period, NEW.start_time, NEW.spent_cents, NEW.reserved_cents; END`,
}

func (w *world) openDatabase() error {
	pool, err := sql.Open("sqlite", ":memory:")
	if err != nil {
		return err
	}
	defer pool.Close()
	conn, err := pool.Driver().Open(":memory:")
	if err != nil {
		return err
	}
	w.database = &database{
		world: w, conn: conn, kept: map[string]driver.Stmt{}, locked: make(chan struct{}, 1),
		clock: fmt.Sprintf("(easel_now() + %d)", w.plan.Skew.Microseconds()),
		count: map[string]int{},
	}
	return nil
}

// createJournal creates the tables and triggers of the journal. The ledger's tables must exist.
func (d *database) createJournal() error {
	for _, statement := range journal {
		if _, err := d.exec(statement); err != nil {
			return fmt.Errorf("%s: %w", statement, err)
		}
	}
	return nil
}

// statement returns a prepared statement. Statements with parameters are cached: there are only a few of them, and
// preparing one takes longer than executing most of them.
func (d *database) statement(text string, values int) (statement driver.Stmt, done func() error, err error) {
	if kept := d.kept[text]; kept != nil {
		return kept, nothing, nil
	}
	statement, err = d.conn.Prepare(d.replaceTimes(text))
	if err != nil || values == 0 {
		return statement, func() error { return statement.Close() }, err
	}
	d.kept[text] = statement
	return statement, nothing, nil
}

func nothing() error { return nil }

func (d *database) exec(text string, args ...driver.NamedValue) (driver.Result, error) {
	statement, done, err := d.statement(text, len(args))
	if err != nil {
		return nil, err
	}
	result, err := statement.(driver.StmtExecContext).ExecContext(context.Background(), args)
	return result, errors.Join(err, done())
}

func (d *database) query(text string, args ...driver.NamedValue) (driver.Rows, error) {
	statement, done, err := d.statement(text, len(args))
	if err != nil {
		return nil, err
	}
	defer done()
	rows, err := statement.(driver.StmtQueryContext).QueryContext(context.Background(), args)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	kept := &keptRows{columns: rows.Columns()}
	for {
		row := make([]driver.Value, len(kept.columns))
		switch err := rows.Next(row); {
		case err == io.EOF:
			return kept, nil
		case err != nil:
			return nil, err
		}
		kept.rows = append(kept.rows, row)
	}
}

// queryNumber executes a query whose result is a single number, and returns this number. If the query fails,
// queryNumber records a problem and returns -1.
func (d *database) queryNumber(question string) int64 {
	rows, err := d.query(question)
	if err != nil {
		d.world.recordProblem("%s: %v", question, err)
		return -1
	}
	row := make([]driver.Value, 1)
	_ = rows.Next(row) // the result always has one row, so the error can be ignored
	n, _ := row[0].(int64)
	return n
}

// replaceTimes replaces the placeholders for the current time in a statement with d.clock.
func (d *database) replaceTimes(statement string) string {
	return strings.NewReplacer("easel_now()", d.clock, "{now}", d.clock).Replace(statement)
}

// beginFault starts a fault. endFault ends the fault, and firedCount returns the number of operations that it has
// affected.
func (d *database) beginFault(trouble ledgerTrouble) (endFault func(), firedCount func() int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.trouble, d.met = trouble, 0
	return func() {
			d.mu.Lock()
			defer d.mu.Unlock()
			d.trouble = ledgerTrouble{}
		}, func() int {
			d.mu.Lock()
			defer d.mu.Unlock()
			return d.met
		}
}

// hasTrouble reports whether a fault of the given kind currently affects the process that uses the gateway g. It also
// returns a pseudorandom number, which differs from call to call.
func (d *database) hasTrouble(g *gateway, sort ledgerSort) (random uint64, yes bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.count[g.process]++
	t := d.trouble
	yes = g.open && t.sort == sort && strings.HasPrefix(g.process, t.process)
	if yes {
		d.met++
	}
	return mix(d.world.seed("ledger "+g.process) + uint64(d.count[g.process])), yes
}

func (d *database) lock(ctx context.Context) error {
	select {
	case d.locked <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (d *database) unlock() { <-d.locked }

func (d *database) close() {
	for _, statement := range d.kept {
		_ = statement.Close()
	}
	_ = d.conn.Close()
}

// gateway is a process's connection pool. It implements driver.Connector.
type gateway struct {
	database *database
	process  string
	open     bool // whether the process has started; until then, faults do not affect it

	mu     sync.Mutex
	killed bool          // whether the process is dead
	thaw   chan struct{} // closed when the process continues; nil if the process is not frozen
}

func (d *database) gateway(process string) *gateway { return &gateway{database: d, process: process} }

func (g *gateway) Connect(context.Context) (driver.Conn, error) {
	if err := g.awaitAlive(); err != nil {
		return nil, err
	}
	return &ledgerConn{gateway: g}, nil
}

func (g *gateway) Driver() driver.Driver { return noDriver{} }

type noDriver struct{}

func (noDriver) Open(string) (driver.Conn, error) { return nil, errors.ErrUnsupported }

// awaitAlive waits while the process is frozen. It returns an error if the process is dead.
func (g *gateway) awaitAlive() error {
	for {
		g.mu.Lock()
		thaw, killed := g.thaw, g.killed
		g.mu.Unlock()
		switch {
		case killed:
			return errors.New("the process is dead")
		case thaw == nil:
			return nil
		}
		<-thaw
	}
}

func (g *gateway) die() {
	g.resume()
	g.mu.Lock()
	defer g.mu.Unlock()
	g.killed = true
}

func (g *gateway) freeze() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.thaw == nil {
		g.thaw = make(chan struct{})
	}
}

func (g *gateway) resume() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.thaw != nil {
		close(g.thaw)
		g.thaw = nil
	}
}

// reachDatabase simulates sending a query to the database. It returns an error if the query does not reach the
// database.
func (g *gateway) reachDatabase(ctx context.Context) error {
	if err := g.awaitAlive(); err != nil {
		return err
	}
	if _, away := g.database.hasTrouble(g, ledgerAway); away {
		return errLedgerAway
	}
	if _, mute := g.database.hasTrouble(g, ledgerMute); mute {
		<-ctx.Done()
		return ctx.Err()
	}
	return g.sleepOneWay(ctx)
}

// sleepOneWay sleeps for the simulated network delay of a query or its response.
func (g *gateway) sleepOneWay(ctx context.Context) error {
	random, slow := g.database.hasTrouble(g, slowLedger)
	most := 2 * time.Millisecond
	if slow {
		most = 4 * time.Second
	}
	if err := wait(ctx, 100*time.Microsecond+time.Duration(random%uint64(most))); err != nil {
		return err
	}
	return g.awaitAlive()
}
