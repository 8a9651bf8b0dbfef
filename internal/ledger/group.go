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
// PostgreSQL those of an owner that wait for the same budgets are, and their statements go there together. A group has as
// many as take no longer than [groupTime], as the whole group waits for the slowest database that there is.
type groups struct {
	mu      sync.Mutex
	waiting map[string][]*member // by group; somebody leads each that is here
	closed  bool                 // nobody waits any more
	halved  int                  // how often [groupMost] is
	learned time.Time            // when that has changed

	led     chan string   // to the goroutine that serves a file of SQLite; nil where there is none
	over    chan struct{} // closed when that ends
	leaders sync.WaitGroup
}

// serve lets a goroutine of their own lead groups until close, whose stack has grown: SQLite needs a deep one, and to let
// that of each call grow takes longer than an order.
func (g *groups) serve() {
	g.led, g.over = make(chan string), make(chan struct{})
	g.leaders.Go(func() {
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

// close refuses all that wait, and waits for those that are carried out.
func (g *groups) close() {
	g.mu.Lock()
	if !g.closed && g.over != nil {
		close(g.over)
	}
	g.closed = true
	g.mu.Unlock()
	g.leaders.Wait()
}

// errClosed is the error of a transaction that has not begun before the ledger was closed.
var errClosed = errors.New("the ledger is closed")

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
	nth      int // of its owner in its group
	do       func(*transaction) error
	ran      *transaction // the newest of do
	err      error
	panicked any  // by do
	failed   bool // beside others
	ended    chan struct{}
	decided  chan struct{} // closed when do is not called again, and the database is asked to commit, which may not come back
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

// runApart runs a transaction within another, so that what fails takes back nothing of that, unless it is alone there.
func (m *member) runApart(ctx context.Context, s session, alone bool) error {
	if alone {
		m.err = m.run(ctx, s)
		m.failed = m.err != nil
		return m.err
	}
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

// statements are what a transaction asks for, step by step.
func (m *member) statements(ctx context.Context) iter.Seq[[]*statement] {
	return func(yield func([]*statement) bool) { m.err = m.run(ctx, relay(yield)) }
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
		g.follow(key)
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
	case <-time.After(leaveTime):
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

// follow lets a goroutine lead what has come meanwhile.
func (g *groups) follow(key string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case g.closed:
		g.refuse(key)
	case len(g.waiting[key]) == 0:
		delete(g.waiting, key)
	default:
		g.leaders.Go(func() { g.lead(key) })
	}
}

// refuse ends all that wait, of a ledger that is closed.
func (g *groups) refuse(key string) {
	for _, m := range g.waiting[key] {
		m.err = errClosed
		m.end()
	}
	delete(g.waiting, key)
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
	if members[0].l.IsShared() {
		g.carryOut(members)
		return true
	}
	g.putBack(key, carryOutInTurn(members))
	members[0].l.boundLog()
	return true
}

// putBack lets transactions wait on, in front of all others, but for those that nobody waits for any more.
func (g *groups) putBack(key string, members []*member) {
	g.mu.Lock()
	defer g.mu.Unlock()
	var rest []*member
	for _, m := range members {
		if m.err = m.ctx.Err(); m.err == nil {
			rest = append(rest, m)
			continue
		}
		m.err = &Busy{m.err, 0}
		m.end()
	}
	g.waiting[key] = append(rest, g.waiting[key]...)
}

// take takes the next transactions, so many of each owner. In a file an owner's second goes behind the first of all others;
// elsewhere they go by the names of their rows: replicas that take the same ones do so in one order, and none waits for one
// that waits for it.
func (g *groups) take(key string) (members []*member) {
	most := g.size()
	if most == 1 { // they go side by side
		most = groupMost
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		g.refuse(key)
		return nil
	}
	of, rest := map[string]int{}, []*member{}
	for _, m := range g.waiting[key] {
		owner := turnOf(m.ctx).Owner
		if of[owner]++; of[owner] <= most {
			m.nth = of[owner]
			members = append(members, m)
		} else {
			rest = append(rest, m)
		}
	}
	if g.waiting[key] = rest; len(members) == 0 {
		delete(g.waiting, key)
	}
	slices.SortStableFunc(members, func(a, b *member) int {
		if a.l.IsShared() {
			return strings.Compare(a.row, b.row)
		}
		return a.nth - b.nth
	})
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
		carryOutAlone(failed)
		members = rest
	}
	carryOutAlone(members)
}

// carryOutAlone carries each transaction out in one of its own, side by side.
func carryOutAlone(members []*member) {
	if len(members) == 1 {
		members[0].carryOut()
		return
	}
	var work sync.WaitGroup
	defer work.Wait()
	for _, m := range members {
		work.Go(m.carryOut)
	}
}

// carryOut carries a transaction out alone.
func (m *member) carryOut() {
	defer m.end()
	m.err = m.l.transact(m.ctx, func(s session) error {
		if err := m.run(m.ctx, s); err != nil {
			return err
		}
		return committed(s.commit(m.ctx))
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
	for _, m := range members {
		defer context.AfterFunc(m.ctx, func() { breakOffSoon(ctx, breakOff) })()
	}
	err := l.transact(ctx, func(s session) error {
		begun := time.Now()
		err := runTogether(ctx, s, members)
		if !errors.Is(err, errNothing) { // a refusal has ended it early
			g.learn(len(members), time.Since(begun))
		}
		if err != nil {
			return err
		}
		if ctx.Err() != nil { // before the commit, which nobody breaks off
			return ctx.Err()
		}
		over = true
		for _, m := range members {
			close(m.decided)
		}
		return committed(s.commit(bounded))
	})
	for _, m := range members {
		if over {
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
