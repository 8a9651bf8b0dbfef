package simulation

// pollBugs are what a hasty change would make of polls that processes share.
var pollBugs = []bug{
	{
		name:   "a claim that nobody answers holds for a minute",
		edits:  []edit{{ledgerDir, "sharedKey.claimReads", "k.Now - shared.HoldMicros", "k.Now - 60*shared.HoldMicros"}},
		jobs:   seeds("polls-only-P4", 1, 2, 3, 4, 5, 6),
		breaks: []string{"a claim of a poll that nobody answers holds for a second"},
	},
	{
		name:   "a change has the version of the one before",
		edits:  []edit{{ledgerDir, "Polls.writePiece", "k.Version++", ""}},
		jobs:   seeds("polls-short", 4, 6, 7, 9, 11, 13),
		breaks: []string{"what one replica knows all know"},
	},
	{
		name:   "nobody listens to notifications",
		edits:  []edit{{watchDir, "poller.subscribe", "a != p.subscribed", "a != p.subscribed && p.changed != nil"}},
		jobs:   seeds("polls-short", 3, 1, 2, 4),
		breaks: []string{"what one replica knows all know", "a change is delivered at once"},
	},
	{
		name:   "rows of polls are deleted after two minutes",
		edits:  []edit{{ledgerDir, "Polls.forget", "now.Add(-sharedKept)", "now.Add(-sharedKept / 30)"}},
		jobs:   seeds("polls-short", 1, 2, 3, 4),
		breaks: []string{"rows of polls are kept for an hour"},
	},
	{
		name:   "rows of polls stay",
		edits:  []edit{{ledgerDir, "Polls.Run", "_ = p.Forget(ctx)", ""}},
		jobs:   seeds("polls-long", 1, 2),
		breaks: []string{"rows of polls are kept for an hour"},
	},
	{
		name:   "the newest change is not read",
		edits:  []edit{{ledgerDir, "Polls.News", "k.Version >= after.Version", "k.Version > after.Version"}},
		jobs:   seeds("polls-short", 6, 4, 7, 9, 11, 13),
		breaks: []string{"what one replica knows all know"},
	},
	{
		name:   "a read that another makes counts as on its way",
		edits:  []edit{{watchDir, "poller.unmake", "p.landed(j)", `if j.ID == "" { p.landed(j) } else { j.entries[0].polling.inFlight = false }`}},
		jobs:   seeds("polls-only-P5", 1, 2, 3),
		breaks: []string{"what one replica knows all know", "the end of a generation is detected in time", "everybody is served in the end", "a claim of a poll that nobody answers holds for a second"},
	},
	{
		name:   "reads take nothing from the rate of all",
		edits:  []edit{{ledgerDir, "Polls.Claim", "float64(len(claim.Reads))", "0 * float64(len(claim.Reads))"}},
		jobs:   seeds("polls-only-P5", 1, 2, 3),
		breaks: []string{"polls keep to their rate"},
	},
	{
		name:   "each replica has all of the rate while the ledger is away",
		edits:  []edit{{watchDir, "agenda.rate", "a.cfg.Rate / float64(_)", "a.cfg.Rate / float64(cmp.Or(1))"}},
		jobs:   seeds("polls-only-P6", 1, 2, 3, 4),
		breaks: []string{"polls keep to their rate"},
	},
	{
		name:   "a pause that the catalog asks of one replica is nobody else's",
		edits:  []edit{{ledgerDir, "sharedKey.found", "max(k.PausedUntil, k.Now+min(time.Until(f.Pause).Microseconds(), shared.PauseMicros))", "k.PausedUntil"}},
		jobs:   seeds("polls-only-U5", 1, 2, 3, 4),
		breaks: []string{"no request in a pause that the catalog asked for"},
	},
}
