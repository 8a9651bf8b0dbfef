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
		n := newUnverifiedLimiter(3, func(string) bool { return false })
		var release func()
		for _, key := range []string{"a", "b", "b"} {
			var err error
			if release, err = n.acquire(t.Context(), key, 1); err != nil {
				t.Fatal(err)
			}
		}
		began := time.Now()
		_, err := n.acquire(t.Context(), "c", 1)
		if got := service.Reason(service.Status(err)); got != easelv1.ErrorReason_OVERLOADED || time.Since(began) != unverifiedWait {
			t.Errorf("one too many is answered %v after %v", got, time.Since(began))
		}
		left, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := n.acquire(left, "c", 1); err == nil {
			t.Error("a call that has given up is counted")
		}
		time.AfterFunc(time.Second, release)
		if _, err := n.acquire(t.Context(), "c", 1); err != nil || n.open["b"].open != 1 || n.total != 3 {
			t.Errorf("when the limit is free again: %v, and %v are open", err, n.open)
		}
		if n.waiting != 0 {
			t.Errorf("%d wait", n.waiting)
		}
	})
}

func TestAnAPIKeyThatIsAcceptedCountsNoMore(t *testing.T) { // A3
	synctest.Test(t, func(t *testing.T) {
		var accepted atomic.Bool
		n := newUnverifiedLimiter(2, func(key string) bool { return key == "a" && accepted.Load() })
		var release []func()
		for range 2 {
			end, err := n.acquire(t.Context(), "a", 1)
			if err != nil {
				t.Fatal(err)
			}
			release = append(release, end)
		}
		time.AfterFunc(time.Second, func() { accepted.Store(true) })
		began := time.Now()
		if _, err := n.acquire(t.Context(), "b", 1); err != nil {
			t.Fatal(err)
		}
		if waited := time.Since(began); waited < time.Second || waited > time.Second+unverifiedCheck {
			t.Errorf("the accepted API key counted for %v", waited)
		}
		for _, end := range release {
			end()
		}
		if n.total != 1 || n.open["b"].open != 1 {
			t.Errorf("open are %d, %v", n.total, n.open)
		}
	})
}

func TestNoMoreCallsUnderUnverifiedAPIKeysWaitThanMay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newUnverifiedLimiter(1, func(string) bool { return false })
		if _, err := n.acquire(t.Context(), "a", 1); err != nil {
			t.Fatal(err)
		}
		for range unverifiedWaiting {
			go func() { _, _ = n.acquire(t.Context(), "b", 1) }()
		}
		synctest.Wait()
		began := time.Now()
		if _, err := n.acquire(t.Context(), "c", 1); err == nil || time.Since(began) != 0 {
			t.Errorf("one too many is answered %v after %v", err, time.Since(began))
		}
	})
}

func TestAReleaseCountsForTheAPIKeyThatAcquired(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		accepted := true
		n := newUnverifiedLimiter(10, func(string) bool { return accepted })
		before, err := n.acquire(t.Context(), "a", 10)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(unverifiedCheck)
		if _, err := n.acquire(t.Context(), "b", 4); err != nil { // a is counted out
			t.Fatal(err)
		}
		accepted = false // the catalog rejects the key now
		after, err := n.acquire(t.Context(), "a", 3)
		if err != nil {
			t.Fatal(err)
		}
		if before(); n.total != 7 {
			t.Errorf("%d are counted when an older call of a has ended, of 7", n.total)
		}
		if after(); n.total != 4 {
			t.Errorf("%d are counted when all calls of a have ended, of 4", n.total)
		}
	})
}

func TestAWatchOfTooManyGenerationsWaitsForNothing(t *testing.T) { // A4
	synctest.Test(t, func(t *testing.T) {
		g := newAdmission(Limits{}, func(string) bool { return false })
		began := time.Now()
		_, err := g.admit(t.Context(), easelv1.GenerationService_WatchGenerations_FullMethodName, true, origin{},
			&easelv1.WatchGenerationsRequest{GenerationIds: make([]string, mostGenerations+1)})
		if got := service.Reason(service.Status(err)); got != easelv1.ErrorReason_INVALID_REQUEST || time.Since(began) != 0 {
			t.Errorf("it is answered %v after %v", got, time.Since(began))
		}
	})
}

func TestUnverifiedAPIKeysTakeAPartOfTheGenerationIDs(t *testing.T) { // A4
	synctest.Test(t, func(t *testing.T) {
		var accepted atomic.Bool
		g := newAdmission(Limits{}, func(string) bool { return accepted.Load() })
		g.generations.each = g.generations.all // the callers are many
		many := &easelv1.WatchGenerationsRequest{GenerationIds: make([]string, mostGenerations)}
		watch := func() (func(), error) {
			return g.admit(t.Context(), easelv1.GenerationService_WatchGenerations_FullMethodName, true, origin{}, many)
		}
		var release []func()
		for range allGenerations / unverifiedPart / mostGenerations {
			end, err := watch()
			if err != nil {
				t.Fatal(err)
			}
			release = append(release, end)
		}
		if _, err := watch(); service.Reason(service.Status(err)) != easelv1.ErrorReason_OVERLOADED {
			t.Errorf("one too many is answered %v", err)
		}
		accepted.Store(true)
		end, err := watch()
		if err != nil {
			t.Fatalf("when the catalog has accepted the API key: %v", err)
		}
		for _, end := range append(release, end) {
			end()
		}
		if left := g.generations.inUse() + g.unverifiedGenerations.total + g.unverifiedStreams.total + g.streams.inUse(); left != 0 {
			t.Errorf("%d are counted when all have ended", left)
		}
	})
}
