package server_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"

	"google.golang.org/genproto/googleapis/api/annotations"
	rpcstatus "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/sandbox"
)

// caller speaks to the facade in one of its two forms. Scenarios are written once and run
// with both.
type caller interface {
	// call makes a unary call of a method such as "GenerationService/GetGeneration".
	call(ctx context.Context, method string, req, resp proto.Message) error
	// watch hands on each message of a watch until it ends.
	watch(ctx context.Context, req *easelv1.WatchGenerationRequest, each func(*easelv1.WatchGenerationResponse)) error
	// watchMany hands on each message of a watch of many until it ends, or until each wants no more.
	watchMany(ctx context.Context, req *easelv1.WatchGenerationsRequest, each func(*easelv1.WatchGenerationsResponse) (more bool)) error
	// watchAccount hands on each message of a watch of the account until it ends, or each wants no more.
	watchAccount(ctx context.Context, req *easelv1.WatchAccountRequest, each func(*easelv1.WatchAccountResponse) (more bool)) error
	// download gives the bytes that arrived.
	download(ctx context.Context, req *easelv1.DownloadGenerationRequest) ([]byte, error)
}

// overBoth runs a scenario over gRPC and over REST, each with a stack of its own in virtual time.
func overBoth(t *testing.T, scenario func(t *testing.T, s *stack, c caller), change ...func(*options)) {
	inMemory := func(o *options) { o.memory = true }
	for name, form := range forms {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStack(t, append(change, inMemory)...)
				scenario(t, s, form(s, s.key))
			})
		})
	}
}

// operator is the operator of [overTeams].
const operator = "ops"

// overEveryStack is overBoth, and runs the scenario once more on each database, behind a held API key with a ledger.
func overEveryStack(t *testing.T, scenario func(t *testing.T, s *stack, c caller), change ...func(*options)) {
	overBoth(t, scenario, change...)
	usually := func(o *options) { o.sandbox.Speed = usualSpeed }
	overTeams(t, func(t *testing.T, s *stack, as func(string) caller) {
		s.owner, s.caller = "studio", "poster"
		scenario(t, s, as(s.caller))
	}, append([]func(*options){usually}, change...)...)
}

// shared says whether the scenario's caller shares the API key with others.
func (s *stack) shared() bool { return s.caller != "" }

// wantOwned checks that a generation says who owns it and who ordered it, where that is not the API key.
func (s *stack) wantOwned(g *easelv1.Generation) {
	s.Helper()
	if g.GetOwner() != s.owner || g.GetCaller() != s.caller {
		s.Errorf("it is %q's, by %q; want %q's, by %q", g.GetOwner(), g.GetCaller(), s.owner, s.caller)
	}
}

// another is a caller of another owner.
func (s *stack) another(c caller) caller {
	s.Helper()
	if s.shared() {
		return withKeyOf(c, "shop")
	}
	key, err := s.sandbox.CreateKey(s.Context(), sandbox.KeyConfig{BalanceCents: 100})
	if err != nil {
		s.Fatal(err)
	}
	return withKeyOf(c, key)
}

// sentAs is what the catalog is sent for an idempotency key of the scenario's caller.
func (s *stack) sentAs(key string) string {
	if !s.shared() {
		return key
	}
	sent := binary.BigEndian.AppendUint64([]byte("easel1"), uint64(len(s.owner)))
	return fmt.Sprintf("%x", sha256.Sum256(append(sent, s.owner+key...)))
}

// overBothOnPorts is overBoth in real time, over connections of the system.
func overBothOnPorts(t *testing.T, scenario func(t *testing.T, s *stack, c caller), change ...func(*options)) {
	for name, form := range forms {
		t.Run(name, func(t *testing.T) {
			s := newStack(t, change...)
			scenario(t, s, form(s, s.key))
		})
	}
}

