package ledger

import (
	"context"
	"errors"
	"iter"
	"slices"
	"strings"
	"sync"
	"time"
)

// groups carry transactions out together, in one: those that come while the one before is under way. The disk is waited
// for once for all of them. In a file of SQLite all are of one group, and are carried out one after the other. In
// PostgreSQL those of an owner that wait for the same budgets are, and their statements go there together: as many as take
// no longer than [groupTime], as the whole group waits for the slowest database that there is.
type groups struct {
	mu      sync.Mutex
	waiting map[string][]*member // by group; somebody leads each that is here
	halved  int                  // how often [groupMost] is
	learned time.Time            // when that has changed

	led  chan string   // to the goroutine that serves a file of SQLite; nil where there is none
	over chan struct{} // closed when that ends
	end  sync.Once
}

// serve lets a goroutine of their own lead groups until close, whose stack has grown: SQLite needs a deep one, and to let
// that of each call grow takes longer than an order.
func (g *groups) serve(work *sync.WaitGroup) {
	g.led, g.over = make(chan string), make(chan struct{})
	work.Go(func() {
		for {
			select {
			case key := <-g.led:
				g.lead(key)
			case <-g.over:
				return
			}
		}
	})
}

// close ends the goroutine that serves.
func (g *groups) close() {
	if g.over != nil {
		g.end.Do(func() { close(g.over) })
	}
}

// groupMost is how many transactions of an owner are carried out together, fewer where their statements would take longer
// than groupTime. Where two do, each is carried out by itself, and two are tried again after aloneTime. Who leaves a group
// waits for it for leaveTime, before it is broken off for all.
const (
	groupMost = 1 << mostHalved

	mostHalved = 4
	groupTime  = 250 * time.Millisecond
	aloneTime  = 5 * time.Second
	leaveTime  = 250 * time.Millisecond
)

// size is how many go together now.
func (g *groups) size() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.halved == mostHalved && time.Since(g.learned) > aloneTime {
		g.halved--
	}
	return groupMost >> g.halved
}

// learn looks at how long the statements of a group of so many have taken.
func (g *groups) learn(members int, took time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if size := groupMost >> g.halved; took < groupTime/2 && size <= members && g.halved > 0 {
		g.halved--
	} else if size < members { // it has begun before that was learned
		return
	}
	for ; took > groupTime && g.halved < mostHalved; took /= 2 {
		g.halved, g.learned = g.halved+1, time.Now()
	}
}

// member is a transaction of a group.
type member struct {
	*transaction

	row      string
	do       func(*transaction) error
	ran      *transaction // the newest of do
	err      error
	panicked any  // by do
	failed   bool // beside others
	ended    chan struct{}
	decided  chan struct{} // closed when do is not called again, and a database that may not come back is asked to commit
}

// wait gives how a transaction has ended.
func (m *member) wait() error {
	<-m.ended
	if m.panicked != nil {
		panic(m.panicked) // on the goroutine of the call that it belongs to
	}
	return m.err
}

// end tells whoever waits, as soon as it is known how the transaction has ended.
func (m *member) end() {
	if m.err == nil {
		m.ran.publish()
	}
	close(m.ended)
}

// run does what the transaction is for.
func (m *member) run(ctx context.Context, s session) (err error) {
	defer func() {
		if m.panicked = recover(); m.panicked != nil {
			err = errNothing
		}
	}()
	m.ran = &transaction{session: s, ctx: ctx, l: m.l}
	return m.do(m.ran)
}

// errNothing takes back a transaction.
var errNothing = errors.New("nothing is to be recorded")

// once carries a transaction out in a group, with the name of the row that it takes.
func (g *groups) once(key, row string, t *transaction, do func(*transaction) error) error {
	m := &member{transaction: t, row: row, do: do, ended: make(chan struct{}), decided: make(chan struct{})}
	g.mu.Lock()
	if g.waiting == nil {
		g.waiting = map[string][]*member{}
	}
	_, led := g.waiting[key]
	g.waiting[key] = append(g.waiting[key], m)
	g.mu.Unlock()
	if !led && !g.isServed(key) {
		g.round(key)
		go g.lead(key) // what has come meanwhile
	}
	select {
	case <-m.ended:
		return m.wait()
	case <-m.ctx.Done():
		return g.leave(key, m)
	}
}

// leave ends the wait of a transaction that has not begun, or that is in doubt.
func (g *groups) leave(key string, m *member) error {
	g.mu.Lock()
	n := slices.Index(g.waiting[key], m)
	if n >= 0 {
		g.waiting[key] = slices.Delete(g.waiting[key], n, n+1)
	}
	g.mu.Unlock()
	if n >= 0 {
		return &Busy{m.ctx.Err(), 0}
	}
	select {
	case <-m.ended:
		return m.wait()
	case <-m.decided:
	}
	select {
	case <-m.ended: // since then
		return m.wait()
	default:
		return &Doubt{m.ctx.Err()}
	}
}

// isServed has the goroutine that serves lead a group, where there is one.
func (g *groups) isServed(key string) bool {
	if g.led == nil {
		return false
	}
	select {
	case g.led <- key:
		return true
	case <-g.over:
		return false
	}
}

// lead carries out what waits, and what comes meanwhile.
func (g *groups) lead(key string) {
	for g.round(key) {
	}
}

