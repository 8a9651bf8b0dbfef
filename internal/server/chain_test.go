package server

import (
	"context"
	"crypto/x509"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"
	protobuf "google.golang.org/protobuf/proto"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/server/servertest"
	"github.com/easel-grpc/easel/internal/service"
)

func TestPanicReturnsInternalErrorWithoutDetails(t *testing.T) {
	studio := servertest.NewStudio()
	studio.Get = func(context.Context, *easelv1.GetGenerationRequest) (*easelv1.GetGenerationResponse, error) {
		panic("the secret of the house")
	}
	studio.Watch = func(*easelv1.WatchGenerationRequest, grpc.ServerStreamingServer[easelv1.WatchGenerationResponse]) error {
		panic("the secret of the house")
	}
	s := serve(t, studio)
	_, err := s.Generations().GetGeneration(servertest.WithKey(t.Context()), &easelv1.GetGenerationRequest{GenerationId: "g"})
	if st := servertest.WantError(t, err, codes.Internal, "INTERNAL"); strings.Contains(st.String(), "secret") {
		t.Errorf("the error contains the panic value: %v", st)
	}
	stream, err := s.Generations().WatchGeneration(servertest.WithKey(t.Context()), &easelv1.WatchGenerationRequest{GenerationId: "g"})
	if err != nil {
		t.Fatal(err)
	}
	_, err = stream.Recv()
	servertest.WantError(t, err, codes.Internal, "INTERNAL")
	panics := s.Lines(t, "call panicked")
	if len(panics) != 2 || !strings.Contains(panics[0]["stack"].(string), "chain_test.go") {
		t.Errorf("logged %v, want two panics with a stack", panics)
	}
	for _, call := range s.Lines(t, "call") {
		if call["code"] != "Internal" || call["error"] != nil {
			t.Errorf("an error is logged twice: %v", call)
		}
	}
}

