package server_test

import (
	"bytes"
	"strconv"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/durationpb"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/sandbox"
)

// finished orders a picture and waits for its terminal state.
func finished(t *testing.T, c caller, size string) string {
	t.Helper()
	g := create(t, c, &easelv1.CreateGenerationRequest{
		ModelId: picture, IdempotencyKey: "k", Inputs: inputs(t, map[string]any{"prompt": "x", "size": size}),
	})
	wait(t, c, g.GetGenerationId(), easelv1.WatchUntil_WATCH_UNTIL_TERMINAL)
	return g.GetGenerationId()
}

func TestAnInterruptedDownloadGoesOnExactlyWhereItBroke(t *testing.T) { // U16
	s := newStack(t)
	c := grpcCaller{s, s.key}
	id := finished(t, c, "640x400")
	whole, err := c.download(t.Context(), &easelv1.DownloadGenerationRequest{GenerationId: id})
	if err != nil {
		t.Fatal(err)
	}
	s.sandbox.Inject(sandbox.Fault{Route: errorCalls["content"].route, Count: 1, Cut: true, CutAfter: 100_000})
	s.sandbox.Inject(sandbox.Fault{Route: errorCalls["content"].route, Reset: true})
	first, err := c.download(t.Context(), &easelv1.DownloadGenerationRequest{GenerationId: id})
	st := wantStatus(t, err, codes.Unavailable, "CONTENT_INTERRUPTED", 0)
	info, _ := detailOf[*errdetails.ErrorInfo](t, st)
	next, err := strconv.ParseInt(info.GetMetadata()["next_offset"], 10, 64)
	if err != nil || next != int64(len(first)) || next == 0 {
		t.Fatalf("%d bytes arrived, next_offset is %q", len(first), info.GetMetadata()["next_offset"])
	}
	s.sandbox.ClearFaults()
	rest, err := c.download(t.Context(), &easelv1.DownloadGenerationRequest{GenerationId: id, ReadOffset: next})
	if err != nil || !bytes.Equal(append(first, rest...), whole) {
		t.Errorf("%d and %d bytes are not the %d of the whole: %v", len(first), len(rest), len(whole), err)
	}
}

func TestASummaryIsOnlySentWhereTheWholeWasRead(t *testing.T) {
	s := newStack(t)
	c := grpcCaller{s, s.key}
	id := finished(t, c, "64x40")
	whole, err := c.download(t.Context(), &easelv1.DownloadGenerationRequest{GenerationId: id})
	if err != nil {
		t.Fatal(err)
	}
	size := int64(len(whole))
	for _, row := range []struct {
		offset, limit int64
		want          bool
	}{{0, 0, true}, {0, size, true}, {0, size + 1, true}, {0, size - 1, false}, {1, 0, false}, {1, size, false}, {size, 0, false}} {
		stream, err := easelv1.NewGenerationServiceClient(s.grpc).DownloadGeneration(c.keyed(t.Context()),
			&easelv1.DownloadGenerationRequest{GenerationId: id, ReadOffset: row.offset, ReadLimit: row.limit})
		got, infos := false, 0
		for err == nil {
			var m *easelv1.DownloadGenerationResponse
			if m, err = stream.Recv(); err == nil {
				got = got || m.GetChunk().GetSummary() != nil
				if m.GetChunk().GetInfo() != nil {
					infos++
				}
			}
		}
		if unlessEOF(err) != nil || got != row.want || infos != 1 {
			t.Errorf("from %d, at most %d: summary %v with %d infos and %v", row.offset, row.limit, got, infos, err)
		}
	}
}

func TestAReconnectWithTheKnownEtagStillGetsTheBytes(t *testing.T) {
	t.Parallel()
	overEveryStack(t, func(t *testing.T, _ *stack, c caller) {
		id := finished(t, c, "64x40")
		end, err := get(t, c, id)
		if err != nil {
			t.Fatal(err)
		}
		bytes := 0
		err = c.watch(t.Context(), &easelv1.WatchGenerationRequest{GenerationId: id, KnownEtag: end.GetEtag(), IncludeContent: true},
			func(m *easelv1.WatchGenerationResponse) { bytes += len(m.GetContent().GetData()) })
		if err != nil || bytes == 0 {
			t.Errorf("%d bytes, %v", bytes, err)
		}
	})
}

