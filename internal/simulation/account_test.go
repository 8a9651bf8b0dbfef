package simulation

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/durationpb"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/sandbox"
)

const routeAccount = "GET /me"

// How often Easel says that it looks, and what that may take longer.
const (
	accountEvery  = time.Minute
	accountSoon   = 10 * time.Second // after an order
	budgetsEvery  = 5 * time.Second
	accountMargin = 5 * time.Second
	readLimit     = 30 * time.Second // of one read
)

// watchAccounts lets somebody of each tenant watch the account on each replica until the plan is over. The thrifty
// team does so too, whose budget is short.
func (w *world) watchAccounts() {
	for _, t := range w.tenants[:len(w.plan.watchers())] {
		for i := range w.replicas {
			c := w.caller(t, fmt.Sprint("m", i))
			c.at = i
			c.start((*caller).watchMoney)
		}
	}
}

// watchers are the tenants that watch their account.
func (p plan) watchers() []string {
	if p.Ledger {
		return p.tenantNames()
	}
	return p.tenantNames()[:p.Tenants]
}

// watchMoney watches the account until the plan is over, and stays with its replica.
func (c *caller) watchMoney() {
	until := c.world.history.begin.Add(c.world.plan.Length)
	for !c.over() && time.Now().Before(until) {
		c.watchMoneyOnce(time.Until(until))
		c.pause(500 * time.Millisecond)
	}
}

// watchMoneyOnce reads one stream of the account to its end.
func (c *caller) watchMoneyOnce(limit time.Duration) {
	c.stream++
	d, every, stream := c.endpoint(), c.heartbeat(0), c.stream
	process := d.replica.current().name
	say := func(e event) {
		e.stream, e.process, e.every = stream, process, every
		c.note(e)
	}
	ctx, cancel := context.WithCancelCause(c.world.ctx)
	defer cancel(nil)
	defer time.AfterFunc(limit, func() { cancel(errEnough) }).Stop()
	patience := 3*every + time.Duration(c.random.Int64N(1e6))
	watchdog := time.AfterFunc(patience, func() { cancel(errSilence) })
	defer watchdog.Stop()
	say(event{kind: sawOpen, text: "account"})
	from, err := d.money.WatchAccount(d.signed(ctx), &easelv1.WatchAccountRequest{HeartbeatInterval: durationpb.New(every)})
	for err == nil {
		var m *easelv1.WatchAccountResponse
		if m, err = from.Recv(); err != nil {
			break
		}
		watchdog.Reset(patience)
		switch {
		case m.GetUpdate() != nil:
			say(c.world.accountEvent(m.GetUpdate()))
		case m.GetHeartbeat() != nil:
			say(event{kind: sawBeat, text: conditionName(m.GetHeartbeat())})
			c.world.searchKeys(c, m.GetHeartbeat().GetLastError())
		case m.GetClosing() != nil:
			say(event{kind: sawClosing})
		}
	}
	switch cause := context.Cause(ctx); {
	case errors.Is(cause, errEnough) || c.over():
		say(event{kind: sawLeft})
	case errors.Is(cause, errSilence):
		say(event{kind: sawSilence})
	default:
		if code, _ := c.failed(event{stream: stream, process: process, every: every}, err); code == codes.OK {
			c.note(event{kind: sawOver, text: "a watch of the account has ended with OK"})
		}
	}
}

// accountEvent is an update as the history has it.
func (w *world) accountEvent(u *easelv1.AccountUpdate) event {
	a := u.Account
	e := event{kind: sawAccount, initial: u.GetInitial(), observed: w.moment(a.GetObserveTime().AsTime()), balance: -1}
	if a.BalanceCents != nil {
		e.balance = a.GetBalanceCents()
	}
	for _, b := range a.GetBudgets() {
		period := strings.ToLower(strings.TrimPrefix(b.GetWindow().String(), "BUDGET_WINDOW_"))
		e.budgets += budgetText(period, b.GetStartTime().AsTime(), b.GetSpentCents(), b.GetReservedCents())
	}
	return e
}

// budgetText is a budget as the history has it.
func budgetText(period string, start time.Time, spent, reserved int64) string {
	return fmt.Sprintf("%s of %s: %d+%d; ", period, start.UTC().Format(time.DateOnly), spent, reserved)
}

