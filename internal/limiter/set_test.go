package limiter_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/easel-grpc/easel/internal/limiter"
)

func TestASetHasOneGateForAnAPIKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		set := limiter.NewSet(limiter.Config{})
		first := set.Of("a")
		turn, err := first.Enter(t.Context(), limiter.Request{Class: limiter.Read})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		for i := range 1000 {
			set.Of(fmt.Sprint("made up ", i))
		}
		if set.Of("a") != first || set.Of("b") == first {
			t.Error("a gate that is in use was forgotten, or is another's")
		}
		turn.End(limiter.Answer{Outcome: limiter.Throttled, RetryAfter: 2 * time.Minute})
		if state := set.States()["a"]; !state.Paused.After(time.Now()) {
			t.Errorf("the set says %+v of a gate that is closed", state)
		}
	})
}

func TestASetForgetsGatesThatKnowNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		set := limiter.NewSet(limiter.Config{PollRate: 5})
		for i := range 10_000 {
			set.Of(fmt.Sprint(i))
			time.Sleep(time.Second)
		}
		if n := len(set.States()); n > 200 {
			t.Errorf("%d gates are kept of a second each", n)
		}
	})
}

func TestATurnIsInItsContext(t *testing.T) {
	turn, err := limiter.New(limiter.Config{}).Try(limiter.Request{})
	if err != nil {
		t.Fatal(err)
	}
	if limiter.TurnOf(turn.Context(t.Context())) != turn || limiter.TurnOf(t.Context()) != nil {
		t.Error("a context has another turn than it was given")
	}
}

func TestAPollThatIsNotMadeTakesNothingFromTheRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := limiter.New(limiter.Config{PollRate: 5})
		for range 100 {
			turn, err := g.Try(limiter.Request{Class: limiter.Poll})
			if err != nil {
				t.Fatal(err)
			}
			turn.End(limiter.Answer{Outcome: limiter.Unused})
		}
		if g.SetPollRate(2); g.State().PollRate != 2 {
			t.Errorf("the rate is %v", g.State().PollRate)
		}
		if n, _ := g.Polls(); n > 2 {
			t.Errorf("%d polls at once at a rate of 2 a second", n)
		}
	})
}
