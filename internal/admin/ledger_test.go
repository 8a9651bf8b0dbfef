package admin

import (
	"context"
	"strings"
	"testing"
	"time"
)

func TestWhatIsWrongWithTheLedgerIsSaidInASentence(t *testing.T) {
	spent := Owner{Name: "studio", Budgets: []Budget{{Window: "day", LimitCents: 100, LeftCents: 20}}}
	for name, test := range map[string]struct {
		ledger Ledger
		say    string
		grave  bool
	}{
		"all is well":               {Ledger{Up: true, Owners: []Owner{{Name: "studio", Budgets: []Budget{{"month", 100, 21}}}}}, "", false},
		"an order on its way":       {Ledger{Up: true, Unknown: 1, OldestUnknown: time.Minute}, "", false},
		"an order that stays open":  {Ledger{Up: true, Unknown: 1, OldestUnknown: 11 * time.Minute}, "An order has no outcome, the oldest for 11m0s", false},
		"a budget that is used up":  {Ledger{Up: true, Owners: []Owner{spent}}, "is left to studio", false},
		"a ledger that is away":     {Ledger{}, "does not answer", true},
		"two truths about an order": {Ledger{Up: true, Faults: 2}, "met 2 times", true},
	} {
		_, source := quiet()
		source.Ledger = func(context.Context) Ledger { return test.ledger }
		said := source.report(t.Context()).Concerns
		switch {
		case test.say == "" && len(said) == 0:
		case len(said) != 1 || test.say == "" || !strings.Contains(said[0].Text, test.say) || said[0].Grave != test.grave:
			t.Errorf("%s: %+v", name, said)
		}
	}
}

func TestOwnersInTroubleComeFirstAndAHundredAreShown(t *testing.T) {
	l := Ledger{Up: true}
	for range 200 {
		l.Owners = append(l.Owners, Owner{Name: "calm"})
	}
	l.Owners = append(l.Owners, Owner{Name: "poor", Budgets: []Budget{{"day", 10, 1}, {"month", 100, 90}}}, Owner{Name: "unsure", Unknown: 1})
	b := bookOf(l, time.Now())
	if len(b.Owners) != 100 || b.OwnerCount != 202 || b.Owners[0].Name != "unsure" || b.Owners[1].Name != "poor" || b.Owners[1].Day.LeftCents != 1 || b.Owners[1].Month.LimitCents != 100 {
		t.Errorf("%d of %d, the first %+v", len(b.Owners), b.OwnerCount, b.Owners[:2])
	}
}
