package ledger_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/easel-grpc/easel/internal/ledger"
	"github.com/easel-grpc/easel/internal/ledger/lifecycle"
)

// writeSeveralOrders writes four orders of the owner "studio" and one of the owner "print". The last order has no outcome.
func writeSeveralOrders(t *testing.T, l *ledger.Ledger) {
	t.Helper()
	for n, owner := range []string{"studio", "print", "studio", "studio", "studio"} {
		r := request(fmt.Sprint("k", n))
		r.Namespace, r.Owner = owner, owner
		r.Caller = owner + "-service"
		r.Labels = map[string]string{"job": fmt.Sprint(n % 2)}
		if n == 3 {
			r.ModelID = "vendor/draw"
		}
		o := write(t, l, r)
		if n == 4 {
			continue
		}
		if _, err := l.Conclude(t.Context(), o.ID, 1, ledger.Conclusion{Outcome: lifecycle.Named, Generation: fmt.Sprint("g", n), CostCents: cents(int64(10 + n))}); err != nil {
			t.Fatal(err)
		}
		status := lifecycle.Succeeded
		if n == 2 {
			status = lifecycle.Refunded
		}
		observe(t, l, fmt.Sprint("g", n), lifecycle.Observation{Status: status, CostCents: cents(int64(10 + n))})
	}
}

func TestListExcludesOrdersBeforeSinceTime(t *testing.T) {
	onEach(t, func(t *testing.T, url string) {
		l := open(t, url)
		writeSeveralOrders(t, l)
		all, err := l.List(t.Context(), ledger.Filter{Owner: new("studio")}, ledger.Position{}, 10)
		if err != nil || len(all) != 3 {
			t.Fatal(all, err)
		}
		for n, order := range all {
			got, err := l.List(t.Context(), ledger.Filter{Owner: new("studio"), Since: order.Time}, ledger.Position{}, 10)
			if err != nil || len(got) != n+1 || got[n].ID != order.ID {
				t.Errorf("the orders since the time of %s are %v, %v", order.Generation, got, err)
			}
		}
		if got, err := l.List(t.Context(), ledger.Filter{Since: all[0].Time.Add(time.Microsecond)}, ledger.Position{}, 10); err != nil || len(got) != 0 {
			t.Errorf("after the latest order, the list contains %v, %v", got, err)
		}
	})
}

func TestListReturnsOrdersMatchingFilter(t *testing.T) {
	studio := "studio"
	onEach(t, func(t *testing.T, url string) {
		l := open(t, url)
		writeSeveralOrders(t, l)
		observe(t, l, "g3", lifecycle.Observation{Deleted: true})
		for name, row := range map[string]struct {
			filter ledger.Filter
			want   []string
		}{
			"all":                        {ledger.Filter{}, []string{"g3", "g2", "g1", "g0"}},
			"of an owner":                {ledger.Filter{Owner: &studio}, []string{"g3", "g2", "g0"}},
			"of a model":                 {ledger.Filter{ModelID: "vendor/draw"}, []string{"g3"}},
			"in one of two states":       {ledger.Filter{Statuses: []lifecycle.Status{lifecycle.Refunded, lifecycle.Failed}}, []string{"g2"}},
			"with a label":               {ledger.Filter{Owner: &studio, Labels: map[string]string{"job": "0"}}, []string{"g2", "g0"}},
			"of an owner without orders": {ledger.Filter{Owner: new("shop")}, nil},
			"no match":                   {ledger.Filter{ModelID: "vendor/draw", Labels: map[string]string{"job": "0"}}, nil},
			"with an unknown outcome":    {ledger.Filter{Unresolved: true}, []string{""}},
			"unsettled":                  {ledger.Filter{Unsettled: true}, nil},
			"existing and succeeded":     {ledger.Filter{Statuses: []lifecycle.Status{lifecycle.Succeeded}}, []string{"g1", "g0"}},
			"existing":                   {ledger.Filter{Existing: true}, []string{"g2", "g1", "g0"}},
			"deleted":                    {ledger.Filter{Deleted: true}, []string{"g3"}},
			"deleted or refunded":        {ledger.Filter{Deleted: true, Statuses: []lifecycle.Status{lifecycle.Refunded}}, []string{"g3", "g2"}},
		} {
			all, err := l.List(t.Context(), row.filter, ledger.Position{}, 10)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			var got []string
			for _, o := range all {
				got = append(got, o.Generation)
			}
			if !slices.Equal(got, row.want) {
				t.Errorf("%s: the generations are %q", name, got)
			}
			if row.filter.Unresolved { // unresolved orders have no generations to compare
				continue
			}
			if ids, err := l.Generations(t.Context(), row.filter, 2); err != nil || !slices.Equal(ids, row.want[:min(2, len(row.want))]) {
				t.Errorf("%s: the newest generations are %q, %v", name, ids, err)
			}
		}
		if own, err := l.Attributions(t.Context(), nil, "g2", "g3"); err != nil || own["g2"].Deleted || !own["g3"].Deleted {
			t.Errorf("Attributions returned %+v, %v", own, err)
		}
	})
}

