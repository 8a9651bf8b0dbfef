package watch

import (
	"context"
	"time"

	"github.com/easel-grpc/easel/internal/catalog"
	"github.com/easel-grpc/easel/internal/watch/schedule"
)

// Peers are other processes that watch with the same credentials. One of them polls for all,
// and the others poll by themselves only now and then, and before they tell of an end.
type Peers interface {
	// Share shares the polls of one credential until ctx ends. It is called once for each tenant.
	// As long as the peering is told nothing, it acts as if it were alone.
	Share(ctx context.Context, cred catalog.Credential, p *Peering)
}

// Role is what a process does for a credential.
type Role uint8

const (
	// Alone polls for its own watches, and knows of nobody who would do so.
	Alone Role = iota
	// Leader polls for itself and for those who follow.
	Leader
	// Follower is told by a leader.
	Follower
)

// String writes the role as it stands in logs.
func (r Role) String() string { return [...]string{"alone", "leader", "follower"}[r] }

// Assignment is a role until a time, after which the process is alone. Shares are of the configured
// rate of polls.
type Assignment struct {
	Role       Role
	Until      time.Time
	Share      float64       // that this process may use in its role
	AloneShare float64       // and when it is alone
	OwnEvery   time.Duration // between a follower's own polls of one thing
	OwnShare   float64       // that a follower's own polls may take
}

// Interest says what a follower waits for.
type Interest struct {
	ID      string    // "": everything that the catalog lists
	Etag    string    // of what it tells its watchers; "": nothing yet
	Settled bool      // it follows the money, not only the generation
	Waits   int       // how many generations the watcher waits for that waits for the fewest
	ModelID string    // of an order that the follower placed itself, else ""
	Created time.Time // when it placed the order, else zero
}

// State is what one process says of a generation to the others. Of an end it only says that
// it has come, as each of them reads that for itself.
type State struct {
	Generation catalog.Generation
	Etag       string
	Listed     bool // the catalog's list carries it
}

func stateOf(u Update, listed bool) State {
	s := State{Generation: u.Generation, Etag: u.Etag, Listed: listed}
	if s.terminal() {
		s.Generation = catalog.Generation{ID: u.Generation.ID, State: u.Generation.State, ObserveTime: u.Generation.ObserveTime}
	}
	return s
}

func (s State) terminal() bool { return s.Generation.State.Terminal() }

// Status is how a process fares with a credential.
type Status struct {
	Condition Condition
	Failures  int
	LastError string
	Answered  time.Time     // last answer of the catalog; zero: none yet
	Pause     time.Duration // for which the catalog has asked this process, still to come
	Spent     int           // requests that it has made since its last status
}

const (
	hold     = 500 * time.Millisecond // a new peering waits so long to learn its role
	grace    = time.Second            // a follower waits so long for the leader's first word
	coverage = 25 * time.Second       // how long an interest that was heard stands, for both sides
	ownEvery = time.Minute            // see Assignment, before there is one
	restored = time.Minute            // how long what was restored serves new watches
	oldest   = 2 * time.Minute        // age of what is restored, at most
)

// Peering is the part of this process in polling for one credential. Its methods do no I/O and
// never wait for any. The tenant's mutex guards it; methods that are not exported run under it, and
// most of them do nothing where there are no peers.
type Peering struct {
	tenant  *tenant
	changed chan struct{} // of capacity 1
	random  schedule.Source
	cancel  context.CancelFunc // ends what is shared; nil: it has not begun
	ended   bool

	assignment Assignment
	requests   int       // since the last status
	heard      time.Time // a pause that a peer has told of ends then

	relays   [2]*watcher // what peers wait for, by goal
	all      *watcher    // of everything, while a peer wants that
	allUntil time.Time

	allCovered time.Time // the leader polls the list until then
	ownAt      time.Time // the next poll of our own of what is covered
	own        *entry    // of which; nil: of all of it, by a sweep

	restores     map[string]State
	restoreUntil time.Time
}

// peered is what peers have to do with one entry. It is made when they have.
type peered struct {
	until       [2]time.Time // the peers' interest, by goal
	at          [2]int32     // its place in the relay of that goal
	waits       int          // see Interest
	covered     time.Time    // the leader polls it until then
	polled      time.Time    // the last poll of our own
	unconfirmed bool         // a peer says that it has ended: a poll of our own is to show that
	deaf        time.Time    // that is not heard before: the last time it was wrong
	restored    bool         // its state is from before this process, and may be told
}

