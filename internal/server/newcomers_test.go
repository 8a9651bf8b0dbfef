package server

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/easel-grpc/easel/internal/service"
)

func TestAPIKeysThatWereNeverAcceptedShareAPart(t *testing.T) { // A3
	synctest.Test(t, func(t *testing.T) {
		n := newNewcomers(3, func(string) bool { return false })
		var leave func()
		for _, key := range []string{"a", "b", "b"} {
			var err error
			if leave, err = n.take(t.Context(), key); err != nil {
				t.Fatal(err)
			}
		}
		began := time.Now()
		_, err := n.take(t.Context(), "c")
		if got := service.Reason(service.Status(err)); got != "OVERLOADED" || time.Since(began) != newcomerPatience {
			t.Errorf("one too many is answered %q after %v", got, time.Since(began))
		}
		left, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := n.take(left, "c"); err == nil {
			t.Error("a caller that has left has a place")
		}
		time.AfterFunc(time.Second, leave)
		if _, err := n.take(t.Context(), "c"); err != nil || n.open["b"] != 1 || n.total != 3 {
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
			end, err := n.take(t.Context(), "a")
			if err != nil {
				t.Fatal(err)
			}
			leave = append(leave, end)
		}
		time.AfterFunc(time.Second, func() { accepted.Store(true) })
		began := time.Now()
		if _, err := n.take(t.Context(), "b"); err != nil {
			t.Fatal(err)
		}
		if waited := time.Since(began); waited < time.Second || waited > time.Second+newcomerCheck {
			t.Errorf("the places of the accepted key were free after %v", waited)
		}
		for _, end := range leave {
			end()
		}
		if n.total != 1 || n.open["b"] != 1 {
			t.Errorf("open are %d, %v", n.total, n.open)
		}
	})
}

func TestNoMoreNewcomersWaitThanMay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNewcomers(1, func(string) bool { return false })
		if _, err := n.take(t.Context(), "a"); err != nil {
			t.Fatal(err)
		}
		for range newcomersWaiting {
			go func() { _, _ = n.take(t.Context(), "b") }()
		}
		synctest.Wait()
		began := time.Now()
		if _, err := n.take(t.Context(), "c"); err == nil || time.Since(began) != 0 {
			t.Errorf("one too many is answered %v after %v", err, time.Since(began))
		}
	})
}
