package watch

import (
	"context"
	"reflect"
	"slices"
	"time"

	"github.com/easel-grpc/easel/internal/catalog"
	"github.com/easel-grpc/easel/internal/watch/schedule"
)

const (
	accountEvery = 54 * time.Second // between two reads of the account: with its jitter less than a minute
	accountLeast = 10 * time.Second // between two reads where the balance may have changed
	budgetsEvery = 5 * time.Second  // between two reads of the budgets of an owner
)

// account is the account of one credential, and who watches it. While somebody does, the poller reads the account
// about once a minute, and sooner where the balance may have changed. The tenant's mutex guards it.
type account struct {
	queue    *queue
	random   schedule.Source
	watchers []*accountWatcher
	budgets  []*budgets

	newest   *catalog.Account // nil: it was not read, or too long ago
	foundBy  TraceRef         // of the poll that found the balance
	began    time.Time        // when the last read began
	dueAt    time.Time        // of the next read
	inFlight bool
	failures int // reads in a row
	lastErr  string
}

// budgets are the budgets of one owner. They are read while somebody watches them.
type budgets struct {
	owner    string
	read     func(context.Context) (any, error)
	watchers int
	newest   any
	known    bool
	failing  bool      // the last read failed
	began    time.Time // when the last read began
	inFlight bool
}

// touch notes that the balance may have changed.
func (a *account) touch(now time.Time) {
	if len(a.watchers) > 0 {
		a.dueAt = earliest(a.dueAt, latest(a.began.Add(accountLeast), now))
		a.queue.wakeBy(a.dueAt)
	}
}

// add adds a watcher. What was read while nobody watched is only as good as a read of now for a short while.
func (a *account) add(w *accountWatcher, owner string, read func(context.Context) (any, error), now time.Time) {
	if len(a.watchers) == 0 && now.Sub(a.began) >= accountLeast {
		a.newest = nil
	}
	a.watchers = append(a.watchers, w)
	if read != nil {
		w.budgets = a.budgetsOf(owner, read)
		w.budgets.add(now)
	}
	a.touch(now)
	a.queue.wakeNow(now)
}

// budgetsOf finds or makes the budgets of an owner.
func (a *account) budgetsOf(owner string, read func(context.Context) (any, error)) *budgets {
	at := slices.IndexFunc(a.budgets, func(b *budgets) bool { return b.owner == owner })
	if at >= 0 {
		return a.budgets[at]
	}
	b := &budgets{owner: owner, read: read}
	a.budgets = append(a.budgets, b)
	return b
}

func (b *budgets) add(now time.Time) {
	if b.watchers == 0 && !now.Before(b.dueAt()) {
		b.known = false
	}
	b.watchers++
}

// dueAt is when the budgets may be read again.
func (b *budgets) dueAt() time.Time { return b.began.Add(budgetsEvery) }

// remove removes a watcher.
func (a *account) remove(w *accountWatcher, now time.Time) {
	a.watchers = slices.DeleteFunc(a.watchers, func(one *accountWatcher) bool { return one == w })
	if w.budgets != nil {
		w.budgets.watchers--
	}
	a.queue.wakeBy(a.next(now))
}

// due reports whether the account is to be read now.
func (a *account) due(now time.Time) bool {
	return len(a.watchers) > 0 && !a.inFlight && !now.Before(a.dueAt)
}

// begin begins a read of the account, and gives those who watch it.
func (a *account) begin(now time.Time) []*accountWatcher {
	a.inFlight, a.began = true, now
	a.dueAt = now.Add(schedule.Jitter(accountEvery, a.random.Draw()))
	return a.watchers
}

// apply takes in the answer to a read.
func (a *account) apply(read catalog.Account, found TraceRef) {
	same := a.newest != nil && sameBalance(a.newest.BalanceCents, read.BalanceCents)
	a.inFlight, a.failures, a.newest = false, 0, &read
	if same {
		return
	}
	a.foundBy = found
	for _, w := range a.watchers {
		w.notify()
	}
}

// failed takes in a failure.
func (a *account) failed(err error) {
	a.inFlight, a.failures, a.lastErr = false, a.failures+1, err.Error()
	pause := schedule.Jitter(schedule.Backoff(a.failures, accountLeast, accountEvery), a.random.Draw())
	a.dueAt = earliest(a.dueAt, a.began.Add(max(accountLeast, pause)))
}

// beginBudgets begins to read the budgets that are due.
func (a *account) beginBudgets(now time.Time) (due []*budgets) {
	for _, b := range a.budgets {
		if b.watchers > 0 && !b.inFlight && !now.Before(b.dueAt()) {
			b.inFlight, b.began = true, now
			due = append(due, b)
		}
	}
	return due
}

