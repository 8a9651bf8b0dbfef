package systemtest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/api/annotations"
	"google.golang.org/grpc"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/known/durationpb"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/proctest"
)

// rpc is a method of the gRPC contract. The tests read the methods from the descriptors, so they also cover new
// methods.
type rpc struct {
	name       string // such as "/easel.v1.GenerationService/GetGeneration"
	input      protoreflect.MessageType
	output     protoreflect.MessageType
	verb, path string // HTTP method and path template
	body       bool   // whether the request has a body
}

// everyRPC returns all methods of the contract.
func everyRPC(t *testing.T) (all []rpc) {
	t.Helper()
	for _, file := range []protoreflect.FileDescriptor{
		easelv1.File_easel_v1_account_service_proto, easelv1.File_easel_v1_model_service_proto, easelv1.File_easel_v1_generation_service_proto,
	} {
		for s := range file.Services().Len() {
			methods := file.Services().Get(s).Methods()
			for m := range methods.Len() {
				all = append(all, rpcOf(t, methods.Get(m)))
			}
		}
	}
	return all
}

func rpcOf(t *testing.T, method protoreflect.MethodDescriptor) rpc {
	t.Helper()
	one := rpc{name: fmt.Sprintf("/%s/%s", method.Parent().FullName(), method.Name())}
	var err, err2 error
	one.input, err = protoregistry.GlobalTypes.FindMessageByName(method.Input().FullName())
	one.output, err2 = protoregistry.GlobalTypes.FindMessageByName(method.Output().FullName())
	if err != nil || err2 != nil {
		t.Fatal(err, err2)
	}
	rule, _ := proto.GetExtension(method.Options(), annotations.E_Http).(*annotations.HttpRule)
	one.body = rule.GetBody() != ""
	switch pattern := rule.GetPattern().(type) {
	case *annotations.HttpRule_Get:
		one.verb, one.path = http.MethodGet, pattern.Get
	case *annotations.HttpRule_Post:
		one.verb, one.path = http.MethodPost, pattern.Post
	case *annotations.HttpRule_Delete:
		one.verb, one.path = http.MethodDelete, pattern.Delete
	default:
		t.Fatalf("%s has an HTTP method that this test does not support", one.name)
	}
	return one
}

// request returns a valid request for a method. Fields for generation IDs and idempotency keys contain the given
// values.
func (r rpc) request(id, key string) proto.Message {
	m := r.input.New()
	fields := m.Descriptor().Fields()
	for n := range fields.Len() {
		switch f := fields.Get(n); f.Name() {
		case "model_id":
			m.Set(f, protoreflect.ValueOfString("studio/haiku"))
		case "generation_id":
			m.Set(f, protoreflect.ValueOfString(id))
		case "generation_ids":
			m.Mutable(f).List().Append(protoreflect.ValueOfString(id))
		case "inputs_json":
			m.Set(f, protoreflect.ValueOfString(`{"prompt":"rain"}`))
		case "idempotency_key":
			m.Set(f, protoreflect.ValueOfString(key))
		case "include_content", "force":
			m.Set(f, protoreflect.ValueOfBool(true))
		case "timeout":
			m.Set(f, protoreflect.ValueOfMessage(durationpb.New(5*time.Second).ProtoReflect()))
		}
	}
	return m.Interface()
}

// overGRPC sends the call and returns everything that the caller receives: messages, headers, trailers and the status
// with its details.
func (r rpc) overGRPC(ctx context.Context, conn *grpc.ClientConn, request proto.Message) (seen string, messages int, err error) {
	stream, err := conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true}, r.name)
	if err != nil {
		return err.Error(), 0, err
	}
	_ = stream.SendMsg(request) // if sending fails, RecvMsg returns the error
	_ = stream.CloseSend()
	var text strings.Builder
	for {
		m := r.output.New().Interface()
		if err = stream.RecvMsg(m); err != nil {
			break
		}
		messages++
		wire, _ := proto.Marshal(m)
		fmt.Fprintf(&text, "%s\n%s\n", prototext.Format(m), wire)
	}
	header, _ := stream.Header()
	fmt.Fprintf(&text, "%v\n%v\n", header, stream.Trailer())
	if errors.Is(err, io.EOF) {
		return text.String(), messages, nil
	}
	fmt.Fprintf(&text, "%v\n%s\n", err, prototext.Format(status.Convert(err).Proto()))
	return text.String(), messages, err
}

var pathField = regexp.MustCompile(`\{(\w+)(=\*\*)?\}`)

// overREST sends the call over REST and returns everything that the caller receives.
func (r rpc) overREST(ctx context.Context, client *http.Client, base, id, key, token string) (seen string, code int, err error) {
	path := pathField.ReplaceAllStringFunc(r.path, func(field string) string {
		return map[bool]string{true: "studio/haiku", false: id}[strings.HasPrefix(field, "{model_id")]
	})
	var body io.Reader
	if r.body {
		body = strings.NewReader(`{"modelId":"studio/haiku","inputsJson":"{\"prompt\":\"rain\"}"` +
			map[bool]string{true: `,"idempotencyKey":"` + key + `"`}[strings.HasSuffix(r.name, "/CreateGeneration")] + `}`)
	}
	request, err := http.NewRequestWithContext(ctx, r.verb, base+path, body)
	if err != nil {
		return "", 0, err
	}
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	request.Header.Set("Content-Type", "application/json")
	answer, err := client.Do(request)
	if err != nil {
		return err.Error(), 0, err
	}
	defer answer.Body.Close()
	all, _ := io.ReadAll(answer.Body) // if the response is cut off, the test checks the part that arrived
	return fmt.Sprintf("%s\n%v\n%s\n%v", answer.Status, answer.Header, all, answer.Trailer), answer.StatusCode, nil
}

// bearingContext returns a context for calls, with a timeout. Unless token is empty, the calls send it as their bearer
// token.
func bearingContext(t *testing.T, token string, limit time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	t.Cleanup(cancel)
	return proctest.Bearing(ctx, token)
}