func newPeering(t *tenant, now time.Time) *Peering {
	return &Peering{
		tenant: t, changed: make(chan struct{}, 1), random: schedule.NewSource(t.hub.cfg.Seed, "peering"), ownAt: now.Add(ownEvery),
		assignment: Assignment{Role: Follower, Until: now.Add(hold), Share: 1, AloneShare: 1, OwnEvery: 2 * ownEvery, OwnShare: 1},
	}
}

// run shares the polls until the tenant is gone.
func (p *Peering) run() {
	ctx, cancel := context.WithCancel(p.tenant.hub.ctx)
	defer cancel()
	p.tenant.mu.Lock()
	p.cancel = cancel
	if p.ended {
		cancel()
	}
	p.tenant.mu.Unlock()
	p.tenant.hub.cfg.Peers.Share(ctx, p.tenant.cred, p)
}

func (p *Peering) end() {
	if p == nil {
		return
	}
	p.ended = true
	if p.cancel != nil {
		p.cancel()
	}
}

// Changed gives a token when there may be something new to ask or to say.
func (p *Peering) Changed() <-chan struct{} { return p.changed }

func (p *Peering) nudge() {
	select {
	case p.changed <- struct{}{}:
	default:
	}
}

// SetRole sets the role and its shares.
func (p *Peering) SetRole(a Assignment) {
	t := p.tenant
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	was := p.assignment
	if p.assignment = a; was.Role == Leader && a.Role != Leader {
		p.drop(now)
	}
	if was.Until = a.Until; was != a {
		p.recall(now)
	}
}

// recall has every entry polled by its own schedule again, until it is spared anew.
func (p *Peering) recall(now time.Time) {
	for _, e := range p.tenant.order {
		if !e.polling.wake.Equal(e.polling.due) {
			p.tenant.spare(e, e.polling.due)
		}
	}
	p.tenant.poller.planBy(now)
}

// follows reports whether somebody else polls.
func (p *Peering) follows(now time.Time) bool {
	return p != nil && p.assignment.Role == Follower && now.Before(p.assignment.Until)
}

// alone reports whether this process has peers, and knows of none that leads.
func (p *Peering) alone(now time.Time) bool {
	return p != nil && (p.assignment.Role == Alone || !now.Before(p.assignment.Until))
}

// rate is how many requests a second this process may make.
func (p *Peering) rate(now time.Time) float64 {
	if p.alone(now) {
		return p.tenant.hub.cfg.Rate * p.assignment.AloneShare
	}
	return p.tenant.hub.cfg.Rate * p.assignment.Share
}

// next is when the role ends or a poll of our own is due.
func (p *Peering) next(now time.Time) time.Time {
	if !p.follows(now) {
		return time.Time{}
	}
	return earlier(p.assignment.Until, p.ownAt)
}

// spent notes a request, so that the leader hears of it.
func (p *Peering) spent() {
	if p != nil {
		p.requests++
	}
}

// Status gives how this process fares. What it has spent is told once.
func (p *Peering) Status() Status {
	t := p.tenant
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	p.expire(now)
	s := Status{Condition: t.health.condition, Failures: t.health.failures, LastError: t.health.lastErr, Answered: t.health.answered}
	if p.assignment.Role != Leader {
		s.Spent = p.requests
	}
	if paused := t.budget.Paused(); paused.After(p.heard) { // what others have told of they tell themselves
		s.Pause = max(paused.Sub(now), 0)
	}
	p.requests = 0
	return s
}

// ApplyStatus takes in how a peer fares.
func (p *Peering) ApplyStatus(s Status, leader bool) {
	t := p.tenant
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	if s.Pause > 0 {
		t.budget.Pause(now, now.Add(s.Pause))
		p.heard = latest(p.heard, earlier(now.Add(s.Pause), t.budget.Paused()))
	}
	if p.assignment.Role == Leader {
		t.budget.Owe(s.Spent, now)
	}
	if !leader || !p.follows(now) {
		return
	}
	if s.Condition == ConditionCredentialRejected && !t.cred.Held {
		p.verify(now)
		return
	}
	h := &t.health
	h.condition, h.failures, h.lastErr, h.answered = s.Condition, s.Failures, s.LastError, latest(h.answered, s.Answered)
}