// applyBudgets takes in the budgets of an owner, or that they could not be read.
func (a *account) applyBudgets(b *budgets, read any, err error) {
	b.inFlight, b.failing = false, err != nil
	if err != nil || b.known && reflect.DeepEqual(b.newest, read) {
		return
	}
	b.newest, b.known = read, true
	for _, w := range a.watchers {
		if w.budgets == b {
			w.notify()
		}
	}
}

// prune forgets what nobody has watched for long enough, and reports whether nothing is left. What was read is kept
// until it may be read again: callers that come and go cost no more than one that stays.
func (a *account) prune(now time.Time) (idle bool) {
	a.budgets = slices.DeleteFunc(a.budgets, func(b *budgets) bool {
		return b.watchers == 0 && !b.inFlight && !now.Before(b.dueAt())
	})
	return len(a.watchers) == 0 && len(a.budgets) == 0 && !now.Before(a.keptUntil())
}

// keptUntil is how long an account is kept that nobody watches. One without a state goes sooner, as callers can invent
// API keys without end.
func (a *account) keptUntil() time.Time {
	if a.newest == nil {
		return a.began.Add(lingerUnknown)
	}
	return a.began.Add(accountLeast)
}

// next is when there is something to read or to forget; zero: an answer comes before. A read that is due waits for the
// budget of requests.
func (a *account) next(now time.Time) (next time.Time) {
	switch {
	case len(a.watchers) == 0 && a.keptUntil().After(now):
		next = a.keptUntil()
	case len(a.watchers) > 0 && !a.inFlight && a.dueAt.After(now):
		next = a.dueAt
	}
	for _, b := range a.budgets {
		if !b.inFlight {
			next = earliest(next, b.dueAt())
		}
	}
	return next
}

// accountWatcher is a watcher of the account. It delivers the newest balance and budgets where they differ from the
// last ones that it has delivered.
type accountWatcher struct {
	stream
	balance   bool           // changes of the balance are delivered
	budgets   *budgets       // nil: the owner has none
	delivered *AccountUpdate // nil: none yet
}

func newAccountWatcher(req *AccountRequest, notify func(), trace TraceRef) *accountWatcher {
	return &accountWatcher{stream: newStream(req.Heartbeat, req.Stall, req.Until, notify, trace), balance: req.Balance}
}

// start begins the watch.
func (w *accountWatcher) start(t *tenant, req *AccountRequest, now time.Time) {
	w.tenant = t
	t.watches++
	t.account.add(w, req.Credential.Owner, req.Budgets, now)
}

func (w *accountWatcher) stop(now time.Time) {
	w.tenant.watches--
	w.tenant.account.remove(w, now)
}

func (w *accountWatcher) drain() { w.fail(ErrDraining) }

// next takes the next step, under the tenant's mutex.
func (w *accountWatcher) next(now time.Time) step {
	w.tenant.mu.Lock()
	defer w.tenant.mu.Unlock()
	w.expire(now)
	update, found := w.change()
	switch {
	case update != nil:
		w.delivered = update
		return step{event: &Event{Account: update}, found: found}
	case w.err != nil:
		return step{err: w.err}
	case !now.Before(w.heartbeatAt):
		return step{event: &Event{Heartbeat: w.heartbeatEvent()}}
	}
	return step{next: earliest(w.heartbeatAt, w.until)}
}

// change gives the newest state where it is new to the watcher. The first one waits for both the balance and the
// budgets.
func (w *accountWatcher) change() (update *AccountUpdate, found TraceRef) {
	a := &w.tenant.account
	if a.newest == nil || w.budgets != nil && !w.budgets.known {
		return nil, nil
	}
	update = &AccountUpdate{Account: *a.newest, Initial: w.delivered == nil}
	if w.budgets != nil {
		update.Budgets = w.budgets.newest
	}
	if update.Initial {
		return update, a.foundBy
	}
	if w.balance && !sameBalance(w.delivered.Account.BalanceCents, a.newest.BalanceCents) {
		return update, a.foundBy
	}
	if !reflect.DeepEqual(w.delivered.Budgets, update.Budgets) {
		return update, nil
	}
	return nil, nil
}

// errBudgets is what a heartbeat says of budgets that can't be read.
const errBudgets = "the ledger does not answer: the budgets are not read"

// heartbeatEvent says why the watch is quiet.
func (w *accountWatcher) heartbeatEvent() *Heartbeat {
	t, a := w.tenant, &w.tenant.account
	beat := t.newHeartbeat(time.Time{})
	if a.newest != nil {
		beat.ObserveTime = a.newest.ObserveTime
	}
	beat.NextPoll, beat.Failures = latest(a.dueAt, t.budget.Paused()), a.failures
	if a.failures > 0 {
		beat.LastError = a.lastErr
	}
	if beat.LastError == "" && w.budgets != nil && w.budgets.failing {
		beat.LastError, beat.Own = errBudgets, true
	}
	return beat
}

func sameBalance(a, b *int64) bool {
	return a == b || a != nil && b != nil && *a == *b
}
