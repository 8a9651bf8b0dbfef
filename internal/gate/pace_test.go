package gate_test

import (
	"context"
	"fmt"
	"math"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/easel-grpc/easel/internal/gate"
)

func TestPollsKeepToTheirRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, given, began := gate.New(gate.Config{PollRate: 5}), 0, time.Now()
		for time.Since(began) < time.Minute {
			n, again := g.Polls()
			for range n {
				enter(t, g, gate.Request{Class: gate.Poll}).End(gate.Answer{})
				enter(t, g, gate.Request{Class: gate.Read}).End(gate.Answer{})
				given++
			}
			if time.Since(began) == 0 && n != 5 {
				t.Errorf("%d at once, want those of a second", n)
			}
			time.Sleep(time.Until(again))
		}
		if given < 5*60 || given > 5*61 {
			t.Errorf("%d polls in a minute", given)
		}
		enter(t, g, gate.Request{}).End(gate.Answer{Outcome: gate.Throttled, RetryAfter: time.Second})
		if n, again := g.Polls(); n != 0 || time.Until(again) != time.Second {
			t.Errorf("%d polls in a pause, again in %v", n, time.Until(again))
		}
	})
}

func TestANewRateOfPollsCountsFromNow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := gate.New(gate.Config{PollRate: 1})
		enter(t, g, gate.Request{Class: gate.Poll}).End(gate.Answer{})
		went := make(chan time.Time)
		go func() {
			enter(t, g, gate.Request{Class: gate.Poll}).End(gate.Answer{})
			went <- time.Now()
		}()
		time.Sleep(900 * time.Millisecond)
		began := time.Now()
		g.SetPollRate(100)
		if n, _ := g.Polls(); n > 0 {
			t.Errorf("%d polls at once", n)
		}
		if waited := (<-went).Sub(began); waited < time.Millisecond || waited > 2*time.Millisecond {
			t.Errorf("who waits goes after %v", waited)
		}
	})
}

func TestThePaceComesBackAfterALongOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, c := gate.New(gate.Config{}), newCatalog(20, 20, time.Second)
		ctx, cancel := context.WithCancel(t.Context())
		var work sync.WaitGroup
		defer work.Wait()
		defer cancel()
		for range 100 {
			work.Go(func() {
				for ctx.Err() == nil {
					_ = order(ctx, g, c, gate.Request{})
				}
			})
		}
		time.Sleep(time.Minute)
		for _, outage := range []float64{0, 0.01} { // nothing at all, and almost nothing
			c.mu.Lock()
			c.rate, c.burst = outage, 1
			c.mu.Unlock()
			time.Sleep(time.Hour)
			c.mu.Lock()
			c.rate, c.burst = 20, 20
			c.mu.Unlock()
			time.Sleep(time.Minute)
			c.mu.Lock()
			was := c.took[""]
			c.mu.Unlock()
			time.Sleep(20 * time.Second)
			c.mu.Lock()
			if rate := float64(c.took[""]-was) / 20; rate < 0.9*20 || math.IsNaN(rate) {
				t.Errorf("%v a second, a minute after an outage", rate)
			}
			c.mu.Unlock()
		}
	})
}

func TestOwnersAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := gate.New(gate.Config{})
		held := enter(t, g, gate.Request{Owner: "held"})
		enter(t, g, gate.Request{}).End(gate.Answer{Outcome: gate.Paused, RetryAfter: time.Minute})
		for n := range 10_000 {
			_, _ = g.Try(gate.Request{Owner: fmt.Sprint(n)})
		}
		if n := g.Owners(); n > 300 || g.IsIdle() {
			t.Errorf("%d owners are remembered that were refused", n)
		}
		held.End(gate.Answer{})
		if time.Sleep(time.Minute); !g.IsIdle() {
			t.Error("the gate is not idle")
		}
	})
}

func TestAnyNumberOfNewOwnersIsNeitherRememberedNorKeepsAnotherWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := gate.New(gate.Config{Places: [gate.Classes]int{4}})
		var work sync.WaitGroup
		for n := range 5000 { // twice as many as there are turns
			work.Go(func() {
				time.Sleep(time.Duration(n) * time.Millisecond)
				turn := enter(t, g, gate.Request{Owner: fmt.Sprint("new ", n)})
				time.Sleep(8 * time.Millisecond)
				turn.End(gate.Answer{})
			})
		}
		for range 400 {
			before, began := g.State().Waiting, time.Now()
			turn := enter(t, g, gate.Request{Owner: "old"})
			if waited, all := time.Since(began), len(before); waited > time.Duration(all)*2*time.Millisecond+20*time.Millisecond {
				t.Fatalf("it waits for %v where %d wait", waited, all)
			}
			time.Sleep(8 * time.Millisecond)
			turn.End(gate.Answer{})
			if n := g.Owners() - len(g.State().Waiting); n > 300 {
				t.Fatalf("%d owners are remembered that do not wait", n)
			}
		}
		work.Wait()
	})
}

func TestRepeatsAreHeldBackWhileMostFail(t *testing.T) {
	g, repeats := gate.New(gate.Config{}), 0
	for range 100 {
		turn, _ := g.Try(gate.Request{})
		if turn.End(gate.Answer{Outcome: gate.Failed}); g.MayRepeat() {
			repeats++
		}
	}
	if repeats != 4 {
		t.Errorf("%d repeats of 100 failures", repeats)
	}
	for range 100 {
		turn, _ := g.Try(gate.Request{})
		turn.End(gate.Answer{})
	}
	if !g.MayRepeat() {
		t.Error("no repeat when all is well")
	}
}
