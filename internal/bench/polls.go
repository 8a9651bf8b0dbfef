package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

// peerInterval is how often the peer polls. A fixed interval of two seconds has a mean delay of one,
// and so has what easel does by default.
const peerInterval = 2 * time.Second

func (f facade) defaultInterval() time.Duration {
	if f == thePeer {
		return peerInterval
	}
	return time.Second
}

const (
	activeCount = 1000
	pollSettle  = 5 * time.Second
	pollTime    = 15 * time.Second // not scaled: at a request a second there are few to count
)

// polls counts the requests of a second for many active generations, all of which the list has.
var polls = &measurement{repeats: 1, measure: func(ctx context.Context, b *bench, f facade) (figures, error) {
	s, err := b.start(ctx, f, setting{
		catalog: []string{fmt.Sprint("/generations?prefix=g&n=", activeCount), fmt.Sprint("/list?page=", activeCount)},
	})
	if err != nil {
		return nil, err
	}
	defer s.stop()
	w, err := s.watchers()
	if err != nil {
		return nil, err
	}
	defer w.close()
	if err := w.watch(ctx, activeCount, activeCount); err != nil {
		return nil, err
	}
	time.Sleep(pollSettle)
	n, err := growth(ctx, s.polls, func() error {
		time.Sleep(pollTime)
		return nil
	})
	return figures{"requests": n / pollTime.Seconds()}, err
}}

const (
	endCount = 200
	endLearn = 25 * time.Second
	endTime  = 40 * time.Second
)

// ends measures how long after its end a generation's watcher hears of it, where the list says
// nothing and each generation is read by itself. Two hundred are active all the time. Twice as
// many requests halve the delay, so it is given as it would be with as many as the peer's ticker makes.
var ends = &measurement{repeats: 1, measure: func(ctx context.Context, b *bench, f facade) (figures, error) {
	s, err := b.start(ctx, f, setting{catalog: []string{"/list?page=0"}, easel: []string{"--poll-rate", "500"}})
	if err != nil {
		return nil, err
	}
	defer s.stop()
	learned := time.Now().Add(endLearn)
	until := learned.Add(endTime)
	var heard sync.Map // when the watcher of each id heard of its end
	slots, slotsCtx := errgroup.WithContext(ctx)
	for slot := range endCount {
		slots.Go(func() error { return s.replace(slotsCtx, slot, until, &heard) })
	}
	time.Sleep(time.Until(learned))
	n, err := growth(ctx, s.polls, slots.Wait)
	if err != nil {
		return nil, err
	}
	times, err := s.times(ctx)
	var delays []float64
	for id, at := range heard.Range {
		if at := at.(time.Time); at.After(learned) {
			delays = append(delays, float64(at.UnixNano()-times[id.(string)].Ended)/1e6)
		}
	}
	ticks := endCount * until.Sub(learned).Seconds() / peerInterval.Seconds()
	return figures{"end-delay": mean(delays) * n / ticks}, err
}}

// replace keeps one generation active until the time is over. Each has a watcher, and when that has
// heard of the end, the next one begins.
func (s *scene) replace(ctx context.Context, slot int, until time.Time, heard *sync.Map) error {
	limited, cancel := context.WithCancel(ctx)
	defer cancel()
	time.AfterFunc(time.Until(until), cancel) // no deadline, or it would go to the facade
	for k := 0; ; k++ {
		prefix := fmt.Sprintf("s%d-%d-", slot, k)
		err := s.control(limited, fmt.Sprintf("/generations?prefix=%s&n=1&median=15s&sigma=0.3&seed=%d", prefix, slot*1000+k))
		if err == nil {
			err = s.watch(limited, prefix+"0")
		}
		switch {
		case limited.Err() != nil:
			return ctx.Err()
		case err != nil:
			return err
		}
		heard.Store(prefix+"0", time.Now())
	}
}

// watch watches a generation until it ends.
func (s *scene) watch(ctx context.Context, id string) error {
	stream, err := s.client.WatchGeneration(ctx, watchRequest(id))
	for err == nil {
		_, err = stream.Recv()
	}
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}
