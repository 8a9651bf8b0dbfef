package simulation

// orderBugs contains bugs in the code for teams, orders, money and events.
var orderBugs = []bug{
	{
		name:   "two teams with one idempotency key share one order",
		edits:  []edit{{catalogDir, "Credential.IdempotencyKey", "append(append(text, c.Owner...), key...)", "append(text, key...)"}},
		jobs:   seeds("ledger-T1", 1, 2, 3),
		breaks: []string{"an idempotency key is charged once", "no caller sees another owner's generation or a secret", "every cent of the account has one owner"},
	},
	{
		name:   "a generation of another team is shown",
		edits:  []edit{{serviceDir, "mustHide", "visibleOwner != nil && auth.Of(ctx).IsIsolated()", "false"}},
		jobs:   seeds("ledger-T2", 1, 2, 3),
		breaks: []string{"no caller sees another owner's generation or a secret"},
	},
	{
		name:   "a list shows the generations of all teams",
		edits:  []edit{{ledgerDir, "Filter.clauses", "f.Owner != nil", `f.Owner != nil && *f.Owner == ""`}},
		jobs:   seeds("teams-short", 1, 2, 3, 4),
		breaks: []string{"no caller sees another owner's generation or a secret"},
	},
	{
		name:   "a watch of everything covers generations of other teams",
		edits:  []edit{{serviceDir, "watchOfMany.Covers", "w.owner == nil || whose.Owner == *w.owner", "true || whose.Owner == *w.owner"}},
		jobs:   seeds("ledger-T2", 1, 2, 3, 4, 5, 6),
		breaks: []string{"no caller sees another owner's generation or a secret"},
	},
	{
		name:   "an order is sent while the ledger is unavailable",
		edits:  []edit{{ordersDir, "placing.writeOrder", "return nil, p.unaskedError(err)", "asks := p.request; return p.beginSubmission(ctx, ledger.Order{Order: lifecycle.Order{Leases: 1}, ID: asks.UpstreamKey, Owner: asks.Owner, ModelID: asks.ModelID, UpstreamKey: asks.UpstreamKey, APIKey: asks.APIKey}, asked), nil"}},
		jobs:   append(seeds("ledger-T4f", 1, 2, 3), seeds("ledger-T4c", 1, 2, 3)...),
		breaks: []string{"only orders in the ledger are sent, by one replica at a time"},
	},
	{
		name:   "a generation that could not be recorded is returned",
		edits:  []edit{{ordersDir, "submission.concludeOrder", "step, failed := s.writeConclusion(ctx, conclusion)", "step, failed := s.writeConclusion(ctx, conclusion); if failed != nil && outcome == lifecycle.Named { s.generation = catalog.Generation{ID: conclusion.Generation}; return }"}},
		jobs:   seeds("ledger-T4n", 1, 2, 3, 4),
		breaks: []string{"no outcome is returned before it is in the ledger"},
	},
	{
		name:   "a commit in doubt counts as an unavailable ledger",
		edits:  []edit{{ledgerDir, "Ledger.runOnce", "return &Doubt{addRemedy(err)}", "return &Unavailable{Err: addRemedy(err)}"}},
		jobs:   seeds("ledger-T4c", 1, 2, 3, 4, 5, 6),
		breaks: []string{"no outcome is returned before it is in the ledger", "no unknown outcome is reported as known"},
	},
	{
		name:   "a lease is acquired once for all attempts",
		edits:  []edit{{ordersDir, "submission.renewLease", "s.orders.Ledger.Renew(ctx, s.order.ID, s.order.Leases, s.order.APIKey)", "func() (bool, time.Duration, error) { return true, time.Hour, nil }()"}},
		jobs:   seeds("ledger-U4p", 1, 2, 3, 4),
		breaks: []string{"only orders in the ledger are sent, by one replica at a time"},
	},
	{
		name:   "an order is sent by two replicas at once",
		edits:  []edit{{lifecycleDir, "Order.Call", "o.Leased", "false"}, {lifecycleDir, "Order.resendStep", "o.State != Open || o.Leased", "o.State != Open"}},
		jobs:   append(seeds("ledger-T1r", 2, 1, 3, 4, 5, 6), seeds("ledger-T9", 1, 2, 3)...),
		breaks: []string{"only orders in the ledger are sent, by one replica at a time"},
	},
	{
		name:   "a lease expires by the clock of the process",
		edits:  []edit{{ledgerDir, "Ledger.recordLease", "tx.exec(`UPDATE orders SET held = 0, leases = $1, leased_until = {now} + $2 WHERE id = $3`, o.Leases, OrderLease.Microseconds(), o.ID)", `tx.exec("UPDATE orders SET leases = $1, leased_until = $2 WHERE id = $3", o.Leases, time.Now().Add(OrderLease).UnixMicro(), o.ID)`}},
		jobs:   append(seeds("ledger-T3", 6, 1, 2, 3, 4, 5), seeds("ledger-T1r", 1, 2, 3, 4)...),
		breaks: []string{"only orders in the ledger are sent, by one replica at a time", "the outcome of an order is known a minute after the catalog recovers"},
	},
	{
		name: "a rejection frees an order that another lease may have placed",
		edits: []edit{
			{lifecycleDir, "Order.Concluded", "outcome == TurnedAway && lease == 1", "outcome == TurnedAway"},
			{ordersDir, "placing.beginSubmission", "s.mayExist || p.uncertain", "false"},
			{ordersDir, "Orders.newSubmission", "order.Leases > 1", "false"},
		},
		jobs:   append(seeds("ledger-A10k", 1, 2, 3, 4, 5, 6), seeds("ledger-A10", 1, 2, 3)...),
		breaks: []string{"no unknown outcome is reported as known", "a rejected order is not charged", "every cent of the account has one owner", "no outcome is returned before it is in the ledger"},
	},
	{
		name:   "the ledger ignores the end of the resend window",
		edits:  []edit{{ledgerDir, "Ledger.scanOrder", "o.Expired = age >= l.window.Microseconds()", "o.Expired = age < 0"}},
		jobs:   seeds("ledger-T11", 1, 2, 3),
		breaks: []string{"no order is sent after the window, or under another API key", "an idempotency key is charged once"},
	},
	{
		name:   "an order is sent again under a new API key",
		edits:  []edit{{ledgerDir, "Ledger.scanOrder", "o.Rotated = o.APIKey != apiKey", `o.Rotated = apiKey == "never"`}},
		jobs:   seeds("ledger-T10", 1, 2, 3, 4),
		breaks: []string{"no order is sent after the window, or under another API key", "an idempotency key is charged once"},
	},
	{
		name:   "the retry delay of an abandoned order is too long",
		edits:  []edit{{ledgerDir, "retryDelay", "min(retryAfter<<min(leases-1, 10), retryAtMost)", "10 * time.Minute"}},
		jobs:   seeds("ledger-T3l", 1, 2, 3, 4),
		breaks: []string{"the outcome of an order is known a minute after the catalog recovers"},
	},
	{
		name:   "reserved money does not count in a budget",
		edits:  []edit{{ledgerDir, "reservePrice", "used.spent+used.reserved", "used.spent"}},
		jobs:   seeds("teams-short", 1, 2, 3, 4, 5, 6),
		breaks: []string{"no budget is exceeded"},
	},
	{
		name:   "spent money is counted again with each observation",
		edits:  []edit{{ledgerDir, "transaction.moveMoney", "to.SpentCents() - o.SpentCents()", "to.SpentCents()"}},
		jobs:   seeds("teams-short", 1, 2),
		breaks: []string{"the sums of orders equal the budgets"},
	},
	{
		name:   "a label's budget is not released",
		edits:  []edit{{ledgerDir, "Ledger.recordConclusion", "WHERE order_id = $1 AND budgeted = 0`", "WHERE order_id = $1`"}},
		jobs:   seeds("ledger-U8", 1, 2, 3, 4, 5, 6),
		breaks: []string{"the ledger equals its journal"},
	},
	{
		name:   "a refund is not recorded",
		edits:  []edit{{lifecycleDir, "Observed.Money", "g.Refunded", "false"}},
		jobs:   seeds("ledger-S3", 1, 2, 3),
		breaks: []string{"every cent of the account has one owner"},
	},
	{
		name:   "orders are never settled",
		edits:  []edit{{ordersDir, "Orders.settleDue", "due, err := o.Ledger.Due(ctx, settleQuiet, maxSettled)", "due, err := []ledger.Due(nil), error(nil)"}},
		jobs:   append(seeds("ledger-T3l", 14, 1, 2, 3, 4), seeds("ledger-S3", 1, 2, 3)...),
		breaks: []string{"unwatched orders are settled", "every cent of the account has one owner"},
	},

	// Bugs that concern money.
	{
		name:   "a rejection is returned although another call placed the order",
		edits:  []edit{{ordersDir, "placing.refuseOrder", "free, err := p.orders.Ledger.IsFree(ctx, p.request)", "free, err := true, error(nil)"}},
		jobs:   seeds("ledger-M2", 1, 2, 3, 4, 5, 6),
		breaks: []string{"an order that is reported as not placed is not placed", "a rejected order is not charged"},
	},
	{
		name:   "an order above its maximum price is placed",
		edits:  []edit{{ordersDir, "placing.orderPrice", "quote.PriceCents > *limit", "false"}},
		jobs:   seeds("only-U20", 1, 2, 3),
		breaks: []string{"the limits of orders hold"},
	},
	{
		name:   "a single 404 counts as a deletion",
		edits:  []edit{{lifecycleDir, "Absence.NotFound", "witnessed && now.Sub(a.Since) >= AbsentFor", "true"}},
		jobs:   seeds("ledger-M4", 1, 2, 3, 4, 5, 6, 7, 8, 9),
		breaks: []string{"no state is delivered that the catalog never had", "a generation that is deleted in the ledger does not exist"},
	},
	{
		name:   "a later, higher charge is ignored",
		edits:  []edit{{lifecycleDir, "Observed.After", "*o.CostCents > *g.ChargedCents", "false"}},
		jobs:   seeds("ledger-M7", 1, 2, 3, 4, 5, 6),
		breaks: []string{"every cent of the account has one owner"},
	},
	{
		name:   "a reservation is released with the first charge",
		edits:  []edit{{lifecycleDir, "Observed.isCharged", "g.Final || g.PriceCents > 0 && *g.ChargedCents >= g.PriceCents", "true"}},
		jobs:   seeds("ledger-M7", 1, 2, 3, 4, 5, 6, 7, 8, 9, 10),
		breaks: []string{"no budget is exceeded", "a price is reserved until the end"},
	},
	{
		name:   "an order that can't be sent anymore reserves its price forever",
		edits:  []edit{{jobsDir, "expireOrders", "moved == expireStep", "moved < 0"}},
		jobs:   seeds("ledger-M8", 1, 2, 3, 4, 5, 6),
		breaks: []string{"nothing is reserved after the window"},
	},
	{
		name:   "a delayed request body is sent after the resend window",
		edits:  []edit{{catalogDir, "timelyBody.Read", "!now.Before(b.leaveBy) || !now.Round(0).Before(b.leaveBy.Round(0))", "now.IsZero()"}},
		jobs:   seeds("ledger-M12", 1, 2, 3, 4, 5, 6),
		breaks: []string{"nothing is charged after the window", "an idempotency key is charged once"},
	},

	// Bugs that concern teams' events.
	{
		name: "an event is written after the transaction of its state",
		edits: []edit{
			{ledgerDir, "Ledger.recordObservation", "tx.tellGeneration(o, next, seen.Text)", "tx.tellLater(o, next, seen.Text)"},
			addition(ledgerDir, `import "context"

func (t *transaction) tellLater(before, after Order, text *string) error {
	go func() {
		_ = t.l.runTx(context.Background(), func(tx *transaction) error { return tx.tellGeneration(before, after, text) })
	}()
	return nil
}
`),
		},
		jobs:   append(seeds("events-only-T4c", 1, 2, 3, 4, 5, 6), seeds("events-only-T3", 1, 2, 3)...),
		breaks: []string{"every recorded event arrives, and no other"},
	},
	{
		name:   "an event counts as delivered before it is sent",
		edits:  []edit{{eventsDir, "Sender.deliverEvent", "err = s.postEvent(ctx, e)", "err = nil; go func() { _ = s.postEvent(ctx, e) }()"}},
		jobs:   seeds("events-only-K3", 1, 2, 3),
		breaks: []string{"every recorded event arrives, and no other"},
	},
	{
		name:   "events of one generation overtake each other",
		edits:  []edit{{ledgerDir, "transaction.addEvent", "Job{Kind: DeliverJob, Ref: e.ID, Owner: e.Owner, Line: e.Subject}", "Job{Kind: DeliverJob, Ref: e.ID, Owner: e.Owner}"}},
		jobs:   seeds("events-short", 1, 2, 3),
		breaks: []string{"every recorded event arrives, and no other"},
	},
	{
		name:   "each delivery attempt has its own event ID",
		edits:  []edit{{eventsDir, "newRequest", "body, err := Document(e)", "e.ID += strconv.FormatInt(e.Attempts, 10); body, err := Document(e)"}},
		jobs:   seeds("events-short", 1, 2),
		breaks: []string{"every recorded event arrives, and no other"},
	},
	{
		name:   "no process delivers an event whose sender was killed",
		edits:  []edit{{ledgerDir, "Ledger.TakeJobs", "JobLease.Microseconds()", "(24 * time.Hour).Microseconds()"}},
		jobs:   append(seeds("events-only-T4c", 1, 2, 3, 4, 5, 6), seeds("events-only-K3", 1, 2, 3, 4)...),
		breaks: []string{"every recorded event arrives, and no other"},
	},
	{
		name:   "a receiver is paused for too long after a failure",
		edits:  []edit{{eventsDir, "receiver.recordAttempt", "r.rest = now.Add(min(minRest<<min(r.failures, maxDoubles), maxRest))", "r.rest = now.Add(5 * time.Minute)"}},
		jobs:   seeds("events-short", 4, 5, 8),
		breaks: []string{"every recorded event arrives, and no other"},
	},
	{
		name:   "the threshold of a monthly budget sends no event",
		edits:  []edit{{ledgerDir, "transaction.tellOwner", "Limits.periods(o.Time)", "Limits.periods(o.Time)[:1]"}},
		jobs:   seeds("events-short", 1, 2, 3, 4, 5, 6),
		breaks: []string{"every recorded event arrives, and no other"},
	},
	{
		name:   "a signature omits the time",
		edits:  []edit{{eventsDir, "Secrets.Sign", "strconv.FormatInt(at.Unix(), 10)", `""`}},
		jobs:   seeds("events-short", 1),
		breaks: []string{"every recorded event arrives, and no other"},
	},
}
