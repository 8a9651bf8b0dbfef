package simulation

import "slices"

// The packages that have bugs.
const (
	catalogDir   = "internal/catalog"
	eventsDir    = "internal/events"
	gateDir      = "internal/gate"
	ledgerDir    = "internal/ledger"
	lifecycleDir = "internal/ledger/lifecycle"
	ordersDir    = "internal/orders"
	reloadDir    = "internal/reload"
	restDir      = "internal/rest"
	serverDir    = "internal/server"
	serviceDir   = "internal/service"
	watchDir     = "internal/watch"
)

// bugs are what the simulation must catch. Each has been a real bug of some program of this
// kind, or is what a hasty change would make.
var bugs = slices.Concat(stackBugs, pollBugs, gateBugs)

var stackBugs = []bug{
	{
		name:   "an order ends with its first caller",
		edits:  []edit{{ordersDir, "placing.begin", "context.WithoutCancel(c)", "c"}},
		jobs:   seeds("only-K7", 1, 2, 3),
		breaks: []string{"an order that may have been sent is finished"},
	},
	{
		name: "each attempt has an idempotency key of its own",
		edits: []edit{
			{catalogDir, "requester.newRequest", `h.Set("Idempotency-Key", k)`, `h.Set("Idempotency-Key", k+uniqueSuffix())`},
			addition(catalogDir, `import "time"

func uniqueSuffix() string { return time.Now().Format(".150405.000000000") }
`),
		},
		jobs:   seeds("only-U14", 1, 2, 3),
		breaks: []string{"one idempotency key is one charge"},
	},
	{
		name:   "a refusal counts for an order that may exist",
		edits:  []edit{{ordersDir, "submission.withheld", "!s.mayExist", "true"}, {ordersDir, "submission.conclude", "!s.mayExist", "true"}},
		jobs:   seeds("only-A10", 1, 2, 3, 4, 5, 6),
		breaks: []string{"no unknown outcome is given as known"},
	},
	{
		name:   "a refusal says that nothing was placed",
		edits:  []edit{{ordersDir, "submission.outcome", "s.refused && !s.sent", "true"}},
		jobs:   seeds("only-A10k", 1, 2, 3, 4, 5, 6),
		breaks: []string{"a refused order is not charged", "no unknown outcome is given as known"},
	},
	{
		name:   "each attempt goes under the newest API key",
		edits:  []edit{{catalogDir, "Credential.Pinned", "c.key = f", "_ = f"}},
		jobs:   seeds("only-A11", 1, 2, 3, 4, 5, 6),
		breaks: []string{"one idempotency key is one charge"},
	},
	{
		name:   "an order of unknown outcome is sent again under the newest API key",
		edits:  []edit{{ledgerDir, "Ledger.scan", "o.APIKey != k", "false"}},
		jobs:   seeds("only-A11", 1, 2, 3, 4, 5, 6, 7, 8, 9, 10),
		breaks: []string{"one idempotency key is one charge"},
	},
	{
		name:   "an order of unknown outcome ends with its caller",
		edits:  []edit{{ordersDir, "submission.over", "s.waiting > 0 || s.mayExist", "s.waiting > 0"}},
		jobs:   seeds("only-K7", 1, 2, 3, 4, 5, 6),
		breaks: []string{"an order that may have been sent is finished"},
	},
	{
		name:   "an unknown outcome is forgotten",
		edits:  []edit{{ordersDir, "submission.note", "s.mayExist = s.mayExist || posted == catalog.Unknown", "_ = posted"}},
		jobs:   seeds("only-A10", 1, 2, 3, 4, 5, 6),
		breaks: []string{"no unknown outcome is given as known"},
	},
	{
		name:   "two calls with one idempotency key submit twice",
		edits:  []edit{{ordersDir, "placing.place", "step.Action == lifecycle.Submit", "step.Action == lifecycle.Submit || step.Action == lifecycle.Wait"}},
		jobs:   seeds("only-K8", 1, 2, 3),
		breaks: []string{"one idempotency key has one submission at a time, and none after it succeeded"},
	},
	{
		name: "an order that succeeded is posted again",
		edits: []edit{{
			ordersDir, "placing.answer", "p.orders.remember(order, order.Generation, placedTime(order))",
			"_, _, _ = p.orders.Catalog.Post(context.Background(), p.cred, catalog.Order{ModelID: order.ModelID, Inputs: p.asked.Inputs, IdempotencyKey: order.UpstreamKey})",
		}},
		jobs:   seeds("only-K7", 1, 2, 3),
		breaks: []string{"one idempotency key has one submission at a time, and none after it succeeded"},
	},
	{
		name:   "calls retry without a budget",
		edits:  []edit{{catalogDir, "retrier.retry", "!r.gate(cred.Tenant).MayRepeat()", "!r.gate(cred.Tenant).MayRepeat() && false"}},
		jobs:   seeds("only-U19", 1, 2, 3),
		breaks: []string{"calls retry little in an outage"},
	},
	{
		name:   "Retry-After is read as nothing",
		edits:  []edit{{catalogDir, "ParseRetryAfter", "time.Duration(s)", "time.Duration(0 * s)"}},
		jobs:   seeds("only-U5", 1, 2, 3),
		breaks: []string{"no request in a pause that the catalog asked for"},
	},
	{
		name:   "a body that was cut is a whole file",
		edits:  []edit{{catalogDir, "contentBody.ended", "b.size >= 0 && _ && _", "true"}},
		jobs:   seeds("only-U16", 1, 2, 3, 4),
		breaks: []string{"files arrive whole"},
	},
	{
		name: "the transport may repeat an order by itself",
		edits: []edit{
			{catalogDir, "requester.newRequest", "r.Body = io.NopCloser(bytes.NewReader(b))", "r.Body, r.GetBody = io.NopCloser(bytes.NewReader(b)), bodyAgain(b)"},
			addition(catalogDir, `import (
	"bytes"
	"io"
)

func bodyAgain(body []byte) func() (io.ReadCloser, error) {
	return func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
}
`),
		},
		jobs:   seeds("only-U14", 1, 2, 3, 4, 5, 6),
		breaks: []string{"every order that arrives is an attempt of ours"},
	},
	{
		name:   "all API keys are one tenant",
		edits:  []edit{{catalogDir, "Forwarded", "k[:16]", "k[:0]"}},
		jobs:   seeds("only-L7", 1, 2, 3),
		breaks: []string{"nobody sees a foreign generation or a secret"},
	},
	{
		name: "the first caller's API key serves everybody",
		edits: []edit{
			{serviceDir, "Service.Authenticate", "catalog.NewSecret(t)", "catalog.NewSecret(firstToken(t))"},
			addition(serviceDir, `import "sync"

var (
	first string
	once  sync.Once
)

func firstToken(token string) string {
	once.Do(func() { first = token })
	return first
}
`),
		},
		jobs:   seeds("only-L7", 1, 2, 3),
		breaks: []string{"nobody sees a foreign generation or a secret"},
	},
	{
		name:   "a watch of many takes what its caller knows for unchanged",
		edits:  []edit{{watchDir, "watcher.eventOf", "s.deliveredEtag == e.etag", "s.deliveredEtag != \"\""}},
		jobs:   seeds("short", 1, 2, 3, 4, 5, 6),
		breaks: []string{"a watch of many that goes on tells what has changed, and nothing else", "the last state always arrives"},
	},
	{
		name:   "a watch of many does not count what its caller knows",
		edits:  []edit{{serviceDir, "watchOfMany.deliver", "w.cover(_)", `delete(w.covered, "")`}},
		jobs:   seeds("short", 1, 2, 3, 4, 5, 6),
		breaks: []string{"a watch of many that goes on tells what has changed, and nothing else"},
	},
	{
		name:   "a watch of everything forgets its filter",
		edits:  []edit{{serviceDir, "watchOfMany.wants", "!excludes(_, _, _)", "true"}, {watchDir, "newWatcher", "r.ModelID", "\"\""}},
		jobs:   seeds("busy", 1, 2, 3),
		breaks: []string{"a watch of many that goes on tells what has changed, and nothing else"},
	},
	{
		name:   "the state that a caller has is ignored",
		edits:  []edit{{serviceDir, "knownEtag", `r.GetKnownEtag() == ""`, "true"}},
		jobs:   seeds("only-N3", 1, 2, 3, 4),
		breaks: []string{"no state is delivered twice in a row"},
	},
	{
		name:   "the end of a replica is not announced",
		edits:  []edit{{serverDir, "Server.stop", "go s.Drain()", "_ = s"}},
		jobs:   seeds("only-N4", 1, 2, 3),
		breaks: []string{"a drain is announced"},
	},
	{
		name:   "a closed stream ends with OK",
		edits:  []edit{{serviceDir, "watchOfOne.finish", "_ = s.send(m); return _", "_ = s.send(m); return nil"}},
		jobs:   seeds("only-N4", 1, 2, 3),
		breaks: []string{"OK means that the goal is reached"},
	},
	{
		name:   "no reader is too slow",
		edits:  []edit{{watchDir, "delivery.limitStall", "time.AfterFunc(d, f)", "time.AfterFunc(100*d, f)"}},
		jobs:   seeds("only-L1", 1, 2, 3),
		breaks: []string{"a stalled reader is closed"},
	},
	{
		name:   "events have no id",
		edits:  []edit{{restDir, "eventWriter.message", "eventID(_)", `""`}},
		jobs:   seeds("only-N4", 1, 2, 3),
		breaks: []string{"no state is delivered twice in a row"},
	},
	{
		name:   "events stay in the buffer",
		edits:  []edit{{restDir, "eventWriter.write", "return e.flush()", "return nil"}},
		jobs:   seeds("short", 1, 2, 3),
		breaks: []string{"silence is never longer than the heartbeat", "a change is delivered at once"},
	},
	{
		name:   "a read is not given to the hub",
		edits:  []edit{{serviceDir, "Service.read", "h.Observe(_, _, r)", "watch.Update{Version: r}"}},
		jobs:   seeds("only-U13", 1, 2, 3, 4),
		breaks: []string{"states go forwards"},
	},
	{
		name:   "an order of this process may be missing at once",
		edits:  []edit{{watchDir, "entry.justCreated", "now.Sub(e.created) < lifecycle.VisibleAfter", "false"}, {watchDir, "entry.exists", "e.ordered || _ || _", "false"}},
		jobs:   seeds("only-U10", 1, 2, 3),
		breaks: []string{"trouble of the catalog ends no watch", "no state is delivered that the catalog never had"},
	},
	{
		name:   "an API key in an error is passed on",
		edits:  []edit{{catalogDir, "redactor.clean", "keyLike.ReplaceAllString(r.without(t), redacted)", "t"}},
		jobs:   seeds("only-U22", 1, 2, 3),
		breaks: []string{"nobody sees a foreign generation or a secret"},
	},

	// The hub.
	{
		name:   "a watcher that joins after the end gets nothing",
		edits:  []edit{{watchDir, "watcher.add", "if e.fresh { w.mark(a) }", "if e.fresh && !e.state.State.Terminal() { w.mark(a) }"}},
		jobs:   seeds("only-L6", 1, 2),
		breaks: []string{"everybody is served in the end"},
	},
	{
		name:   "a change wakes nobody",
		edits:  []edit{{watchDir, "watcher.mark", "w.notify()", ""}},
		jobs:   seeds("short", 1, 2),
		breaks: []string{"a change is delivered at once"},
	},
	{
		name:   "a state that goes backwards is delivered",
		edits:  []edit{{watchDir, "entry.advance", "!e.mayBecome(_)", "false"}},
		jobs:   seeds("only-U13", 1, 2, 3, 4),
		breaks: []string{"states go forwards"},
	},
	{
		name: "polls run on the first caller's context",
		edits: []edit{
			{watchDir, "Hub.Watch", "h.cfg.Observer.TraceRef(c)", "h.cfg.Observer.TraceRef(rememberFirst(h, c))"},
			{watchDir, "poller.execute", "context.WithTimeout(j.turn.Context(h.ctx), t)", "context.WithTimeout(firstContext(h), t)"},
			addition(watchDir, `import (
	"context"
	"sync"
)

var firsts sync.Map // context by hub

func rememberFirst(h *Hub, ctx context.Context) context.Context {
	firsts.LoadOrStore(h, ctx)
	return ctx
}

func firstContext(h *Hub) context.Context {
	first, _ := firsts.Load(h)
	return first.(context.Context)
}
`),
		},
		jobs:   seeds("short", 1, 2),
		breaks: []string{"everybody is served in the end", "the end of a generation is detected in time"},
	},
	{
		name:   "an outage is polled as always",
		edits:  []edit{{watchDir, "health.backOff", "h.failures < outageFailures", "h.failures < outageFailures*1000"}},
		jobs:   seeds("outage", 8, 10),
		breaks: []string{"an outage is only probed"},
	},
	{
		name:   "a refund is a step backwards",
		edits:  []edit{{lifecycleDir, "Status.MayBecome", "slices.Contains(follows[s], n)", "n != Refunded && slices.Contains(follows[s], n)"}},
		jobs:   seeds("only-S3", 1, 2, 3, 4),
		breaks: []string{"OK means that the goal is reached"},
	},
	{
		name:   "polls go on for a watcher that has left",
		edits:  []edit{{watchDir, "Hub.Watch", "t.end(_, _)", ""}},
		jobs:   seeds("short", 1, 2, 3, 4),
		breaks: []string{"nobody watches, nobody polls"},
	},
	{
		name:   "a rejected held API key ends watches",
		edits:  []edit{{watchDir, "poller.failed", "!t.cred.Held", "true"}},
		jobs:   seeds("only-U7", 1, 2, 3),
		breaks: []string{"trouble of the catalog ends no watch"},
	},
	{
		name:   "an order of this process is due tomorrow",
		edits:  []edit{{watchDir, "tenant.observe", "if e.polling.gap == 0 || _ { t.scheduleNext(e, n) }", "if e.polling.gap == 0 { t.pollAfter(e, 24*time.Hour, 0, n) }"}},
		jobs:   seeds("short", 7),
		breaks: []string{"the end of a generation is detected in time"},
	},
	{
		name:   "generations that a sweep serves are read singly too",
		edits:  []edit{{watchDir, "situation.singleReads", "!c.swept || !s.sweeps", "true"}},
		jobs:   seeds("chaos", 40012, 1, 2, 3),
		breaks: []string{"a generation is polled once, whoever watches"},
	},
	{
		name:   "streams are not counted",
		edits:  []edit{{serverDir, "places.take", "p.used[c] = u + n", "p.used[c] = 0"}},
		jobs:   seeds("only-L5", 1, 2),
		breaks: []string{"limits hold, and are reported at once"},
	},
	{
		name:   "a delivery that blocks holds up the others",
		edits:  []edit{{watchDir, "dispatcher.inspect", "d.worker, d.checkAfter = nil, c", "d.checkAfter = c"}},
		jobs:   seeds("only-L1", 1, 2, 3, 4),
		breaks: []string{"silence is never longer than the heartbeat", "everybody is served in the end"},
	},
	{
		name: "events left after a turn wait for the next change",
		edits: []edit{
			{watchDir, "delivery.run", "maxEventsPerTurn", "1"},
			{watchDir, "delivery.run", "d.park(time.Now())", "d.park(time.Now().Add(time.Hour))"},
		},
		jobs:   append(seeds("only-L2", 1, 2), seeds("only-L4", 1, 2)...),
		breaks: []string{"a change is delivered at once", "the end of a generation is detected in time", "everybody is served in the end", "the last state always arrives"},
	},
	{
		name:   "a watch has one heartbeat and no more",
		edits:  []edit{{watchDir, "delivery.park", "d.timer.Reset(_)", ""}},
		jobs:   seeds("only-U19", 1, 2, 3),
		breaks: []string{"silence is never longer than the heartbeat"},
	},
	{
		name:   "the first heartbeat is late",
		edits:  []edit{{watchDir, "newWatcher", "time.Now().Add(w.heartbeat)", "time.Now().Add(2 * w.heartbeat)"}},
		jobs:   seeds("only-U19", 1, 2, 3),
		breaks: []string{"silence is never longer than the heartbeat"},
	},
	{
		name:   "the balance is not read after an order",
		edits:  []edit{{ordersDir, "Orders.ordered", "o.Moved.Notify(_)", ""}},
		jobs:   seeds("short", 3, 6, 9, 12),
		breaks: []string{"the newest balance and the newest budget arrive"},
	},
	{
		name:   "the balance is read after each order at once",
		edits:  []edit{{serviceDir, "sharing.took", "time.Now().Add(s.least)", "time.Now()"}},
		jobs:   seeds("short", 3, 6, 9, 12),
		breaks: []string{"an account is read seldom, whoever watches"},
	},

	// Teams and their ledger.
	{
		name:   "a team sees the balance in a watch of the account",
		edits:  []edit{{serviceDir, "watchOfAccount.now", "!w.call.seesAccount()", "false"}},
		jobs:   seeds("teams-short", 3, 6),
		breaks: []string{"a team sees no balance"},
	},
	{
		name:   "a change of a budget alone is not told",
		edits:  []edit{{serviceDir, "money.equal", "sameBudgets(_, _)", "true"}},
		jobs:   seeds("teams-short", 3, 6),
		breaks: []string{"the newest balance and the newest budget arrive"},
	},
	{
		name:   "two teams with one idempotency key have one order",
		edits:  []edit{{serviceDir, "upstreamIdempotencyKey", "append(append(t, c.credential.Owner...), k...)", "append(t, k...)"}},
		jobs:   seeds("ledger-T1", 1, 2, 3),
		breaks: []string{"one idempotency key is one charge", "nobody sees a foreign generation or a secret", "every cent of the account has one owner"},
	},
	{
		name:   "a generation of another team is shown",
		edits:  []edit{{serviceDir, "hides", "credential(c).Held && o != nil && !who(c).everybody", "false"}},
		jobs:   seeds("ledger-T2", 1, 2, 3),
		breaks: []string{"nobody sees a foreign generation or a secret"},
	},
	{
		name:   "a list shows the generations of all teams",
		edits:  []edit{{ledgerDir, "Filter.clauses", "f.Owner != nil", `f.Owner != nil && *f.Owner == ""`}},
		jobs:   seeds("teams-short", 1, 2, 3, 4),
		breaks: []string{"nobody sees a foreign generation or a secret"},
	},
	{
		name:   "a watch of everything covers what is another team's",
		edits:  []edit{{serviceDir, "chosen.Has", "o && !excludes(c.filter, w.Model, w)", "o || !excludes(c.filter, w.Model, w)"}},
		jobs:   seeds("ledger-T2", 1, 2, 3, 4, 5, 6),
		breaks: []string{"nobody sees a foreign generation or a secret"},
	},
	{
		name: "an order is sent while the ledger is away",
		edits: []edit{{
			ordersDir, "placing.write", "return nil, p.unasked(err)",
			"asks := p.request; return p.begin(ctx, ledger.Order{Order: lifecycle.Order{Claims: 1}, ID: asks.UpstreamKey, Owner: asks.Owner, ModelID: asks.ModelID, UpstreamKey: asks.UpstreamKey, APIKey: asks.APIKey}, asked), nil",
		}},
		jobs:   append(seeds("ledger-T4f", 1, 2, 3), seeds("ledger-T4c", 1, 2, 3)...),
		breaks: []string{"nothing is sent that the ledger has not, and by one replica at a time"},
	},
	{
		name: "a generation is told that could not be recorded",
		edits: []edit{{
			ordersDir, "submission.conclude", "step, failed := s.writeConclusion(ctx, conclusion)",
			"step, failed := s.writeConclusion(ctx, conclusion); if failed != nil && outcome == lifecycle.Named { s.generation = catalog.Generation{ID: conclusion.Generation}; return }",
		}},
		jobs:   seeds("ledger-T4n", 1, 2, 3, 4),
		breaks: []string{"nothing is told before the ledger holds it"},
	},
	{
		name:   "a commit in doubt is a ledger that is away",
		edits:  []edit{{ledgerDir, "committed", "return &Doubt{e}", "return &Unavailable{Err: e}"}},
		jobs:   seeds("ledger-T4c", 1, 2, 3, 4, 5, 6),
		breaks: []string{"nothing is told before the ledger holds it", "no unknown outcome is given as known"},
	},
	{
		name:   "a claim is taken once for all attempts",
		edits:  []edit{{ordersDir, "submission.renew", "s.orders.Ledger.Renew(ctx, s.order.ID, s.order.Claims, s.order.APIKey)", "func() (bool, time.Duration, error) { return true, time.Hour, nil }()"}},
		jobs:   seeds("ledger-U4p", 1, 2, 3, 4),
		breaks: []string{"nothing is sent that the ledger has not, and by one replica at a time"},
	},
	{
		name:   "an order is sent by two replicas at once",
		edits:  []edit{{lifecycleDir, "Order.Call", "o.Claimed", "false"}, {lifecycleDir, "Order.Resume", "o.State != Open || o.Claimed", "o.State != Open"}},
		jobs:   append(seeds("ledger-T1r", 2, 1, 3, 4, 5, 6), seeds("ledger-T9", 1, 2, 3)...),
		breaks: []string{"nothing is sent that the ledger has not, and by one replica at a time"},
	},
	{
		name: "a claim lasts by the clock of the process",
		edits: []edit{{
			ledgerDir, "Ledger.claim", "tx.exec(_, o.Claims, ClaimTime.Microseconds(), o.ID)",
			`tx.exec("UPDATE orders SET claims = $1, claimed_until = $2 WHERE id = $3", o.Claims, time.Now().Add(ClaimTime).UnixMicro(), o.ID)`,
		}},
		jobs:   append(seeds("ledger-T3", 6, 1, 2, 3, 4, 5), seeds("ledger-T1r", 1, 2, 3, 4)...),
		breaks: []string{"nothing is sent that the ledger has not, and by one replica at a time", "an order is known a minute after the catalog answers again"},
	},
	{
		name: "a refusal frees an order that another claim may have placed",
		edits: []edit{
			{lifecycleDir, "Order.Concluded", "outcome == TurnedAway && claim == 1", "outcome == TurnedAway"},
			{ordersDir, "placing.begin", "s.mayExist || p.uncertain", "false"},
			{ordersDir, "Orders.submission", "order.Claims > 1", "false"},
		},
		jobs:   append(seeds("ledger-A10k", 1, 2, 3, 4, 5, 6), seeds("ledger-A10", 1, 2, 3)...),
		breaks: []string{"no unknown outcome is given as known", "a refused order is not charged", "every cent of the account has one owner", "nothing is told before the ledger holds it"},
	},
	{
		name:   "the ledger does not know that the window is over",
		edits:  []edit{{ledgerDir, "Ledger.scan", "o.Expired = age >= l.window.Microseconds()", "o.Expired = age < 0"}},
		jobs:   seeds("ledger-T11", 1, 2, 3),
		breaks: []string{"nothing is sent after the window, or under another API key", "one idempotency key is one charge"},
	},
	{
		name:   "an order is sent again under a new API key",
		edits:  []edit{{ledgerDir, "Ledger.scan", "o.Rotated = o.APIKey != k", `o.Rotated = k == "never"`}},
		jobs:   seeds("ledger-T10", 1, 2, 3, 4),
		breaks: []string{"nothing is sent after the window, or under another API key", "one idempotency key is one charge"},
	},
	{
		name:   "an order that nobody comes back for waits for long",
		edits:  []edit{{ledgerDir, "retryDelay", "min(_, retryAtMost)", "10 * time.Minute"}},
		jobs:   seeds("ledger-T3l", 1, 2, 3, 4),
		breaks: []string{"an order is known a minute after the catalog answers again"},
	},
	{
		name: "reserved money does not count in a budget",
		edits: []edit{
			{ledgerDir, "count", "addToBudgets", "addSpentAlone"},
			addition(ledgerDir, `import "strings"

var addSpentAlone = strings.Replace(addToBudgets, "+ budgets.reserved_cents + excluded.reserved_cents <=", "+ excluded.reserved_cents <=", 1)
`),
		},
		jobs:   seeds("teams-short", 1, 2, 3, 4, 5, 6),
		breaks: []string{"no budget is passed"},
	},
	{
		name:   "what was spent counts again with each look",
		edits:  []edit{{ledgerDir, "moving", "to.SpentCents()-o.SpentCents()", "to.SpentCents()"}},
		jobs:   seeds("teams-short", 1, 2),
		breaks: []string{"the money of the orders is that of the budgets"},
	},
	{
		name:   "a refund is not recorded",
		edits:  []edit{{lifecycleDir, "Observed.Money", "g.Status == Refunded", "false"}},
		jobs:   seeds("ledger-S3", 1, 2, 3),
		breaks: []string{"every cent of the account has one owner"},
	},
	{
		name:   "nobody settles",
		edits:  []edit{{ordersDir, "Orders.settle", "due, err := o.Ledger.Due(c, settleQuiet, settleAtMost)", "due, err := []ledger.Due(nil), error(nil)"}},
		jobs:   append(seeds("ledger-T3l", 1, 2, 3, 4), seeds("ledger-S3", 1, 2, 3)...),
		breaks: []string{"what nobody watches is settled", "every cent of the account has one owner"},
	},
	{
		name:   "an operator's list ends with the ledger",
		edits:  []edit{{serviceDir, "generations.ListGenerations", "!hides(ctx, filter.Owner) && len(filter.Labels) == 0", "false"}},
		jobs:   seeds("teams-short", 1, 2, 3, 4),
		breaks: []string{"operators see everything"},
	},
	{
		name:   "an operator's list has its own",
		edits:  []edit{{serviceDir, "viewer", "c.operator || c.everybody", "c.everybody"}},
		jobs:   seeds("teams-short", 1, 2, 3, 4),
		breaks: []string{"operators see everything"},
	},
	{
		name:   "an operator changes what others have ordered",
		edits:  []edit{{serviceDir, "Service.owns", "owner := orderer(c)", "owner := viewer(c)"}},
		jobs:   seeds("teams-short", 1, 2, 3, 4),
		breaks: []string{"nobody sees a foreign generation or a secret"},
	},
	{
		name: "a repeat changes the labels",
		edits: []edit{{
			ledgerDir, "Ledger.Call", "o, step = *f, f.Call(f.isSame(r))",
			`for name, value := range r.Labels { if _, err := tx.exec("UPDATE labels SET value = $1 WHERE order_id = $2 AND name = $3", value, f.ID, name); err != nil { return err } }
			o, step = *f, f.Call(f.isSame(r))`,
		}},
		jobs:   seeds("ledger-T1r", 1, 2, 3, 4),
		breaks: []string{"the first labels stay, and choose"},
	},
	{
		name:   "a filter by label looks at its name alone",
		edits:  []edit{{ledgerDir, "Filter.labels", `c.add("id = order_id AND name = %s AND value = %s", name, f.Labels[name])`, `c.add("id = order_id AND name = %s", name)`}},
		jobs:   seeds("teams-short", 1, 2, 3, 4),
		breaks: []string{"the first labels stay, and choose"},
	},
	{
		name:   "a team sees the usage of all",
		edits:  []edit{{ledgerDir, "UsageQuery.between", "q.Owner != nil", `q.Owner != nil && *q.Owner == ""`}},
		jobs:   seeds("teams-short", 1, 2, 3, 4),
		breaks: []string{"usage is what the orders are, and what the catalog's books are"},
	},
	{
		name:   "the callers file is read once",
		edits:  []edit{{reloadDir, "Value.begin", "!v.reading && time.Since(v.checked) >= i", "v.checked.IsZero()"}},
		jobs:   seeds("ledger-T8", 1, 2, 3, 4, 5, 6),
		breaks: []string{"a new order fits the budget in force", "nobody sees a foreign generation or a secret"},
	},
	{
		name: "a callers file that is broken lets nobody in",
		edits: []edit{{
			serviceDir, "LoadCallers", "next, err := last.parse(_)",
			"next, err := last.parse(contents[0]); if err != nil && inForce != nil { next, err = &callers.List{}, nil }",
		}},
		jobs:   seeds("ledger-T8", 1, 2, 3, 4, 5, 6),
		breaks: []string{"the callers file in force says who may call"},
	},
	{
		name:   "a watch goes on without its caller's token",
		edits:  []edit{{serviceDir, "Service.now", "newest == c.listed", "newest != nil"}},
		jobs:   seeds("ledger-T8", 1, 2, 3, 4, 5, 6),
		breaks: []string{"nobody sees a foreign generation or a secret"},
	},
	{
		name:   "a charge above the quote is told to nobody",
		edits:  []edit{{ordersDir, "submission.named", "g.CostCents != nil && *g.CostCents > s.order.ReservedCents && s.order.ReservedCents > 0", "false"}},
		jobs:   seeds("ledger-T7", 1, 2, 3),
		breaks: []string{"a charge above the quote is told"},
	},
	{
		name:   "what an operator says of an order is taken as a refusal",
		edits:  []edit{{lifecycleDir, "Order.Resolve", `generation != ""`, "false"}},
		jobs:   seeds("ledger-T11", 1, 2, 3, 4),
		breaks: []string{"what an operator resolves is so"},
	},
	{
		name:   "what came back is counted at each look",
		edits:  []edit{{ledgerDir, "moving", "to.RefundedCents - o.RefundedCents", "to.RefundedCents"}},
		jobs:   seeds("ledger-T6", 1, 2, 3, 4),
		breaks: []string{"the book says what its journal adds up to"},
	},

	// Money.
	{
		name: "a key stands in two teams of one caller",
		edits: []edit{
			{ledgerDir, "Ledger.open", "return l.belong(c, u)", `_, _ = l.writes.ExecContext(c, "DROP INDEX IF EXISTS orders_caller"); return l.belong(c, u)`},
			{ordersDir, "placing.write", "p.request.Agreed = f", "_ = f"},
		},
		jobs:   seeds("ledger-M1", 1, 2, 3, 4, 5, 6),
		breaks: []string{"a caller that is moved is charged once for a key"},
	},
	{
		name:   "a refusal is told though another call has placed the order",
		edits:  []edit{{ordersDir, "placing.refuse", "free, err := p.orders.Ledger.IsFree(ctx, p.request)", "free, err := true, error(nil)"}},
		jobs:   seeds("ledger-M2", 1, 2, 3, 4, 5, 6),
		breaks: []string{"what is called not placed is not placed", "a refused order is not charged"},
	},
	{
		name:   "an order above the most that it may cost is placed",
		edits:  []edit{{ordersDir, "placing.price", "quote.PriceCents > *most", "false"}},
		jobs:   seeds("only-U20", 1, 2, 3),
		breaks: []string{"limits hold, and are reported at once"},
	},
	{
		name:   "a proxy's 404 is the catalog's",
		edits:  []edit{{catalogDir, "IsAbsent", "e.Own", "true"}, {lifecycleDir, "Absence.NotFound", "n.Sub(a.Since) >= AbsentFor", "n.Sub(a.Since) >= AbsentFor/6"}},
		jobs:   seeds("ledger-M4", 1, 2, 3, 4, 5, 6, 7, 8, 9),
		breaks: []string{"no state is delivered that the catalog never had", "what the ledger calls gone is gone"},
	},
	{
		name:   "one 404 is a deletion",
		edits:  []edit{{lifecycleDir, "Absence.NotFound", "w && n.Sub(a.Since) >= AbsentFor", "true"}},
		jobs:   seeds("ledger-M4", 1, 2, 3, 4, 5, 6, 7, 8, 9),
		breaks: []string{"no state is delivered that the catalog never had", "what the ledger calls gone is gone"},
	},
	{
		name:   "an event is written by who tells its owner alone",
		edits:  []edit{{ledgerDir, "transaction.tellGeneration", "_ || t.l.outbox == nil || a.isForwarded()", "t.l.outbox == nil || len(types) == 0 || !t.l.IsSubscriber(a.Owner)"}},
		jobs:   seeds("events-only-M5", 1, 2, 3, 4, 5, 6),
		breaks: []string{"every event that was recorded arrives, and no other"},
	},
	{
		name:   "the first charge is kept",
		edits:  []edit{{lifecycleDir, "Observed.After", "*o.CostCents > *g.ChargedCents", "false"}},
		jobs:   seeds("ledger-M7", 1, 2, 3, 4, 5, 6),
		breaks: []string{"every cent of the account has one owner"},
	},
	{
		name:   "what is reserved is free with the first charge",
		edits:  []edit{{lifecycleDir, "Observed.isCharged", "g.Final || g.PriceCents > 0 && *g.ChargedCents >= g.PriceCents", "true"}},
		jobs:   seeds("ledger-M7", 1, 2, 3, 4, 5, 6, 7, 8, 9, 10),
		breaks: []string{"no budget is passed", "a new order fits the budget in force", "a price is reserved until the end"},
	},
	{
		name:   "an order that can't be sent any more reserves its price for ever",
		edits:  []edit{{ordersDir, "Orders.Tidy", "sleep(c, tidyEvery)", "sleep(c, 10000*tidyEvery)"}},
		jobs:   seeds("ledger-M8", 1, 2, 3, 4, 5, 6),
		breaks: []string{"nothing is reserved past the window"},
	},
	{
		name:   "what was about to leave leaves past the window",
		edits:  []edit{{catalogDir, "timelyBody.Read", "!n.Before(b.leaveBy) || !n.Round(0).Before(b.leaveBy.Round(0))", "n.IsZero()"}},
		jobs:   seeds("ledger-M12", 1, 2, 3, 4, 5, 6),
		breaks: []string{"nothing is charged past the window", "one idempotency key is one charge"},
	},

	// Teams that are told.
	{
		name: "an event is written after the transaction of its state",
		edits: []edit{
			{ledgerDir, "Ledger.observe", "t.tellGeneration(o, n, x)", "t.tellLater(o, n, x)"},
			addition(ledgerDir, `import "context"

func (t *transaction) tellLater(before, after Order, text *string) error {
	go func() {
		_ = t.l.inTransaction(context.Background(), func(tx *transaction) error { return tx.tellGeneration(before, after, text) })
	}()
	return nil
}
`),
		},
		jobs:   append(seeds("events-only-T4c", 1, 2, 3, 4, 5, 6), seeds("events-only-T3", 1, 2, 3)...),
		breaks: []string{"every event that was recorded arrives, and no other"},
	},
	{
		name:   "an event counts as sent before it is",
		edits:  []edit{{eventsDir, "Sender.send", "e := s.post(c, t, x)", "_ = s.cfg.Ledger.Sent(c, x.ID); e := s.post(c, t, x)"}},
		jobs:   seeds("events-only-K3", 1, 2, 3),
		breaks: []string{"every event that was recorded arrives, and no other"},
	},
	{
		name:   "an event that was not taken counts as sent",
		edits:  []edit{{eventsDir, "Sender.send", "s.record(c, x, e)", "s.record(c, x, map[bool]error{}[e == nil])"}},
		jobs:   seeds("events-only-K3", 1, 2, 3),
		breaks: []string{"every event that was recorded arrives, and no other"},
	},
	{
		name:   "any answer takes an event",
		edits:  []edit{{eventsDir, "Sender.post", "a.StatusCode > 299", "a.StatusCode > 599"}},
		jobs:   seeds("events-only-K3", 1, 2, 3),
		breaks: []string{"every event that was recorded arrives, and no other"},
	},
	{
		name: "events of one generation overtake each other",
		edits: []edit{{
			ledgerDir, "Ledger.DueEvents", "ask(c, l, scanEvent, _, o, m)",
			`ask(c, l, scanEvent, selectEvents+"owner = $1 AND state = 0 AND next_time <= {now} ORDER BY next_time, event_time, id LIMIT $2", o, m)`,
		}},
		jobs:   seeds("events-short", 1, 2, 3),
		breaks: []string{"every event that was recorded arrives, and no other"},
	},
	{
		name:   "each attempt has an id of its own",
		edits:  []edit{{eventsDir, "request", "b, e := Document(x)", "x.ID += strconv.FormatInt(x.Attempts, 10); b, e := Document(x)"}},
		jobs:   seeds("events-short", 1, 2),
		breaks: []string{"every event that was recorded arrives, and no other"},
	},
	{
		name:   "nobody goes on where the sender was killed",
		edits:  []edit{{eventsDir, "Sender.claim", `s.cfg.Ledger.TakeDuty(c, ledger.TellingDuty(o), s.holder, ledger.ClaimTime)`, `s.cfg.Ledger.TakeDuty(c, ledger.TellingDuty(o), s.holder, 24*time.Hour)`}},
		jobs:   seeds("events-only-K3", 1, 2, 3, 4),
		breaks: []string{"every event that was recorded arrives, and no other"},
	},
	{
		name:   "a dead receiver is left alone for long",
		edits:  []edit{{eventsDir, "receiver.done", "r.rest = n.Add(_)", "r.rest = n.Add(5 * time.Minute)"}},
		jobs:   seeds("events-short", 1, 2, 3),
		breaks: []string{"every event that was recorded arrives, and no other"},
	},
	{
		name:   "the threshold of a month is not told",
		edits:  []edit{{ledgerDir, "transaction.tellBudgets", "l.periods(o.Time)", "l.periods(o.Time)[:1]"}},
		jobs:   seeds("events-short", 1, 2, 3, 4, 5, 6),
		breaks: []string{"every event that was recorded arrives, and no other"},
	},
	{
		name:   "a refund that comes after a failure is not told",
		edits:  []edit{{ledgerDir, "transaction.tellGeneration", "a.Status > b.Status", "a.Status > b.Status && b.Status < lifecycle.Failed"}},
		jobs:   seeds("events-short", 1, 2, 3),
		breaks: []string{"every event that was recorded arrives, and no other"},
	},
	{
		name:   "a signature leaves out the time",
		edits:  []edit{{eventsDir, "Secrets.Sign", `strconv.FormatInt(_, 10)`, `""`}},
		jobs:   seeds("events-short", 1),
		breaks: []string{"every event that was recorded arrives, and no other"},
	},
}
