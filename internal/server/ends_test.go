package server_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
)

// journal keeps what a log says of watches.
type journal struct {
	mu    sync.Mutex
	lines []string
}

func (j *journal) Write(line []byte) (int, error) {
	var said map[string]any
	if err := json.Unmarshal(bytes.TrimSpace(line), &said); err != nil {
		return 0, err
	}
	if method, _ := said["method"].(string); strings.Contains(method, "/Watch") {
		j.mu.Lock()
		defer j.mu.Unlock()
		j.lines = append(j.lines, fmt.Sprint(said["msg"], " ", method, " ", said["code"], " ", said["reason"], " ", said["messages"], " ", said["bytes"], " ", said["error"]))
	}
	return len(line), nil
}

// seen is all that a caller of a watch and the log see of it.
func seen(t *testing.T, watch func(s *stack, id string, note func(string)) error) (all []string) {
	synctest.Test(t, func(t *testing.T) {
		log := &journal{}
		s := newStack(t, func(o *options) {
			o.memory, o.sandbox.Speed = true, 1
			o.service.MaxStreamAge, o.service.Seed, o.hub.Seed = time.Minute, 1, 1
			o.hub.MinInterval, o.hub.MaxInterval = time.Second, 2*time.Second
			o.server.Logger = slog.New(slog.NewJSONHandler(log, nil))
		})
		g := create(t, grpcCaller{s, s.key}, &easelv1.CreateGenerationRequest{
			ModelId: "studio/print", IdempotencyKey: "k", Inputs: inputs(t, map[string]any{"prompt": "x"}),
		})
		err := watch(s, g.GetGenerationId(), func(event string) { all = append(all, event) })
		if err != nil {
			all = append(all, err.Error())
		}
		synctest.Wait() // the line is written
		log.mu.Lock()
		defer log.mu.Unlock()
		all = append(all, log.lines...)
	})
	return all
}

// watchOf is a watch of one render, where it says nothing else the one that was ordered.
func watchOf(req *easelv1.WatchGenerationRequest, change ...func(ctx context.Context, c *grpcCaller) context.Context) func(*stack, string, func(string)) error {
	return func(s *stack, id string, note func(string)) error {
		if req.GetGenerationId() == "" {
			req.GenerationId = id
		}
		ctx, cancel := context.WithCancel(s.Context())
		defer cancel()
		c := grpcCaller{s, s.key}
		for _, f := range change {
			ctx = f(ctx, &c)
		}
		return c.watch(ctx, req, func(m *easelv1.WatchGenerationResponse) {
			note(fmt.Sprintf("%T %v %d", m.GetEvent(), m.GetUpdate().GetGeneration().GetState(), len(m.GetContent().GetData())))
		})
	}
}

func watchOfAll(s *stack, _ string, note func(string)) error {
	stream, err := easelv1.NewGenerationServiceClient(s.grpc).WatchGenerations(grpcCaller{s, s.key}.keyed(s.Context()), &easelv1.WatchGenerationsRequest{})
	for err == nil {
		var m *easelv1.WatchGenerationsResponse
		if m, err = stream.Recv(); err == nil {
			note(fmt.Sprintf("%T %v", m.GetEvent(), m.GetUpdate().GetGeneration().GetState()))
		}
	}
	return err
}

func TestAWatchEndsAndIsLoggedAsItWent(t *testing.T) {
	often := durationpb.New(time.Second)
	for name, test := range map[string]struct {
		watch func(s *stack, id string, note func(string)) error
		ends  string // in what is seen, so that it went that way
	}{
		"to its goal":             {watchOf(&easelv1.WatchGenerationRequest{}), "OK"},
		"with the content":        {watchOf(&easelv1.WatchGenerationRequest{IncludeContent: true}), "Content"},
		"of what is not there":    {watchOf(&easelv1.WatchGenerationRequest{GenerationId: "nothing"}), "GENERATION_NOT_FOUND"},
		"that is not well formed": {watchOf(&easelv1.WatchGenerationRequest{GenerationId: ".."}), "INVALID_REQUEST"},
		"without a key": {watchOf(&easelv1.WatchGenerationRequest{}, func(ctx context.Context, c *grpcCaller) context.Context {
			c.key = ""
			return ctx
		}), "CREDENTIAL_MISSING"},
		"until its caller leaves": {watchOf(&easelv1.WatchGenerationRequest{HeartbeatInterval: often}, func(ctx context.Context, _ *grpcCaller) context.Context {
			ctx, cancel := context.WithCancel(ctx)
			time.AfterFunc(2500*time.Millisecond, cancel)
			return ctx
		}), "Canceled"},
		"until the server stops": {watchOf(&easelv1.WatchGenerationRequest{HeartbeatInterval: often}, func(ctx context.Context, c *grpcCaller) context.Context {
			time.AfterFunc(2500*time.Millisecond, c.stop)
			return ctx
		}), "SERVER_DRAINING"},
		"until it is old": {watchOfAll, "STREAM_MAX_AGE"},
	} {
		t.Run(name, func(t *testing.T) {
			if all := strings.Join(seen(t, test.watch), "\n"); !strings.Contains(all, test.ends) || !strings.Contains(all, "call /easel.v1.GenerationService/Watch") {
				t.Errorf("it did not go that way:\n%s", all)
			}
		})
	}
}
