package simulation

// limiterBugs contains plausible bugs in the limiter.
var limiterBugs = []bug{
	{
		name:   "polls take nothing from their rate",
		edits:  []edit{{limiterDir, "Limiter.start", "l.polls.AllowN(now, 1)", ""}},
		jobs:   seeds("busy", 5, 9),
		breaks: []string{"polls keep to their rate"},
	},
	{
		name:   "a 503 that asks to wait is a failure as any other",
		edits:  []edit{{catalogDir, "ResultOf", "e.RetryAfter > 0", "e.RetryAfter < 0"}},
		jobs:   seeds("ledger-G3", 1, 2, 3, 4, 5, 6),
		breaks: []string{"no request is sent in a pause of the catalog"},
	},
	{
		name:   "after a pause all go at once",
		edits:  []edit{{limiterDir, "Limiter.next", "l.pause.probe != nil", "false"}},
		jobs:   seeds("ledger-G3", 1, 2, 3, 4, 5, 6),
		breaks: []string{"one request is sent first after a pause"},
	},
	{
		name:   "each replica has all of the rate",
		edits:  []edit{{watchDir, "Hub.pollRate", "h.cfg.Rate / float64(h.replicas.Load())", "h.cfg.Rate"}},
		jobs:   seeds("polls-only-P5", 1, 2, 3, 4, 5, 6),
		breaks: []string{"polls keep to their rate"},
	},
}