func TestListPagesContainEachOrderOnce(t *testing.T) {
	onEach(t, func(t *testing.T, url string) {
		l := open(t, url)
		writeSeveralOrders(t, l)
		var got []string
		at := ledger.Position{}
		for {
			page, err := l.List(t.Context(), ledger.Filter{}, at, 3)
			if err != nil {
				t.Fatal(err)
			}
			if len(page) == 0 {
				break
			}
			for _, o := range page {
				got = append(got, o.Generation+o.Labels["job"])
				at = ledger.Position{Time: o.Time, ID: o.ID}
			}
		}
		if want := []string{"g31", "g20", "g11", "g00"}; !slices.Equal(got, want) {
			t.Errorf("the pages contain %q", got)
		}
	})
}

func TestUsageCountsEveryCentOnce(t *testing.T) {
	studio := "studio"
	onEach(t, func(t *testing.T, url string) {
		l := open(t, url)
		start := time.Now().Add(-time.Hour)
		if all, err := l.Usage(t.Context(), ledger.UsageQuery{End: time.Now(), Most: 10}); err != nil || len(all) != 0 {
			t.Errorf("before the first order, the usage is %+v, %v", all, err)
		}
		writeSeveralOrders(t, l)
		ask := func(q ledger.UsageQuery) []ledger.Usage {
			q.Start, q.End = start, start.Add(2*time.Hour)
			if q.Most == 0 {
				q.Most = 10
			}
			all, err := l.Usage(t.Context(), q)
			if err != nil {
				t.Fatal(err)
			}
			return all
		}
		total := ask(ledger.UsageQuery{})
		want := ledger.Usage{Dimensions: []string{}, Orders: 4, Failed: 1, Unknown: 1, CostCents: 46, RefundedCents: 12, ReservedCents: 11}
		if got := fmt.Sprint(total); got != fmt.Sprint([]ledger.Usage{want}) {
			t.Errorf("the total usage is %s", got)
		}
		owners := ask(ledger.UsageQuery{By: []ledger.Dimension{ledger.ByOwner, ledger.ByModel}})
		if len(owners) != 3 || !slices.Equal(owners[0].Dimensions, []string{"print", "studio/poster"}) || owners[0].CostCents != 11 {
			t.Errorf("the usage by owner and model is %+v", owners)
		}
		var paged []ledger.Usage
		for after := []string(nil); ; after = paged[len(paged)-1].Dimensions {
			page := ask(ledger.UsageQuery{By: []ledger.Dimension{ledger.ByOwner, ledger.ByModel}, After: after, Most: 1})
			if len(page) == 0 {
				break
			}
			paged = append(paged, page...)
		}
		if fmt.Sprint(paged) != fmt.Sprint(owners) {
			t.Errorf("the pages of the usage are %+v", paged)
		}
		labels := ask(ledger.UsageQuery{Owner: &studio, By: []ledger.Dimension{ledger.ByDay, ledger.ByCaller, ledger.ByLabel}, LabelName: "job"})
		today := time.Now().UTC().Format(time.DateOnly)
		if len(labels) != 2 || !slices.Equal(labels[0].Dimensions, []string{today, "studio-service", "0"}) || labels[0].CostCents != 22 || labels[1].CostCents != 13 {
			t.Errorf("the usage by day, caller and label is %+v", labels)
		}
	})
}

func TestOwnersOfUnresolvedOrdersAreListedOnce(t *testing.T) {
	onEach(t, func(t *testing.T, url string) {
		l := open(t, url)
		for n, owner := range []string{"studio", "print", "studio", "idle"} {
			r := request(fmt.Sprint(n))
			r.Namespace, r.Owner, r.Caller = owner, owner, owner
			o := write(t, l, r)
			if owner == "idle" {
				conclude(t, l, o, lifecycle.Named, "g")
			}
		}
		if owners, err := l.UnresolvedOwners(t.Context()); err != nil || !slices.Equal(owners, []string{"print", "studio"}) {
			t.Errorf("the owners of orders with unknown outcomes are %q, %v", owners, err)
		}
	})
}
