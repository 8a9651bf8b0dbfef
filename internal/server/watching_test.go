package server_test

import (
	"bytes"
	"runtime"
	"strconv"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/durationpb"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/sandbox"
)

func TestDownloadWaitsForResult(t *testing.T) {
	t.Parallel()
	overEveryStack(t, func(t *testing.T, _ *stack, c caller) {
		id := create(t, c, order(t, picture, "k", "a lake")).GetGenerationId()
		data, err := downloadedBytes(t.Context(), c, &easelv1.DownloadGenerationRequest{GenerationId: id, WaitTimeout: durationpb.New(30 * time.Second)})
		if err != nil || len(data) == 0 {
			t.Errorf("downloaded %d bytes, %v", len(data), err)
		}
		updates := collectUpdates(t, c, &easelv1.WatchGenerationRequest{GenerationId: id})
		if len(updates) != 1 || updates[0].GetGeneration().GetFile() == nil || !updates[0].GetInitial() {
			t.Fatalf("got the updates %v, want one update with a file", updates)
		}
		for _, content := range []bool{false, true} {
			beats, bytes := 0, 0
			req := &easelv1.WatchGenerationRequest{GenerationId: id, KnownEtag: updates[0].GetGeneration().GetEtag(), IncludeContent: content}
			err := c.watch(t.Context(), req, func(m *easelv1.WatchGenerationResponse) {
				if m.GetUpdate() != nil {
					t.Errorf("the known state was sent again: %v", m)
				}
				if m.GetHeartbeat() != nil {
					beats++
				}
				bytes += len(m.GetContent().GetData())
			})
			if err != nil || beats != 1 || (bytes > 0) != content {
				t.Errorf("got %d heartbeats, %d bytes and %v; want 1 heartbeat, content: %v, and no error", beats, bytes, err, content)
			}
		}
	}, func(o *options) { o.sandbox.Speed = 20 })
}

func TestCallsEndedByShutdownReceiveRetryDelay(t *testing.T) {
	t.Parallel()
	overEveryStack(t, func(t *testing.T, s *stack, c caller) {
		g := create(t, c, order(t, picture, "k", "a lake"))
		waited, watched := make(chan error, 1), make(chan error, 1)
		go func() {
			waited <- c.call(t.Context(), "GenerationService/WaitGeneration", &easelv1.WaitGenerationRequest{GenerationId: g.GetGenerationId()}, &easelv1.WaitGenerationResponse{})
		}()
		var closing easelv1.StreamClosingReason
		go func() {
			watched <- c.watch(t.Context(), &easelv1.WatchGenerationRequest{GenerationId: g.GetGenerationId()}, func(m *easelv1.WatchGenerationResponse) {
				closing = m.GetClosing().GetReason()
			})
		}()
		for s.hub.Stats().Watches < 2 && t.Context().Err() == nil {
			runtime.Gosched()
		}
		s.stop()
		of := wantStatus(t, <-waited, codes.Unavailable, "SERVER_DRAINING", 503)
		if st := wantStatus(t, <-watched, codes.Unavailable, "SERVER_DRAINING", 200); retryDelay(of) == 0 || retryDelay(st) == 0 {
			t.Errorf("the reconnect delay is missing: %v, %v", of, st)
		}
		if closing != easelv1.StreamClosingReason_STREAM_CLOSING_REASON_DRAINING {
			t.Errorf("the watch closed with the reason %v", closing)
		}
	}, func(o *options) { o.sandbox.Speed = 0.1 })
}

func TestWatchEndsAtMaximumAgeWithClosingReason(t *testing.T) {
	t.Parallel()
	overBoth(t, func(t *testing.T, _ *stack, c caller) {
		id := create(t, c, order(t, picture, "k", "a lake")).GetGenerationId()
		var last *easelv1.WatchGenerationResponse
		err := c.watch(t.Context(), &easelv1.WatchGenerationRequest{GenerationId: id}, func(m *easelv1.WatchGenerationResponse) { last = m })
		st := wantStatus(t, err, codes.Unavailable, "STREAM_MAX_AGE", 200)
		closing := last.GetClosing()
		if closing.GetReason() != easelv1.StreamClosingReason_STREAM_CLOSING_REASON_MAX_AGE || closing.GetRetryDelay().AsDuration() <= 0 || retryDelay(st) <= 0 {
			t.Errorf("the last message is %v, and the error %v", last, st.Proto())
		}
	}, func(o *options) { o.sandbox.Speed, o.service.MaxStreamAge = 0.1, 300*time.Millisecond })
}

// orderPicture orders a picture of the given size, waits until its generation has ended, and returns
// the generation's ID.
func orderPicture(t *testing.T, c caller, size string) string {
	t.Helper()
	g := create(t, c, &easelv1.CreateGenerationRequest{
		ModelId: picture, IdempotencyKey: "k", Inputs: inputs(t, map[string]any{"prompt": "x", "size": size}),
	})
	awaitGeneration(t, c, g.GetGenerationId(), easelv1.WatchUntil_WATCH_UNTIL_TERMINAL)
	return g.GetGenerationId()
}

