package clients

import (
	"encoding/json"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/code"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/dynamicpb"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/easel-grpc/easel/internal/proctest"
)

// scripted is a server that implements the complete contract and responds as its script specifies.
type scripted struct {
	t      *testing.T
	script *script
	wire   *proctest.Wire // proxy between the program and this server
	key    *keyFile

	certificate string // path of the certificate; empty without TLS

	mu     sync.Mutex
	next   int       // index of the current answer among the script's answers whose field For is empty
	since  time.Time // time of the first call that got the current answer; zero if there was no such call
	called []map[string]any
	failed map[string]bool // idempotency keys and generation IDs that already got their own answer (see answer.For)
}

func newScripted(t *testing.T, s *script) *scripted {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := &scripted{t: t, script: s, key: newKeyFile(t), failed: map[string]bool{}}
	options := []grpc.ServerOption{
		grpc.UnknownServiceHandler(served.answerCall),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: time.Second, PermitWithoutStream: true}),
	}
	if s.TLS {
		certificate, key := proctest.Certificate(t, "scripted")
		transport, err := credentials.NewServerTLSFromFile(certificate, key)
		if err != nil {
			t.Fatal(err)
		}
		served.certificate, options = certificate, append(options, grpc.Creds(transport))
	}
	server := grpc.NewServer(options...)
	healthpb.RegisterHealthServer(server, health.NewServer()) // the client libraries also call the health service, which Easel serves
	go func() { _ = server.Serve(listener) }()                // returns when the server is stopped
	t.Cleanup(server.Stop)
	served.wire = proctest.NewWire(t, listener.Addr().String())
	if s.Dead {
		served.wire.Close()
		served.wire.Address = proctest.DeadAddress(t)
	}
	return served
}

// addr returns the address to which the program connects.
func (s *scripted) addr() string {
	if s.certificate != "" {
		return "https://" + s.wire.Address
	}
	return s.wire.Address
}

// requests returns the request messages of all calls so far, as JSON objects.
func (s *scripted) requests() []map[string]any {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.called)
}

// answerCall responds to one call.
func (s *scripted) answerCall(_ any, stream grpc.ServerStream) error {
	name, _ := grpc.MethodFromServerStream(stream)
	found, err := protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName(strings.ReplaceAll(name[1:], "/", ".")))
	if err != nil || !strings.HasPrefix(name, "/easel.v1.") {
		return status.Error(codes.Unimplemented, name)
	}
	method := found.(protoreflect.MethodDescriptor)
	request := dynamicpb.NewMessage(method.Input())
	if err := stream.RecvMsg(request); err != nil {
		return err
	}
	s.key.checkKey(stream.Context())
	answer := s.takeAnswer(request)
	for _, text := range answer.Messages {
		message := dynamicpb.NewMessage(method.Output())
		text := strings.ReplaceAll(string(text), "@20MiB", strings.Repeat("x", 20<<20))
		if err := protojson.Unmarshal([]byte(text), message); err != nil {
			s.t.Errorf("%s: %v", s.script.Name, err)
		}
		if err := stream.SendMsg(message); err != nil {
			return err
		}
	}
	switch {
	case answer.Fails != nil:
		return answer.Fails.toError()
	case answer.Then == "freeze":
		s.wire.Freeze()
		fallthrough
	case answer.Then == "silence":
		<-stream.Context().Done()
		return status.FromContextError(stream.Context().Err()).Err()
	}
	return nil
}

// takeAnswer records a call and returns its answer. If the script has an answer for the call's idempotency key or
// generation ID, the first such call gets this answer. All other calls get the answer that [scripted.nextAnswer]
// returns.
func (s *scripted) takeAnswer(request proto.Message) answer {
	text, err := protojson.Marshal(request)
	var members map[string]any
	if err == nil {
		err = json.Unmarshal(text, &members)
	}
	if err != nil {
		s.t.Error(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.called = append(s.called, members)
	key, ok := members["idempotencyKey"].(string)
	if !ok {
		key, _ = members["generationId"].(string)
	}
	for _, one := range s.script.Answers {
		if one.For != "" && one.For == key && !s.failed[key] {
			s.failed[key] = true
			return one
		}
	}
	return s.nextAnswer()
}

// nextAnswer returns the next answer from the script. It skips answers whose field For is not empty. If an answer's
// field Lasts contains a period, nextAnswer repeats the answer for this period. It repeats the last answer forever.
func (s *scripted) nextAnswer() answer {
	answers := slices.DeleteFunc(slices.Clone(s.script.Answers), func(a answer) bool { return a.For != "" })
	if s.since.IsZero() {
		s.since = time.Now()
	}
	one := answers[s.next]
	if lasts, _ := time.ParseDuration(one.Lasts); time.Since(s.since) < lasts {
		return one
	}
	if one.Lasts != "" {
		s.next, one = s.next+1, answers[s.next+1]
	}
	s.next = min(s.next+1, len(answers)-1)
	s.since = time.Time{}
	return one
}

// toError returns the failure as an error with details.
func (f *failure) toError() error {
	var details []protoadapt.MessageV1
	if f.Reason != "" {
		details = append(details, &errdetails.ErrorInfo{Domain: "easel", Reason: f.Reason, Metadata: f.Metadata})
	}
	if delay, err := time.ParseDuration(f.RetryDelay); err == nil {
		details = append(details, &errdetails.RetryInfo{RetryDelay: durationpb.New(delay)})
	}
	if f.RequestID != "" {
		details = append(details, &errdetails.RequestInfo{RequestId: f.RequestID})
	}
	bad := &errdetails.BadRequest{}
	for field, text := range f.Fields {
		bad.FieldViolations = append(bad.FieldViolations, &errdetails.BadRequest_FieldViolation{Field: field, Description: text})
	}
	if len(f.Fields) > 0 {
		details = append(details, bad)
	}
	failed, err := status.New(codes.Code(code.Code_value[f.Code]), "scripted").WithDetails(details...)
	if err != nil {
		return err
	}
	return failed.Err()
}

func sortedKeys[V any](values map[string]V) []string { return slices.Sorted(maps.Keys(values)) }