// steps are the values of something over time: each holds from its time on.
type stepsOf[T comparable] []struct {
	at    time.Duration
	value T
}

func (s *stepsOf[T]) add(at time.Duration, value T) {
	*s = append(*s, struct {
		at    time.Duration
		value T
	}{at, value})
}

// hold reports whether a value held at some moment from one time to another.
func (s stepsOf[T]) hold(value T, from, to time.Duration) bool {
	for i, one := range s {
		over := i+1 < len(s) && s[i+1].at < from
		if one.value == value && one.at <= to && !over {
			return true
		}
	}
	return false
}

// balances are those of a tenant's account.
func (o *outcome) balances(tenant string) (all stepsOf[int64]) {
	entries := slices.Clone(o.books[tenant].Entries)
	slices.SortStableFunc(entries, func(a, b sandbox.Entry) int { return a.Time.Compare(b.Time) })
	sum := int64(0)
	for _, e := range entries {
		sum += e.Cents
		all.add(e.Time.Sub(o.begin), sum)
	}
	return all
}

// budgetTexts are the budgets of an owner, each as it was over time, by period and day of its start.
func (o *outcome) budgetTexts(owner string) map[string]*stepsOf[string] {
	all := map[string]*stepsOf[string]{}
	for _, b := range o.budgets {
		name := budgetName(budgetText(b.period, b.start, 0, 0))
		if b.owner != owner {
			continue
		}
		if all[name] == nil {
			all[name] = &stepsOf[string]{}
			all[name].add(-1<<62, budgetText(b.period, b.start, 0, 0))
		}
		all[name].add(b.at, budgetText(b.period, b.start, b.spent, b.reserved))
	}
	return all
}

// budgetName is the period and its start.
func budgetName(text string) string {
	name, _, _ := strings.Cut(text, ":")
	return name
}

// budgetList are the budgets of an event.
func (e event) budgetList() (all []string) {
	for one := range strings.SplitAfterSeq(e.budgets, "; ") {
		if one != "" {
			all = append(all, one)
		}
	}
	return all
}

// accountsAreTrue compares each balance with the catalog's books at the time of the read, and each budget with the
// ledger's a moment ago.
func accountsAreTrue(o *outcome, say func(event, string, ...any)) {
	balances, budgets := map[string]stepsOf[int64]{}, map[string]map[string]*stepsOf[string]{}
	last := map[string]time.Duration{} // observe times by stream
	for _, e := range o.events {
		if e.kind != sawAccount {
			continue
		}
		t, stream := e.tenant(), fmt.Sprint(e.actor, e.stream)
		if budgets[t] == nil {
			balances[t], budgets[t] = o.balances(t), o.budgetTexts(t)
		}
		from := max(e.observed-readLimit, last[stream]-readLimit)
		if last[stream] = e.observed; e.balance >= 0 && !balances[t].hold(e.balance, from, e.observed) {
			say(e, "a balance of %d that was not so between %v and %v", e.balance, from, e.observed)
		}
		for _, b := range e.budgetList() {
			steps := budgets[t][budgetName(b)]
			if steps == nil && strings.HasSuffix(b, ": 0+0; ") {
				continue // nothing was ordered in it
			}
			from := e.at - budgetsEvery - accountMargin
			if (steps == nil || !steps.hold(b, from, e.at)) && !o.excused(from-time.Minute, e.at, e.process, "", reachLedger, reachReplica) {
				say(e, "a budget %q that was not so in the last %v", b, e.at-from)
			}
		}
	}
}

// moneyStreams visits the streams of accounts with their events of updates. to is the last sign of life of a stream.
func (o *outcome) moneyStreams(visit func(open event, updates []event, to time.Duration)) {
	opened, updates, to := map[string]event{}, map[string][]event{}, map[string]time.Duration{}
	var order []string
	for _, e := range o.events {
		name := fmt.Sprint(e.actor, e.stream)
		if e.kind == sawOpen && e.text == "account" {
			order = append(order, name)
			opened[name] = e
		}
		if opened[name].kind == "" || e.stream == 0 {
			continue
		}
		to[name] = e.at
		if e.kind == sawAccount {
			updates[name] = append(updates[name], e)
		}
	}
	for _, name := range order {
		visit(opened[name], updates[name], to[name])
	}
}

