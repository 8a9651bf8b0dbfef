package service

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/catalog"
	"github.com/easel-grpc/easel/internal/events"
	"github.com/easel-grpc/easel/internal/orders"
	"github.com/easel-grpc/easel/internal/watch"
)

// farewells returns 20 durations, two for each of ten streams. The first is the time after which the server ends the
// stream because of its age. The second is the time that the server asks the caller to wait before it reconnects.
// Both depend on seed.
func farewells(t *testing.T, seed uint64) (times []time.Duration) {
	synctest.Test(t, func(t *testing.T) {
		s, err := New(Config{Catalog: new(catalog.Client), Hub: new(watch.Hub), Orders: noOrders(), Feed: new(events.Feed), Seed: seed, MaxStreamAge: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		for range 10 {
			age := time.Until(s.watchEnd(t.Context()))
			var end *closing
			if err := s.convertWatchError(watch.ErrExpired); !errors.As(err, &end) || end.reason != easelv1.StreamClosingReason_STREAM_CLOSING_REASON_MAX_AGE {
				t.Fatal(err)
			}
			times = append(times, age, end.delay)
		}
	})
	return times
}

func TestSameSeedReproducesStreamLifetimes(t *testing.T) {
	first := farewells(t, 7)
	if again := farewells(t, 7); !slices.Equal(again, first) {
		t.Errorf("one seed led to\n%v and\n%v", first, again)
	}
	if slices.Equal(farewells(t, 0), farewells(t, 0)) {
		t.Error("two services without a seed ended their streams at the same times")
	}
	ages := map[time.Duration]bool{}
	for i := 0; i < len(first); i += 2 {
		ages[first[i]] = true
		age, delay := first[i], first[i+1]
		if age <= 54*time.Minute || age > time.Hour {
			t.Errorf("a stream ended after %v, want 54 to 60 minutes", age)
		}
		if delay < retryDelay/2 || delay >= retryDelay*5/2 {
			t.Errorf("a caller got the reconnect delay %v", delay)
		}
	}
	if 2*len(ages) != len(first) {
		t.Errorf("some of the streams that started together also end together: %v", ages)
	}
}

// noOrders returns an Orders without a ledger.
func noOrders() *orders.Orders {
	return orders.New(orders.Config{Recorder: &orders.Recorder{}})
}
