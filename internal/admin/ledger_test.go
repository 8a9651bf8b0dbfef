package admin

import (
	"strings"
	"testing"
	"time"

	"github.com/easel-grpc/easel/internal/ledger"
)

func TestWhatIsWrongWithTheLedgerIsSaidInASentence(t *testing.T) {
	owning := func(b ledger.Budget) ledger.Reading {
		return ledger.Reading{Up: true, Summary: ledger.Summary{Owners: []ledger.OwnerSummary{{Owner: "studio", Budgets: []ledger.Budget{b}}}}}
	}
	unknown := func(since time.Duration) ledger.Reading {
		return ledger.Reading{Up: true, Summary: ledger.Summary{Unknown: 1, OldestUnknown: since}}
	}
	pending := func(since time.Duration) ledger.Reading {
		l := owning(ledger.Budget{Period: "month", LimitCents: 100})
		l.Events = []ledger.EventSummary{{Owner: "studio", Pending: 1, Oldest: since}}
		return l
	}
	for name, test := range map[string]struct {
		ledger ledger.Reading
		say    string
		grave  bool
	}{
		"all is well":                      {owning(ledger.Budget{Period: "month", LimitCents: 100, SpentCents: 79}), "", false},
		"an order on its way":              {unknown(time.Minute), "", false},
		"an order of this moment":          {unknown(0), "", false},
		"an order of the future":           {unknown(-time.Hour), "", false}, // possible after the database's clock was turned back
		"an event of this moment":          {pending(0), "", false},
		"an event that waits":              {pending(31 * time.Minute), "do not accept events (see easel events list): studio", false},
		"an order that stays open":         {unknown(11 * time.Minute), "Orders whose outcome is unknown: 1, the oldest for 11m0s", false},
		"a budget that is used up":         {owning(ledger.Budget{Period: "day", LimitCents: 100, SpentCents: 70, ReservedCents: 10}), "a fifth of a budget left: studio.", false},
		"a ledger that is away":            {ledger.Reading{}, "does not answer", true},
		"contradicting states of an order": {ledger.Reading{Up: true, Faults: 2}, "since the start: 2", true},
	} {
		_, source := quiet()
		source.Ledger = func() ledger.Reading { return test.ledger }
		said := source.report(t.Context()).Concerns
		switch {
		case test.say == "" && len(said) == 0:
		case len(said) != 1 || test.say == "" || !strings.Contains(said[0].Text, test.say) || said[0].Grave != test.grave:
			t.Errorf("%s: %+v", name, said)
		}
	}
}