func TestInterruptedDownloadResumesAtReportedOffset(t *testing.T) {
	s := newStack(t)
	c := grpcCaller{s, s.key}
	id := orderPicture(t, c, "640x400")
	whole, err := downloadedBytes(t.Context(), c, &easelv1.DownloadGenerationRequest{GenerationId: id})
	if err != nil {
		t.Fatal(err)
	}
	s.sandbox.Inject(sandbox.Fault{Route: errorCalls["content"].route, Count: 1, Cut: true, CutAfter: 100_000})
	s.sandbox.Inject(sandbox.Fault{Route: errorCalls["content"].route, Reset: true})
	first, err := downloadedBytes(t.Context(), c, &easelv1.DownloadGenerationRequest{GenerationId: id})
	st := wantStatus(t, err, codes.Unavailable, "CONTENT_INTERRUPTED", 0)
	info, _ := detailOf[*errdetails.ErrorInfo](t, st)
	next, err := strconv.ParseInt(info.GetMetadata()["next_offset"], 10, 64)
	if err != nil || next != int64(len(first)) || next == 0 {
		t.Fatalf("%d bytes arrived, next_offset is %q", len(first), info.GetMetadata()["next_offset"])
	}
	s.sandbox.ClearFaults()
	stream, err := easelv1.NewGenerationServiceClient(s.grpc).DownloadGeneration(c.keyed(t.Context()), &easelv1.DownloadGenerationRequest{GenerationId: id, ReadLimit: 1})
	if err != nil {
		t.Fatal(err)
	}
	begin, err := stream.Recv()
	etag := begin.GetChunk().GetInfo().GetEtag()
	if err != nil || etag == "" {
		t.Fatalf("the first chunk has the etag %q: %v", etag, err)
	}
	rest, err := downloadedBytes(t.Context(), c, &easelv1.DownloadGenerationRequest{GenerationId: id, ReadOffset: next, Etag: etag})
	if err != nil || !bytes.Equal(append(first, rest...), whole) {
		t.Errorf("the parts of %d and %d bytes differ from the complete %d bytes: %v", len(first), len(rest), len(whole), err)
	}
}

func TestDeletedContentIsReportedAsNoContent(t *testing.T) {
	t.Parallel()
	overEveryStack(t, func(t *testing.T, s *stack, c caller) {
		id := orderPicture(t, c, "64x40")
		for _, status := range []int{204, 404, 410} {
			fault := s.sandbox.Inject(sandbox.Fault{Route: errorCalls["content"].route, Status: status, Body: " "})
			_, err := downloadedBytes(t.Context(), c, &easelv1.DownloadGenerationRequest{GenerationId: id})
			wantStatus(t, err, codes.FailedPrecondition, "NO_CONTENT", 400)
			fault.Remove()
		}
		s.sandbox.Inject(sandbox.Fault{Route: errorCalls["content"].route, Status: 409, Body: `{}`})
		_, err := downloadedBytes(t.Context(), c, &easelv1.DownloadGenerationRequest{GenerationId: id})
		wantStatus(t, err, codes.FailedPrecondition, "CONTENT_NOT_READY", 400)
	})
}

func TestNewOrderMissingFromCatalogIsReportedAsQueued(t *testing.T) {
	t.Parallel()
	overEveryStack(t, func(t *testing.T, s *stack, c caller) {
		g := create(t, c, order(t, picture, "k", "a lake"))
		hidden := s.sandbox.Inject(sandbox.Fault{Route: errorCalls["read"].route, Status: 404, Body: `{}`})
		got, err := get(t, c, g.GetGenerationId())
		if err != nil || got.GetState() != easelv1.State_STATE_QUEUED {
			t.Errorf("GetGeneration returned %v, %v", got, err)
		}
		resp := &easelv1.WaitGenerationResponse{}
		err = c.call(t.Context(), "GenerationService/WaitGeneration", &easelv1.WaitGenerationRequest{
			GenerationId: g.GetGenerationId(), Timeout: durationpb.New(3 * time.Second),
		}, resp)
		if err != nil || resp.GetGeneration().GetState() != easelv1.State_STATE_QUEUED {
			t.Errorf("WaitGeneration returned %v, %v", resp, err)
		}
		again := create(t, c, order(t, picture, "k", "a lake"))
		if again.GetGenerationId() != g.GetGenerationId() || hidden.Fired() == 0 {
			t.Errorf("the same key returned %v after %d faults", again, hidden.Fired())
		}
		unseen := s.sandbox.Inject(sandbox.Fault{Route: errorCalls["delete"].route, Status: 404, Body: `{}`})
		err = c.call(t.Context(), "GenerationService/DeleteGeneration",
			&easelv1.DeleteGenerationRequest{GenerationId: g.GetGenerationId(), Force: true, AllowMissing: true}, &easelv1.DeleteGenerationResponse{})
		if err != nil || unseen.Fired() == 0 {
			t.Errorf("the delete returned %v after %d injected responses", err, unseen.Fired())
		}
		hidden.Remove()
		if got, err := get(t, c, g.GetGenerationId()); err != nil || got.GetState() == easelv1.State_STATE_DELETED {
			t.Errorf("after the delete, the render is %v, %v", got, err)
		}
		one, err := s.ledger.Own(t.Context(), nil, g.GetGenerationId())
		if order, known := one[g.GetGenerationId()]; err != nil || !known || order.DeletedByCall || order.Settled {
			t.Errorf("the order is %+v, %v", order, err)
		}
	}, func(o *options) { o.sandbox.Speed = 0.1 })
}
