package server_test

import (
	"bytes"
	"io"
	"log/slog"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/service"
)

// eventually waits for a condition.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !holds(); {
		if time.Now().After(deadline) {
			t.Fatal("in 20 s not:", what)
		}
		time.Sleep(time.Millisecond)
	}
}

// handlers counts the frames of calls of GenerationService that are being handled.
func handlers() (n int) {
	stacks := make([]byte, 8<<20)
	stacks = stacks[:runtime.Stack(stacks, true)]
	for _, frame := range []string{"service.(*generations).", "service.(*deadlineSender).content(", "rest.(*fileAnswer).serve("} {
		n += bytes.Count(stacks, []byte(frame))
	}
	return n
}

// largeResult makes a result that does not fit into the buffers on the way to a caller: only giving
// up ends the handler.
func largeResult(t *testing.T, change ...func(*options)) (c grpcCaller, id string) {
	s := newStack(t, append(change, func(o *options) { o.sandbox.Speed = 1e6 })...)
	c = grpcCaller{s, s.key}
	g := create(t, c, &easelv1.CreateGenerationRequest{
		ModelId: "studio/print", IdempotencyKey: "k", Inputs: inputs(t, map[string]any{"prompt": "x"}),
	})
	wait(t, c, g.GetGenerationId(), easelv1.WatchUntil_WATCH_UNTIL_TERMINAL)
	return c, g.GetGenerationId()
}

func TestACallerThatReadsNothingOfAResultIsLetGoAndHearsWhy(t *testing.T) { // L1
	c, id := largeResult(t, func(o *options) {
		o.service.SendTimeout, o.service.DownloadTimeout = 300*time.Millisecond, 300*time.Millisecond
	})
	client := easelv1.NewGenerationServiceClient(c.grpc)
	for name, open := range map[string]func() (grpc.ClientStream, error){
		"download": func() (grpc.ClientStream, error) {
			return client.DownloadGeneration(c.keyed(t.Context()), &easelv1.DownloadGenerationRequest{GenerationId: id})
		},
		"watch with its content": func() (grpc.ClientStream, error) {
			return client.WatchGeneration(c.keyed(t.Context()), &easelv1.WatchGenerationRequest{GenerationId: id, IncludeContent: true})
		},
	} {
		t.Run(name, func(t *testing.T) {
			stream, err := open()
			if err != nil {
				t.Fatal(err)
			}
			eventually(t, "the call is handled", func() bool { return handlers() > 0 })
			eventually(t, "the handler has given up", func() bool { return handlers() == 0 })
			for err == nil {
				err = stream.RecvMsg(&easelv1.WatchGenerationResponse{})
			}
			wantStatus(t, err, codes.ResourceExhausted, "READER_TOO_SLOW", 0)
		})
	}
}

func TestARESTCallerThatReadsNothingOfAResultIsLetGoAndNobodyElse(t *testing.T) { // L1
	synctest.Test(t, func(t *testing.T) {
		var logs lockedText
		c, id := largeResult(t, func(o *options) {
			o.memory = true
			o.server.Logger = slog.New(slog.NewJSONHandler(&logs, nil))
		})
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, c.restURL+"/v1/generations/"+id+"/content", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+c.key)
		answer, err := c.http.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		time.Sleep(service.DefaultDownloadTimeout - time.Nanosecond)
		synctest.Wait()
		if handlers() == 0 {
			t.Errorf("it was let go before %v", service.DefaultDownloadTimeout)
		}
		time.Sleep(2 * time.Nanosecond)
		synctest.Wait()
		if handlers() > 0 || !strings.Contains(logs.take(), "READER_TOO_SLOW") {
			t.Error("it is not let go, or nobody hears why")
		}
		if n, err := io.Copy(io.Discard, answer.Body); err == nil {
			t.Errorf("it ended after %d bytes as if all had come", n)
		}
		wait(t, c, id, easelv1.WatchUntil_WATCH_UNTIL_TERMINAL) // the server is there for others
	})
}
