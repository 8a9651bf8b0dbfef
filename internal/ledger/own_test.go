package ledger_test

import (
	"maps"
	"testing"
	"time"

	"github.com/easel-grpc/easel/internal/ledger"
	"github.com/easel-grpc/easel/internal/ledger/lifecycle"
)

func TestRecentOrdersAreSelectedByPlacedTime(t *testing.T) {
	onEach(t, func(t *testing.T, url string) {
		l := open(t, url)
		late := request("late")
		late.Labels = map[string]string{"job": "7"}
		named := write(t, l, late)
		conclude(t, l, write(t, l, request("old")), lifecycle.Named, "g-old")
		write(t, l, request("open"))
		change(t, url, "UPDATE orders SET order_time = order_time - 3600000000, placed_time = placed_time - CASE WHEN placed_time = 0 THEN 0 ELSE 3600000000 END")
		conclude(t, l, named, lifecycle.Named, "g-late")
		placed, err := l.RecentlyPlaced(t.Context(), time.Minute)
		if err != nil || len(placed) != 1 || placed["g-late"].Owner != "studio" || !maps.Equal(placed["g-late"].Labels, late.Labels) {
			t.Errorf("the orders placed within a minute are %+v, %v", placed, err)
		}
		if placed, err = l.RecentlyPlaced(t.Context(), 2*time.Hour); err != nil || len(placed) != 2 {
			t.Errorf("the orders placed within two hours are %+v, %v", placed, err)
		}
	})
}

func TestOnlyRecentFinalStatesAreReturned(t *testing.T) {
	onEach(t, func(t *testing.T, url string) {
		l := open(t, url)
		for _, key := range []string{"failed", "same", "deleted", "placed"} {
			conclude(t, l, write(t, l, request(key)), lifecycle.Named, "g-"+key)
		}
		for id, status := range map[string]lifecycle.Status{"g-failed": lifecycle.Running, "g-same": lifecycle.Succeeded, "g-deleted": lifecycle.Running} {
			observe(t, l, id, lifecycle.Observation{Status: status})
		}
		change(t, url, "UPDATE orders SET ended_time = ended_time - CASE WHEN ended_time = 0 THEN 0 ELSE 3600000000 END")
		observe(t, l, "g-failed", lifecycle.Observation{Status: lifecycle.Failed, CostCents: cents(7)})
		observe(t, l, "g-same", lifecycle.Observation{Status: lifecycle.Succeeded})
		observe(t, l, "g-placed", lifecycle.Observation{Status: lifecycle.Running})
		observe(t, l, "g-deleted", lifecycle.Observation{Deleted: true})
		want := map[string]ledger.State{"g-failed": {Status: lifecycle.Failed}, "g-deleted": {Status: lifecycle.Running, Deleted: true}}
		if ended, err := l.RecentlyEnded(t.Context(), time.Minute); err != nil || !maps.Equal(ended, want) {
			t.Errorf("the generations that ended within a minute are %+v, %v", ended, err)
		}
		if ended, err := l.RecentlyEnded(t.Context(), 2*time.Hour); err != nil || len(ended) != 3 {
			t.Errorf("the generations that ended within two hours are %+v, %v", ended, err)
		}
	})
}
