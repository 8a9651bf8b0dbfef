package ledger_test

import (
	"slices"
	"testing"

	"github.com/easel-grpc/easel/internal/ledger"
	"github.com/easel-grpc/easel/internal/ledger/lifecycle"
)

func TestOrderIsFoundByEachOfItsIdentifiers(t *testing.T) {
	onEach(t, func(t *testing.T, url string) {
		l := open(t, url)
		placed := write(t, l, request("one"))
		conclude(t, l, placed, lifecycle.Named, "g1")
		refused := write(t, l, request("two"))
		conclude(t, l, refused, lifecycle.TurnedAway, "")
		another := request("one")
		another.Owner, another.Namespace, another.Caller = "shop", "shop", "till"
		others := write(t, l, another)
		for name, want := range map[string][]string{
			placed.ID: {placed.ID}, "g1": {placed.ID}, "one": {others.ID, placed.ID}, "two": {refused.ID}, "three": nil,
		} {
			found, err := l.Find(t.Context(), name, 10)
			var ids []string
			for _, o := range found {
				ids = append(ids, o.ID)
			}
			if err != nil || !slices.Equal(ids, want) {
				t.Errorf("%s: the orders are %q, want %q, %v", name, ids, want, err)
			}
		}
	})
}

func TestOrdersWithReservedMoneyAreListed(t *testing.T) {
	onEach(t, func(t *testing.T, url string) {
		l := open(t, url)
		conclude(t, l, write(t, l, request("placed")), lifecycle.Named, "g1") // this order is charged 9 of its 11 reserved cents
		unknown := write(t, l, request("unknown"))
		conclude(t, l, write(t, l, request("refused")), lifecycle.TurnedAway, "")
		ended := write(t, l, request("ended"))
		conclude(t, l, ended, lifecycle.Named, "g2")
		observe(t, l, "g2", lifecycle.Observation{Status: lifecycle.Succeeded, CostCents: cents(9), Whole: true})
		for name, row := range map[string]struct {
			filter ledger.Filter
			want   []string
		}{
			"all":                        {ledger.Filter{Reserved: true}, []string{"unknown", "placed"}},
			"with an unknown outcome":    {ledger.Filter{Reserved: true, Unresolved: true}, []string{"unknown"}},
			"of an owner":                {ledger.Filter{Reserved: true, Owner: new("studio")}, []string{"unknown", "placed"}},
			"of an owner without orders": {ledger.Filter{Reserved: true, Owner: new("press")}, nil},
		} {
			found, err := l.List(t.Context(), row.filter, ledger.Position{}, 10)
			var keys []string
			for _, o := range found {
				keys = append(keys, o.IdempotencyKey)
			}
			if err != nil || !slices.Equal(keys, row.want) {
				t.Errorf("%s: the orders are %q, %v", name, keys, err)
			}
		}
		if until, again := l.ResendUntil(unknown, theAPIKey); !again || until.Sub(unknown.Time) != window {
			t.Errorf("the order may be resent: %v, until %v; its order time is %v", again, until, unknown.Time)
		}
		if _, again := l.ResendUntil(unknown, "another"); again {
			t.Error("the order may be resent under another API key")
		}
		if read, _, err := l.Get(t.Context(), ended.ID); err != nil {
			t.Error(err)
		} else if _, again := l.ResendUntil(read, theAPIKey); again {
			t.Error("an order with an outcome may be resent")
		}
	})
}
