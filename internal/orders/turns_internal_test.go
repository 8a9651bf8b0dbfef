package orders

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// One team's reports must not keep the ledger from everybody else.
func TestOneReportOfAnOwnerIsMadeAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const seats, owners, each = 2, 3, 5
		all := newTurns(seats)
		var inside [owners]atomic.Int64
		var total, most, done atomic.Int64
		var work sync.WaitGroup
		for n := range owners * each {
			work.Go(func() {
				leave, err := all.enter(t.Context(), fmt.Sprint(n%owners))
				if err != nil {
					t.Error(err)
					return
				}
				defer leave()
				if now := inside[n%owners].Add(1); now > 1 {
					t.Errorf("%d of one owner at a time", now)
				}
				most.Store(max(most.Load(), total.Add(1)))
				time.Sleep(time.Second)
				total.Add(-1)
				inside[n%owners].Add(-1)
				done.Add(1)
			})
		}
		work.Wait()
		if done.Load() != owners*each || most.Load() != seats || len(all.busy) != 0 || len(all.seats) != 0 {
			t.Errorf("%d were made, %d at a time, %d are left", done.Load(), most.Load(), len(all.busy))
		}
	})
}

func TestWhoWaitsForAReportInVainLeavesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := newTurns(1)
		leave, err := all.enter(t.Context(), "a")
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"a", "b"} {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			if _, err := all.enter(ctx, name); err == nil {
				t.Errorf("%s entered beside a", name)
			}
			cancel()
		}
		leave()
		for _, name := range []string{"a", "b"} {
			leave, err := all.enter(t.Context(), name)
			if err != nil {
				t.Fatal(err)
			}
			leave()
		}
	})
}