// newestMoneyArrives looks at each change of money that an open stream has to tell.
func newestMoneyArrives(o *outcome, say func(event, string, ...any)) {
	placed := o.placedBy()
	o.moneyStreams(func(open event, updates []event, to time.Duration) {
		if len(updates) == 0 {
			return
		}
		told := func(by time.Duration) (last event) {
			for _, e := range updates {
				if e.at <= by {
					last = e
				}
			}
			return last
		}
		quiet := func(at, until time.Duration) bool { // nothing excuses a delay
			return at > updates[0].at && until < to && !o.excused(at-2*time.Minute, until, open.process, open.actor,
				reachCallers, reachReplica, reachCatalog, reachReads, reachOutage, reachRejected, reachLedger, reachOrders)
		}
		balances := o.balances(open.tenant())
		check := func(at, limit time.Duration, why string) {
			if until := at + limit; updates[0].balance >= 0 && quiet(at, until) && !balances.hold(told(until).balance, at, until) {
				say(event{at: until, actor: open.actor}, "%v after %s at %v the balance told is %d", limit, why, at, told(until).balance)
			}
		}
		for _, b := range balances {
			check(b.at, accountEvery+accountMargin, "a change")
		}
		for _, e := range placed[open.process+" "+open.tenant()] {
			check(e.at, accountSoon+accountMargin, "an order")
		}
		o.checkBudgets(open, updates[0], told, quiet, say)
	})
}

// checkBudgets looks at each change of a budget.
func (o *outcome) checkBudgets(open, first event, told func(time.Duration) event, quiet func(at, until time.Duration) bool, say func(event, string, ...any)) {
	steps := o.budgetTexts(open.tenant())
	for _, limited := range first.budgetList() {
		period, _, _ := strings.Cut(limited, " ")
		for _, b := range o.budgets {
			until := b.at + budgetsEvery + accountMargin
			if b.owner != open.tenant() || b.period != period || !quiet(b.at, until) {
				continue
			}
			for _, text := range told(until).budgetList() {
				if all := steps[budgetName(text)]; all != nil && strings.HasPrefix(text, period) && !all.hold(text, b.at, until) {
					say(event{at: until, actor: open.actor}, "after a change at %v the budget told is %q", b.at, text)
				}
			}
		}
	}
}

// placedBy are the answers to orders that were placed, by the process that answered and the tenant.
func (o *outcome) placedBy() map[string][]event {
	asked, all, charged := map[string]event{}, map[string][]event{}, o.chargedAt()
	for _, e := range o.events {
		switch order := asked[e.actor+" "+e.text]; e.kind {
		case sawOrder:
			asked[e.actor+" "+e.text] = e
		case sawPlaced:
			if charged[e.gen] < order.at { // a repeat pays nothing
				continue
			}
			name := order.process + " " + e.tenant()
			all[name] = append(all[name], e)
		}
	}
	return all
}

// chargedAt is when each generation was charged.
func (o *outcome) chargedAt() map[string]time.Duration {
	all := map[string]time.Duration{}
	for _, books := range o.books {
		for _, e := range books.Entries {
			if e.Kind == "charge" {
				all[e.GenerationID] = e.Time.Sub(o.begin)
			}
		}
	}
	return all
}

// accountsAreReadSeldom holds for each process and API key. Whoever comes after a read that failed has the next one.
func accountsAreReadSeldom(o *outcome, say func(event, string, ...any)) {
	for who, list := range o.polls() {
		var before request
		for _, r := range list {
			if r.op != routeAccount {
				continue
			}
			if gap := r.at - before.at; before.status == 200 && gap < accountSoon {
				say(event{at: r.at, actor: who.process}, "the account of %s was read %v after the last time", who.tenant, gap)
			}
			before = r
		}
	}
}

// noBalanceForTeams looks at worlds with a callers file, which has no operator.
func noBalanceForTeams(o *outcome, say func(event, string, ...any)) {
	for _, e := range o.events {
		if e.kind == sawAccount && e.balance >= 0 && o.plan.Ledger {
			say(e, "it is told a balance of %d", e.balance)
		}
	}
}
