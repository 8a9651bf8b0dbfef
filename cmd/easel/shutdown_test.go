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

	goclient "github.com/easel-grpc/easel/clients/go"
	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"google.golang.org/protobuf/types/known/structpb"
)

// newBackground creates background work with a drain timeout. It returns the work and its log.
func newBackground(limit time.Duration) (*background, *bytes.Buffer) {
	var log bytes.Buffer
	return &background{limit: limit, logger: slog.New(slog.NewTextHandler(&log, nil))}, &log
}

func TestStopEndsEachStageBeforeTheNext(t *testing.T) {
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
			t.Errorf("the signal ended %q", order)
		}
		b.stop(ctx)
		want := []string{
			"orders ended", "orders closed", "hub ended", "hub closed", "jobs ended", "jobs closed",
			"ledger ended", "ledger closed", "telemetry ended", "telemetry closed",
		}
		if !slices.Equal(order, want) {
			t.Errorf("the order is %q", order)
		}
	})
}

func TestStopContinuesWithoutAStuckStage(t *testing.T) { // fault A4
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
					t.Errorf("the log is %s", log)
				}
				close(stuck)
			})
		})
	}
}

func TestTelemetryHasASecondAfterALateStage(t *testing.T) {
	for limit, want := range map[time.Duration]time.Duration{10 * time.Second: 13 * time.Second, time.Second: 13 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			b, _ := newBackground(limit)
			began := time.Now()
			b.beginStop()
			time.Sleep(12 * time.Second) // the earlier stages take longer than the limit
			b.closeAt(stopTelemetry, func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() })
			b.stop(t.Context())
			if took := time.Since(began); took != want {
				t.Errorf("with a limit of %v the stop took %v, want %v", limit, took, want)
			}
		})
	}
}

// When the server stops, it first notifies the client of an open watch. Then its stages stop in order.
func TestServerStopsInOrder(t *testing.T) {
	t.Parallel()
	box := startSandbox(t, "--speed", "0.001")
	served := startServe(t, map[string]string{
		"EASEL_UPSTREAM_URL": box.catalog(), "EASEL_LOG_LEVEL": "debug", "EASEL_LEDGER_URL": "sqlite:" + filepath.Join(t.TempDir(), "ledger.db"),
	})
	client, err := goclient.New(t.Context(), goclient.WithAddress(served.addr("grpc")), goclient.WithAPIKey(box.key()))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	inputs, err := structpb.NewStruct(map[string]any{"prompt": "rain"})
	if err != nil {
		t.Fatal(err)
	}
	placed, err := client.Generations.CreateGeneration(t.Context(), &easelv1.CreateGenerationRequest{ModelId: "studio/haiku", IdempotencyKey: "one", Inputs: inputs})
	if err != nil {
		t.Fatal(err)
	}
	watch, err := client.Generations.WatchGeneration(t.Context(), &easelv1.WatchGenerationRequest{GenerationId: placed.GetGeneration().GetGenerationId()})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := watch.Recv(); err != nil {
		t.Fatal(err)
	}
	stopped := make(chan int, 1)
	go func() { stopped <- served.stop() }()
	for closing := false; !closing; {
		event, err := watch.Recv()
		if err != nil {
			t.Fatalf("the watch ended without a notice: %v", err)
		}
		closing = event.GetClosing() != nil
	}
	if exit := <-stopped; exit != exitOK {
		t.Errorf("exit %d", exit)
	}
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
		t.Errorf("the order is %q\n%s", order, served.stderr)
	}
}
