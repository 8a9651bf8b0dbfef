package service

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/catalog"
	"github.com/easel-grpc/easel/internal/watch"
)

// farewells gives the ages at which ten streams of a service with the seed are ended, and
// after which delays their callers shall come back.
func farewells(t *testing.T, seed uint64) (times []time.Duration) {
	synctest.Test(t, func(t *testing.T) {
		s, err := New(Config{Catalog: new(catalog.Client), Hub: new(watch.Hub), Seed: seed})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Drain()
		for range 10 {
			began := time.Now()
			ctx, done := s.lasting(t.Context(), time.Hour)
			<-ctx.Done()
			var end *closing
			if !errors.As(context.Cause(ctx), &end) || end.reason != easelv1.StreamClosingReason_STREAM_CLOSING_REASON_MAX_AGE {
				t.Fatal(context.Cause(ctx))
			}
			times = append(times, time.Since(began), end.delay)
			done()
		}
	})
	return times
}

func TestStreamsEndAtDifferentTimesThatASeedRepeats(t *testing.T) {
	first := farewells(t, 7)
	if again := farewells(t, 7); !slices.Equal(again, first) {
		t.Errorf("one seed gave\n%v and\n%v", first, again)
	}
	if slices.Equal(farewells(t, 0), farewells(t, 0)) {
		t.Error("two services without a seed ended their streams alike")
	}
	for i := 0; i < len(first); i += 2 {
		age, delay := first[i], first[i+1]
		if age <= 54*time.Minute || age > time.Hour {
			t.Errorf("a stream ended after %v, want the last tenth of an hour", age)
		}
		if delay < retryDelay/2 || delay >= retryDelay*5/2 {
			t.Errorf("a caller was told to come back in %v", delay)
		}
	}
}
