package main

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/easel-grpc/easel/internal/proctest"
)

// newBackground returns a background whose drain timeout is limit, and the buffer that contains its log.
func newBackground(limit time.Duration) (*background, *bytes.Buffer) {
	var log bytes.Buffer
	return &background{limit: limit, logger: slog.New(slog.NewTextHandler(&log, nil))}, &log
}

func TestShutdownStagesRunInSequence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, _ := newBackground(10 * time.Second)
		ctx, signal := context.WithCancel(t.Context())
		var order []string
		for at := range stages {
			b.closeAt(at, func(context.Context) error { order = append(order, shutdown[at].name+" closed"); return nil })
			b.start(ctx, at, func(ctx context.Context) {
				<-ctx.Done()
				time.Sleep(time.Millisecond)
				order = append(order, shutdown[at].name+" ended")
			})
		}
		signal()
		synctest.Wait()
		if len(order) > 0 {
			t.Errorf("the signal stopped %q before the call of stop", order)
		}
		b.stop(ctx)
		want := []string{
			"orders ended", "orders closed", "hub ended", "hub closed", "jobs ended", "jobs closed",
			"ledger ended", "ledger closed", "telemetry ended", "telemetry closed",
		}
		if !slices.Equal(order, want) {
			t.Errorf("the stages stopped in the order %q", order)
		}
	})
}

func TestShutdownContinuesDespiteStuckStage(t *testing.T) {
	for at, end := range map[stage]time.Duration{stopOrders: 8500, stopHub: 8800, stopJobs: 9100, stopLedger: 9300, stopTelemetry: 9500} {
		t.Run(shutdown[at].name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b, log := newBackground(10 * time.Second)
				began, stuck, closed := time.Now(), make(chan struct{}), 0
				b.start(t.Context(), at, func(context.Context) { <-stuck })
				for other := range stages {
					if other != at {
						b.closeAt(other, func(context.Context) error { closed++; return nil })
					}
				}
				b.stop(t.Context())
				if took := time.Since(began); took != end*time.Millisecond || closed != int(stages)-1 {
					t.Errorf("the stop took %v, and %d stages were closed", took, closed)
				}
				if !strings.Contains(log.String(), `"stage not stopped" stage=`+shutdown[at].name) {
					t.Errorf("the log does not report the stuck stage: %s", log)
				}
				close(stuck)
			})
		})
	}
}

func TestTelemetryFlushHasOneSecondDuringSlowShutdown(t *testing.T) {
	for limit, want := range map[time.Duration]time.Duration{10 * time.Second: 13 * time.Second, time.Second: 13 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			b, _ := newBackground(limit)
			began := time.Now()
			b.beginStop()
			time.Sleep(12 * time.Second) // simulates earlier stages that take longer than either drain timeout
			b.closeAt(stopTelemetry, func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() })
			b.stop(t.Context())
			if took := time.Since(began); took != want {
				t.Errorf("with a limit of %v the stop took %v, want %v", limit, took, want)
			}
		})
	}
}

// When the server stops, it first notifies the client of an open watch. Then it runs the stages of the shutdown in order.
func TestServerStopsComponentsInSequence(t *testing.T) {
	t.Parallel()
	box := startSandbox(t, "--speed", "0.001")
	served := startServe(t, map[string]string{
		"EASEL_UPSTREAM_URL": box.catalog(), "EASEL_LOG_LEVEL": "debug", "EASEL_LEDGER_URL": "sqlite:" + filepath.Join(t.TempDir(), "ledger.db"),
	})
	env := map[string]string{"EASEL_ADDR": served.addr("grpc"), "EASEL_API_KEY": box.key()}
	placed := easelEnv(t.Context(), nil, env, "generate", "studio/haiku", "prompt=rain", "-q")
	watch := startCommand(t, env, func(stdout, _ string) bool { return strings.Contains(stdout, `"update"`) }, "watch", strings.TrimSpace(placed.stdout), "-o", "json")
	if exit := served.stop(); exit != exitOK {
		t.Errorf("exit %d", exit)
	}
	proctest.Eventually(t, 20*time.Second, "notice", func() bool { return strings.Contains(watch.stdout.String(), `"closing"`) }, watch.stdout.String, watch.stderr.String)
	var order []string
	for line := range strings.Lines(served.stderr.String()) {
		var entry struct{ Msg, Stage string }
		if err := json.Unmarshal([]byte(line), &entry); err != nil {
			t.Fatal(err)
		}
		if entry.Msg == "server configured" || entry.Msg == "draining" || entry.Msg == "stopped" || strings.HasPrefix(entry.Msg, "stage ") {
			order = append(order, strings.TrimSpace(entry.Msg+" "+entry.Stage))
		}
	}
	want := []string{"server configured", "draining", "stopped", "stage stopped orders", "stage stopped hub", "stage stopped jobs", "stage stopped ledger", "stage stopped telemetry"}
	if !slices.Equal(order, want) {
		t.Errorf("the messages have the order %q\n%s", order, served.stderr)
	}
}
