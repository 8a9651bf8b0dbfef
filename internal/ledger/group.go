package ledger

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/easel-grpc/easel/internal/gate"
)

// group carries transactions of a file of SQLite out together, in one: those that come while the one before is under way.
// The disk is waited for once for all of them. What fails is taken back alone.
type group struct {
	mu      sync.Mutex
	led     bool // somebody carries transactions out
	waiting []*member
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

// once carries a transaction out.
func (g *group) once(t *transaction, do func(*transaction) error) error {
	ctx := t.ctx
	m := &member{transaction: t, do: do, ended: make(chan struct{})}
	g.mu.Lock()
	leads := !g.led
	g.led = true
	g.waiting = append(g.waiting, m)
	g.mu.Unlock()
	if leads {
		g.lead()
	}
	select {
	case <-m.ended:
		return m.wait()
	case <-ctx.Done():
		return g.leave(m)
	}
}

// leave ends the wait of a transaction that has not begun.
func (g *group) leave(m *member) error {
	g.mu.Lock()
	n := slices.Index(g.waiting, m)
	if n >= 0 {
		g.waiting = slices.Delete(g.waiting, n, n+1)
	}
	g.mu.Unlock()
	if n >= 0 {
		return &Busy{m.ctx.Err(), 0}
	}
	return m.wait()
}

// lead carries out what waits, and has another goroutine lead what has come meanwhile.
func (g *group) lead() {
	members := g.take()
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
	go g.lead()
}

// take takes the next transactions, so many of each owner.
func (g *group) take() (members []*member) {
	g.mu.Lock()
	defer g.mu.Unlock()
	of, rest := map[string]int{}, []*member{}
	for _, m := range g.waiting {
		owner := turnOf(m.ctx).Owner
		if of[owner]++; of[owner] <= groupMost {
			members = append(members, m)
		} else {
			rest = append(rest, m)
		}
	}
	g.waiting, g.led = rest, len(members) > 0
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
	if _, err := m.exec(`SAVEPOINT one`); err != nil {
		return err
	}
	if m.err = m.run(); m.err != nil {
		if _, err := m.exec(`ROLLBACK TO one`); err != nil {
			return err
		}
	}
	_, err := m.exec(`RELEASE one`)
	return err
}
