package limiter_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/easel-grpc/easel/internal/limiter"
)

// catalog takes so many requests a second, saves up at most burst of them, and refuses the others.
type catalog struct {
	rate, burst float64
	retryAfter  time.Duration
	latency     time.Duration // of a request that is taken
	tokens      float64
	filled      time.Time
	closedUntil time.Time

	mu        sync.Mutex
	took      map[string]int
	refused   int
	pauses    []time.Time // when they began
	intruders int         // requests in a pause that it has asked for
}

func newCatalog(rate, burst float64, retryAfter time.Duration) *catalog {
	return &catalog{rate: rate, burst: burst, retryAfter: retryAfter, tokens: burst, filled: time.Now(), took: map[string]int{}}
}

func (c *catalog) ask(owner string) limiter.Answer {
	time.Sleep(5 * time.Millisecond) // the way
	c.mu.Lock()
	now := time.Now()
	c.tokens, c.filled = min(c.burst, c.tokens+now.Sub(c.filled).Seconds()*c.rate), now
	if now.Before(c.closedUntil) {
		c.intruders++
	}
	answer := limiter.Answer{Outcome: limiter.Throttled, RetryAfter: c.retryAfter}
	if c.tokens >= 1-1e-9 {
		c.tokens--
		c.took[owner]++
		answer = limiter.Answer{}
	} else {
		c.refused++
		c.closedUntil = now.Add(c.retryAfter)
		c.pauses = append(c.pauses, now)
	}
	c.mu.Unlock()
	if answer.Outcome == limiter.Passed {
		time.Sleep(c.latency)
	}
	time.Sleep(5 * time.Millisecond) // and back
	return answer
}

// paused is how much of a time the catalog has asked not to be asked.
func (c *catalog) paused(from, to time.Time) (d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, begins := range c.pauses {
		ends := begins.Add(c.retryAfter)
		if ends.After(to) {
			ends = to
		}
		if begins.Before(from) {
			begins = from
		}
		if ends.After(begins) {
			d, from = d+ends.Sub(begins), ends
		}
	}
	return d
}

// order sends one order until it is taken, as long as ctx lasts.
func order(ctx context.Context, g *limiter.Limiter, c *catalog, r limiter.Request) error {
	for {
		turn, err := g.Enter(ctx, r)
		if err != nil {
			return err
		}
		r.Came = turn.Came
		answer := c.ask(r.Owner)
		turn.End(answer)
		if answer.Outcome == limiter.Passed {
			return nil
		}
	}
}

func TestTurnsAreSharedByWeight(t *testing.T) {
	for _, row := range []struct {
		name        string
		rate, burst float64
		retryAfter  time.Duration
		use         float64 // of what the catalog takes while it wants to be asked
	}{
		{"a catalog that saves up a second", 20, 20, time.Second, 0.95},
		{"a catalog that saves up nothing", 20, 1, time.Second, 0.95},
		{"a catalog that asks for long pauses", 20, 20, 5 * time.Second, 0.9},
		{"a catalog that does not say for how long", 20, 20, 0, 0.95},
		{"a slow catalog", 2, 2, time.Second, 0.95},
		{"a quick catalog", 300, 300, time.Second, 0.95},
	} {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCatalog(row.rate, row.burst, row.retryAfter)
				g := limiter.New(limiter.Config{})
				weights := map[string]float64{}
				ctx, cancel := context.WithCancel(t.Context())
				var work sync.WaitGroup
				var refused atomic.Int64
				for n := range 10 {
					owner, weight, callers := fmt.Sprintf("team %d", n), 1.0, 4
					if n == 0 {
						callers = 400
					}
					if n == 1 {
						weight, callers = 3, 12
					}
					weights[owner] = weight
					for range callers {
						work.Go(func() {
							for ctx.Err() == nil {
								ctx, cancel := context.WithTimeout(ctx, time.Hour)
								if err := order(ctx, g, c, limiter.Request{Owner: owner, Weight: weight}); errors.As(err, new(*limiter.Refused)) {
									refused.Add(1)
								}
								cancel()
							}
						})
					}
				}
				time.Sleep(time.Minute) // until the pace is known
				c.mu.Lock()
				clear(c.took)
				c.refused, c.intruders = 0, 0
				c.mu.Unlock()
				measured := 5 * time.Minute
				if testing.Short() {
					measured = time.Minute
				}
				time.Sleep(measured)
				var all, sum, squares float64
				c.mu.Lock()
				for owner, took := range c.took {
					all += float64(took)
					x := float64(took) / weights[owner]
					sum += x
					squares += x * x
				}
				t.Logf("took %.0f, refused %d, %d in a pause", all, c.refused, c.intruders)
				paused := float64(c.refused) * row.retryAfter.Seconds()
				if jain := sum * sum / squares / float64(len(weights)); jain < 0.98 {
					t.Errorf("Jain's index is %.3f of %v", jain, c.took)
				}
				if allowed := row.rate * (measured.Seconds() - max(0, paused-row.burst/row.rate*float64(c.refused))); all < row.use*allowed {
					t.Errorf("%.1f %% of what the catalog takes are used", 100*all/allowed)
				}
				if most := c.refused * (1 + int(row.rate/50)); c.intruders > most || refused.Load() > 0 {
					t.Errorf("%d requests in %d pauses, %d orders refused", c.intruders, c.refused, refused.Load())
				}
				c.mu.Unlock()
				cancel()
				work.Wait()
			})
		})
	}
}

