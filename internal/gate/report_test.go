package gate_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/easel-grpc/easel/internal/gate"
)

// tell tells a gate of another.
func tell(from, to *gate.Gate) {
	r, _ := from.Tell()
	to.Hear("self", map[string]gate.Report{"another": r})
}

func TestTurnsThatWereGivenBackCountNowhere(t *testing.T) {
	for _, early := range []bool{false, true} { // whether the other process was asked before they began
		synctest.Test(t, func(t *testing.T) {
			places := func(n int) gate.Config { return gate.Config{Places: [gate.Classes]int{n, n, n}} }
			a, b := gate.New(places(110)), gate.New(places(1))
			if early {
				tell(a, b)
			}
			var turns []*gate.Turn
			for range 100 {
				turns = append(turns, enter(t, a, gate.Request{Owner: "greedy"}))
			}
			ctx, cancel := context.WithCancel(t.Context())
			for range 20 { // more of them wait
				go func() {
					turn, err := a.Enter(ctx, gate.Request{Owner: "greedy"})
					if <-ctx.Done(); err == nil {
						turn.End(gate.Answer{Outcome: gate.Unused})
					}
				}()
			}
			synctest.Wait()
			tell(a, b)
			holder, gone := enter(t, b, gate.Request{Owner: "holder"}), make(chan string, 40)
			for n := range 40 {
				go func() {
					owner := []string{"greedy", "modest"}[n%2]
					turn := enter(t, b, gate.Request{Owner: owner})
					gone <- owner
					turn.End(gate.Answer{})
				}()
			}
			cancel()
			for _, turn := range turns {
				turn.End(gate.Answer{Outcome: gate.Unused})
			}
			synctest.Wait()
			tell(a, b)
			holder.End(gate.Answer{})
			greedy := 0
			for range 20 {
				if <-gone == "greedy" {
					greedy++
				}
			}
			if greedy < 5 || greedy > 15 {
				t.Errorf("asked before: %v: %d of the first 20 turns are those of the one whose turns were given back elsewhere", early, greedy)
			}
			synctest.Wait()
		})
	}
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
		capped(true) // it is for a to look again
		time.Sleep(4 * time.Second)
		enter(t, b, gate.Request{}).End(gate.Answer{}) // which does not: b finds it gone
		tell(a, b)
		capped(false)
	})
}

func TestADailyCapThatIsOverIsOverForAllProcesses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var gates []*gate.Gate
		for range 3 {
			gates = append(gates, gate.New(gate.Config{}))
		}
		ctx, cancel := context.WithCancel(t.Context())
		var work sync.WaitGroup
		defer work.Wait()
		defer cancel()
		work.Go(func() { exchange(ctx, gates) })
		time.Sleep(time.Second)
		enter(t, gates[0], gate.Request{}).End(gate.Answer{Outcome: gate.Capped})
		time.Sleep(59 * time.Second)
		for _, outcome := range []gate.Outcome{gate.Unused, gate.Throttled} { // they have seen nothing, so that another one looks
			time.Sleep(time.Second)
			enter(t, gates[0], gate.Request{}).End(gate.Answer{Outcome: outcome, RetryAfter: time.Second})
		}
		looks := enter(t, gates[0], gate.Request{})
		time.Sleep(time.Second)
		for n, g := range gates {
			if _, err := g.Try(gate.Request{}); err == nil {
				t.Errorf("process %d does not wait for the one that looks", n)
			}
		}
		looks.End(gate.Answer{})
		for range 200 {
			time.Sleep(time.Second)
			for n, g := range gates {
				if enter(t, g, gate.Request{}).End(gate.Answer{}); g.State().Capped {
					t.Fatalf("process %d counts the daily cap as reached", n)
				}
			}
		}
		reports := map[string]gate.Report{} // the first process has gone, and another comes
		for n, g := range gates[1:] {
			reports[fmt.Sprint(n)], _ = g.Tell()
		}
		later := gate.New(gate.Config{})
		if later.Hear("later", reports); later.State().Capped {
			t.Error("a process that comes later counts the daily cap as reached")
		}
	})
}

func TestOneProcessLooksWhetherTheDailyCapIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var gates []*gate.Gate
		for range 8 {
			gates = append(gates, gate.New(gate.Config{}))
		}
		ctx, cancel := context.WithCancel(t.Context())
		var work sync.WaitGroup
		work.Go(func() { exchange(ctx, gates) })
		time.Sleep(time.Second)
		enter(t, gates[0], gate.Request{}).End(gate.Answer{Outcome: gate.Capped})
		time.Sleep(time.Second)
		var looked atomic.Int32
		for n, g := range gates {
			work.Go(func() {
				for ctx.Err() == nil {
					if turn, err := g.Try(gate.Request{}); err == nil {
						looked.Add(1)
						time.Sleep(time.Second) // the catalog is slow
						turn.End(gate.Answer{Outcome: gate.Capped})
					}
					time.Sleep(time.Duration(n+1) * 10 * time.Millisecond)
				}
			})
		}
		time.Sleep(10*time.Minute + time.Second)
		cancel()
		work.Wait()
		if n := looked.Load(); n < 9 || n > 10 {
			t.Errorf("in ten minutes %d orders look", n)
		}
	})
}

func TestARefusalElsewhereIsTheFirstOneHereToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := gate.New(gate.Config{}), gate.New(gate.Config{})
		tell(a, b)
		enter(t, a, gate.Request{}).End(gate.Answer{Outcome: gate.Throttled, RetryAfter: time.Minute})
		tell(a, b)
		first := b.State().OrderPace
		for range 10 {
			time.Sleep(time.Second)
			tell(a, b)
		}
		if pace := b.State().OrderPace; first == 0 || pace < 8*first {
			t.Errorf("the pace is guessed as %v, and ten seconds later as %v", first, pace)
		}
	})
}

func TestAProcessThatHasRestedRefusesNobodyForItsSmallPart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := gate.New(gate.Config{})
		g.Hear("self", map[string]gate.Report{"another": {Pace: [gate.Classes]float64{2, 2}, Owners: map[string]gate.Part{"busy": {Weight: 1, Wants: 20}}}})
		var work sync.WaitGroup
		for range 10 {
			work.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
				defer cancel()
				began := time.Now()
				turn, err := g.Enter(ctx, gate.Request{})
				if turn.End(gate.Answer{}); err != nil && time.Since(began) < 20*time.Second {
					t.Errorf("an order is refused at once: %v", err)
				}
			})
		}
		work.Wait()
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
		b.Hear("b", nil)
		if pace := b.State().OrderPace; pace < 15 {
			t.Errorf("once it is alone it has a pace of %v", pace)
		}
	})
}
