package main

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestTheStepsOfAStopShareOneDeadline(t *testing.T) {
	for name, test := range map[string]struct{ limit, calls, orders, whole time.Duration }{
		"every step takes all it may":     {limit: 10 * time.Second, calls: 7500 * time.Millisecond, orders: time.Second, whole: 9500 * time.Millisecond},
		"calls end at once":               {limit: 10 * time.Second, orders: 8500 * time.Millisecond, whole: 9500 * time.Millisecond},
		"telemetry has its least":         {limit: time.Second, calls: 750 * time.Millisecond, orders: 100 * time.Millisecond, whole: 1850 * time.Millisecond},
		"calls took longer than they may": {limit: 10 * time.Second, calls: 12 * time.Second, whole: 13 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				clock, began := &stopClock{limit: test.limit}, time.Now()
				clock.start()
				if test.calls > 0 && test.calls < test.limit && clock.calls() != test.calls {
					t.Errorf("calls have %v, want %v", clock.calls(), test.calls)
				}
				time.Sleep(test.calls)
				orders, cancel := clock.forOrders(t.Context())
				defer cancel()
				<-orders.Done()
				if took := time.Since(began) - test.calls; took != test.orders {
					t.Errorf("orders have %v, want %v", took, test.orders)
				}
				telemetry, cancel := clock.forTelemetry(t.Context())
				defer cancel()
				<-telemetry.Done()
				if took := time.Since(began); took != test.whole {
					t.Errorf("the stop takes %v, want %v", took, test.whole)
				}
			})
		})
	}
}

func TestAStopGoesOnWithoutPollsThatDoNotEnd(t *testing.T) { // A4
	synctest.Test(t, func(t *testing.T) {
		clock, began, stuck := &stopClock{limit: 10 * time.Second}, time.Now(), make(chan struct{})
		clock.forWork(func() {})
		if took := time.Since(began); took != 0 {
			t.Errorf("polls that end at once take %v", took)
		}
		clock.forWork(func() { <-stuck })
		if took := time.Since(began); took != 8*time.Second {
			t.Errorf("polls that do not end take %v", took)
		}
		close(stuck)
	})
}
