package limiter_test

import (
	"context"
	"fmt"
	"math"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/easel-grpc/easel/internal/limiter"
)

func TestPollsKeepToTheirRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, given, began := limiter.New(limiter.Config{PollRate: 5}), 0, time.Now()
		for time.Since(began) < time.Minute {
			n, again := g.Polls()
			for range n {
				enter(t, g, limiter.Request{Class: limiter.Poll}).End(limiter.Answer{})
				enter(t, g, limiter.Request{Class: limiter.Read}).End(limiter.Answer{})
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
		enter(t, g, limiter.Request{}).End(limiter.Answer{Outcome: limiter.Throttled, RetryAfter: time.Second})
		if n, again := g.Polls(); n != 0 || time.Until(again) != time.Second {
			t.Errorf("%d polls in a pause, again in %v", n, time.Until(again))
		}
	})
}

func TestANewRateOfPollsCountsFromNow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := limiter.New(limiter.Config{PollRate: 1})
		enter(t, g, limiter.Request{Class: limiter.Poll}).End(limiter.Answer{})
		went := make(chan time.Time)
		go func() {
			enter(t, g, limiter.Request{Class: limiter.Poll}).End(limiter.Answer{})
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
		g, c := limiter.New(limiter.Config{}), newCatalog(20, 20, time.Second)
		ctx, cancel := context.WithCancel(t.Context())
		var work sync.WaitGroup
		defer work.Wait()
		defer cancel()
		for range 100 {
			work.Go(func() {
				for ctx.Err() == nil {
					_ = order(ctx, g, c, limiter.Request{})
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
		g := limiter.New(limiter.Config{})
		held := enter(t, g, limiter.Request{Owner: "held"})
		enter(t, g, limiter.Request{}).End(limiter.Answer{Outcome: limiter.Paused, RetryAfter: time.Minute})
		for n := range 10_000 {
			_, _ = g.Try(limiter.Request{Owner: fmt.Sprint(n)})
		}
		if n := g.Owners(); n > 300 || g.IsIdle() {
			t.Errorf("%d owners are remembered that were refused", n)
		}
		held.End(limiter.Answer{})
		if time.Sleep(time.Minute); !g.IsIdle() {
			t.Error("the gate is not idle")
		}
	})
}

func TestAnyNumberOfNewOwnersIsNeitherRememberedNorKeepsAnotherWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := limiter.New(limiter.Config{Places: [limiter.Classes]int{4}})
		var work sync.WaitGroup
		for n := range 5000 { // twice as many as there are turns
			work.Go(func() {
				time.Sleep(time.Duration(n) * time.Millisecond)
				turn := enter(t, g, limiter.Request{Owner: fmt.Sprint("new ", n)})
				time.Sleep(8 * time.Millisecond)
				turn.End(limiter.Answer{})
			})
		}
		for range 400 {
			before, began := g.State().Waiting, time.Now()
			turn := enter(t, g, limiter.Request{Owner: "old"})
			if waited, all := time.Since(began), len(before); waited > time.Duration(all)*2*time.Millisecond+20*time.Millisecond {
				t.Fatalf("it waits for %v where %d wait", waited, all)
			}
			time.Sleep(8 * time.Millisecond)
			turn.End(limiter.Answer{})
			if n := g.Owners() - len(g.State().Waiting); n > 300 {
				t.Fatalf("%d owners are remembered that do not wait", n)
			}
		}
		work.Wait()
	})
}

func TestRepeatsAreHeldBackWhileMostFail(t *testing.T) {
	g, repeats := limiter.New(limiter.Config{}), 0
	for range 100 {
		turn, _ := g.Try(limiter.Request{})
		if turn.End(limiter.Answer{Outcome: limiter.Failed}); g.MayRepeat() {
			repeats++
		}
	}
	if repeats != 4 {
		t.Errorf("%d repeats of 100 failures", repeats)
	}
	for range 100 {
		turn, _ := g.Try(limiter.Request{})
		turn.End(limiter.Answer{})
	}
	if !g.MayRepeat() {
		t.Error("no repeat when all is well")
	}
}