// verify has one generation read: a caller's own API key is said to be rejected.
func (p *Peering) verify(now time.Time) {
	for _, e := range p.tenant.order {
		if s := e.peering(); p.tenant.wanted(e, now) && !now.Before(s.deaf) {
			s.unconfirmed = true
			p.tenant.pollAt(e, now)
			return
		}
	}
}

// wait gives a leader time to answer before an entry is polled here.
func (p *Peering) wait(e *entry, now time.Time) {
	if !p.follows(now) {
		return
	}
	if s := e.peering(); !e.fresh && !now.Before(s.covered) {
		s.covered = now.Add(grace)
	}
	p.nudge()
}

// spares reports whether a leader's polls stand for one of our own, and has the entry wait then.
func (p *Peering) spares(e *entry, now time.Time) bool {
	if !p.covers(e, now) || p.picked(e, now) {
		return false
	}
	until := earlier(earlier(e.peers.covered, p.ownAt), p.assignment.Until)
	if !e.polling.wake.Equal(until) {
		p.tenant.spare(e, until)
	}
	return true
}

// covers reports whether a leader polls an entry.
func (p *Peering) covers(e *entry, now time.Time) bool {
	return p.follows(now) && e.peers != nil && !e.peers.unconfirmed && e.listing.hint == nil && now.Before(e.peers.covered)
}

// sparesList is spares for the list.
func (p *Peering) sparesList(now time.Time) bool {
	return p.follows(now) && now.Before(p.allCovered) && !p.picked(nil, now)
}

// picked reports whether a poll of our own is due for an entry that is covered, or for the list where
// that is nil.
func (p *Peering) picked(e *entry, now time.Time) bool {
	return !now.Before(p.ownAt) && (p.own == nil || p.own == e)
}

// pick chooses what the next poll of our own is: the list, where it shows enough, or what was not
// polled for the longest time.
func (p *Peering) pick(now time.Time) {
	if p == nil || now.Before(p.ownAt) || !p.follows(now) {
		return
	}
	t := p.tenant
	p.own = nil
	listed := 0
	for _, e := range t.order {
		if !p.covers(e, now) || !t.wanted(e, now) {
			continue
		}
		if t.list.serves(e, now) {
			listed++
		}
		if p.own == nil || e.peers.polled.Before(p.own.peers.polled) {
			p.own = e
		}
	}
	switch {
	case listed >= sweepFrom || len(t.everything) > 0:
		p.own = nil
		p.recall(now)
	case p.own == nil:
		p.ownAt = now.Add(p.ownGap()) // there is nothing to poll
	default:
		t.pollAt(p.own, earlier(p.own.polling.due, now))
	}
}

// ownGap is the time to the next poll of our own of the same.
func (p *Peering) ownGap() time.Duration {
	return schedule.Jitter(p.assignment.OwnEvery, p.random.Draw())
}

// polls notes that a poll of our own has begun, of one entry or, where that is nil, of the list. Where
// each is read by itself they share what such polls may take.
func (p *Peering) polls(e *entry, now time.Time) {
	if p == nil || p.own != e {
		return
	}
	gap := p.ownGap()
	if e != nil {
		least := time.Duration(float64(time.Second) / (p.assignment.OwnShare * p.tenant.hub.cfg.Rate))
		gap = max(gap/time.Duration(len(p.tenant.order)), least)
	}
	p.ownAt, p.own = now.Add(gap), nil
}

// polled takes in that a poll of our own was answered.
func (p *Peering) polled(e *entry, now time.Time) {
	s := e.peers
	if p == nil || s == nil {
		return
	}
	s.polled, s.restored = now, false
	if s.unconfirmed {
		s.unconfirmed = false
		if !e.state.State.Terminal() {
			s.deaf = now.Add(p.tenant.hub.cfg.MaxInterval)
			p.tenant.stats.Refuted++
		}
	}
}