func enter(t *testing.T, g *limiter.Limiter, r limiter.Request) *limiter.Permit {
	t.Helper()
	turn, err := g.Enter(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	return turn
}

func TestAPauseIsForEverybodyAndOneGoesFirstAfterIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, began := limiter.New(limiter.Config{}), time.Now()
		enter(t, g, limiter.Request{Class: limiter.Read}).End(limiter.Answer{Outcome: limiter.Throttled, RetryAfter: 30 * time.Second})
		turns := make(chan *limiter.Permit, 100)
		for n := range 100 {
			go func() {
				if turn, err := g.Enter(t.Context(), limiter.Request{Owner: fmt.Sprint(n % 7), Class: limiter.Class(n % 3)}); err == nil {
					turns <- turn
				}
			}()
		}
		time.Sleep(30*time.Second - 1)
		synctest.Wait()
		if len(turns) != 0 || g.State().Paused != began.Add(30*time.Second) {
			t.Fatalf("%d went in the pause", len(turns))
		}
		for _, outcome := range []limiter.Outcome{limiter.Unused, limiter.Throttled} {
			first := <-turns
			if time.Sleep(5 * time.Second); len(turns) != 0 || !g.State().Probing {
				t.Fatalf("%d went beside the first", len(turns))
			}
			first.End(limiter.Answer{Outcome: outcome, RetryAfter: 10 * time.Second})
		}
		if first := <-turns; time.Since(began) != 50*time.Second {
			t.Errorf("one went after %v", time.Since(began))
		} else {
			first.End(limiter.Answer{Outcome: limiter.Failed})
		}
		failed := time.Now()
		if first := <-turns; time.Since(failed) != 4*time.Second { // the third pause of its own
			t.Errorf("after one that has failed another went in %v", time.Since(failed))
		} else {
			first.End(limiter.Answer{Outcome: limiter.Answered})
		}
		for range 96 {
			(<-turns).End(limiter.Answer{})
		}
	})
}

func TestWhoeverCannotBeServedInTimeIsToldAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := limiter.New(limiter.Config{})
		early, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		turn := enter(t, g, limiter.Request{})
		enter(t, g, limiter.Request{}).End(limiter.Answer{Outcome: limiter.Paused, RetryAfter: 10 * time.Second})
		told := make(chan error)
		began := time.Now()
		go func() { _, err := g.Enter(early, limiter.Request{}); told <- err }()
		time.Sleep(time.Second)
		turn.End(limiter.Answer{Outcome: limiter.Throttled, RetryAfter: 40 * time.Second}) // it was on its way too
		var refused *limiter.Refused
		if err := <-told; !errors.As(err, &refused) || !refused.Throttled || refused.After != 40*time.Second || time.Since(began) != time.Second {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		if _, err := g.Try(limiter.Request{}); !errors.As(err, &refused) || refused.After != 40*time.Second {
			t.Errorf("a try gives %v", err)
		}
		left, leave := context.WithCancel(t.Context())
		go func() { _, err := g.Enter(left, limiter.Request{}); told <- err }()
		synctest.Wait()
		leave()
		if err := <-told; !errors.Is(err, context.Canceled) {
			t.Errorf("whoever has left is told %v", err)
		}
		if s := g.State(); len(s.Waiting) != 0 {
			t.Errorf("they wait still: %v", s.Waiting)
		}
	})
}

