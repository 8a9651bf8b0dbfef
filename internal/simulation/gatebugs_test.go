package simulation

// gateBugs are what a hasty change would make of the gate.
var gateBugs = []bug{
	{
		name:   "polls take nothing from their rate",
		edits:  []edit{{gateDir, "Limiter.begin", "g.polls.take(_, _)", ""}},
		jobs:   seeds("busy", 5, 9),
		breaks: []string{"polls keep to their rate"},
	},
	{
		name:   "a pause that the catalog asked for is forgotten",
		edits:  []edit{{gateDir, "pause.begins", "p.closed = true", ""}},
		jobs:   seeds("gate-only-G3", 1, 2, 3),
		breaks: []string{"no request in a pause that the catalog asked for"},
	},
	{
		name:   "a 503 that asks to wait is a failure as any other",
		edits:  []edit{{catalogDir, "EndOf", "e.RetryAfter > 0", "e.RetryAfter < 0"}},
		jobs:   seeds("gate-only-G3", 1, 2, 3, 4, 5, 6),
		breaks: []string{"no request in a pause that the catalog asked for"},
	},
	{
		name:   "after a pause all go at once",
		edits:  []edit{{gateDir, "pause.opens", "p.first != nil", "false"}},
		jobs:   seeds("gate-only-G1", 1, 2, 3),
		breaks: []string{"one request goes first after a pause"},
	},
	{
		name:   "who came first goes first, whoever it is",
		edits:  []edit{{gateDir, "Limiter.isBefore", "a.owner.share != b.owner.share", "false"}},
		jobs:   seeds("gate-only-G1", 1, 2, 3, 4),
		breaks: []string{"no owner starves"},
	},
	{
		name:   "the daily cap is asked about with each order",
		edits:  []edit{{gateDir, "dailyCap.reached", "d.since = n", "_ = n"}},
		jobs:   seeds("gate-only-G2", 1, 2, 3),
		breaks: []string{"the daily cap is only probed"},
	},
	{
		name:   "each replica has all of the rate",
		edits:  []edit{{watchDir, "Hub.pollRate", "h.cfg.Rate / _", "h.cfg.Rate"}},
		jobs:   seeds("polls-only-P5", 1, 2, 3, 4, 5, 6),
		breaks: []string{"polls keep to their rate"},
	},
}
