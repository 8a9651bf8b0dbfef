package limiter_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/easel-grpc/easel/internal/limiter"
)

// onePlace is a gate at which one goes at a time.
func onePlace() *limiter.Limiter {
	return limiter.New(limiter.Config{Places: [limiter.Classes]int{1, 1, 1}})
}

// inLine lets requests come one after the other, and gives whose goes when: each as soon as it has its turn.
func inLine(t *testing.T, g *limiter.Limiter, requests ...limiter.Request) <-chan string {
	t.Helper()
	went := make(chan string, len(requests))
	for _, r := range requests {
		go func() {
			turn, err := g.Enter(t.Context(), r)
			if err != nil {
				went <- r.Owner + " is refused"
				return
			}
			went <- r.Owner
			turn.End(limiter.Answer{})
		}()
		synctest.Wait()
	}
	return went
}

// times repeats requests.
func times(n int, requests ...limiter.Request) (all []limiter.Request) {
	for range n {
		all = append(all, requests...)
	}
	return all
}

// first gives the first who went, in one text.
func first(n int, went <-chan string) string {
	var all []string
	for range n {
		all = append(all, <-went)
	}
	return strings.Join(all, " ")
}

func TestWhoHoldsLessByItsWeightGoesFirst(t *testing.T) {
	for name, row := range map[string]struct {
		had, heavy, light int // turns that light has had, and that they hold
		weight            float64
		want              string
	}{
		"whatever it has had":   {10, 1, 0, 1, "light"},
		"of twice its weight":   {0, 2, 1, 4, "heavy"},
		"of the same":           {0, 2, 1, 1, "light"},
		"of less than it holds": {0, 3, 1, 2, "light"},
	} {
		synctest.Test(t, func(t *testing.T) {
			g := limiter.New(limiter.Config{Places: [limiter.Classes]int{row.heavy + row.light + 1}})
			for range row.had {
				enter(t, g, limiter.Request{Owner: "light"}).End(limiter.Answer{})
			}
			held := enter(t, g, limiter.Request{Owner: "third"})
			for range row.heavy {
				defer enter(t, g, limiter.Request{Owner: "heavy", Weight: row.weight}).End(limiter.Answer{})
			}
			for range row.light {
				defer enter(t, g, limiter.Request{Owner: "light"}).End(limiter.Answer{})
			}
			went := inLine(t, g, limiter.Request{Owner: "heavy"}, limiter.Request{Owner: "light"})
			held.End(limiter.Answer{})
			if got := first(2, went); !strings.HasPrefix(got, row.want) {
				t.Errorf("who holds less, %s: they go as %s", name, got)
			}
		})
	}
}

func TestAnOwnerHasTheWeightThatWasSaidLast(t *testing.T) {
	for name, row := range map[string]struct {
		weights [2]float64
		want    int // of 40 turns
	}{
		"none": {[2]float64{0, 0}, 20}, "one and then none": {[2]float64{3, 0}, 30}, "more": {[2]float64{1, 3}, 30}, "less": {[2]float64{3, 1}, 20},
	} {
		synctest.Test(t, func(t *testing.T) {
			g := onePlace()
			enter(t, g, limiter.Request{Owner: "a", Weight: row.weights[0]}).End(limiter.Answer{})
			held := enter(t, g, limiter.Request{Owner: "third"})
			went := inLine(t, g, times(40, limiter.Request{Owner: "a", Weight: row.weights[1]}, limiter.Request{Owner: "b"})...)
			held.End(limiter.Answer{})
			if got := strings.Count(first(40, went), "a"); got < row.want-2 || got > row.want+2 {
				t.Errorf("%s: it has %d turns of 40", name, got)
			}
			first(40, went)
		})
	}
}

// Whoever has asked for little goes first for a while when it comes back, and then shares.
func TestWhatAnOwnerSavesUpIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := onePlace()
		enter(t, g, limiter.Request{Owner: "rests"}).End(limiter.Answer{})
		for range 100 {
			enter(t, g, limiter.Request{Owner: "busy"}).End(limiter.Answer{})
		}
		held := enter(t, g, limiter.Request{Owner: "busy"})
		went := inLine(t, g, times(40, limiter.Request{Owner: "busy"}, limiter.Request{Owner: "rests"})...)
		held.End(limiter.Answer{})
		if got := strings.Count(first(20, went), "rests"); got < 12 || got > 16 {
			t.Errorf("it has %d turns of 20", got)
		}
		first(60, went)
	})
}

func TestPlacesAreBoundedForEachAndForAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := limiter.New(limiter.Config{Places: [limiter.Classes]int{4, 2, 1}, OwnerPlaces: 3})
		for n, owner := range []string{"a", "a", "a", "a", "b", "c"} {
			turn, err := g.Try(limiter.Request{Owner: owner})
			defer turn.End(limiter.Answer{})
			if (err == nil) != (n != 3 && n != 5) {
				t.Errorf("turn %d, of %s: %v", n, owner, err)
			}
		}
		if _, err := g.Try(limiter.Request{Owner: "c", Class: limiter.Read}); err == nil {
			t.Error("a read has a place beside four orders")
		}
	})
}

func TestOneOrderOfALineLooksWhetherTheCapIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := onePlace()
		enter(t, g, limiter.Request{}).End(limiter.Answer{Outcome: limiter.Capped})
		held := enter(t, g, limiter.Request{Class: limiter.Read})
		time.Sleep(time.Minute)
		waiting := make(chan error, 2)
		turns := make(chan *limiter.Permit, 2)
		for range 2 {
			go func() {
				turn, err := g.Enter(t.Context(), limiter.Request{})
				turns <- turn
				waiting <- err
			}()
		}
		synctest.Wait()
		held.End(limiter.Answer{})
		synctest.Wait()
		refused, capped := (*limiter.Refused)(nil), 0
		for range len(waiting) {
			if err := <-waiting; errors.As(err, &refused) && refused.Capped {
				capped++
			}
		}
		if capped != 1 {
			t.Errorf("%d are refused while one looks", capped)
		}
		for range 2 {
			(<-turns).End(limiter.Answer{Outcome: limiter.Capped})
		}
	})
}

func TestOrdersOfAnOwnerGoBeforeItsReadsAndPolls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, went := onePlace(), make(chan limiter.Class, 3)
		held := enter(t, g, limiter.Request{Owner: "a"})
		for _, class := range []limiter.Class{limiter.Poll, limiter.Read, limiter.Order} {
			go func() {
				turn := enter(t, g, limiter.Request{Owner: "a", Class: class})
				went <- class
				turn.End(limiter.Answer{})
			}()
			time.Sleep(time.Millisecond) // each comes later than the one before
		}
		held.End(limiter.Answer{})
		for want := range limiter.Classes {
			if got := <-went; got != want {
				t.Errorf("turn %d is that of the class %v", want, got)
			}
		}
	})
}

func TestARequestWaitsForItsPatienceAndUntilItsDeadline(t *testing.T) {
	for _, row := range []struct{ patience, deadline, want time.Duration }{{time.Second, time.Minute, time.Second}, {time.Minute, time.Second, time.Second}, {time.Second, 0, time.Second}} {
		synctest.Test(t, func(t *testing.T) {
			g, began, ctx := onePlace(), time.Now(), t.Context()
			if row.deadline > 0 {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, row.deadline)
				defer cancel()
			}
			paused := limiter.New(limiter.Config{})
			enter(t, paused, limiter.Request{}).End(limiter.Answer{Outcome: limiter.Paused, RetryAfter: 2 * time.Second}) // longer than any deadline of the table
			if _, err := paused.Enter(ctx, limiter.Request{Patience: row.patience}); !errors.As(err, new(*limiter.Refused)) || time.Since(began) != 0 {
				t.Errorf("%+v: in a pause %v after %v", row, err, time.Since(began))
			}
			defer enter(t, g, limiter.Request{}).End(limiter.Answer{})
			if _, err := g.Enter(ctx, limiter.Request{Patience: row.patience}); !errors.As(err, new(*limiter.Refused)) || time.Since(began) != row.want {
				t.Errorf("%+v: %v after %v", row, err, time.Since(began))
			}
		})
	}
}

// Nothing was served, so it goes in front of who has had one.
func TestATurnThatWasNotUsedCountsForNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := onePlace()
		for _, owner := range []string{"served", "unused", "unused", "unused", "unused", "unused", "served", "served"} {
			turn := enter(t, g, limiter.Request{Owner: owner})
			turn.End(limiter.Answer{Outcome: map[string]limiter.Outcome{"unused": limiter.Unused}[owner]})
		}
		held := enter(t, g, limiter.Request{Owner: "third"})
		went := inLine(t, g, limiter.Request{Owner: "served"}, limiter.Request{Owner: "unused"})
		held.End(limiter.Answer{})
		if got := first(2, went); got != "unused served" {
			t.Errorf("they go as %s", got)
		}
	})
}

