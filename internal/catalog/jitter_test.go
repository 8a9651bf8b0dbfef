package catalog

import (
	"net/http"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// instants gives the times at which requests of a client with the seed come to a catalog
// that is away, counted from the first. A read and a download make them.
func instants(t *testing.T, seed uint64) (times []time.Duration) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		away := roundTrip(func(r *http.Request) (*http.Response, error) {
			times = append(times, time.Since(began))
			return reply(r, 503, nil, ""), nil
		})
		c, err := New(Config{BaseURL: testURL, Transport: away, Seed: seed})
		if err != nil {
			t.Fatal(err)
		}
		_ = calls[opAccount](t.Context(), c)
		_ = calls[opContent](t.Context(), c)
	})
	return times
}

func TestASeededClientWaitsTheSameTimesInEveryRun(t *testing.T) {
	first := instants(t, 7)
	if len(first) < 5 { // two or three of each
		t.Fatalf("only %d requests", len(first))
	}
	for range 5 {
		if again := instants(t, 7); !slices.Equal(again, first) {
			t.Errorf("one seed gave\n%v and\n%v", first, again)
		}
	}
	if slices.Equal(instants(t, 8), first) {
		t.Error("another seed gave the same times")
	}
	if slices.Equal(instants(t, 0), instants(t, 0)) {
		t.Error("two clients without a seed waited the same times")
	}
}
