package ledger

import (
	"context"
	"slices"
)

// Stores are the names of a ledger in a store of results, which several ledgers may share.
type Stores struct {
	// Name is the name under which results are copied, empty if no process has copied a result yet.
	Name string
	// Former are the names from before the ledger was copied. The other ledger may have copies there.
	Former []string
	// Adopted means that an operator has adopted the copies under the former names.
	Adopted bool
}

// All returns all names, the current one first.
func (s Stores) All() []string {
	return slices.DeleteFunc(append([]string{s.Name}, s.Former...), func(name string) bool { return name == "" })
}

// Own returns the names under which the ledger may delete copies.
func (s Stores) Own() []string {
	if !s.Adopted {
		s.Former = nil
	}
	return s.All()
}

// StoreName returns the name of the ledger in a store. If the ledger has none, it stores the suggested name.
func (l *Ledger) StoreName(ctx context.Context, suggested string) (string, error) {
	return l.tie(ctx, storeFact, suggested)
}

// Stores returns the names of the ledger in a store.
func (l *Ledger) Stores(ctx context.Context) (s Stores, err error) {
	type fact struct{ name, value string }
	facts, err := ask(ctx, l, func(row scanner, f *fact) error { return row.Scan(&f.name, &f.value) },
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

// AdoptContents allows this ledger to delete copies from before it was copied, and reports whether it is a copy.
func (l *Ledger) AdoptContents(ctx context.Context, by By) (wasCopied bool, err error) {
	if !l.IsCopy() {
		return false, nil
	}
	err = l.tx(ctx, func(tx *transaction) error {
		if _, err := tx.exec(`INSERT INTO facts (name, value) VALUES ('` + adoptedFact + `', CAST({now} AS TEXT)) ON CONFLICT (name) DO NOTHING`); err != nil {
			return err
		}
		// A deletion in progress that keeps its copy must not end, so it loses its lease and starts again.
		if _, err := tx.exec(`UPDATE jobs SET fence = fence + 1, run_time = {now} WHERE kind = '` + DeleteJob + `' AND fence > 0`); err != nil {
			return err
		}
		return tx.audit(Act{By: by, Action: ActAdopt})
	})
	for more := true; more && err == nil; {
		more, err = l.deleteAdopted(ctx)
	}
	return true, err
}

// deleteAdopted writes, in one step, jobs that delete adopted copies, and reports whether more may be left.
func (l *Ledger) deleteAdopted(ctx context.Context) (more bool, err error) {
	err = l.tx(ctx, func(tx *transaction) error {
		rows, err := tx.exec(addDeletions+`state = {doomed} AND NOT EXISTS (SELECT 1 FROM jobs WHERE kind = '`+DeleteJob+`' AND ref = generation_id) LIMIT $1 ON CONFLICT DO NOTHING`, stepRows)
		more, tx.jobAdded = rows == stepRows, true
		return err
	})
	return more, err
}
