package server

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/reflection/grpc_reflection_v1"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/server/servertest"
)

func countLines(text, with string) (n int) {
	for line := range strings.Lines(text) {
		if strings.Contains(line, with) {
			n++
		}
	}
	return n
}

func TestEveryFaultOfAConfigurationIsReportedTogether(t *testing.T) {
	err := Config{
		GRPCAddr: "nonsense", AdminAddr: ":0", DrainTimeout: -1, TLS: TLS{CertFile: "cert.pem", ClientCAFile: "ca.pem", ClientAuth: "never"},
		Limits: Limits{ConnAge: -1},
	}.Validate()
	for _, want := range []string{
		"address of the grpc listener", `unknown client authentication "never"`, "the http listener has no address", "no service", "a certificate file and a key file",
		"drain timeout", "connection age",
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not among the faults: %v", want, err)
		}
	}
	if err := (Config{GRPCAddr: ":0", HTTPAddr: "127.0.0.1:0", AdminAddr: "[::1]:0", Service: servertest.NewStudio()}).Validate(); err != nil {
		t.Errorf("a good configuration is refused: %v", err)
	}
}

func TestTheAddressesThatWereBoundAreLogged(t *testing.T) {
	logs := &servertest.Buffer{}
	server, err := New(Config{
		GRPCAddr: "127.0.0.1:0", HTTPAddr: "127.0.0.1:0", AdminAddr: "127.0.0.1:0", Service: servertest.NewStudio(),
		Logger: slog.New(slog.NewJSONHandler(logs, nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	if server.GRPCAddr() != "" {
		t.Errorf("before Listen the address is %q", server.GRPCAddr())
	}
	if err := server.Listen(); err != nil {
		t.Fatal(err)
	}
	for name, addr := range map[string]string{"grpc": server.GRPCAddr(), "http": server.HTTPAddr(), "admin": server.AdminAddr()} {
		if strings.HasSuffix(addr, ":0") || countLines(logs.String(), `"msg":"listening","server":"`+name+`","addr":"`+addr+`"`) != 1 {
			t.Errorf("%s is bound to %s; logged %s", name, addr, logs)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(ctx) }()
	answer, err := http.Get("http://" + server.HTTPAddr() + "/openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
	http.DefaultClient.CloseIdleConnections()
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("Serve says %v", err)
	}
}

func TestAnAddressThatIsTakenLeavesNothingBound(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	server, err := New(Config{GRPCAddr: "127.0.0.1:0", HTTPAddr: taken.Addr().String(), AdminAddr: "127.0.0.1:0", Service: servertest.NewStudio()})
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Listen(); err == nil || !strings.Contains(err.Error(), "listen for http") {
		t.Errorf("Listen says %v", err)
	}
	if server.GRPCAddr() != "" {
		t.Errorf("%s stays bound", server.GRPCAddr())
	}
}

func TestReflectionIsOpen(t *testing.T) {
	s := serve(t, servertest.NewStudio())
	stream, err := grpc_reflection_v1.NewServerReflectionClient(s.GRPC).ServerReflectionInfo(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	err = stream.Send(&grpc_reflection_v1.ServerReflectionRequest{
		MessageRequest: &grpc_reflection_v1.ServerReflectionRequest_ListServices{},
	})
	if err != nil && !errors.Is(err, io.EOF) { // Recv says why it is over already
		t.Fatal(err)
	}
	if err := stream.CloseSend(); err != nil {
		t.Fatal(err)
	}
	answer, err := stream.Recv()
	if err != nil || !strings.Contains(answer.String(), "easel.v1.GenerationService") {
		t.Errorf("reflection says %v, %v", answer, err)
	}
}

func TestARESTRequestAndItsCallAreOneTrace(t *testing.T) {
	exporter := servertest.RecordSpans(t)
	studio := servertest.NewStudio()
	var inside trace.SpanContext
	studio.Get = func(ctx context.Context, _ *easelv1.GetGenerationRequest) (*easelv1.GetGenerationResponse, error) {
		inside = trace.SpanContextFromContext(ctx)
		return &easelv1.GetGenerationResponse{}, nil
	}
	s := serve(t, studio)
	answer, _ := servertest.Do(t, s.HTTP, servertest.Request(t, http.MethodGet, "/v1/generations/gen_1", "",
		"Traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"))
	servertest.Do(t, s.HTTP, servertest.Request(t, http.MethodGet, "/v9/gen_1", ""))
	if err := s.Stop(); err != nil {
		t.Fatal(err)
	}
	const id = "0af7651916cd43dd8448eb211c80319c"
	spans := map[string]tracetest.SpanStub{}
	for _, span := range exporter.GetSpans() {
		if strings.Contains(span.Name, "gen_1") {
			t.Errorf("the span %q is named by an id", span.Name)
		}
		if span.SpanContext.TraceID().String() == id {
			spans[span.Name] = span
		}
	}
	rest, call := spans["GET /v1/generations/{generation_id}"], spans["easel.v1.GenerationService/GetGeneration"]
	if len(spans) != 2 || call.Parent.SpanID() != rest.SpanContext.SpanID() || rest.Parent.SpanID().String() != "b7ad6b7169203331" {
		t.Errorf("the trace is %v", spans)
	}
	if inside.SpanID() != call.SpanContext.SpanID() {
		t.Errorf("the handler is in the span %v", inside.SpanID())
	}
	if got := answer.Header.Get("Traceparent"); !strings.HasPrefix(got, "00-"+id) {
		t.Errorf("the answer names the trace %q", got)
	}
}

func TestNamesThatCallersMakeUpAreNoSpans(t *testing.T) {
	exporter := servertest.RecordSpans(t)
	s := serve(t, servertest.NewStudio())
	err := s.GRPC.Invoke(t.Context(), "/made.up/Method", &easelv1.GetAccountRequest{}, &easelv1.GetAccountResponse{})
	servertest.WantError(t, err, codes.Unimplemented, "UNIMPLEMENTED")
	if err := s.Stop(); err != nil {
		t.Fatal(err)
	}
	if spans := exporter.GetSpans(); len(spans) != 0 {
		t.Errorf("spans: %v", spans)
	}
}

func TestLimitsHaveDefaults(t *testing.T) {
	var none Limits
	if none.callerStreams() != 1000 || none.streams() != 50_000 || none.calls() != 480 || none.callerCalls() != 320 || none.conns() != 10_000 || none.streamsPerConn() != 1250 {
		t.Errorf("the defaults are %d, %d, %d, %d, %d, %d", none.callerStreams(), none.streams(), none.calls(), none.callerCalls(), none.conns(), none.streamsPerConn())
	}
	if (Limits{CallerStreams: 5000}).streamsPerConn() != 5250 {
		t.Error("a connection does not carry what a caller may open")
	}
	if none.connAge() != 30*time.Minute {
		t.Errorf("the default is %v", none.connAge())
	}
	some := Limits{StreamsPerConn: 3, ConnAge: 4}
	if some.streamsPerConn() != 3 || some.connAge() != 4 {
		t.Error("a limit that is set does not hold")
	}
}
