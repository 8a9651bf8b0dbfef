package simulation

const (
	orderGo     = "internal/catalog/order.go"
	orderbookGo = "internal/catalog/orderbook.go"
	requestGo   = "internal/catalog/request.go"
)

// bugs are what the simulation must catch. Each has been a real bug of some program of this
// kind, or is what a hasty change would make.
var bugs = []bug{
	{
		name:   "an order ends with its first caller",
		edits:  []edit{{orderGo, "o.submit(context.WithoutCancel(ctx), cred, order, sub, run)", "o.submit(ctx, cred, order, sub, run)"}},
		jobs:   seeds("only-K7", 1, 2, 3),
		breaks: []string{"an order that may have been sent is finished"},
	},
	{
		name: "each attempt has an idempotency key of its own",
		edits: []edit{{
			orderGo, "body: body, idempotencyKey: order.IdempotencyKey}",
			`body: body, idempotencyKey: order.IdempotencyKey + time.Now().Format(".150405.000000000")}`,
		}},
		jobs:   seeds("only-U14", 1, 2, 3),
		breaks: []string{"one idempotency key is one charge"},
	},
	{
		name:   "a refusal counts for an order that may exist",
		edits:  []edit{{orderbookGo, "if err == nil || !s.mayExist ||", "if err == nil || s.mayExist ||"}},
		jobs:   seeds("only-A10", 1, 2, 3, 4, 5, 6),
		breaks: []string{"no unknown outcome is given as known"},
	},
	{
		name:   "a refusal says that nothing was placed",
		edits:  []edit{{"internal/service/outcome.go", "sent && upstream.Unsent ||", "sent && upstream.Kind != catalog.KindOutcomeUnknown ||"}},
		jobs:   seeds("only-A10k", 1, 2, 3, 4, 5, 6),
		breaks: []string{"a refused order is not charged", "no unknown outcome is given as known"},
	},
	{
		name:   "each attempt goes under the newest API key",
		edits:  []edit{{"internal/catalog/credential.go", "	c.key = func() Secret { return key }\n", "	_ = key\n"}},
		jobs:   seeds("only-A11", 1, 2, 3, 4, 5, 6),
		breaks: []string{"one idempotency key is one charge"},
	},
	{
		name:   "an order of unknown outcome is sent again under the newest API key",
		edits:  []edit{{orderbookGo, "	if !sub.mayExist {\n		sub.cred", "	if true {\n		sub.cred"}},
		jobs:   seeds("only-A11", 1, 2, 3, 4, 5, 6, 7, 8, 9, 10),
		breaks: []string{"one idempotency key is one charge"},
	},
	{
		name:   "an order of unknown outcome ends with its caller",
		edits:  []edit{{orderbookGo, "over := run.waiting == 0 && !sub.mayExist ||", "over := run.waiting == 0 ||"}},
		jobs:   seeds("only-K7", 1, 2, 3, 4, 5, 6),
		breaks: []string{"an order that may have been sent is finished"},
	},
	{
		name:   "an unknown outcome is forgotten",
		edits:  []edit{{orderbookGo, "	sub.run = nil\n	switch {", "	sub.run, sub.mayExist = nil, false\n	switch {"}},
		jobs:   seeds("only-A10", 1, 2, 3, 4, 5, 6),
		breaks: []string{"no unknown outcome is given as known"},
	},
	{
		name:   "two calls with one idempotency key submit twice",
		edits:  []edit{{orderbookGo, "if sub.run == nil {", "if sub.run == nil || true {"}},
		jobs:   seeds("only-K8", 1, 2, 3),
		breaks: []string{"one idempotency key has one submission at a time, and none after it succeeded"},
	},
	{
		name:   "an order that succeeded is posted again",
		edits:  []edit{{orderbookGo, "if sub.receipt != nil {", "if sub.receipt != nil && false {"}},
		jobs:   seeds("only-K7", 1, 2, 3),
		breaks: []string{"one idempotency key has one submission at a time, and none after it succeeded"},
	},
	{
		name:   "calls retry without a budget",
		edits:  []edit{{"internal/catalog/retrier.go", "if !again || !allowed || n >= r.attempts {", "_ = allowed\n\t\tif !again || n >= r.attempts {"}},
		jobs:   seeds("only-U19", 1, 2, 3),
		breaks: []string{"calls retry little in an outage"},
	},
	{
		name:   "Retry-After is read as nothing",
		edits:  []edit{{"internal/catalog/failure.go", "return time.Duration(min(seconds, int64(maxRetryAfter/time.Second))) * time.Second", "return 0"}},
		jobs:   seeds("only-U5", 1, 2, 3),
		breaks: []string{"no poll in a pause that the catalog asked for"},
	},
	{
		name:   "a body that was cut is a whole file",
		edits:  []edit{{"internal/catalog/content.go", "complete := b.size >= 0 && b.at == b.size && s.at == b.at", "complete := true"}},
		jobs:   seeds("only-U16", 1, 2, 3, 4),
		breaks: []string{"files arrive whole"},
	},
	{
		name: "the transport may repeat an order by itself",
		edits: []edit{{
			requestGo, "		req.ContentLength = int64(len(r.body))\n",
			"		req.ContentLength = int64(len(r.body))\n		req.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(r.body)), nil }\n",
		}},
		jobs:   seeds("only-U14", 1, 2, 3, 4, 5, 6),
		breaks: []string{"every order that arrives is an attempt of ours"},
	},
	{
		name:   "all API keys are one tenant",
		edits:  []edit{{"internal/catalog/credential.go", "mac.Sum(nil)[:16]", "mac.Sum(nil)[:0]"}},
		jobs:   seeds("only-L7", 1, 2, 3),
		breaks: []string{"nobody sees a foreign generation or a secret"},
	},
	{
		name: "the first caller's API key serves everybody",
		edits: []edit{
			{"internal/service/caller.go", "		return with(ctx, call{credential: catalog.Forwarded(catalog.NewSecret(token))}), nil", "		if firstKey == \"\" {\n\t\t\tfirstKey = token\n\t\t}\n		return with(ctx, call{credential: catalog.Forwarded(catalog.NewSecret(firstKey))}), nil"},
			{"internal/service/caller.go", "type callKey struct{}", "type callKey struct{}\n\nvar firstKey string"},
		},
		jobs:   seeds("only-L7", 1, 2, 3),
		breaks: []string{"nobody sees a foreign generation or a secret"},
	},
	{
		name:   "the state that a caller has is ignored",
		edits:  []edit{{"internal/service/watch.go", "KnownEtag:  req.GetKnownEtag(),", "KnownEtag:  \"\","}},
		jobs:   seeds("only-N3", 1, 2, 3, 4),
		breaks: []string{"no state is delivered twice in a row"},
	},
	{
		name:   "the end of a replica is not announced",
		edits:  []edit{{"internal/server/server.go", "	go s.config.Service.Drain()", "	go func() {}()"}},
		jobs:   seeds("only-N4", 1, 2, 3),
		breaks: []string{"a drain is announced"},
	},
	{
		name: "a closed stream ends with OK",
		edits: []edit{{
			"internal/service/watch.go", "WatchGenerationResponse_Closing{Closing: closing}, EmitTime: timestamppb.Now(),\n\t\t})\n\t\treturn err",
			"WatchGenerationResponse_Closing{Closing: closing}, EmitTime: timestamppb.Now(),\n\t\t})\n\t\treturn nil",
		}},
		jobs:   seeds("only-N4", 1, 2, 3),
		breaks: []string{"OK means that the goal is reached"},
	},
	{
		name:   "no reader is too slow",
		edits:  []edit{{"internal/watch/dispatcher.go", "time.AfterFunc(d.watcher.stall-handoff", "time.AfterFunc(100*d.watcher.stall"}},
		jobs:   seeds("only-L1", 1, 2, 3),
		breaks: []string{"a stalled reader is closed"},
	},
	{
		name:   "events have no id",
		edits:  []edit{{"internal/rest/eventwriter.go", "		fmt.Fprintf(&event, \"id: %s\\n\", etag)\n", "		_ = etag\n"}},
		jobs:   seeds("only-N4", 1, 2, 3),
		breaks: []string{"no state is delivered twice in a row"},
	},
	{
		name:   "events stay in the buffer",
		edits:  []edit{{"internal/rest/eventwriter.go", "	return e.flush()\n}\n\n// eventName", "	return nil\n}\n\n// eventName"}},
		jobs:   seeds("short", 1, 2, 3),
		breaks: []string{"silence is never longer than the heartbeat", "a change is delivered at once"},
	},
	{
		name: "a read is not given to the hub",
		edits: []edit{{
			"internal/service/generations.go", "	return s.cfg.Hub.Observe(ctx, credential(ctx), read), nil\n", "	return watch.Update{Generation: read.Generation, Etag: read.Etag}, nil\n",
		}},
		jobs:   seeds("only-U13", 1, 2, 3, 4),
		breaks: []string{"states go forwards"},
	},
	{
		name: "an order of this process may be missing at once",
		edits: []edit{{
			"internal/service/generations.go", "s.cfg.Hub.Created(ctx, credential(ctx), receipt.Generation, req.GetModelId(), receipt.Placed)",
			"s.cfg.Hub.Observe(ctx, credential(ctx), receipt.Generation.Version())",
		}},
		jobs:   seeds("only-U10", 1, 2, 3),
		breaks: []string{"trouble of the catalog ends no watch", "no state is delivered that the catalog never had"},
	},
	{
		name:   "an API key in an error is passed on",
		edits:  []edit{{"internal/catalog/redact.go", "func (r redactor) clean(text string) string {\n", "func (r redactor) clean(text string) string {\n\tif text != \"\" {\n\t\treturn text\n\t}\n"}},
		jobs:   seeds("only-U22", 1, 2, 3),
		breaks: []string{"nobody sees a foreign generation or a secret"},
	},

	// The hub.
	{
		name:   "a watcher that joins after the end gets nothing",
		edits:  []edit{{"internal/watch/watcher.go", "	if e.fresh {\n\t\tw.mark(at)", "	if e.fresh && !e.state.State.Terminal() {\n\t\tw.mark(at)"}},
		jobs:   seeds("only-L6", 1, 2),
		breaks: []string{"everybody is served in the end"},
	},
	{
		name:   "a change wakes nobody",
		edits:  []edit{{"internal/watch/watcher.go", "		w.dirty = append(w.dirty, at)\n\t}\n\tw.notify()\n", "		w.dirty = append(w.dirty, at)\n\t}\n"}},
		jobs:   seeds("short", 1, 2),
		breaks: []string{"a change is delivered at once"},
	},
	{
		name:   "a state that goes backwards is delivered",
		edits:  []edit{{"internal/watch/entry.go", "	if !e.mayBecome(g.State) {", "	if !e.mayBecome(g.State) && false {"}},
		jobs:   seeds("only-U13", 1, 2, 3, 4),
		breaks: []string{"states go forwards"},
	},
	{
		name: "polls run on the first caller's context",
		edits: []edit{
			{"internal/watch/hub.go", "	t := h.find(req.Credential, true)\n	d.watcher", "	h.once.Do(func() { h.first = ctx })\n	t := h.find(req.Credential, true)\n	d.watcher"},
			{"internal/watch/hub.go", "	closed  bool\n", "	closed  bool\n	first   context.Context\n	once    sync.Once\n"},
			{"internal/watch/poller.go", "context.WithTimeout(h.ctx, pollTimeout)", "context.WithTimeout(h.first, pollTimeout)"},
		},
		jobs:   seeds("short", 1, 2),
		breaks: []string{"everybody is served in the end", "the end of a generation is detected in time"},
	},
	{
		name:   "polls have no budget",
		edits:  []edit{{"internal/watch/poller.go", "	if n <= limit {\n", "	if n <= limit && n < 0 {\n"}},
		jobs:   seeds("busy", 5, 9),
		breaks: []string{"polls keep to the budget"},
	},
	{
		name:   "a pause that the catalog asked for is forgotten",
		edits:  []edit{{"internal/watch/budget/budget.go", "	b.paused = later(b.paused, until)\n", ""}},
		jobs:   seeds("only-U5", 1, 2, 3),
		breaks: []string{"no poll in a pause that the catalog asked for"},
	},
	{
		name:   "an outage is polled as always",
		edits:  []edit{{"internal/watch/health.go", "	if h.failures < outageFailures || now", "	if h.failures < outageFailures*1000 || now"}},
		jobs:   seeds("outage", 8, 10),
		breaks: []string{"an outage is only probed"},
	},
	{
		name:   "a refund is a step backwards",
		edits:  []edit{{"internal/watch/entry.go", "e.state.State == catalog.StateFailed && next == catalog.StateRefunded", "false"}},
		jobs:   seeds("only-S3", 1, 2, 3, 4),
		breaks: []string{"OK means that the goal is reached"},
	},
	{
		name:   "polls go on for a watcher that has left",
		edits:  []edit{{"internal/watch/hub.go", "		d.watcher.stop(time.Now())\n", ""}},
		jobs:   seeds("short", 1, 2, 3, 4),
		breaks: []string{"nobody watches, nobody polls"},
	},
	{
		name:   "a rejected held API key ends watches",
		edits:  []edit{{"internal/watch/poller.go", "catalog.KindCredentialRejected && !t.cred.Held {", "catalog.KindCredentialRejected {"}},
		jobs:   seeds("only-U7", 1, 2, 3),
		breaks: []string{"trouble of the catalog ends no watch"},
	},
	{
		name:   "an order of this process is due tomorrow",
		edits:  []edit{{"internal/watch/tenant.go", "	if e.polling.gap == 0 || e.polling.queueIndex == notQueued {\n		t.scheduleNext(e, now)\n", "	if e.polling.gap == 0 {\n		t.pollAfter(e, 24*time.Hour, now)\n"}},
		jobs:   seeds("short", 7),
		breaks: []string{"the end of a generation is detected in time"},
	},
	{
		name:   "generations that a sweep serves are read singly too",
		edits:  []edit{{"internal/watch/planner.go", "		case !c.swept || !s.sweeps:", "		case true:"}},
		jobs:   seeds("chaos", 40012, 1, 2, 3),
		breaks: []string{"a generation is polled once, whoever watches"},
	},
	{
		name:   "calls and polls have a bucket each",
		edits:  []edit{{"internal/watch/hub.go", "	t.budget.Spend(now)\n", ""}},
		jobs:   seeds("busy", 1, 2, 3, 4, 5),
		breaks: []string{"polls keep to the budget"},
	},
	{
		name:   "streams are not counted",
		edits:  []edit{{"internal/server/quota.go", "	q.open[caller] += n\n", "	q.open[caller] = n\n"}},
		jobs:   seeds("only-L5", 1, 2),
		breaks: []string{"limits hold, and are reported at once"},
	},
	{
		name:   "a delivery that blocks holds up the others",
		edits:  []edit{{"internal/watch/dispatcher.go", "	d.worker, d.checkAfter = nil, max(", "	d.checkAfter = max("}},
		jobs:   seeds("only-L1", 1, 2, 3, 4),
		breaks: []string{"silence is never longer than the heartbeat", "everybody is served in the end"},
	},
	{
		name: "events left after a turn wait for the next change",
		edits: []edit{
			{"internal/watch/dispatcher.go", "	for range maxEventsPerTurn {", "	for range 1 {"},
			{"internal/watch/dispatcher.go", "	d.park(time.Now())\n", "	d.park(time.Now().Add(time.Hour))\n"},
		},
		jobs:   append(seeds("only-L2", 1, 2), seeds("only-L4", 1, 2)...),
		breaks: []string{"a change is delivered at once", "the end of a generation is detected in time", "everybody is served in the end", "the last state always arrives"},
	},
	{
		name:   "a watch has one heartbeat and no more",
		edits:  []edit{{"internal/watch/dispatcher.go", "	default:\n\t\td.timer.Reset(next.Sub(now))\n", ""}},
		jobs:   seeds("only-U19", 1, 2, 3),
		breaks: []string{"silence is never longer than the heartbeat"},
	},
	{
		name:   "the first heartbeat is late",
		edits:  []edit{{"internal/watch/watcher.go", "w.heartbeatAt = time.Now().Add(w.heartbeat)", "w.heartbeatAt = time.Now().Add(2 * w.heartbeat)"}},
		jobs:   seeds("only-U19", 1, 2, 3),
		breaks: []string{"silence is never longer than the heartbeat"},
	},
}
