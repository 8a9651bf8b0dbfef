package ledger

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// detectRestore marks the ledger as a copy if pg_restore has moved it to another database. It returns an error if the ledger is
// sealed.
func (l *Ledger) detectRestore(ctx context.Context) error {
	return l.runOnce(ctx, l.writes, nil, func(tx *transaction) error {
		if err := tx.compareDatabase(); err != nil {
			return err
		}
		sealed, err := timeFact(ctx, tx, sealedFact)
		if err == nil && !sealed.IsZero() {
			err = fmt.Errorf("EASEL_LEDGER_URL: this ledger was copied on %s and is sealed; use the copy, or run easel ledger unseal if the copy is not used", sealed.Format(time.DateOnly))
		}
		if err == nil {
			l.copied, err = timeFact(ctx, tx, copiedFact)
		}
		return err
	})
}

// compareDatabase marks the ledger as a copy if its PostgreSQL database is not the database in which it was last opened. If
// several replicas start at the same time, only one writes the mark. For SQLite, compareDatabase does nothing.
func (t *transaction) compareDatabase() error {
	if !t.l.IsShared() {
		return nil
	}
	known, now := "", ""
	found, err := t.scanMaybeRow([]any{&known, &now}, `SELECT value, `+databaseIdentity+` FROM facts WHERE name = $1 FOR UPDATE`, databaseFact)
	if err != nil || found && known == now {
		return err
	}
	if found {
		if _, err := t.markRestored(By{Actor: "easel", Origin: "database " + now}, ActRestored); err != nil {
			return err
		}
	}
	_, err = t.exec(`INSERT INTO facts (name, value) SELECT $1, `+databaseIdentity+` ON CONFLICT (name) DO UPDATE SET value = excluded.value`, databaseFact)
	return err
}

// markAsCopy records that the ledger is a copy. It puts open orders on hold and returns their number. From then on, new copies
// of results are stored under a new name, so that they do not replace the original ledger's copies. The previous name remains
// in the ledger as a former name.
func (t *transaction) markAsCopy() (held int64, err error) {
	if err := t.execAll(
		`UPDATE facts SET name = '`+formerFact+`' || CAST({now} AS TEXT) WHERE name = '`+storeFact+`'`,
		`DELETE FROM facts WHERE name IN ('`+adoptedFact+`', '`+databaseFact+`', '`+feedFact+`')`,
		`INSERT INTO facts (name, value) VALUES ('`+copiedFact+`', CAST({now} AS TEXT)) ON CONFLICT (name) DO UPDATE SET value = excluded.value`,
	); err != nil {
		return 0, err
	}
	return t.exec(`UPDATE orders SET held = 1 WHERE state = {open}`)
}

// markRestored marks the ledger as a copy, and writes a line to the audit log.
func (t *transaction) markRestored(by By, action Action) (held int64, err error) {
	if held, err = t.markAsCopy(); err != nil {
		return 0, err
	}
	return held, t.addAuditLine(Act{By: by, Action: action, Became: struct {
		Held int64 `json:"held"`
	}{held}})
}

// Restored marks a ledger as a copy after it was restored from a snapshot, a copied file or a write-ahead log. It returns an
// error if another process uses the ledger. heldOrders is the number of orders that are now on hold.
func Restored(ctx context.Context, url string, by By) (heldOrders int64, err error) {
	err = changeUnused(ctx, url, func(tx *transaction) error {
		heldOrders, err = tx.markRestored(by, ActRestored)
		return err
	})
	return heldOrders, err
}

// Unseal removes the seal from a ledger that was copied, so that servers can use it again. It also marks the ledger as a copy,
// because servers may already have placed orders in the new ledger. heldOrders is the number of orders that are now on hold.
func Unseal(ctx context.Context, url string, by By) (heldOrders int64, err error) {
	err = changeUnused(ctx, url, func(tx *transaction) error {
		rows, err := tx.exec(`DELETE FROM facts WHERE name = $1`, sealedFact)
		if err == nil && rows == 0 {
			err = errors.New("EASEL_LEDGER_URL: this ledger is not sealed: servers can use it without unsealing")
		}
		if err == nil && tx.l.IsShared() {
			err = tx.execAll(`DROP FUNCTION refuse_sealed CASCADE`)
		}
		if err == nil {
			heldOrders, err = tx.markRestored(by, ActUnseal)
		}
		return err
	})
	return heldOrders, err
}

// sealLedger prevents servers from using a ledger after it was copied. In PostgreSQL, a trigger also rejects changes by a
// server that lost its connection during the copy and reconnects.
func (t *transaction) sealLedger(by By) error {
	statements := []string{`INSERT INTO facts (name, value) VALUES ('` + sealedFact + `', CAST({now} AS TEXT))`}
	if t.l.IsShared() {
		statements = append(statements, `CREATE FUNCTION refuse_sealed() RETURNS trigger LANGUAGE plpgsql AS $$
			BEGIN RAISE EXCEPTION 'the ledger is sealed: it was copied into another one'; END $$`,
			`CREATE TRIGGER orders_sealed BEFORE INSERT OR UPDATE OR DELETE ON orders FOR EACH STATEMENT EXECUTE FUNCTION refuse_sealed()`)
	}
	if err := t.execAll(statements...); err != nil {
		return err
	}
	return t.addAuditLine(Act{By: by, Action: ActSeal})
}
