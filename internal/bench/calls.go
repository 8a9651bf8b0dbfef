package main

import (
	"context"
	"io"
	"net/http"
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
		calls, cpu, _, err := b.calls(ctx, set)
		return float64(cpu.Microseconds()) / float64(calls), err
	}
}

// callRate measures how many such calls a second the server answers.
func callRate(set setting) side {
	return func(ctx context.Context, b *bench) (float64, error) {
		calls, _, took, err := b.calls(ctx, set)
		return float64(calls) / took.Seconds(), err
	}
}

func (b *bench) calls(ctx context.Context, set setting) (calls int64, cpu, took time.Duration, err error) {
	s, err := b.scene(ctx, set)
	if err != nil {
		return 0, 0, 0, err
	}
	defer s.stop()
	if err := s.control(ctx, "/renders?prefix=r&n=%d", callers); err != nil {
		return 0, 0, 0, err
	}
	conn, err := grpc.NewClient(s.server.addrs["grpc"], grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return 0, 0, 0, err
	}
	defer conn.Close()
	client := easelv1.NewGenerationServiceClient(conn)
	call := func(ctx context.Context) error {
		_, err := client.GetGeneration(ctx, &easelv1.GetGenerationRequest{GenerationId: "r1", MaxStaleness: &durationpb.Duration{}})
		return err
	}
	ctx = metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+benchKey)
	if _, _, err := b.repeat(ctx, b.lasting(warmUp), call); err != nil {
		return 0, 0, 0, err
	}
	before, err := s.server.cpu()
	if err != nil {
		return 0, 0, 0, err
	}
	calls, took, err = b.repeat(ctx, b.lasting(callTime), call)
	if err != nil {
		return 0, 0, 0, err
	}
	after, err := s.server.cpu()
	return calls, after - before, took, err
}

// repeat has all callers call for a while.
func (b *bench) repeat(ctx context.Context, lasting time.Duration, call func(context.Context) error) (calls int64, took time.Duration, err error) {
	var done atomic.Int64
	var first atomic.Pointer[error]
	var working sync.WaitGroup
	begin := time.Now()
	for range callers {
		working.Go(func() {
			for time.Since(begin) < lasting && first.Load() == nil {
				if err := call(ctx); err != nil {
					first.CompareAndSwap(nil, &err)
					return
				}
				done.Add(1)
			}
		})
	}
	working.Wait()
	if failed := first.Load(); failed != nil {
		return 0, 0, *failed
	}
	return done.Load(), time.Since(begin), nil
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
	if _, _, err := b.repeat(ctx, b.lasting(warmUp), call); err != nil {
		return 0, err
	}
	calls, took, err := b.repeat(ctx, b.lasting(callTime), call)
	return float64(calls) / took.Seconds(), err
}