// round carries out what waits, and reports whether something did.
func (g *groups) round(key string) bool {
	members := g.take(key)
	if len(members) == 0 {
		return false
	}
	g.carryOut(members)
	return true
}

// take takes the next transactions, so many of each owner, by the names of their rows: replicas that take the same ones do
// so in one order, and none waits for one that waits for it.
func (g *groups) take(key string) (members []*member) {
	most := g.size()
	if most == 1 { // they go side by side
		most = groupMost
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	of, rest := map[string]int{}, []*member{}
	for _, m := range g.waiting[key] {
		owner := turnOf(m.ctx).Owner
		if of[owner]++; of[owner] <= most {
			members = append(members, m)
		} else {
			rest = append(rest, m)
		}
	}
	if g.waiting[key] = rest; len(members) == 0 {
		delete(g.waiting, key)
	}
	slices.SortStableFunc(members, func(a, b *member) int { return strings.Compare(a.row, b.row) })
	return members
}

// carryOut carries transactions out. What fails beside others is carried out alone: without them it may not fail.
func (g *groups) carryOut(members []*member) {
	until := time.Now().Add(AnswerTime)
	for len(members) > 1 && g.size() > 1 {
		if g.carryOutTogether(members, until) {
			for _, m := range members {
				m.end()
			}
			return
		}
		var rest, failed []*member
		for _, m := range members {
			if m.failed {
				failed = append(failed, m)
			} else {
				rest = append(rest, m)
			}
		}
		if len(failed) == 0 { // the database has failed all of them
			break
		}
		carryOutAlone(failed, until)
		members = rest
	}
	carryOutAlone(members, until)
}

// carryOutAlone carries each transaction out in one of its own, side by side where the database takes several.
func carryOutAlone(members []*member, until time.Time) {
	var work sync.WaitGroup
	defer work.Wait()
	for _, m := range members {
		if m.l.IsShared() && len(members) > 1 {
			work.Go(func() { m.carryOut(until) })
		} else {
			m.carryOut(until)
		}
	}
}

// carryOut carries a transaction out. Whoever goes does not break a file of SQLite off: its group ends in time.
func (m *member) carryOut(until time.Time) {
	defer m.end()
	ctx := m.ctx
	if !m.l.IsShared() {
		bounded, cancel := context.WithDeadline(context.WithoutCancel(ctx), until)
		defer cancel()
		ctx = bounded
	}
	m.err = m.l.transact(ctx, func(s session) error {
		if err := m.run(ctx, s); err != nil {
			return err
		}
		return committed(s.commit(ctx))
	})
}

// carryOutTogether carries transactions out in one. It is over when they are committed, or that may be; else nothing was
// recorded, and those that have failed are marked.
func (g *groups) carryOutTogether(members []*member, until time.Time) (over bool) {
	l := members[0].l
	bounded, cancel := context.WithDeadline(context.WithoutCancel(members[0].ctx), until)
	defer cancel()
	ctx, breakOff := context.WithCancel(bounded)
	defer breakOff()
	run := runInTurn
	if l.IsShared() {
		run = runTogether
		for _, m := range members {
			defer context.AfterFunc(m.ctx, func() { breakOffSoon(ctx, breakOff) })()
		}
	}
	err := l.transact(ctx, func(s session) error {
		begun := time.Now()
		err := run(ctx, s, members)
		if l.IsShared() && !errors.Is(err, errNothing) { // a refusal has ended it early
			g.learn(len(members), time.Since(begun))
		}
		if err != nil {
			return err
		}
		if ctx.Err() != nil { // before the commit, which nobody breaks off
			return ctx.Err()
		}
		over = true
		if l.IsShared() {
			for _, m := range members {
				close(m.decided)
			}
		}
		return committed(s.commit(bounded))
	})
	for _, m := range members {
		if over && !m.failed {
			m.err = err
		}
	}
	return over
}

// breakOffSoon breaks a group off for somebody who has left it, if it does not end soon: to begin it anew without them
// takes everybody's time.
func breakOffSoon(group context.Context, breakOff func()) {
	select {
	case <-time.After(leaveTime):
		breakOff()
	case <-group.Done():
	}
}

// runInTurn runs transactions one after the other. What fails takes back nothing of the others.
func runInTurn(ctx context.Context, s session, members []*member) error {
	deadline, _ := ctx.Deadline()
	for _, m := range members {
		own, cancel := context.WithDeadline(context.WithoutCancel(m.ctx), deadline)
		defer cancel()
		if err := m.runApart(own, s); err != nil { //nolint:contextcheck // the transaction has it
			return err
		}
	}
	return nil
}

// runApart runs a transaction within another.
func (m *member) runApart(ctx context.Context, s session) error {
	if err := s.send(ctx, []*statement{{text: "SAVEPOINT member"}}); err != nil {
		return err
	}
	ends := []*statement{{text: "RELEASE member"}}
	m.err = m.run(ctx, s)
	if m.failed = m.err != nil; m.failed {
		ends = []*statement{{text: "ROLLBACK TO member"}, {text: "RELEASE member"}}
	}
	return s.send(ctx, ends)
}

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

// statements are what a transaction asks for, step by step.
func (m *member) statements(ctx context.Context) iter.Seq[[]*statement] {
	return func(yield func([]*statement) bool) { m.err = m.run(ctx, relay(yield)) }
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
