package server_test

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/sandbox"
)

// filled are the fields that the answers of a client's calls have had.
type filled struct {
	mu     sync.Mutex
	fields map[protoreflect.FullName]bool
}

// note notes each field that is set in a message.
func (f *filled) note(m protoreflect.Message) {
	m.Range(func(field protoreflect.FieldDescriptor, value protoreflect.Value) bool {
		f.fields[field.FullName()] = true
		switch {
		case field.IsMap() || !ofContract(field):
		case field.IsList():
			for i := range value.List().Len() {
				f.note(value.List().Get(i).Message())
			}
		default:
			f.note(value.Message())
		}
		return true
	})
}

func (f *filled) answer(m any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.note(m.(proto.Message).ProtoReflect())
}

func (f *filled) unary(ctx context.Context, method string, req, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, options ...grpc.CallOption) error {
	err := invoke(ctx, method, req, reply, conn, options...)
	if err == nil {
		f.answer(reply)
	}
	return err
}

func (f *filled) stream(ctx context.Context, about *grpc.StreamDesc, conn *grpc.ClientConn, method string, open grpc.Streamer, options ...grpc.CallOption) (grpc.ClientStream, error) {
	stream, err := open(ctx, about, conn, method, options...)
	return notedStream{stream, f}, err
}

type notedStream struct {
	grpc.ClientStream
	filled *filled
}

func (s notedStream) RecvMsg(m any) error {
	err := s.ClientStream.RecvMsg(m)
	if err == nil {
		s.filled.answer(m)
	}
	return err
}

// ofContract says whether a field holds messages of the contract.
func ofContract(field protoreflect.FieldDescriptor) bool {
	return field.Message() != nil && field.Message().ParentFile().Package() == "easel.v1" && !field.IsMap()
}

// answered are all fields that answers may have.
func answered() (all []protoreflect.FullName) {
	var walk func(m protoreflect.MessageDescriptor)
	walk = func(m protoreflect.MessageDescriptor) {
		for i := range m.Fields().Len() {
			field := m.Fields().Get(i)
			if slices.Contains(all, field.FullName()) {
				continue
			}
			if all = append(all, field.FullName()); ofContract(field) {
				walk(field.Message())
			}
		}
	}
	for _, method := range contractMethods() {
		walk(method.Output())
	}
	return all
}

// TestEachFieldOfEachAnswerIsFilled goes the ways of users once. A field that no code fills is a promise to nobody.
func TestEachFieldOfEachAnswerIsFilled(t *testing.T) {
	file := filepath.Join(t.TempDir(), "callers")
	synctest.Test(t, func(t *testing.T) {
		writeTeam(t, file, 5000)
		seen := &filled{fields: map[protoreflect.FullName]bool{}}
		s := heldStackFrom(t, file, func(o *options) {
			o.memory, o.sandbox.Speed = true, 1
			o.dialOptions = []grpc.DialOption{grpc.WithUnaryInterceptor(seen.unary), grpc.WithStreamInterceptor(seen.stream)}
		})
		shop, ops := grpcCaller{s, "shop"}, grpcCaller{s, "ops"}
		lookAround(t, s, ops)
		ends := watchOrders(t, s, shop)
		call(t, shop, "AccountService/GetAccount", &easelv1.GetAccountRequest{}, &easelv1.GetAccountResponse{}) // has budgets
		for _, by := range []easelv1.UsageDimension{1, 2, 3, 4, 5} {
			usage := &easelv1.ListUsageRequest{GroupBy: []easelv1.UsageDimension{by}, PageSize: 1}
			if by == easelv1.UsageDimension_USAGE_DIMENSION_LABEL {
				usage.LabelName, usage.PageSize = "job", 10
			}
			call(t, ops, "AccountService/ListUsage", usage, &easelv1.ListUsageResponse{})
		}
		s.stop() // each stream that is open is told
		ends()
		for _, field := range answered() {
			if !seen.fields[field] {
				t.Errorf("nothing fills %s", field)
			}
		}
	})
}

func call(t *testing.T, c caller, method string, req, resp proto.Message) {
	t.Helper()
	if err := c.call(t.Context(), method, req, resp); err != nil {
		t.Fatalf("%s: %v", method, err)
	}
}

// lookAround reads the account, the models and a price, also from a catalog that tells more than it must.
func lookAround(t *testing.T, s *stack, c caller) {
	t.Helper()
	all := `{"id": "m", "name": "M", "description": "d", "output": "file", "edition": 2, "fields": [{"name": "n", "label": "N", "description": "d",
		"type": "integer", "required": true, "default": 1, "allowed": [1, 2], "minimum": 0, "maximum": 9, "odd": 1}]}`
	s.sandbox.Inject(sandbox.Fault{Route: "GET /models/detail", Body: all, Count: 1})
	call(t, c, "ModelService/ListModels", &easelv1.ListModelsRequest{PageSize: 1}, &easelv1.ListModelsResponse{})
	call(t, c, "ModelService/GetModel", &easelv1.GetModelRequest{ModelId: "m"}, &easelv1.GetModelResponse{})
	quote := order(t, picture, "", "a lake")
	call(t, c, "GenerationService/QuoteGeneration", &easelv1.QuoteGenerationRequest{ModelId: picture, Inputs: quote.GetInputs()}, &easelv1.QuoteGenerationResponse{})
	more := s.sandbox.Inject(sandbox.Fault{Set: map[string]any{"plan": "large"}})
	call(t, c, "AccountService/GetAccount", &easelv1.GetAccountRequest{}, &easelv1.GetAccountResponse{})
	more.Remove()
	most := s.sandbox.Inject(sandbox.Fault{Set: map[string]any{"plan": slices.Repeat([]any{1}, 450_000)}})
	call(t, c, "AccountService/GetAccount", &easelv1.GetAccountRequest{}, &easelv1.GetAccountResponse{})
	call(t, c, "ModelService/GetModel", &easelv1.GetModelRequest{ModelId: picture}, &easelv1.GetModelResponse{})
	most.Remove()
}