func TestCallCanceledBeforeItsStartDoesNotRun(t *testing.T) {
	s := serve(t, servertest.NewStudio())
	if _, err := s.Generations().GetGeneration(servertest.WithKey(t.Context()), &easelv1.GetGenerationRequest{GenerationId: "g"}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	measured := statsHandler{s.chain, originOfPeer}
	ctx = measured.TagRPC(ctx, &stats.RPCTagInfo{FullMethodName: easelv1.GenerationService_WatchGeneration_FullMethodName})
	cancel()
	err := callOf(ctx).run(ctx, func(context.Context) error { panic("the handler must not run") })
	measured.HandleRPC(ctx, &stats.End{Error: err})
	if status.Code(err) != codes.Canceled {
		t.Errorf("the call returned %v, want Canceled", err)
	}
	for _, line := range s.Lines(t, "call") {
		if line["method"] == easelv1.GenerationService_WatchGeneration_FullMethodName && line["level"] != "DEBUG" {
			t.Errorf("logged %v, want level DEBUG", line)
		}
	}
}

func TestEachCallIsLoggedInOneLineWithTruncatedIDs(t *testing.T) {
	studio := servertest.NewStudio()
	studio.Get = func(_ context.Context, req *easelv1.GetGenerationRequest) (*easelv1.GetGenerationResponse, error) {
		switch req.GetGenerationId() {
		case "missing":
			return nil, service.Fail(easelv1.ErrorReason_GENERATION_NOT_FOUND, "no such render")
		case "broken":
			return nil, errors.New("what only the log may know")
		}
		return &easelv1.GetGenerationResponse{Generation: &easelv1.Generation{GenerationId: req.GetGenerationId(), ModelId: strings.Repeat("é", maxNameBytes)}}, nil
	}
	s := serve(t, studio)
	for _, id := range []string{"missing", "broken", strings.Repeat("g", 200)} {
		_, err := s.Generations().GetGeneration(servertest.WithKey(t.Context()), &easelv1.GetGenerationRequest{GenerationId: id})
		if err != nil && strings.Contains(err.Error(), "what only the log") {
			t.Errorf("the error contains the cause: %v", err)
		}
	}
	if err := s.Stop(); err != nil {
		t.Fatal(err)
	}
	calls := map[any]map[string]any{}
	for _, call := range s.Lines(t, "call") {
		calls[call["generation"]] = call
	}
	if n := len(s.Lines(t, "call")); n != 3 {
		t.Errorf("logged %d calls, want 3", n)
	}
	for id, want := range map[string]map[string]any{
		"missing": {
			"level": "INFO", "method": "/easel.v1.GenerationService/GetGeneration", "code": "NotFound", "reason": "GENERATION_NOT_FOUND", "peer": "bufconn",
		},
		"broken":                          {"level": "ERROR", "error": "what only the log may know"},
		strings.Repeat("g", maxNameBytes): {"model": strings.Repeat("é", maxNameBytes/2), "order": nil},
	} {
		for name, value := range want {
			if got := calls[id][name]; got != value {
				t.Errorf("%s: %s is %v, want %v", id, name, got, value)
			}
		}
	}
}

// rawCodec sends bytes as they are instead of encoding a message.
type rawCodec struct{}

func (rawCodec) Marshal(v any) ([]byte, error) { return v.([]byte), nil }
func (rawCodec) Unmarshal(data []byte, v any) error {
	return protobuf.Unmarshal(data, v.(protobuf.Message))
}
func (rawCodec) Name() string { return "proto" }

var _ encoding.Codec = rawCodec{}

func TestUndecodableRequestIsRecordedAsInvalidArgument(t *testing.T) {
	spans := servertest.RecordSpans(t)
	s := serve(t, servertest.NewStudio())
	notUTF8 := []byte{1<<3 | 2, 2, 0xff, 0xfe} // field 1, a string, with two bytes that are not UTF-8
	err := s.GRPC.Invoke(servertest.WithKey(t.Context()), easelv1.GenerationService_GetGeneration_FullMethodName, notUTF8,
		&easelv1.GetGenerationResponse{}, grpc.ForceCodec(rawCodec{}))
	wantUnmarshal := func(err error) { // expects the decoding error that the gRPC library, not Easel, returns
		t.Helper()
		if status.Code(err) != codes.Internal || !strings.Contains(err.Error(), "unmarshal") {
			t.Errorf("the call returned %v", err)
		}
	}
	wantUnmarshal(err)
	stream, err := s.GRPC.NewStream(servertest.WithKey(t.Context()), &grpc.StreamDesc{ServerStreams: true}, easelv1.GenerationService_WatchGeneration_FullMethodName, grpc.ForceCodec(rawCodec{}))
	if err == nil {
		err = errors.Join(stream.SendMsg(notUTF8), stream.CloseSend())
	}
	if err != nil {
		t.Fatal(err)
	}
	wantUnmarshal(stream.RecvMsg(&easelv1.WatchGenerationResponse{}))
	if err := s.Stop(); err != nil {
		t.Fatal(err)
	}
	for _, line := range s.Lines(t, "call") {
		if line["level"] != "INFO" || line["code"] != "InvalidArgument" || line["reason"] != "INVALID_REQUEST" {
			t.Errorf("logged %v, want INVALID_REQUEST at level INFO", line)
		}
	}
	for _, span := range spans.GetSpans() { // spans must have the attribute by which the alerts select metrics
		if !slices.Contains(span.Attributes, attribute.String("rpc.response.status_code", "INVALID_ARGUMENT")) {
			t.Errorf("span %s has the attributes %v", span.Name, span.Attributes)
		}
	}
	if n := len(spans.GetSpans()); n != 2 || len(s.Lines(t, "call")) != 2 {
		t.Errorf("got %d spans, want 2 spans and 2 log lines", n)
	}
}

func TestGRPCCallersCannotForgeInternalMetadata(t *testing.T) {
	s := serve(t, servertest.NewStudio())
	text, _ := newAuthority(t).issue(t, x509.Certificate{DNSNames: []string{"shop"}})
	der := certificateIn(t, text).Raw
	ctx := metadata.AppendToOutgoingContext(servertest.WithKey(t.Context()), metadataCertificates, string(der), metadataPeer, "192.0.2.1:1")
	if _, err := s.Generations().GetGeneration(ctx, &easelv1.GetGenerationRequest{GenerationId: "g"}); err != nil {
		t.Fatal(err)
	}
	if name := s.Certificates()[0].Name(); name != "" {
		t.Errorf("forged metadata set the caller's name to %q", name)
	}
	if lines := s.Lines(t, "call"); len(lines) > 0 && lines[0]["peer"] == "192.0.2.1:1" {
		t.Errorf("logged a forged peer: %v", lines)
	}
}

func TestConcurrentDecodingOfLargeRequestsIsLimited(t *testing.T) {
	large, err := protobuf.Marshal(&easelv1.Generation{GenerationId: strings.Repeat("a", largeMessage)})
	if err != nil {
		t.Fatal(err)
	}
	for range cap(largeDecodes) {
		largeDecodes <- struct{}{} // occupies all slots for decoding large requests
	}
	done, codec := make(chan error, 1), encoding.GetCodecV2(proto.Name)
	go func() { done <- codec.Unmarshal(mem.BufferSlice{mem.SliceBuffer(large)}, &easelv1.Generation{}) }()
	if err := codec.Unmarshal(mem.BufferSlice{mem.SliceBuffer(large[:0])}, &easelv1.Generation{}); err != nil {
		t.Errorf("decoding a small request returned %v", err)
	}
	select {
	case <-done:
		t.Error("a large request was decoded above the limit")
	case <-time.After(50 * time.Millisecond):
	}
	for range cap(largeDecodes) {
		<-largeDecodes
	}
	if err := <-done; err != nil || len(largeDecodes) > 0 {
		t.Errorf("with free slots, decoding a large request returned %v and left %d slots in use", err, len(largeDecodes))
	}
}
