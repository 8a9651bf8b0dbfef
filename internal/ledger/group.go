package ledger

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/easel-grpc/easel/internal/gate"
)

// groups carry transactions out together, in one: those that come while the one before is under way. A file of SQLite waits
// for the disk once for all of them, and PostgreSQL once for the orders of an owner, which would else wait for each other's
// row of a budget. What fails is taken back alone.
type groups struct {
	mu      sync.Mutex
	waiting map[string][]*member // by group; a group that is led is there
}

// groupMost is how many transactions of an owner are carried out together.
const groupMost = 16

// member is a transaction of a group.
type member struct {
	*transaction

	do       func(*transaction) error
	err      error
	panicked any // by do
	ended    chan struct{}
}

// wait gives how a transaction has ended.
func (m *member) wait() error {
	<-m.ended
	if m.panicked != nil {
		panic(m.panicked) // on the goroutine of the call that it belongs to
	}
	return m.err
}

// run does what the transaction is for.
func (m *member) run() (err error) {
	defer func() {
		if m.panicked = recover(); m.panicked != nil {
			err = errNothing
		}
	}()
	return m.do(m.transaction)
}

// groupOf names the group of a transaction.
func (l *Ledger) groupOf(ctx context.Context) (name string, grouped bool) {
	asked := turnOf(ctx)
	switch {
	case l.IsShared():
		return asked.Owner, asked.Class == forOrder && asked.Owner != ""
	default:
		return "", l.IsDurable()
	}
}

// once carries a transaction out.
func (g *groups) once(t *transaction, name string, do func(*transaction) error) error {
	ctx := t.ctx
	m := &member{transaction: t, do: do, ended: make(chan struct{})}
	g.mu.Lock()
	if g.waiting == nil {
		g.waiting = map[string][]*member{}
	}
	_, led := g.waiting[name]
	g.waiting[name] = append(g.waiting[name], m)
	g.mu.Unlock()
	if !led {
		g.lead(name)
	}
	select {
	case <-m.ended:
		return m.wait()
	case <-ctx.Done():
		return g.leave(name, m)
	}
}

// leave ends the wait of a transaction that has not begun.
func (g *groups) leave(name string, m *member) error {
	g.mu.Lock()
	n := slices.Index(g.waiting[name], m)
	if n >= 0 {
		g.waiting[name] = slices.Delete(g.waiting[name], n, n+1)
	}
	g.mu.Unlock()
	if n >= 0 {
		return &Busy{m.ctx.Err(), 0}
	}
	return m.wait()
}

// lead carries out what waits, and has another goroutine lead what has come meanwhile.
func (g *groups) lead(name string) {
	members := g.take(name)
	if len(members) == 0 {
		return
	}
	failed := carryOut(members[0].l, members)
	members[0].l.settleLog()
	for _, m := range members {
		if m.err == nil {
			m.err = failed
		}
		if m.err == nil {
			m.publish()
		}
		close(m.ended)
	}
	go g.lead(name)
}

// take takes the next transactions of a group, so many of each owner.
func (g *groups) take(name string) (members []*member) {
	g.mu.Lock()
	defer g.mu.Unlock()
	of, rest := map[string]int{}, []*member{}
	for _, m := range g.waiting[name] {
		owner := turnOf(m.ctx).Owner
		if of[owner]++; of[owner] <= groupMost {
			members = append(members, m)
		} else {
			rest = append(rest, m)
		}
	}
	if g.waiting[name] = rest; len(members) == 0 {
		delete(g.waiting, name)
	}
	return members
}

// carryOut carries transactions out, and commits those that do not fail.
func carryOut(l *Ledger, members []*member) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(members[0].ctx), AnswerTime) // who goes breaks nobody off
	defer cancel()
	turn, err := l.writes.turn(ctx)
	if err != nil {
		return err
	}
	defer turn.End(gate.Answer{})
	return l.writes.session(ctx, true, func(s session) error {
		for _, m := range members {
			if err := m.step(ctx, s, len(members) > 1); err != nil {
				return err
			}
		}
		if !slices.ContainsFunc(members, func(m *member) bool { return m.err == nil }) {
			return errNothing
		}
		return committed(s.commit(ctx))
	})
}

// errNothing takes back a transaction in which all have failed.
var errNothing = errors.New("nothing is to be recorded")

// step carries one of several transactions out, and takes back what it has done where it fails. Its error ends all of them.
func (m *member) step(ctx context.Context, s session, several bool) error {
	deadline, _ := ctx.Deadline()
	own, cancel := context.WithDeadline(context.WithoutCancel(m.ctx), deadline)
	defer cancel()
	m.session, m.ctx = s, own
	if !several {
		m.err = m.run()
		return nil
	}
	if err := s.before(ctx, `SAVEPOINT one`); err != nil {
		return err
	}
	if m.err = m.run(); m.err != nil {
		if _, err := m.exec(`ROLLBACK TO one`); err != nil {
			return err
		}
	}
	return s.before(ctx, `RELEASE one`)
}