// watchOrders orders what succeeds, what fails and what nobody knows of, and follows it. What it gives waits for the
// ends of the streams that stay open.
func watchOrders(t *testing.T, s *stack, c grpcCaller) (ends func()) {
	t.Helper()
	request := order(t, picture, "file", "a lake")
	request.Labels = map[string]string{"job": "7"}
	file := create(t, c, request)
	call(t, c, "GenerationService/CreateGeneration", request, &easelv1.CreateGenerationResponse{})
	words := create(t, c, order(t, text, "text", "a lake"))
	doomed := create(t, c, order(t, text, "doomed", "a lake [fail]"))
	lost := create(t, c, order(t, picture, "lost", "a lake"))
	all := []*easelv1.Generation{file, words, doomed}
	for _, key := range []string{"b", "c", "d", "e"} { // a model's history begins with a few of its renders
		all = append(all, create(t, c, order(t, picture, key, "a lake")))
	}
	for _, g := range all {
		err := c.watch(t.Context(), &easelv1.WatchGenerationRequest{
			GenerationId: g.GetGenerationId(), IncludeContent: true, HeartbeatInterval: durationpb.New(time.Second), Until: easelv1.WatchUntil_WATCH_UNTIL_SETTLED,
		}, func(*easelv1.WatchGenerationResponse) {})
		if err != nil && !strings.Contains(err.Error(), "NO_CONTENT") {
			t.Fatal(err)
		}
	}
	call(t, c, "GenerationService/DeleteGeneration", &easelv1.DeleteGenerationRequest{GenerationId: lost.GetGenerationId(), Force: true}, &easelv1.DeleteGenerationResponse{})
	for _, offset := range []int64{0, 10} {
		if _, err := c.download(t.Context(), &easelv1.DownloadGenerationRequest{GenerationId: file.GetGenerationId(), ReadOffset: offset}); err != nil {
			t.Fatal(err)
		}
	}
	told := s.sandbox.Inject(sandbox.Fault{Route: "GET /generations/{id}", Set: map[string]any{"contentType": "image/png", "sizeBytes": 99}})
	_, _ = get(t, c, file.GetGenerationId())
	told.Remove()
	more := answerWith(s, 150_000)
	_, _ = get(t, c, file.GetGenerationId())
	more.Remove()
	answerWith(s, 900_000)
	_, _ = get(t, c, file.GetGenerationId())
	s.sandbox.ClearFaults()
	wait(t, c, file.GetGenerationId(), easelv1.WatchUntil_WATCH_UNTIL_TERMINAL)
	call(t, c, "GenerationService/ListGenerations", &easelv1.ListGenerationsRequest{PageSize: 1}, &easelv1.ListGenerationsResponse{})

	s.sandbox.Inject(sandbox.Fault{Route: "POST /generations", Reset: true})
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	if err := c.call(ctx, "GenerationService/CreateGeneration", order(t, picture, "unknown", "a lake"), &easelv1.CreateGenerationResponse{}); err == nil {
		t.Fatal("an order whose answer is lost succeeds")
	}
	s.sandbox.ClearFaults()
	last := create(t, c, order(t, picture, "open", "a lake")).GetGenerationId()
	s.sandbox.Inject(sandbox.Fault{Status: 503})
	return openStreams(t, c, last)
}

// openStreams opens each kind of watch.
func openStreams(t *testing.T, c grpcCaller, id string) (ends func()) {
	t.Helper()
	generations, beat := easelv1.NewGenerationServiceClient(c.grpc), durationpb.New(time.Second)
	one, err1 := generations.WatchGeneration(c.keyed(t.Context()), &easelv1.WatchGenerationRequest{GenerationId: id, HeartbeatInterval: beat})
	many, err2 := generations.WatchGenerations(c.keyed(t.Context()), &easelv1.WatchGenerationsRequest{HeartbeatInterval: beat})
	if err1 != nil || err2 != nil {
		t.Fatal(err1, err2)
	}
	var open sync.WaitGroup
	for _, stream := range []grpc.ClientStream{one, many} {
		open.Go(func() {
			for m := newMessage(map[grpc.ClientStream]proto.Message{
				one: &easelv1.WatchGenerationResponse{}, many: &easelv1.WatchGenerationsResponse{},
			}[stream].ProtoReflect().Descriptor()); ; proto.Reset(m) {
				if err := stream.RecvMsg(m); err != nil {
					if err == io.EOF {
						t.Error("a watch ended at its goal")
					}
					return
				}
			}
		})
	}
	time.Sleep(10 * time.Second) // in virtual time: heartbeats of each
	return open.Wait
}

// writeTeam writes a callers file with one team, a neighbour and an operator.
func writeTeam(t *testing.T, file string, dailyCents int) {
	t.Helper()
	lines := fmt.Sprintf("teams:\n  studio: {budget: {daily_cents: %d}}\ncallers:\n", dailyCents)
	for name, more := range map[string]string{"shop": "team: studio", "blog": "operator: false", "ops": "operator: true"} {
		lines += fmt.Sprintf("  - {name: %s, %s, tokens: [sha256:%x]}\n", name, more, sha256.Sum256([]byte(name)))
	}
	if err := os.WriteFile(file, []byte(lines), 0o600); err != nil {
		t.Fatal(err)
	}
}