// Interests gives what this process wants to be told of: all of it, or what no leader is known to
// poll, or has told of yet.
func (p *Peering) Interests(all bool) (list []Interest) {
	t := p.tenant
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	if len(t.everything) > 0 && (all || now.After(p.allCovered)) {
		list = append(list, Interest{})
	}
	shown := t.shown(now)
	for _, e := range t.order {
		if !all && e.fresh && e.peers != nil && now.Before(e.peers.covered) {
			continue
		}
		if one, wanted := p.interest(e, now); wanted {
			one.Waits = t.share(e, shown)
			list = append(list, one)
		}
	}
	return list
}

func (p *Peering) interest(e *entry, now time.Time) (one Interest, wanted bool) {
	one.ID = e.id
	for _, c := range e.watchers {
		if !e.reached(c.goal, now, p.tenant.hub.cfg.RefundWindow) {
			wanted = true
			one.Settled = one.Settled || c.goal == Settled
		}
	}
	if e.fresh {
		one.Etag = e.etag
	}
	if e.unseen(now) {
		one.ModelID, one.Created = e.modelID, e.created
	}
	return one, wanted
}

// Acknowledge notes that a leader has heard of interests. What it need not tell it has polled
// since the given time; zero: it told, or will tell, all.
func (p *Peering) Acknowledge(list []Interest, seen time.Time) {
	t := p.tenant
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	for _, one := range list {
		e := t.entries[one.ID]
		switch {
		case one.ID == "":
			p.allCovered = now.Add(coverage)
			continue
		case e == nil:
			continue
		}
		s := e.peering()
		s.covered = now.Add(coverage)
		if !seen.IsZero() && e.fresh && one.Etag == e.etag && !s.unconfirmed {
			e.confirm(seen)
			t.again(e, now)
		}
	}
	t.poller.planBy(now)
}

// ApplyStates takes in what a leader says. An end is told to nobody before a poll of our own has
// shown it.
func (p *Peering) ApplyStates(states []State) {
	t := p.tenant
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	for _, s := range states {
		p.applyState(s, now)
	}
	t.poller.planBy(now)
}

func (p *Peering) applyState(s State, now time.Time) {
	t := p.tenant
	e := t.entries[s.Generation.ID]
	if e == nil && s.Listed && len(t.everything) > 0 && !s.terminal() {
		e = t.ensure(s.Generation.ID, now)
	}
	if e == nil {
		return
	}
	if s.Listed {
		t.show(e, now)
	}
	if !t.wanted(e, now) {
		return
	}
	peers := e.peering()
	switch {
	case s.Generation.State == 0: // too much for a message
		peers.covered = time.Time{}
		t.pollAt(e, now)
	case s.Generation.State == e.state.State && s.terminal():
	case !e.follows(s.Generation.State):
		t.stats.Stale++
	case s.terminal():
		if !now.Before(peers.deaf) {
			peers.unconfirmed = true
			t.pollAt(e, now)
		}
	default:
		t.stats.Told++
		peers.covered = now.Add(coverage)
		t.apply(e, s.Generation, s.Etag, &pollResult{})
		t.again(e, now)
	}
}

// States gives what is known of all that somebody waits for, or did a moment ago, for a process
// that comes after this one.
func (p *Peering) States() (states []State) {
	t := p.tenant
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, e := range t.order {
		if e.fresh && !e.state.State.Terminal() {
			states = append(states, stateOf(e.update(), !e.listing.seen.IsZero()))
		}
	}
	return states
}

// Restore takes in what another process knew before this one polled. It serves the watches
// that are here and those that come within a minute.
func (p *Peering) Restore(states []State) {
	t := p.tenant
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	p.restores, p.restoreUntil = map[string]State{}, now.Add(restored)
	for _, s := range states {
		if s.terminal() || s.Generation.State == 0 || now.Sub(s.Generation.ObserveTime) > oldest {
			continue
		}
		p.restores[s.Generation.ID] = s
		if e := t.entries[s.Generation.ID]; e != nil {
			p.restore(e, now)
		}
	}
	t.poller.planBy(now)
}

// restore gives an entry the state that it had before this process polled.
func (p *Peering) restore(e *entry, now time.Time) {
	if p == nil || e.fresh || e.state.State != 0 || now.After(p.restoreUntil) {
		return
	}
	s, ok := p.restores[e.id]
	if !ok {
		return
	}
	e.peering().restored = true
	p.tenant.stats.Recalled++
	p.tenant.apply(e, s.Generation, s.Etag, &pollResult{})
	p.tenant.again(e, now)
}

