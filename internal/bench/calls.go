package main

import (
	"context"
	"io"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/types/known/durationpb"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
)

const (
	callers  = 16
	callTime = 3 * time.Second
	warmUp   = time.Second
)

// callCPU measures what a call that reads a render upstream costs the server.
func callCPU(set setting) side {
	return func(ctx context.Context, b *bench) (float64, error) {
		done, cpu, err := b.calls(ctx, set)
		return float64(cpu.Microseconds()) / float64(len(done.delays)), err
	}
}

// callRate measures how many such calls a second the server answers.
func callRate(set setting) side {
	return func(ctx context.Context, b *bench) (float64, error) {
		done, _, err := b.calls(ctx, set)
		return done.rate(), err
	}
}

// callAllocations counts what the server allocates for such a call.
func callAllocations(set setting) side {
	return func(ctx context.Context, b *bench) (float64, error) {
		s, err := b.scene(ctx, set)
		if err != nil {
			return 0, err
		}
		defer s.stop()
		call, hangUp, err := s.caller(ctx)
		if err != nil {
			return 0, err
		}
		defer hangUp()
		if _, err := b.repeat(ctx, b.lasting(warmUp), call); err != nil {
			return 0, err
		}
		var done load
		all, err := s.server.allocated(ctx, func() (err error) {
			done, err = b.repeat(ctx, b.lasting(callTime), call)
			return err
		})
		return all / float64(len(done.delays)), err
	}
}

// allocated counts what the process allocates meanwhile.
func (p *process) allocated(ctx context.Context, meanwhile func() error) (float64, error) {
	before, err := p.counted(ctx, "Mallocs")
	if err != nil {
		return 0, err
	}
	if err := meanwhile(); err != nil {
		return 0, err
	}
	after, err := p.counted(ctx, "Mallocs")
	return after - before, err
}

func (b *bench) calls(ctx context.Context, set setting) (done load, cpu time.Duration, err error) {
	s, err := b.scene(ctx, set)
	if err != nil {
		return done, 0, err
	}
	defer s.stop()
	call, hangUp, err := s.caller(ctx)
	if err != nil {
		return done, 0, err
	}
	defer hangUp()
	if _, err := b.repeat(ctx, b.lasting(warmUp), call); err != nil {
		return done, 0, err
	}
	before, err := s.server.cpu()
	if err != nil {
		return done, 0, err
	}
	done, err = b.repeat(ctx, b.lasting(callTime), call)
	if err != nil {
		return done, 0, err
	}
	after, err := s.server.cpu()
	return done, after - before, err
}

// caller connects to the server of a scene, and gives one call of it.
func (s *scene) caller(ctx context.Context) (call func(context.Context) error, hangUp func(), err error) {
	if err := s.control(ctx, "/renders?prefix=r&n=%d", callers); err != nil {
		return nil, nil, err
	}
	conn, err := grpc.NewClient(s.server.addrs["grpc"], grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return nil, nil, err
	}
	client := easelv1.NewGenerationServiceClient(conn)
	call = func(ctx context.Context) error {
		ctx = metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+benchKey)
		_, err := client.GetGeneration(ctx, &easelv1.GetGenerationRequest{GenerationId: "r1", MaxStaleness: &durationpb.Duration{}})
		return err
	}
	return call, func() { _ = conn.Close() }, nil
}

const (
	turns    = 100
	sliceFor = 150 * time.Millisecond
)

// delayBeside measures by how much the slowest hundredth of calls is slower where the collector
// is as kind says than where it is well. Two servers take turns in short slices, so that what
// the machine does beside meets both: it is the median over the slices.
func delayBeside(kind string) side {
	return func(ctx context.Context, b *bench) (float64, error) {
		var call [2]func(context.Context) error
		for i, sink := range []string{"", kind} {
			s, err := b.scene(ctx, setting{tracing: "always", sink: sink})
			if err != nil {
				return 0, err
			}
			defer s.stop()
			one, hangUp, err := s.caller(ctx)
			if err != nil {
				return 0, err
			}
			defer hangUp()
			if _, err := b.repeat(ctx, b.lasting(warmUp), one); err != nil {
				return 0, err
			}
			call[i] = one
		}
		var ratios []float64
		for n := range b.load(turns) {
			var p99 [2]float64
			for turn := range call {
				i := (n + turn) % 2
				done, err := b.repeat(ctx, sliceFor, call[i])
				if err != nil {
					return 0, err
				}
				p99[i] = quantile(done.delays, 0.99)
			}
			ratios = append(ratios, p99[1]/p99[0])
		}
		return median(ratios), nil
	}
}

// load is what callers have done.
type load struct {
	delays []float64 // of each call, in milliseconds
	took   time.Duration
}

func (l load) rate() float64 { return float64(len(l.delays)) / l.took.Seconds() }

// repeat has all callers call for a while.
func (b *bench) repeat(ctx context.Context, lasting time.Duration, call func(context.Context) error) (done load, err error) {
	var delays [callers][]float64
	var first atomic.Pointer[error]
	var working sync.WaitGroup
	begin := time.Now()
	for n := range callers {
		working.Go(func() {
			for now := time.Now(); now.Sub(begin) < lasting && first.Load() == nil; {
				if err := call(ctx); err != nil {
					first.CompareAndSwap(nil, &err)
					return
				}
				answered := time.Now()
				delays[n] = append(delays[n], float64(answered.Sub(now).Microseconds())/1000)
				now = answered
			}
		})
	}
	working.Wait()
	if failed := first.Load(); failed != nil {
		return done, *failed
	}
	return load{slices.Concat(delays[:]...), time.Since(begin)}, nil
}

// directRate measures how many reads a second the catalog answers without a facade.
func directRate(ctx context.Context, b *bench) (float64, error) {
	s, err := b.scene(ctx, setting{bare: true})
	if err != nil {
		return 0, err
	}
	defer s.stop()
	if err := s.control(ctx, "/renders?prefix=r&n=%d", callers); err != nil {
		return 0, err
	}
	transport := &http.Transport{MaxIdleConnsPerHost: callers}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport}
	call := func(ctx context.Context) error {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.upstream()+"/generations/r1", nil)
		if err != nil {
			return err
		}
		request.Header.Set("Authorization", "Bearer "+benchKey)
		response, err := client.Do(request)
		if err != nil {
			return err
		}
		defer response.Body.Close()
		_, err = io.Copy(io.Discard, response.Body)
		return err
	}
	if _, err := b.repeat(ctx, b.lasting(warmUp), call); err != nil {
		return 0, err
	}
	done, err := b.repeat(ctx, b.lasting(callTime), call)
	return done.rate(), err
}
