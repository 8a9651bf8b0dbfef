package main

import (
	"context"
	"time"
)

// peerInterval is the default poll interval of the peer, the program that Easel is compared with. At this fixed
// interval, a change is noticed after one second on average, as with Easel's defaults.
const peerInterval = 2 * time.Second

const (
	activeCount = 1000
	pollSettle  = 5 * time.Second
	pollTime    = 15 * time.Second // not multiplied by the scale, because too few requests would be counted in a shorter time
)

// polls is the measurement of the requests per second that a facade sends to the catalog while many active
// generations are watched. All these generations are in the catalog's list, so a facade can poll them with list
// requests.
var polls = &measurement{repeats: 1, measure: func(ctx context.Context, s *scene) (figures, error) {
	s.catalog.addActive(activeCount)
	w, err := s.connectWatchClient()
	if err != nil {
		return nil, err
	}
	if err := w.openWatches(ctx, activeCount, activeCount); err != nil {
		return nil, err
	}
	time.Sleep(pollSettle)
	before := s.catalog.polls.Load()
	time.Sleep(pollTime)
	return figures{"requests": float64(s.catalog.polls.Load()-before) / pollTime.Seconds()}, nil
}}
