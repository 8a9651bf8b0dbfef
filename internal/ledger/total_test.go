package ledger_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/easel-grpc/easel/internal/ledger"
	"github.com/easel-grpc/easel/internal/ledger/lifecycle"
)

func TestTheBudgetOfAllTogetherIsNeverPassed(t *testing.T) { // T5
	onEach(t, func(t *testing.T, url string) {
		replicas := []*ledger.Ledger{open(t, url)}
		if strings.HasPrefix(url, "postgres") {
			replicas = append(replicas, open(t, url), open(t, url))
		}
		before := request("before there was a limit")
		before.Owner, before.Namespace = "shop", "shop"
		conclude(t, replicas[0], write(t, replicas[0], before), lifecycle.Named, "g-before") // 11 cents, of which 2 are reserved yet
		limit := int64(100)
		var placed, refused atomic.Int64
		var all sync.WaitGroup
		for n := range 60 {
			all.Go(func() {
				r := request(fmt.Sprint("k", n))
				r.Owner = []string{"studio", "shop", "press", "blog"}[n%4]
				r.Namespace, r.Total = r.Owner, ledger.Limits{DailyCents: &limit}
				o, free, err := replicas[n%len(replicas)].Write(t.Context(), r)
				if full, ok := errors.AsType[*ledger.BudgetError](err); ok {
					if !full.Total || full.Period != "day" || full.PriceCents != 11 || full.RemainingCents >= 11 {
						t.Errorf("the refusal is %+v", full)
					}
					refused.Add(1)
				} else if err != nil || !free {
					t.Errorf("%s: free %v, %v", o.ID, free, err)
				} else {
					placed.Add(1)
				}
			})
		}
		all.Wait()
		if placed.Load() != 8 || refused.Load() != 52 {
			t.Errorf("%d orders of 11 cents are placed with 100 cents, of which 11 were used, and %d refused", placed.Load(), refused.Load())
		}
		if _, differences := verify(t, url); len(differences) > 0 {
			t.Error(differences)
		}
	})
}
