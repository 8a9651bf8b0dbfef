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

// stage identifies a step of the shutdown.
type stage int

// The stages, in the order in which they run. Before the first stage, the servers notify the clients that have open streams,
// and wait for open calls to finish.
const (
	stopOrders    stage = iota // stops sending orders, and waits for orders in flight
	stopHub                    // stops polling, and records the last states of renders
	stopJobs                   // stops the background jobs
	stopLedger                 // closes the database
	stopTelemetry              // exports the last spans and metrics
	stages
)

// callShare is the percentage of the drain timeout during which open calls can finish.
const callShare = 75

// shutdown contains the name and the deadline of each stage. The name is for the log. The deadline is measured from the start of
// the shutdown, as a percentage of the drain timeout. At the deadline, the next stage starts even if this stage has not finished.
// If a stage finishes early, the next stage starts at once and has more time.
var shutdown = [stages]struct {
	name  string
	share time.Duration
}{{"orders", 85}, {"hub", 88}, {"jobs", 91}, {"ledger", 93}, {"telemetry", 95}}

// telemetryMinimum is the minimum time for the last export of spans and metrics. Because of this minimum, a shutdown can take
// longer than a short drain timeout.
const telemetryMinimum = time.Second

// background contains the facade's background work. A signal that stops the facade does not cancel this work directly: each
// goroutine runs until its stage of the shutdown.
type background struct {
	limit  time.Duration // drain timeout
	logger *slog.Logger
	ends   [stages][]func(context.Context) error

	once  sync.Once
	began time.Time // time when the shutdown started
}

// start runs each of the given functions in its own goroutine. When the shutdown reaches the given stage, the context of the
// functions is canceled, and the shutdown waits for them to return.
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

// closeAt registers fn, which runs in the given stage. A stage runs its functions in the reverse order of registration, so that
// the part that was opened last is closed first.
func (b *background) closeAt(at stage, fn func(context.Context) error) {
	b.ends[at] = append(b.ends[at], fn)
}

// beginStop records the start of the shutdown. Only the first call has an effect.
func (b *background) beginStop() { b.once.Do(func() { b.began = time.Now() }) }

// stop runs the stages in order. If a stage fails or misses its deadline, stop logs a warning and runs the next stage.
func (b *background) stop(ctx context.Context) {
	b.beginStop()
	for at := range stages {
		if err := b.stopStage(context.WithoutCancel(ctx), at); err != nil {
			b.logger.Warn("stage not stopped", "stage", shutdown[at].name, "error", err)
		} else if b.logger != nil { // nil if startup failed before the logger was created
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
	go func() { done <- b.endStage(ctx, at) }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return fmt.Errorf("still running: %w", ctx.Err())
	}
}

// endStage calls the functions of a stage, and returns their joined errors.
func (b *background) endStage(ctx context.Context, at stage) (err error) {
	for _, fn := range slices.Backward(b.ends[at]) {
		err = errors.Join(err, fn(ctx))
	}
	return err
}
