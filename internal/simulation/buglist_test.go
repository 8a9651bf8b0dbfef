package simulation

import "slices"

// Directories of the packages into which bugs are seeded.
const (
	catalogDir   = "internal/catalog"
	eventsDir    = "internal/events"
	limiterDir   = "internal/limiter"
	jobsDir      = "internal/jobs"
	ledgerDir    = "internal/ledger"
	lifecycleDir = "internal/ledger/lifecycle"
	ordersDir    = "internal/orders"
	restDir      = "internal/rest"
	serverDir    = "internal/server"
	serviceDir   = "internal/service"
	watchDir     = "internal/watch"
)

// bugs contains the bugs that the simulation must detect. Some are modeled on real bugs in similar programs. The others
// are mistakes that a hasty change could introduce.
var bugs = slices.Concat(stackBugs, orderBugs)

var stackBugs = []bug{
	{
		name: "an attempt is canceled with its first caller",
		edits: []edit{
			{ordersDir, "Orders.newSubmission", "s.addCaller(ctx)", "s.addCaller(ctx); firstCallers.Store(s, ctx)"},
			{ordersDir, "Orders.submitOrder", "o.Catalog.Post(ctx, s.cred,", "o.Catalog.Post(firstCaller(s), s.cred,"},
			addition(ordersDir, `import (
	"context"
	"sync"
)

var firstCallers sync.Map // context of the first caller of each submission

func firstCaller(s *submission) context.Context {
	first, _ := firstCallers.Load(s)
	return first.(context.Context)
}
`),
		},
		jobs:   seeds("only-K7", 1, 2, 3),
		breaks: []string{"an order that may have been sent is completed"},
	},
	{
		name: "each attempt has its own idempotency key",
		edits: []edit{
			{catalogDir, "requester.newRequest", `req.Header.Set("Idempotency-Key", r.idempotencyKey)`, `req.Header.Set("Idempotency-Key", r.idempotencyKey+uniqueSuffix())`},
			addition(catalogDir, `import "time"

func uniqueSuffix() string { return time.Now().Format(".150405.000000000") }
`),
		},
		jobs:   seeds("only-U14", 1, 2, 3),
		breaks: []string{"an idempotency key is charged once"},
	},
	{
		name:   "a rejection is final for an order that may exist",
		edits:  []edit{{ordersDir, "submission.withholdRejection", "!s.mayExist", "true"}, {ordersDir, "submission.concludeOrder", "!s.mayExist", "true"}},
		jobs:   seeds("only-A10", 1, 2, 3, 4, 5, 6),
		breaks: []string{"no unknown outcome is reported as known"},
	},
	{
		name:   "every rejection reports that no order was placed",
		edits:  []edit{{ordersDir, "submission.outcome", "!s.refused || s.progress == doubtful", "false"}, {ordersDir, "submission.outcome", "s.progress == unsent || s.progress == rejected", "true"}},
		jobs:   seeds("only-A10k", 1, 2, 3, 4, 5, 6),
		breaks: []string{"a rejected order is not charged", "no unknown outcome is reported as known"},
	},
	{
		name:   "each attempt uses the newest API key",
		edits:  []edit{{catalogDir, "Credential.Pinned", "c.key = func() Secret { return key }", "_ = func() Secret { return key }"}},
		jobs:   seeds("only-A11", 1, 2, 3, 4, 5, 6),
		breaks: []string{"an idempotency key is charged once"},
	},
	{
		name:   "an order with an unknown outcome is abandoned with its caller",
		edits:  []edit{{ordersDir, "submission.stopReason", "s.waiting > 0 || s.mayExist", "s.waiting > 0"}},
		jobs:   seeds("only-K7", 1, 2, 3, 4, 5, 6),
		breaks: []string{"an order that may have been sent is completed"},
	},
	{
		name:   "two calls with one idempotency key submit twice",
		edits:  []edit{{ordersDir, "placing.placeOrder", "step.Action == lifecycle.Submit", "step.Action == lifecycle.Submit || step.Action == lifecycle.Wait"}},
		jobs:   seeds("only-K8", 1, 2, 3),
		breaks: []string{"one idempotency key has one submission at a time, and none after it succeeded"},
	},
	{
		name:   "an order that succeeded is posted again",
		edits:  []edit{{ordersDir, "placing.placeOrder", "return p.recordedResult(order, step.Answer)", "_, _, _ = p.orders.Catalog.Post(context.Background(), p.cred, catalog.Order{ModelID: order.ModelID, Inputs: p.asked.Inputs, IdempotencyKey: order.UpstreamKey}); return p.recordedResult(order, step.Answer)"}},
		jobs:   seeds("only-K7", 1, 2, 3),
		breaks: []string{"one idempotency key has one submission at a time, and none after it succeeded"},
	},
	{
		name:   "Retry-After is parsed as zero",
		edits:  []edit{{catalogDir, "ParseRetryAfter", "time.Duration(min(max(seconds, 0), int64(maxRetryAfter/time.Second)))", "time.Duration(0 * min(max(seconds, 0), int64(maxRetryAfter/time.Second)))"}},
		jobs:   seeds("only-U5", 1, 2, 3),
		breaks: []string{"no request is sent in a pause of the catalog"},
	},
	{
		name:   "a truncated body counts as a complete file",
		edits:  []edit{{catalogDir, "contentBody.handleEnd", "b.size >= 0 && b.at == b.size && s.at == b.at", "true"}},
		jobs:   seeds("only-U16", 1, 2, 3, 4),
		breaks: []string{"files arrive complete"},
	},
	{
		name: "the transport may repeat an order by itself",
		edits: []edit{
			{catalogDir, "requester.newRequest", "req.Body = io.NopCloser(bytes.NewReader(r.body))", "req.Body, req.GetBody = io.NopCloser(bytes.NewReader(r.body)), bodyAgain(r.body)"},
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
		name:   "all API keys share one tenant",
		edits:  []edit{{catalogDir, "Forwarded", "keyed[:16]", "keyed[:0]"}},
		jobs:   seeds("only-L7", 1, 2, 3),
		breaks: []string{"no caller sees another owner's generation or a secret"},
	},
	{
		name:   "a watch of many treats every known state as unchanged",
		edits:  []edit{{watchDir, "watcher.eventOf", "sub.deliveredEtag == e.etag", `sub.deliveredEtag != ""`}},
		jobs:   seeds("short", 1, 2, 3, 4, 5, 6),
		breaks: []string{"a resumed watch of many delivers only changes", "the last state always arrives"},
	},
	{
		name:   "a watch of many does not count the states that its caller knows",
		edits:  []edit{{serviceDir, "watchOfMany.deliver", "w.updateCovered(event.Known)", `delete(w.covered, "")`}},
		jobs:   seeds("short", 1, 2, 3, 4, 5, 6),
		breaks: []string{"a resumed watch of many delivers only changes"},
	},
	{
		name:   "a watch of everything ignores its filter",
		edits:  []edit{{serviceDir, "watchOfMany.matchesModel", "model == w.filter.GetModelId()", `model != "-"`}, {watchDir, "newWatcher", "req.ModelID", `""`}},
		jobs:   seeds("busy", 1, 2, 3),
		breaks: []string{"a resumed watch of many delivers only changes"},
	},
	{
		name:   "the etag that a caller knows is ignored",
		edits:  []edit{{serviceDir, "knownEtag", `req.GetKnownEtag() == ""`, "true"}},
		jobs:   seeds("only-N3", 1, 2, 3, 4),
		breaks: []string{"no state is delivered twice in a row"},
	},
	{
		name:   "the drain of a replica is not announced",
		edits:  []edit{{serverDir, "Server.stop", "go s.config.Service.Drain()", "_ = s.config.Service"}},
		jobs:   seeds("only-N4", 1, 2, 3),
		breaks: []string{"a drain is announced"},
	},
	{
		name:   "a closed stream ends with OK",
		edits:  []edit{{serviceDir, "watchOfOne.finish", "})\n\t\treturn err", "})\n\t\treturn nil"}},
		jobs:   seeds("only-N4", 1, 2, 3),
		breaks: []string{"OK means that the goal is reached"},
	},
	{
		name:   "server-sent events have no ID",
		edits:  []edit{{restDir, "eventWriter.writeMessage", "eventID(m)", `""`}},
		jobs:   seeds("only-N4", 1, 2, 3),
		breaks: []string{"no state is delivered twice in a row"},
	},
	{
		name:   "server-sent events are not flushed",
		edits:  []edit{{restDir, "eventWriter.write", "return e.flush()", "return nil"}},
		jobs:   seeds("short", 5, 6, 7, 8),
		breaks: []string{"silence is never longer than the heartbeat", "a change is delivered immediately"},
	},
	{
		name:   "a read is not reported to the hub",
		edits:  []edit{{serviceDir, "Service.read", "s.cfg.Hub.Observe(ctx, auth.Of(ctx).APIKey, read, seen.mayLack(read))", "watch.Update{Version: read}"}},
		jobs:   seeds("only-U13", 1, 2, 3, 4),
		breaks: []string{"states never go backwards"},
	},
	{
		name:   "an API key in an error is not redacted",
		edits:  []edit{{catalogDir, "redactor.cleanText", "r.redactKey(text)", "text"}, {catalogDir, "redactor.cleanText", "keyLike.ReplaceAllString(text, redacted)", "text"}},
		jobs:   seeds("only-U22", 1, 2, 3),
		breaks: []string{"no caller sees another owner's generation or a secret"},
	},

	// Bugs in the hub.
	{
		name:   "a change does not notify its watchers",
		edits:  []edit{{watchDir, "watcher.markChanged", "w.notify()", ""}},
		jobs:   seeds("short", 1, 2),
		breaks: []string{"a change is delivered immediately"},
	},
	{
		name:   "a state that goes backwards is delivered",
		edits:  []edit{{watchDir, "generation.applyRecord", "!e.mayBecome(g.State)", "false"}},
		jobs:   seeds("only-U13", 1, 2, 3, 4),
		breaks: []string{"states never go backwards"},
	},
	{
		name: "polls run on the first caller's context",
		edits: []edit{
			{watchDir, "Hub.Watch", "h.cfg.Tracer.TraceRef(ctx)", "h.cfg.Tracer.TraceRef(rememberFirst(h, ctx))"},
			{watchDir, "poller.executeJob", "context.WithTimeout(h.ctx, pollTimeout)", "context.WithTimeout(firstContext(h), pollTimeout)"},
			addition(watchDir, `import (
	"context"
	"sync"
)

var firsts sync.Map // context of the first watch of each hub

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
		breaks: []string{"every caller is served in the end", "the end of a generation is detected in time"},
	},
	{
		name:   "polls do not slow down in an outage",
		edits:  []edit{{watchDir, "health.backOff", "h.failures < outageFailures", "h.failures < outageFailures*1000"}},
		jobs:   seeds("outage", 8, 10),
		breaks: []string{"an outage is only probed"},
	},
	{
		name:   "a refund counts as a step backwards",
		edits:  []edit{{lifecycleDir, "Status.MayBecome", "slices.Contains(follows[s], next)", "next != Refunded && slices.Contains(follows[s], next)"}},
		jobs:   seeds("only-S3", 1, 2, 3, 4),
		breaks: []string{"OK means that the goal is reached"},
	},
	{
		name:   "polls continue after their watcher has left",
		edits:  []edit{{watchDir, "Hub.Watch", "t.endWatch(w, time.Now())", ""}},
		jobs:   seeds("short", 1, 2, 3, 4),
		breaks: []string{"without watchers there are no polls"},
	},
	{
		name:   "a rejected shared API key ends watches",
		edits:  []edit{{watchDir, "poller.recordFailure", "!t.cred.IsShared()", "true"}},
		jobs:   seeds("only-U7", 1, 2, 3),
		breaks: []string{"failures of the catalog end no watch"},
	},
	{
		name: "the first poll of an observed generation is a day late",
		edits: []edit{
			{watchDir, "tenant.observeRecord", "e.polling.gap == 0 || e.polling.queueIndex == notQueued", "e.polling.gap == 0"},
			{watchDir, "tenant.observeRecord", "t.scheduleNext(e, now)", "t.pollAfter(e, 24*time.Hour, 0, now)"},
		},
		jobs:   seeds("short", 1, 2, 3, 4),
		breaks: []string{"the end of a generation is detected in time"},
	},
	{
		name:   "generations in a list poll are also polled singly",
		edits:  []edit{{watchDir, "situation.singleReads", "!c.swept || !s.sweeps", "true"}},
		jobs:   seeds("chaos", 40012, 1, 2, 3),
		breaks: []string{"a generation is polled once for all watchers"},
	},
	{
		name: "events left after a turn wait for the next change",
		edits: []edit{
			{watchDir, "delivery.runTurn", "maxEventsPerTurn", "1"},
			{watchDir, "delivery.runTurn", "d.endTurn(time.Now())", "d.endTurn(time.Now().Add(time.Hour))"},
		},
		jobs:   append(seeds("only-L2", 1, 2), seeds("only-L4", 1, 2)...),
		breaks: []string{"a change is delivered immediately", "the end of a generation is detected in time", "every caller is served in the end", "the last state always arrives"},
	},
	{
		name:   "a watch sends only one heartbeat",
		edits:  []edit{{watchDir, "delivery.endTurn", "d.timer.Reset(next.Sub(now))", ""}},
		jobs:   seeds("only-U19", 1, 2, 3),
		breaks: []string{"silence is never longer than the heartbeat"},
	},

	// Bugs in the limiter.
	{
		name:   "polls do not count toward their rate",
		edits:  []edit{{limiterDir, "Limiter.startRequest", "l.polls.AllowN(now, 1)", ""}},
		jobs:   seeds("busy", 5, 9),
		breaks: []string{"polls keep to their rate"},
	},
	{
		name:   "a 503 with Retry-After is an ordinary failure",
		edits:  []edit{{catalogDir, "ResultOf", "e.RetryAfter > 0", "e.RetryAfter < 0"}},
		jobs:   seeds("ledger-G3", 1, 3, 4),
		breaks: []string{"no request is sent in a pause of the catalog"},
	},
	{
		name:   "after a pause all requests are sent at once",
		edits:  []edit{{limiterDir, "Limiter.nextRequest", "l.pause.probe != nil", "false"}},
		jobs:   seeds("ledger-G3", 1, 3, 4),
		breaks: []string{"one request is sent first after a pause"},
	},
	{
		name:   "each replica uses the whole poll rate",
		edits:  []edit{{watchDir, "Hub.pollRate", "h.cfg.Rate / float64(h.replicas.Load())", "h.cfg.Rate"}},
		jobs:   seeds("polls-only-P5", 1, 2, 3, 4, 5, 6),
		breaks: []string{"polls keep to their rate"},
	},
}