// forms are the two forms, for a caller with an API key or a token.
var forms = map[string]func(s *stack, key string) caller{
	"gRPC": func(s *stack, key string) caller { return grpcCaller{s, key} },
	"REST": func(s *stack, key string) caller { return restCaller{s, key} },
}

// grpcCaller calls over gRPC.
type grpcCaller struct {
	*stack
	key string
}

func (c grpcCaller) keyed(ctx context.Context) context.Context {
	if c.key == "" {
		return ctx
	}
	return metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+c.key)
}

func (c grpcCaller) call(ctx context.Context, method string, req, resp proto.Message) error {
	return c.grpc.Invoke(c.keyed(ctx), "/easel.v1."+method, req, resp)
}

func (c grpcCaller) watch(ctx context.Context, req *easelv1.WatchGenerationRequest, each func(*easelv1.WatchGenerationResponse)) error {
	stream, err := easelv1.NewGenerationServiceClient(c.grpc).WatchGeneration(c.keyed(ctx), req)
	for err == nil {
		var m *easelv1.WatchGenerationResponse
		if m, err = stream.Recv(); err == nil {
			each(m)
		}
	}
	return unlessEOF(err)
}

func (c grpcCaller) watchMany(ctx context.Context, req *easelv1.WatchGenerationsRequest, each func(*easelv1.WatchGenerationsResponse) bool) error {
	ctx, leave := context.WithCancel(ctx)
	defer leave()
	stream, err := easelv1.NewGenerationServiceClient(c.grpc).WatchGenerations(c.keyed(ctx), req)
	for err == nil {
		var m *easelv1.WatchGenerationsResponse
		if m, err = stream.Recv(); err == nil && !each(m) {
			return nil
		}
	}
	return unlessEOF(err)
}

func (c grpcCaller) watchAccount(ctx context.Context, req *easelv1.WatchAccountRequest, each func(*easelv1.WatchAccountResponse) bool) error {
	ctx, leave := context.WithCancel(ctx)
	defer leave()
	stream, err := easelv1.NewAccountServiceClient(c.grpc).WatchAccount(c.keyed(ctx), req)
	for more := true; err == nil && more; {
		var m *easelv1.WatchAccountResponse
		if m, err = stream.Recv(); err == nil {
			more = each(m)
		}
	}
	return unlessEOF(err)
}

func (c grpcCaller) download(ctx context.Context, req *easelv1.DownloadGenerationRequest) ([]byte, error) {
	stream, err := easelv1.NewGenerationServiceClient(c.grpc).DownloadGeneration(c.keyed(ctx), req)
	if err != nil {
		return nil, err
	}
	var all []byte
	for {
		m, err := stream.Recv()
		if err != nil {
			return all, unlessEOF(err)
		}
		chunk := m.GetChunk()
		if chunk.GetOffset() != req.GetReadOffset()+int64(len(all)) {
			return all, fmt.Errorf("a chunk at %d after %d bytes", chunk.GetOffset(), len(all))
		}
		if crc32.Checksum(chunk.GetData(), crc32.MakeTable(crc32.Castagnoli)) != chunk.GetCrc32C() {
			return all, errors.New("a chunk has the wrong checksum")
		}
		all = append(all, chunk.GetData()...)
	}
}

func unlessEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// restCaller calls over REST, by the HTTP rules of the contract itself.
type restCaller struct {
	*stack
	key string
}

func (c restCaller) call(ctx context.Context, method string, req, resp proto.Message) error {
	r := c.request(ctx, method, req)
	answer, err := c.http.Do(r)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		return err
	}
	if answer.StatusCode != http.StatusOK {
		return restError(answer, body)
	}
	return protojson.Unmarshal(body, resp)
}

// restFailure is an error over REST: the status in the body, and what HTTP said.
type restFailure struct {
	status *status.Status
	code   int
	header http.Header
}

func (f *restFailure) Error() string              { return fmt.Sprintf("HTTP %d: %v", f.code, f.status.Err()) }
func (f *restFailure) GRPCStatus() *status.Status { return f.status }

