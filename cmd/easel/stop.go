package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"
)

// stage is a step of a shutdown.
type stage int

// The order of a shutdown. Before its first stage, the servers notify their streams and drain their calls.
const (
	stopOrders    stage = iota // sends no further order, and waits for the orders in flight
	stopHub                    // ends all polling, and records the last states
	stopJobs                   // ends the background jobs
	stopLedger                 // closes the database
	stopTelemetry              // exports the last spans and metrics
	stages
)

// callShare is the percentage of the drain timeout that is for calls.
const callShare = 75

// shutdown has the name of each stage in the log, and the percentage of the drain timeout after which a stop continues without a
// stage that has not ended. A quick stage leaves its time to the next one.
var shutdown = [stages]struct {
	name  string
	share time.Duration
}{{"orders", 85}, {"hub", 88}, {"jobs", 91}, {"ledger", 93}, {"telemetry", 95}}

// telemetryMinimum is the minimum time for the last export. It may exceed a drain timeout below 10 s.
const telemetryMinimum = time.Second

// background is the work of a facade that no call waits for. The signal that stops the facade does not end it: each work ends in
// its stage of the shutdown.
type background struct {
	limit  time.Duration // drain timeout
	logger *slog.Logger
	ends   [stages][]func(context.Context) error

	once  sync.Once
	began time.Time // start of the shutdown
}

// start starts works that run until a stage.
func (b *background) start(ctx context.Context, until stage, works ...func(context.Context)) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var running sync.WaitGroup
	for _, work := range works {
		running.Go(func() { work(ctx) })
	}
	b.closeAt(until, func(context.Context) error {
		cancel()
		running.Wait()
		return nil
	})
}

// closeAt adds a function that a stage calls. Within a stage, the part that was opened last ends first.
func (b *background) closeAt(at stage, end func(context.Context) error) {
	b.ends[at] = append(b.ends[at], end)
}

// beginStop records the start of the shutdown, unless it has started.
func (b *background) beginStop() { b.once.Do(func() { b.began = time.Now() }) }

// stop runs the stages. A stage that does not end in time is logged, and the next one follows.
func (b *background) stop(ctx context.Context) {
	b.beginStop()
	for at := range stages {
		if err := b.stopStage(context.WithoutCancel(ctx), at); err != nil {
			b.logger.Warn("stage not stopped", "stage", shutdown[at].name, "error", err)
		} else if b.logger != nil { // nil if startup failed before there was a logger
			b.logger.Debug("stage stopped", "stage", shutdown[at].name, "elapsed_ms", time.Since(b.began).Milliseconds())
		}
	}
}

func (b *background) stopStage(ctx context.Context, at stage) error {
	limit := time.Until(b.began.Add(b.limit * shutdown[at].share / 100))
	if at == stopTelemetry {
		limit = max(limit, telemetryMinimum)
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- b.end(ctx, at) }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return fmt.Errorf("work continues: %w", ctx.Err())
	}
}

// end ends the parts of a stage.
func (b *background) end(ctx context.Context, at stage) (err error) {
	for _, end := range slices.Backward(b.ends[at]) {
		err = errors.Join(err, end(ctx))
	}
	return err
}