func TestTheEstimateIsOfThoseInFront(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := limiter.New(limiter.Config{Places: [limiter.Classes]int{2}})
		for range 100 { // it is known how long a turn is held
			turn := enter(t, g, limiter.Request{})
			time.Sleep(time.Second)
			turn.End(limiter.Answer{})
		}
		held := []*limiter.Permit{enter(t, g, limiter.Request{}), enter(t, g, limiter.Request{})}
		went := inLine(t, g, append(times(8, limiter.Request{Owner: "many"}), times(2, limiter.Request{Owner: "few"})...)...)
		for _, row := range []struct {
			owner  string
			weight float64
			want   float64 // half a second for each in front, and for itself
		}{{"many", 1, (8 + 2 + 1) * .5}, {"few", 1, (2 + 3 + 1) * .5}, {"new", 1, (1 + 1 + 1) * .5}, {"heavy", 4, (0 + 0 + 1) * .5}} {
			if got := g.Estimate(limiter.Request{Owner: row.owner, Weight: row.weight}); got.Round(10*time.Millisecond).Seconds() != row.want {
				t.Errorf("%+v: it is %v", row, got)
			}
		}
		for _, turn := range held {
			turn.End(limiter.Answer{})
		}
		first(10, went)
	})
}

func TestTheEstimateOfAPollIsOfItsRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := limiter.New(limiter.Config{PollRate: 2})
		for range 2 {
			enter(t, g, limiter.Request{Class: limiter.Poll}).End(limiter.Answer{})
		}
		if got := g.Estimate(limiter.Request{Class: limiter.Poll}); got != time.Second/2 {
			t.Errorf("it is %v", got)
		}
		if got := g.Estimate(limiter.Request{Class: limiter.Read}); got != 0 {
			t.Errorf("that of a read is %v", got)
		}
	})
}

func TestATurnHoldsUntilItsEndOrAPause(t *testing.T) {
	g := limiter.New(limiter.Config{})
	ended, paused := enter(t, g, limiter.Request{}), enter(t, g, limiter.Request{})
	if !ended.Holds() || !paused.Holds() || (*limiter.Permit)(nil).Holds() {
		t.Error("a turn does not hold from its begin on")
	}
	ended.End(limiter.Answer{})
	if ended.Holds() || !paused.Holds() {
		t.Error("a turn holds after its end, or not after another's")
	}
	enter(t, g, limiter.Request{}).End(limiter.Answer{Outcome: limiter.Paused, RetryAfter: time.Minute})
	if paused.Holds() {
		t.Error("a turn holds in a pause that has begun since")
	}
}

// A pause that is asked for otherwise, and a refusal of the one that goes first, say nothing of how many are too many.
func TestOnlyARefusalOfManySlowsThePace(t *testing.T) {
	known := 0.0
	for n, outcomes := range [][]limiter.Outcome{{limiter.Throttled}, {limiter.Throttled, limiter.Throttled}, {limiter.Throttled, limiter.Paused}, {limiter.Paused}, {limiter.Failed}} {
		synctest.Test(t, func(t *testing.T) {
			g := limiter.New(limiter.Config{})
			end := func(outcome limiter.Outcome) {
				enter(t, g, limiter.Request{}).End(limiter.Answer{Outcome: outcome, RetryAfter: 5 * time.Second})
			}
			for range 20 {
				end(limiter.Passed)
			}
			late := enter(t, g, limiter.Request{})
			for _, outcome := range outcomes {
				end(outcome)
			}
			late.End(limiter.Answer{Outcome: outcomes[0], RetryAfter: time.Second}) // it was on its way before
			end(limiter.Passed)
			switch pace := g.State().OrderPace; {
			case n == 0:
				known = pace
			case outcomes[0] == limiter.Throttled && (pace != known || pace == 0), outcomes[0] != limiter.Throttled && pace != 0:
				t.Errorf("after the outcomes %v the pace is %v, and after a refusal %v", outcomes, pace, known)
			}
		})
	}
}