func restError(answer *http.Response, body []byte) error {
	var message rpcstatus.Status
	if err := protojson.Unmarshal(body, &message); err != nil {
		return fmt.Errorf("HTTP %d with a body that is no status: %s", answer.StatusCode, body)
	}
	return &restFailure{status.FromProto(&message), answer.StatusCode, answer.Header}
}

func (c restCaller) watch(ctx context.Context, req *easelv1.WatchGenerationRequest, each func(*easelv1.WatchGenerationResponse)) error {
	return c.lines(c.request(ctx, "GenerationService/WatchGeneration", req), func(line []byte) error {
		m := &easelv1.WatchGenerationResponse{}
		if err := protojson.Unmarshal(line, m); err != nil {
			return fmt.Errorf("the line %s: %w", line, err)
		}
		each(m)
		return nil
	})
}

// errEnough ends a stream that the caller has seen enough of.
var errEnough = errors.New("enough")

func oneMessage(*easelv1.WatchGenerationsResponse) (more bool) { return false }
func toTheEnd(*easelv1.WatchGenerationsResponse) (more bool)   { return true }

func (c restCaller) watchMany(ctx context.Context, req *easelv1.WatchGenerationsRequest, each func(*easelv1.WatchGenerationsResponse) bool) error {
	return c.manyLines(c.request(ctx, "GenerationService/WatchGenerations", req), each)
}

// manyLines hands on each message of a watch of many.
func (c restCaller) manyLines(r *http.Request, each func(*easelv1.WatchGenerationsResponse) bool) error {
	err := c.lines(r, func(line []byte) error {
		m := &easelv1.WatchGenerationsResponse{}
		if err := protojson.Unmarshal(line, m); err != nil {
			return fmt.Errorf("the line %s: %w", line, err)
		}
		if !each(m) {
			return errEnough
		}
		return nil
	})
	if errors.Is(err, errEnough) {
		return nil
	}
	return err
}

// postCaller opens watches of many by POST.
type postCaller struct{ restCaller }

func (c postCaller) watchMany(ctx context.Context, req *easelv1.WatchGenerationsRequest, each func(*easelv1.WatchGenerationsResponse) bool) error {
	text, err := protojson.Marshal(req)
	if err != nil {
		return err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, c.restURL+"/v1/generations:watch", bytes.NewReader(text))
	if err != nil {
		return err
	}
	r.Header.Set("Authorization", "Bearer "+c.key)
	r.Header.Set("Content-Type", "application/json")
	return c.manyLines(r, each)
}

func (c restCaller) watchAccount(ctx context.Context, req *easelv1.WatchAccountRequest, each func(*easelv1.WatchAccountResponse) bool) error {
	err := c.lines(c.request(ctx, "AccountService/WatchAccount", req), func(line []byte) error {
		m := &easelv1.WatchAccountResponse{}
		if err := protojson.Unmarshal(line, m); err != nil {
			return fmt.Errorf("the line %s: %w", line, err)
		}
		if !each(m) {
			return io.EOF
		}
		return nil
	})
	return unlessEOF(err)
}

// lines hands on each line of a stream until it ends.
func (c restCaller) lines(r *http.Request, each func(line []byte) error) error {
	r.Header.Set("Accept", "application/x-ndjson")
	answer, err := c.http.Do(r)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		body, _ := io.ReadAll(answer.Body)
		return restError(answer, body)
	}
	lines := bufio.NewScanner(answer.Body)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var failed struct {
			Error json.RawMessage `json:"error"`
		}
		if err := json.Unmarshal(lines.Bytes(), &failed); err == nil && failed.Error != nil {
			return restError(answer, failed.Error)
		}
		if err := each(lines.Bytes()); err != nil {
			return err
		}
	}
	return lines.Err()
}

