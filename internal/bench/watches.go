package main

import (
	"context"
	"errors"
	"time"
)

// idleServer measures the resident memory of a facade without load. This is the minimum memory of a replica.
var idleServer = &measurement{repeats: 3, measure: func(_ context.Context, s *scene) (figures, error) {
	time.Sleep(time.Second)
	bytes, err := s.server.residentMemory()
	return figures{"idle-memory": bytes / 1e6}, err
}}

const (
	idleWatchCount       = 20_000
	idleWatchGenerations = 100
)

// idleWatches measures the memory that each watch uses while its generation does not change.
var idleWatches = &measurement{
	flags:   map[facade][]string{thePeer: {"-every", "10s"}, theEasel: {"--poll-min-interval", "10s", "--poll-max-interval", "10s"}},
	repeats: 3,
	measure: func(ctx context.Context, s *scene) (figures, error) {
		s.catalog.addActive(idleWatchGenerations)
		w, err := s.connectWatchClient()
		if err != nil {
			return nil, err
		}
		n := s.scaledLoad(idleWatchCount)
		bytes, err := measureGrowth(ctx, s.server.memoryInUse, func() error { return w.openWatches(ctx, n, idleWatchGenerations) })
		return figures{"watch-memory": bytes / 1e3 / float64(n)}, err
	},
}

const (
	pushWatches = 10_000
	pushRounds  = 7
	pushPause   = 300 * time.Millisecond // pause after each round, so that the facade can finish its work
)

// pushes is the measurement of the cost of sending a change of one generation to many watchers: the 99th percentile
// of the time from the catalog's response to the arrival at a watcher, and the facade's CPU time for each change and
// watcher.
var pushes = &measurement{
	flags: map[facade][]string{
		thePeer:  {"-every", "200ms"},
		theEasel: {"--poll-min-interval", "200ms", "--poll-max-interval", "200ms", "--poll-rate", "50"},
	},
	measure: func(ctx context.Context, s *scene) (figures, error) {
		s.catalog.addActive(1)
		w, err := s.connectWatchClient()
		if err != nil {
			return nil, err
		}
		n := s.scaledLoad(pushWatches)
		if err := w.openWatches(ctx, n, 1); err != nil {
			return nil, err
		}
		time.Sleep(pushPause)
		var delays []float64
		cpu, err := measureGrowth(ctx, s.server.cpuTime, func() error {
			for range pushRounds {
				p99, err := s.measurePush(ctx, w, n)
				if err != nil {
					return err
				}
				delays = append(delays, p99)
				time.Sleep(pushPause)
			}
			return nil
		})
		return figures{"push-delay": median(delays), "push-cpu": cpu * 1e6 / float64(pushRounds*n)}, err
	},
}

// measurePush changes the state of generation g0 in the catalog, and waits until n watches of w have received the
// change. It returns the 99th percentile of their delays, in milliseconds. A watch's delay starts with the catalog's
// first response that contains the new state, and ends when the watch receives the change.
func (s *scene) measurePush(ctx context.Context, w *watchClient, n int) (float64, error) {
	had := w.arrivedCount()
	s.catalog.incrementProgress("g0")
	if err := w.awaitMessages(ctx, had+n); err != nil {
		return 0, err
	}
	shown := s.catalog.firstSent("g0")
	var delays []float64
	for _, at := range w.arrivalTimes(had) {
		if delay := at.Sub(shown); delay > 0 {
			delays = append(delays, float64(delay.Microseconds())/1000)
		}
	}
	if len(delays) < n {
		return 0, errors.New("some watchers did not receive the change")
	}
	return quantile(delays, 0.99), nil
}
