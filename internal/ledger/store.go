package ledger

import (
	"context"
	"slices"
)

// Stores contains the names that identify a ledger in the store that holds copies of results. Several ledgers may use the
// same store.
type Stores struct {
	// Name is the ledger's current name. It is empty until a process that is configured with a store has opened the ledger.
	Name string
	// Former contains the earlier names, which the ledger had before it was copied or restored. The original ledger may still
	// have copies under these names.
	Former []string
	// Adopted means that an operator has adopted the copies that are stored under the names in Former. This ledger may then
	// delete them.
	Adopted bool
}

// All returns the current name, if there is one, followed by the former names.
func (s Stores) All() []string {
	return slices.DeleteFunc(append([]string{s.Name}, s.Former...), func(name string) bool { return name == "" })
}

// Own returns the names under which this ledger may delete copies: the current name and, if Adopted is true, the
// former names.
func (s Stores) Own() []string {
	if !s.Adopted {
		s.Former = nil
	}
	return s.All()
}

// StoreName returns the name that identifies the ledger in the store for copies of results. If the ledger has no name yet,
// StoreName first sets the name to suggested.
func (l *Ledger) StoreName(ctx context.Context, suggested string) (string, error) {
	return l.storeOnce(ctx, storeFact, suggested)
}

// Stores returns the ledger's current and former names in its store.
func (l *Ledger) Stores(ctx context.Context) (s Stores, err error) {
	type fact struct{ name, value string }
	facts, err := askList(ctx, l, func(row scanner, f *fact) error { return row.Scan(&f.name, &f.value) },
		`SELECT name, value FROM facts WHERE name IN ('`+storeFact+`', '`+adoptedFact+`') OR name LIKE '`+formerFact+`%' ORDER BY name DESC`)
	for _, f := range facts {
		switch f.name {
		case storeFact:
			s.Name = f.value
		case adoptedFact:
			s.Adopted = true
		default:
			s.Former = append(s.Former, f.value)
		}
	}
	return s, err
}

// AdoptContents allows the ledger to delete copies of results that were stored before the ledger itself was copied or
// restored. If the ledger was neither copied nor restored, AdoptContents does nothing, and wasCopied is false.
func (l *Ledger) AdoptContents(ctx context.Context, by By) (wasCopied bool, err error) {
	if !l.IsCopy() {
		return false, nil
	}
	err = l.runTx(ctx, func(tx *transaction) error {
		if _, err := tx.exec(`INSERT INTO facts (name, value) VALUES ('` + adoptedFact + `', CAST({now} AS TEXT)) ON CONFLICT (name) DO NOTHING`); err != nil {
			return err
		}
		// A delete job in progress may already have skipped a copy that this ledger may now delete. Therefore, the
		// job loses its lease and starts again.
		if _, err := tx.exec(`UPDATE jobs SET fence = fence + 1, run_time = {now} WHERE kind = '` + DeleteJob + `' AND fence > 0`); err != nil {
			return err
		}
		return tx.addAuditLine(Act{By: by, Action: ActAdopt})
	})
	for more := true; more && err == nil; {
		more, err = l.deleteAdopted(ctx)
	}
	return true, err
}

// deleteAdopted writes delete jobs for copies that are marked for deletion and have no such job, at most [stepRows].
// It reports whether there may be more such copies.
func (l *Ledger) deleteAdopted(ctx context.Context) (more bool, err error) {
	err = l.runTx(ctx, func(tx *transaction) error {
		rows, err := tx.exec(addDeletions+`state = {doomed} AND NOT EXISTS (SELECT 1 FROM jobs WHERE kind = '`+DeleteJob+`' AND ref = generation_id) LIMIT $1 ON CONFLICT DO NOTHING`, stepRows)
		more, tx.jobAdded = rows == stepRows, true
		return err
	})
	return more, err
}
