package gate_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/easel-grpc/easel/internal/gate"
)

// tell tells a gate of another.
func tell(from, to *gate.Gate) {
	r, _ := from.Tell()
	to.Hear(map[string]gate.Report{"another": r})
}

func TestTheDailyCapIsMetOnceByAllProcesses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := gate.New(gate.Config{}), gate.New(gate.Config{})
		enter(t, a, gate.Request{}).End(gate.Answer{Outcome: gate.Capped})
		capped := func(want bool) {
			t.Helper()
			turn, err := b.Try(gate.Request{})
			turn.End(gate.Answer{Outcome: gate.Unused})
			var refused *gate.Refused
			if got := errors.As(err, &refused) && refused.Capped; got != want {
				t.Errorf("the other process says %v of an order", err)
			}
		}
		tell(a, b)
		capped(true)
		time.Sleep(50 * time.Second)
		tell(a, b)
		time.Sleep(10 * time.Second)
		enter(t, a, gate.Request{}).End(gate.Answer{Outcome: gate.Capped}) // a looks for both
		tell(a, b)
		capped(true)
		time.Sleep(time.Minute)
		enter(t, b, gate.Request{}).End(gate.Answer{}) // b finds it gone
		tell(a, b)
		capped(false)
	})
}

func TestWhatAnOwnerHasHadElsewhereCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := gate.New(gate.Config{}), gate.New(gate.Config{Places: [gate.Classes]int{1}})
		tell(a, b)
		for range 2 {
			enter(t, a, gate.Request{Owner: "busy"}).End(gate.Answer{})
		}
		held := enter(t, b, gate.Request{Owner: "third"})
		tell(a, b)
		went := make(chan string, 2)
		for _, owner := range []string{"busy", "quiet"} {
			go func() {
				turn, err := b.Enter(t.Context(), gate.Request{Owner: owner})
				went <- owner
				if err == nil {
					turn.End(gate.Answer{})
				}
			}()
			synctest.Wait()
		}
		held.End(gate.Answer{})
		if first := <-went; first != "quiet" {
			t.Errorf("%s goes first, who has had more", first)
		}
		<-went
	})
}

func TestAProcessThatBeginsTakesThePaceOfTheOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b, c := gate.New(gate.Config{}), gate.New(gate.Config{}), newCatalog(20, 20, time.Second)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		var work sync.WaitGroup
		for range 40 {
			work.Go(func() {
				for order(ctx, a, c, gate.Request{}) == nil {
				}
			})
		}
		work.Wait()
		tell(a, b)
		if known, pace := a.State().OrderPace, b.State().OrderPace; pace == 0 || pace > known {
			t.Errorf("it begins with a pace of %v, that of the others is %v", pace, known)
		}
		b.Hear(nil)
		if pace := b.State().OrderPace; pace < 15 {
			t.Errorf("once it is alone it has a pace of %v", pace)
		}
	})
}
