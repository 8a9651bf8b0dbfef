package main

import (
	"context"
	"io"
	"net/http"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/protobuf/types/known/durationpb"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
)

const (
	callerCount = 16
	callTime    = 3 * time.Second
	warmUp      = time.Second
)

// calls is the measurement of the CPU time, the allocations and the rate of unary calls that read a generation from
// the catalog. The number of allocations is read from heap profiles. Creating a profile allocates as many objects as
// hundreds of calls, so the allocations for a profile are measured first and subtracted.
var calls = &measurement{measure: func(ctx context.Context, s *scene) (figures, error) {
	s.catalog.addActive(1)
	call := func(ctx context.Context) error {
		_, err := s.client.GetGeneration(ctx, &easelv1.GetGenerationRequest{GenerationId: "g0", MaxStaleness: &durationpb.Duration{}})
		return err
	}
	if _, _, err := s.callFor(ctx, warmUp, call); err != nil {
		return nil, err
	}
	reading, err := measureGrowth(ctx, s.server.allocations, func() error { return nil })
	if err != nil {
		return nil, err
	}
	var calls, rate, cpu float64
	allocations, err := measureGrowth(ctx, s.server.allocations, func() (err error) {
		cpu, err = measureGrowth(ctx, s.server.cpuTime, func() (err error) {
			calls, rate, err = s.callFor(ctx, callTime, call)
			return err
		})
		return err
	})
	return figures{"call-cpu": cpu * 1e6 / calls, "call-allocs": (allocations - reading) / calls, "call-rate": rate}, err
}}

// restCalls measures the rate of unary calls that read a generation over REST.
var restCalls = &measurement{measure: func(ctx context.Context, s *scene) (figures, error) {
	s.catalog.addActive(1)
	web := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: callerCount}}
	defer web.CloseIdleConnections()
	call := func(ctx context.Context) error {
		return get(ctx, web, "http://"+s.server.addrs["http"]+"/v1/generations/g0?max_staleness=0s", io.Discard)
	}
	if _, _, err := s.callFor(ctx, warmUp, call); err != nil {
		return nil, err
	}
	_, rate, err := s.callFor(ctx, callTime, call)
	return figures{"rest-rate": rate}, err
}}

// callFor calls fn repeatedly in callerCount goroutines. It stops after the given time, multiplied by the
// benchmark's scale. It returns the number of calls, and the number of calls per second.
func (s *scene) callFor(ctx context.Context, length time.Duration, fn func(context.Context) error) (calls, rate float64, err error) {
	var done atomic.Int64
	callers, ctx := errgroup.WithContext(ctx)
	begin := time.Now()
	until := begin.Add(s.scaledDuration(length))
	for range callerCount {
		callers.Go(func() error {
			for time.Now().Before(until) {
				if err := fn(ctx); err != nil {
					return err
				}
				done.Add(1)
			}
			return nil
		})
	}
	err = callers.Wait()
	calls = float64(done.Load())
	return calls, calls / time.Since(begin).Seconds(), err
}