func TestAPauseIsCappedAndOnesOwnPauseGrows(t *testing.T) { // U6
	synctest.Test(t, func(t *testing.T) {
		g := limiter.New(limiter.Config{})
		for n, want := range []time.Duration{1, 2, 4, 8, 16, 30, 30} {
			began := time.Now()
			turn := enter(t, g, limiter.Request{})
			turn.End(limiter.Answer{Outcome: limiter.Throttled})
			if got := time.Until(g.State().Paused); got != want*time.Second {
				t.Errorf("pause %d is %v after %v", n, got, time.Since(began))
			}
		}
		turn := enter(t, g, limiter.Request{})
		turn.End(limiter.Answer{Outcome: limiter.Throttled, RetryAfter: 87600 * time.Hour})
		if got := time.Until(g.State().Paused); got != 2*time.Minute {
			t.Errorf("a pause of ten years is %v", got)
		}
	})
}

func TestTheDailyCapClosesTheGateForOrders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, left := limiter.New(limiter.Config{}), 0
		place := func(o limiter.Outcome) bool {
			turn, err := g.Enter(t.Context(), limiter.Request{})
			var refused *limiter.Refused
			if errors.As(err, &refused) && refused.Capped {
				return false
			}
			left++
			turn.End(limiter.Answer{Outcome: o})
			return true
		}
		for range 200 {
			place(limiter.Capped)
		}
		enter(t, g, limiter.Request{Class: limiter.Read}).End(limiter.Answer{})
		if left != 1 || !g.State().Capped {
			t.Fatalf("%d orders left", left)
		}
		time.Sleep(time.Minute)
		probe := enter(t, g, limiter.Request{})
		if place(limiter.Capped) {
			t.Error("two look at once")
		}
		probe.End(limiter.Answer{Outcome: limiter.Capped})
		time.Sleep(time.Minute)
		if !place(limiter.Passed) || !place(limiter.Capped) || place(limiter.Capped) {
			t.Error("an order that passes opens the gate")
		}
		day := 24 * time.Hour
		time.Sleep(time.Until(time.Now().UTC().Truncate(day).Add(day)))
		for range 2 {
			if !place(limiter.Passed) {
				t.Error("the next day is closed too")
			}
		}
	})
}

func TestAThrottledOrderKeepsItsPlaceInLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := limiter.New(limiter.Config{})
		sent := enter(t, g, limiter.Request{})
		time.Sleep(time.Second)
		enter(t, g, limiter.Request{}).End(limiter.Answer{Outcome: limiter.Throttled, RetryAfter: time.Second})
		went := make(chan string, 2)
		queue := func(name string, came time.Time) {
			go func() {
				turn, _ := g.Enter(t.Context(), limiter.Request{Came: came})
				went <- name
				turn.End(limiter.Answer{})
			}()
			synctest.Wait()
		}
		queue("another", time.Time{})
		sent.End(limiter.Answer{Outcome: limiter.Throttled})
		queue("the first", sent.Came)
		if first := <-went; first != "the first" {
			t.Errorf("%s went first", first)
		}
		<-went
	})
}

func TestPlacesAreForOrdersFirstAndLeaveRoomForOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := limiter.New(limiter.Config{Places: [limiter.Classes]int{32, 16, 8}, OwnerPlaces: 31})
		try := func(owner string, c limiter.Class, want bool) *limiter.Permit {
			t.Helper()
			turn, err := g.Try(limiter.Request{Owner: owner, Class: c})
			if (err == nil) != want {
				t.Errorf("%s, %v: %v", owner, c, err)
			}
			return turn
		}
		var polls []*limiter.Permit
		for range 8 {
			polls = append(polls, try("a", limiter.Poll, true))
		}
		try("b", limiter.Poll, false)
		for range 7 {
			try("a", limiter.Read, true)
		}
		try("a", limiter.Read, false)
		try("b", limiter.Read, true)
		try("b", limiter.Read, false)
		for range 14 {
			try("a", limiter.Order, true)
		}
		try("a", limiter.Order, false)
		went := make(chan string, 3)
		for _, owner := range []string{"a", "b", "c"} {
			go func() { enter(t, g, limiter.Request{Owner: owner}); went <- owner }()
			synctest.Wait()
		}
		for n, want := range []string{"b", "c"} {
			if got := <-went; got != want {
				t.Errorf("%d: the place is %s's", n, got)
			}
		}
		for _, turn := range polls[:3] {
			turn.End(limiter.Answer{})
			turn.End(limiter.Answer{})
		}
		if got := <-went; got != "a" {
			t.Errorf("the place is %s's", got)
		}
	})
}
