package server

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/service"
)

func TestAPIKeysThatWereNeverAcceptedShareAPart(t *testing.T) { // A3
	synctest.Test(t, func(t *testing.T) {
		n := newNewcomers(3, func(string) bool { return false })
		var leave func()
		for _, key := range []string{"a", "b", "b"} {
			var err error
			if leave, err = n.take(t.Context(), key, 1); err != nil {
				t.Fatal(err)
			}
		}
		began := time.Now()
		_, err := n.take(t.Context(), "c", 1)
		if got := service.Reason(service.Status(err)); got != "OVERLOADED" || time.Since(began) != newcomerPatience {
			t.Errorf("one too many is answered %q after %v", got, time.Since(began))
		}
		left, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := n.take(left, "c", 1); err == nil {
			t.Error("a caller that has left has a place")
		}
		time.AfterFunc(time.Second, leave)
		if _, err := n.take(t.Context(), "c", 1); err != nil || n.open["b"].open != 1 || n.total != 3 {
			t.Errorf("when a place is free again: %v, and %v are open", err, n.open)
		}
		if n.waiting != 0 {
			t.Errorf("%d wait", n.waiting)
		}
	})
}

func TestAnAPIKeyThatIsAcceptedLeavesItsPlaces(t *testing.T) { // A3
	synctest.Test(t, func(t *testing.T) {
		var accepted atomic.Bool
		n := newNewcomers(2, func(key string) bool { return key == "a" && accepted.Load() })
		var leave []func()
		for range 2 {
			end, err := n.take(t.Context(), "a", 1)
			if err != nil {
				t.Fatal(err)
			}
			leave = append(leave, end)
		}
		time.AfterFunc(time.Second, func() { accepted.Store(true) })
		began := time.Now()
		if _, err := n.take(t.Context(), "b", 1); err != nil {
			t.Fatal(err)
		}
		if waited := time.Since(began); waited < time.Second || waited > time.Second+newcomerCheck {
			t.Errorf("the places of the accepted key were free after %v", waited)
		}
		for _, end := range leave {
			end()
		}
		if n.total != 1 || n.open["b"].open != 1 {
			t.Errorf("open are %d, %v", n.total, n.open)
		}
	})
}

func TestNoMoreNewcomersWaitThanMay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNewcomers(1, func(string) bool { return false })
		if _, err := n.take(t.Context(), "a", 1); err != nil {
			t.Fatal(err)
		}
		for range newcomersWaiting {
			go func() { _, _ = n.take(t.Context(), "b", 1) }()
		}
		synctest.Wait()
		began := time.Now()
		if _, err := n.take(t.Context(), "c", 1); err == nil || time.Since(began) != 0 {
			t.Errorf("one too many is answered %v after %v", err, time.Since(began))
		}
	})
}

func TestAPlaceEndsForTheKeyThatTookIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		accepted := true
		n := newNewcomers(10, func(string) bool { return accepted })
		before, err := n.take(t.Context(), "a", 10)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(newcomerCheck)
		if _, err := n.take(t.Context(), "b", 4); err != nil { // the places of a are swept
			t.Fatal(err)
		}
		accepted = false // the catalog rejects the key now
		after, err := n.take(t.Context(), "a", 3)
		if err != nil {
			t.Fatal(err)
		}
		if before(); n.total != 7 {
			t.Errorf("%d places are counted when an older call of a has ended, of 7", n.total)
		}
		if after(); n.total != 4 {
			t.Errorf("%d places are counted when all calls of a have ended, of 4", n.total)
		}
	})
}

func TestNewcomersTakeAPartOfTheGenerationIDs(t *testing.T) { // A4
	synctest.Test(t, func(t *testing.T) {
		var accepted atomic.Bool
		g := newAdmission(Limits{}, func(string) bool { return accepted.Load() })
		g.generations.each = g.generations.all // the callers are many
		many := &easelv1.WatchGenerationsRequest{GenerationIds: make([]string, allGenerations/newcomersPart/10)}
		watch := func() (func(), error) {
			return g.admit(t.Context(), easelv1.GenerationService_WatchGenerations_FullMethodName, true, origin{}, many)
		}
		var leave []func()
		for range 10 {
			end, err := watch()
			if err != nil {
				t.Fatal(err)
			}
			leave = append(leave, end)
		}
		if _, err := watch(); service.Reason(service.Status(err)) != "OVERLOADED" {
			t.Errorf("one too many is answered %v", err)
		}
		accepted.Store(true)
		end, err := watch()
		if err != nil {
			t.Fatalf("when the catalog has accepted the API key: %v", err)
		}
		for _, end := range append(leave, end) {
			end()
		}
		if left := g.generations.taken() + g.newGenerations.total + g.newStreams.total + g.streams.taken(); left != 0 {
			t.Errorf("%d places are left when all have ended", left)
		}
	})
}
