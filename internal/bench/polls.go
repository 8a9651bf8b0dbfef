package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
)

// peerInterval is how often the peer polls by default. A fixed interval of two seconds has a mean
// delay of one, and so has what easel does by default.
const peerInterval = 2 * time.Second

const (
	activeCount = 1000
	pollSettle  = 5 * time.Second
	pollTime    = 15 * time.Second // not scaled: at a request a second there are few to count
)

// polls counts the requests of a second for many active generations, all of which the list has.
var polls = &measurement{repeats: 1, measure: func(ctx context.Context, s *scene) (figures, error) {
	s.catalog.addActive(activeCount)
	w, err := s.watchers()
	if err != nil {
		return nil, err
	}
	if err := w.watch(ctx, activeCount, activeCount); err != nil {
		return nil, err
	}
	time.Sleep(pollSettle)
	before := s.catalog.polls.Load()
	time.Sleep(pollTime)
	return figures{"requests": float64(s.catalog.polls.Load()-before) / pollTime.Seconds()}, nil
}}

const (
	endCount = 200
	endLearn = 25 * time.Second
	endTime  = 40 * time.Second
)

// ends measures how long after its end a generation's watcher hears of it, where the list says
// nothing and each generation is read by itself. Two hundred are active all the time. Twice as
// many requests halve the delay, so it is given as it would be with as many as the peer's ticker makes.
var ends = &measurement{
	flags:   map[facade][]string{theEasel: {"--poll-rate", "500"}},
	repeats: 1,
	measure: func(ctx context.Context, s *scene) (figures, error) {
		s.catalog.unlisted.Store(true)
		learned := time.Now().Add(endLearn)
		slots, slotsCtx := errgroup.WithContext(ctx)
		limited, cancel := context.WithCancel(slotsCtx) // no deadline, or it would go to the facade
		defer cancel()
		delays := make([][]float64, endCount)
		for slot := range delays {
			slots.Go(func() (err error) {
				delays[slot], err = s.replace(limited, slot, learned)
				return err
			})
		}
		time.Sleep(endLearn)
		before := s.catalog.polls.Load()
		time.AfterFunc(endTime, cancel)
		if err := slots.Wait(); err != nil {
			return nil, err
		}
		ticks := endCount * endTime.Seconds() / peerInterval.Seconds()
		return figures{"end-delay": mean(slices.Concat(delays...)) * float64(s.catalog.polls.Load()-before) / ticks}, ctx.Err()
	},
}

// replace keeps one generation active until the context ends. Each has a watcher, and when that has
// heard of the end, the next one begins. It gives the delays since the facade has learned.
func (s *scene) replace(ctx context.Context, slot int, learned time.Time) (delays []float64, err error) {
	random := rand.New(rand.NewPCG(1, uint64(slot)))
	for k := 0; ctx.Err() == nil; k++ {
		id := fmt.Sprintf("s%d-%d", slot, k)
		ends := s.catalog.add(id, time.Duration(15*float64(time.Second)*math.Exp(0.3*random.NormFloat64())))
		err := s.watch(ctx, id)
		if now := time.Now(); err == nil && now.After(learned) {
			delays = append(delays, float64(now.Sub(ends).Microseconds())/1000)
		}
		if err != nil && ctx.Err() == nil {
			return nil, err
		}
	}
	return delays, nil
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