func (c restCaller) download(ctx context.Context, req *easelv1.DownloadGenerationRequest) ([]byte, error) {
	plain := proto.CloneOf(req)
	plain.ReadOffset, plain.ReadLimit = 0, 0
	r := c.request(ctx, "GenerationService/DownloadGeneration", plain)
	switch {
	case req.GetReadLimit() > 0:
		r.Header.Set("Range", fmt.Sprintf("bytes=%d-%d", req.GetReadOffset(), req.GetReadOffset()+req.GetReadLimit()-1))
	case req.GetReadOffset() > 0:
		r.Header.Set("Range", fmt.Sprintf("bytes=%d-", req.GetReadOffset()))
	}
	answer, err := c.http.Do(r)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if answer.StatusCode/100 != 2 {
		return nil, restError(answer, body)
	}
	return body, err
}

var pathVariable = regexp.MustCompile(`\{(\w+)(=\*\*)?\}`)

// request makes the HTTP request of a call: variables of the path from the message, a body
// where the rule has one, else the rest as query parameters.
func (c restCaller) request(ctx context.Context, method string, req proto.Message) *http.Request {
	c.Helper()
	verb, pattern, withBody := httpRule(c.T, method)
	fields := map[string]any{}
	text, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(req)
	if err == nil {
		err = json.Unmarshal(text, &fields)
	}
	if err != nil {
		c.Fatal(err)
	}
	path := pathVariable.ReplaceAllStringFunc(pattern, func(v string) string {
		parts := pathVariable.FindStringSubmatch(v)
		value := fmt.Sprint(fields[parts[1]])
		delete(fields, parts[1])
		if parts[2] != "" {
			return strings.ReplaceAll(url.PathEscape(value), "%2F", "/")
		}
		return strings.ReplaceAll(url.PathEscape(value), ":", "%3A") // a colon begins a verb
	})
	var body io.Reader
	query := url.Values{}
	if withBody {
		body = bytes.NewReader(text)
	} else {
		addToQuery(query, "%s", fields)
	}
	r, err := http.NewRequestWithContext(ctx, verb, c.restURL+path, body)
	if err != nil {
		c.Fatal(err)
	}
	r.URL.RawQuery = query.Encode()
	if c.key != "" {
		r.Header.Set("Authorization", "Bearer "+c.key)
	}
	if withBody {
		r.Header.Set("Content-Type", "application/json")
	}
	return r
}

// addToQuery writes members as query parameters, those of a message behind its name and those of a map in
// brackets.
func addToQuery(query url.Values, form string, fields map[string]any) {
	for name, value := range fields {
		name = fmt.Sprintf(form, name)
		switch value := value.(type) {
		case []any:
			for _, one := range value {
				query.Add(name, fmt.Sprint(one))
			}
		case map[string]any:
			inner := name + ".%s"
			if strings.HasSuffix(name, "labels") || name == "known_etags" {
				inner = name + "[%s]"
			}
			addToQuery(query, inner, value)
		default:
			query.Add(name, fmt.Sprint(value))
		}
	}
}

// httpRule reads the HTTP rule of a method from the contract.
func httpRule(t *testing.T, method string) (verb, pattern string, body bool) {
	t.Helper()
	name := protoreflect.FullName("easel.v1." + strings.ReplaceAll(method, "/", "."))
	descriptor, err := protoregistry.GlobalFiles.FindDescriptorByName(name)
	if err != nil {
		t.Fatal(err)
	}
	rule, _ := proto.GetExtension(descriptor.Options(), annotations.E_Http).(*annotations.HttpRule)
	switch p := rule.GetPattern().(type) {
	case *annotations.HttpRule_Get:
		return "GET", p.Get, false
	case *annotations.HttpRule_Delete:
		return "DELETE", p.Delete, false
	case *annotations.HttpRule_Post:
		return "POST", p.Post, true
	}
	t.Fatalf("%s has no HTTP rule", method)
	return "", "", false
}
