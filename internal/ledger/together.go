package ledger

import (
	"context"
	"iter"
)

// runTogether runs transactions side by side: the next statements of all of them go to the database at once.
func runTogether(ctx context.Context, s session, members []*member) error {
	nexts := make([]func() ([]*statement, bool), len(members))
	for n, m := range members {
		next, stop := iter.Pull(m.statements(ctx))
		defer stop()
		nexts[n] = next
	}
	for {
		var all, last []*statement
		failed := false
		for n, m := range members {
			some, more := nexts[n]()
			for _, one := range some {
				if one.last {
					last = append(last, one)
				} else {
					all = append(all, one)
				}
			}
			m.failed = !more && m.err != nil
			failed = failed || m.failed
		}
		all = append(all, last...)
		switch {
		case failed:
			return errNothing
		case len(all) == 0:
			return nil
		}
		if err := s.send(ctx, all); err != nil {
			return err
		}
	}
}

// relay is the session of a transaction whose statements others send.
type relay func([]*statement) bool

func (r relay) send(_ context.Context, statements []*statement) error {
	if !r(statements) {
		return errNothing
	}
	return nil
}

func (r relay) commit(context.Context) error { return nil } // whoever sends them commits