func TestContentThatIsGoneIsNotSaidToCome(t *testing.T) {
	t.Parallel()
	overEveryStack(t, func(t *testing.T, s *stack, c caller) {
		id := finished(t, c, "64x40")
		for _, status := range []int{204, 404, 410} {
			fault := s.sandbox.Inject(sandbox.Fault{Route: errorCalls["content"].route, Status: status, Body: " "})
			_, err := c.download(t.Context(), &easelv1.DownloadGenerationRequest{GenerationId: id})
			wantStatus(t, err, codes.FailedPrecondition, "NO_CONTENT", 400)
			fault.Remove()
		}
		s.sandbox.Inject(sandbox.Fault{Route: errorCalls["content"].route, Status: 409, Body: `{}`})
		_, err := c.download(t.Context(), &easelv1.DownloadGenerationRequest{GenerationId: id})
		wantStatus(t, err, codes.FailedPrecondition, "CONTENT_NOT_READY", 400)
	})
}

func TestAnOrderThatTheCatalogDoesNotShowYetIsNotSaidToBeMissing(t *testing.T) { // U10
	t.Parallel()
	overEveryStack(t, func(t *testing.T, s *stack, c caller) {
		g := create(t, c, order(t, picture, "k", "a lake"))
		hidden := s.sandbox.Inject(sandbox.Fault{Route: errorCalls["read"].route, Status: 404, Body: `{}`})
		got, err := get(t, c, g.GetGenerationId())
		if err != nil || got.GetState() != easelv1.State_STATE_QUEUED {
			t.Errorf("a read gives %v, %v", got, err)
		}
		resp := &easelv1.WaitGenerationResponse{}
		err = c.call(t.Context(), "GenerationService/WaitGeneration", &easelv1.WaitGenerationRequest{
			GenerationId: g.GetGenerationId(), Timeout: durationpb.New(3 * time.Second),
		}, resp)
		if err != nil || resp.GetGeneration().GetState() != easelv1.State_STATE_QUEUED {
			t.Errorf("a wait gives %v, %v", resp, err)
		}
		again := create(t, c, order(t, picture, "k", "a lake"))
		if again.GetGenerationId() != g.GetGenerationId() || hidden.Fired() == 0 {
			t.Errorf("the same key gives %v after %d faults", again, hidden.Fired())
		}
	}, func(o *options) { o.sandbox.Speed = 0.1 })
}

func TestAModelThatIsNotThereIsNamedWhereverItIsAskedFor(t *testing.T) {
	t.Parallel()
	overEveryStack(t, func(t *testing.T, s *stack, c caller) {
		gone := sandbox.Fault{Status: 404, Body: `{"code":"MODEL_NOT_FOUND"}`}
		for method, route := range map[string]string{"QuoteGeneration": "POST /quote", "CreateGeneration": "POST /generations"} {
			gone.Route = route
			s.sandbox.Inject(gone)
			req := order(t, text, "k", "a lake")
			var err error
			if method == "QuoteGeneration" {
				err = c.call(t.Context(), "GenerationService/"+method, &easelv1.QuoteGenerationRequest{ModelId: text, Inputs: req.GetInputs()}, &easelv1.QuoteGenerationResponse{})
			} else {
				err = c.call(t.Context(), "GenerationService/"+method, req, &easelv1.CreateGenerationResponse{})
			}
			st := wantStatus(t, err, codes.NotFound, "MODEL_NOT_FOUND", 404)
			if about, _ := detailOf[*errdetails.ResourceInfo](t, st); about.GetResourceName() != text {
				t.Errorf("%s: ResourceInfo %v", method, about)
			}
		}
	})
}