// isRestored reports whether an entry still stands as it was restored.
func (p *Peering) isRestored(e *entry, now time.Time) bool {
	return e.peers != nil && e.peers.restored && now.Before(p.restoreUntil)
}

// Subscribe takes in what a follower waits for, and gives the time of the oldest poll of what the
// follower need not be told, as it knows it already.
func (p *Peering) Subscribe(list []Interest) (seen time.Time) {
	t := p.tenant
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	for _, one := range list {
		if one.ID == "" {
			p.relayAll(now)
		} else if at := p.subscribe(one, now); !at.IsZero() {
			seen = earliest(seen, at)
		}
	}
	return seen
}

func (p *Peering) subscribe(one Interest, now time.Time) (seen time.Time) {
	e := p.tenant.ensure(one.ID, now)
	if e.created.IsZero() && !one.Created.IsZero() {
		e.created, e.modelID = one.Created, one.ModelID
	}
	goal := Terminal
	if one.Settled {
		goal = Settled
	}
	s, relay := e.peering(), p.relay(goal)
	s.until[goal], s.waits = now.Add(coverage), max(one.Waits, 1)
	if s.at[goal] == nowhere {
		s.at[goal] = relay.add(e, now)
	}
	it := &relay.items[s.at[goal]]
	it.told, it.flags = one.Etag, it.flags&^known
	if one.Etag != "" {
		it.flags |= known
	}
	switch {
	case e.fresh && e.etag == one.Etag:
		return e.state.ObserveTime
	case it.flags&dirty == 0:
		relay.mark(s.at[goal])
	}
	return seen
}

// relay gives the watcher that stands for what peers wait for.
func (p *Peering) relay(goal Goal) *watcher {
	if p.relays[goal] == nil {
		p.relays[goal] = &watcher{tenant: p.tenant, goal: goal, relay: true, listed: true, owed: -1}
	}
	return p.relays[goal]
}

// relayAll covers all that the list carries, because a peer has a watch of everything.
func (p *Peering) relayAll(now time.Time) {
	p.allUntil = now.Add(coverage)
	if p.all == nil {
		p.all = &watcher{tenant: p.tenant, goal: Settled, everything: true, owed: -1}
		p.tenant.everything = append(p.tenant.everything, p.all)
		p.tenant.poller.planBy(now)
	}
}

// Changes gives what there is to tell the followers, at most n. It fails where the catalog no longer
// takes the credential.
func (p *Peering) Changes(n int) (changes []State, err error) {
	t := p.tenant
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, w := range []*watcher{p.relays[Terminal], p.relays[Settled], p.all} {
		for w != nil && len(changes) < n {
			step := w.step(time.Now())
			if step.err != nil {
				return changes, step.err
			}
			if step.event == nil {
				break
			}
			if u := step.event.Update; u != nil {
				changes = append(changes, stateOf(*u, w == p.all))
			}
		}
	}
	return changes, nil
}

// expire drops what no peer has asked for again.
func (p *Peering) expire(now time.Time) {
	if p.assignment.Role != Leader {
		return
	}
	if p.all != nil && now.After(p.allUntil) {
		p.all.uncover(now)
		p.all = nil
	}
	for _, e := range p.tenant.order {
		for goal, w := range p.relays {
			if s := e.peers; s != nil && s.at[goal] != nowhere && now.After(s.until[goal]) {
				w.remove(s.at[goal], now)
			}
		}
	}
}

// drop drops all that peers have asked for.
func (p *Peering) drop(now time.Time) {
	for _, w := range append(p.relays[:], p.all) {
		if w != nil {
			w.uncover(now)
		}
	}
	p.relays, p.all = [2]*watcher{}, nil
}

// peering gives what peers have to do with an entry.
func (e *entry) peering() *peered {
	if e.peers == nil {
		e.peers = &peered{at: [2]int32{nowhere, nowhere}}
	}
	return e.peers
}

// unconfirmed reports whether a peer has told of an end that nobody here has seen.
func (e *entry) unconfirmed() bool { return e.peers != nil && e.peers.unconfirmed }
