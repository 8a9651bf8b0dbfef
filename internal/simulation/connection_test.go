package simulation

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
)

// ledgerConn is a process's connection to the database.
type ledgerConn struct {
	gateway *gateway

	ctx   context.Context // context of the current transaction, or nil
	begun int64           // number of entries in the journal of orders when the transaction began; -1 if no fault was waiting for a step of an order
}

func (c *ledgerConn) Prepare(string) (driver.Stmt, error) { return nil, errors.ErrUnsupported }

func (c *ledgerConn) Close() error { return c.Rollback() }

func (c *ledgerConn) Begin() (driver.Tx, error) {
	return c.BeginTx(context.Background(), driver.TxOptions{})
}

// BeginTx waits until no other transaction is open, and then executes BEGIN IMMEDIATE. It ignores the options.
func (c *ledgerConn) BeginTx(ctx context.Context, _ driver.TxOptions) (driver.Tx, error) {
	d := c.gateway.database
	if err := c.gateway.reachDatabase(ctx); err != nil {
		return nil, err
	}
	if err := d.lock(ctx); err != nil {
		return nil, err
	}
	if _, err := d.exec("BEGIN IMMEDIATE"); err != nil {
		d.unlock()
		return nil, err
	}
	c.ctx, c.begun = ctx, -1
	if d.world.hasTrap() {
		c.begun = d.queryNumber(`SELECT COALESCE(MAX(rowid), 0) FROM simulated_orders`)
	}
	return c, nil
}

// endTransaction ends the current transaction, if any. statement is the statement to execute: COMMIT or ROLLBACK.
func (c *ledgerConn) endTransaction(statement string) error {
	if c.ctx == nil {
		return nil
	}
	d := c.gateway.database
	_, err := d.exec(statement)
	c.ctx = nil
	d.unlock()
	return err
}

func (c *ledgerConn) Rollback() error { return c.endTransaction("ROLLBACK") }

// Commit commits the transaction. A trap can crash or freeze the process before or after the commit. A fault can cut
// the connection.
func (c *ledgerConn) Commit() error {
	ctx, g := c.ctx, c.gateway
	before, after := c.steps()
	if g.springTrap(before) { // the process has crashed or been frozen, so the database rolls the transaction back
		_ = c.Rollback()
		_ = g.awaitAlive()
		return errCommitLost
	}
	if random, silent := g.database.hasTrouble(g, commitSilent); silent && random%8 == 0 {
		time.Sleep(sessionTime)
		_ = c.Rollback()
		return errCommitLost
	}
	if random, lost := g.database.hasTrouble(g, commitLost); lost && random%3 > 0 {
		how := []string{"COMMIT", "ROLLBACK"}[random%2]
		_ = c.endTransaction(how)
		return errCommitLost
	}
	if err := c.endTransaction("COMMIT"); err != nil {
		return err
	}
	g.springTrap(after)
	return g.sleepOneWay(ctx)
}

// steps returns the steps of an order that the process reaches immediately before and after the commit. Both are noStep
// if the transaction neither writes an order nor records an outcome. They are also noStep if no fault was waiting for a
// step of an order when the transaction began.
func (c *ledgerConn) steps() (before, after step) {
	if c.begun < 0 {
		return noStep, noStep
	}
	d := c.gateway.database
	written := d.queryNumber(fmt.Sprintf(`SELECT COUNT(*) FROM simulated_orders WHERE rowid > %d AND state = 1 AND at = order_time`, c.begun))
	concluded := d.queryNumber(fmt.Sprintf(`SELECT COUNT(*) FROM simulated_orders AS new WHERE rowid > %d AND state > 1
		AND NOT EXISTS (SELECT 1 FROM simulated_orders WHERE id = new.id AND rowid <= %d AND state > 1)`, c.begun, c.begun))
	switch {
	case written > 0:
		return stepBeforeWrite, stepAfterWrite
	case concluded > 0:
		return stepBeforeConclude, stepAfterConclude
	}
	return noStep, noStep
}

func (c *ledgerConn) ExecContext(ctx context.Context, statement string, args []driver.NamedValue) (result driver.Result, err error) {
	err = c.runStatement(ctx, statement, func() error {
		result, err = c.gateway.database.exec(statement, args...)
		return err
	})
	return result, err
}

func (c *ledgerConn) QueryContext(ctx context.Context, statement string, args []driver.NamedValue) (rows driver.Rows, err error) {
	err = c.runStatement(ctx, statement, func() error {
		rows, err = c.gateway.database.query(statement, args...)
		return err
	})
	return rows, err
}

// runStatement calls execute, which executes the given statement. If a transaction is open, the statement becomes part of
// it. Otherwise, the statement is committed on its own.
func (c *ledgerConn) runStatement(ctx context.Context, statement string, execute func() error) error {
	verb, _, _ := strings.Cut(strings.TrimSpace(statement), " ")
	writes := verb == "INSERT" || verb == "UPDATE"
	if _, full := c.gateway.database.hasTrouble(c.gateway, ledgerFull); full && writes {
		return errLedgerFull
	}
	if c.ctx != nil {
		if err := c.gateway.awaitAlive(); err != nil {
			return err
		}
		return execute()
	}
	if err := c.gateway.reachDatabase(ctx); err != nil {
		return err
	}
	if err := c.gateway.database.lock(ctx); err != nil {
		return err
	}
	defer c.gateway.database.unlock()
	return execute()
}

// keptRows contains the rows of a query's result.
type keptRows struct {
	columns []string
	rows    [][]driver.Value
}

func (r *keptRows) Columns() []string { return r.columns }

func (r *keptRows) Close() error { return nil }

func (r *keptRows) Next(row []driver.Value) error {
	if len(r.rows) == 0 {
		return io.EOF
	}
	copy(row, r.rows[0])
	r.rows = r.rows[1:]
	return nil
}
