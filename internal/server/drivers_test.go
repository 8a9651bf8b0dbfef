package server_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"testing"
	"testing/synctest"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/sandbox"
)

// caller sends calls over gRPC or over REST. Each scenario is written once and runs over both protocols.
type caller interface {
	// Sends a unary call to a method, such as "GenerationService/GetGeneration".
	call(ctx context.Context, method string, req, resp proto.Message) error
	// Watches a generation, and passes every message to fn until the watch ends.
	watch(ctx context.Context, req *easelv1.WatchGenerationRequest, fn func(*easelv1.WatchGenerationResponse)) error
	// Watches several generations, and passes every message to fn until the watch ends or fn returns false.
	watchMany(ctx context.Context, req *easelv1.WatchGenerationsRequest, fn func(*easelv1.WatchGenerationsResponse) (more bool)) error
	// Reads a stream of events, and passes every message to fn until the stream ends or fn returns false.
	events(ctx context.Context, req *easelv1.WatchEventsRequest, fn func(*easelv1.WatchEventsResponse) (more bool)) error
	// Downloads a result. All received bytes are written to the last argument, even if the download fails.
	download(ctx context.Context, req *easelv1.DownloadGenerationRequest, into io.Writer) error
}

// downloadedBytes returns the bytes that a download received, even if the download fails.
func downloadedBytes(ctx context.Context, c caller, req *easelv1.DownloadGenerationRequest) ([]byte, error) {
	var all bytes.Buffer
	err := c.download(ctx, req, &all)
	return all.Bytes(), err
}

// overBoth runs a scenario over gRPC and over REST. Each run has its own stack in virtual time.
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

// operator is the name of the operator among the callers of [overTeams].
const operator = "ops"

// overEveryStack runs a scenario with [overBoth], and then with [overTeams]. With overTeams, the scenario's caller is
// "poster", and the owner of its orders is the team "studio".
func overEveryStack(t *testing.T, scenario func(t *testing.T, s *stack, c caller), change ...func(*options)) {
	overBoth(t, scenario, change...)
	usually := func(o *options) { o.sandbox.Speed = usualSpeed }
	overTeams(t, func(t *testing.T, s *stack, as func(string) caller) {
		s.owner, s.caller = "studio", "poster"
		scenario(t, s, as(s.caller))
	}, append([]func(*options){usually}, change...)...)
}

// sharesKey reports whether the scenario's caller shares an API key with other callers.
func (s *stack) sharesKey() bool { return s.caller != "" }

// wantOwned checks that a generation has the scenario's owner and caller. With a forwarded API key, both are empty.
func (s *stack) wantOwned(g *easelv1.Generation) {
	s.Helper()
	if g.GetOwner() != s.owner || g.GetCaller() != s.caller {
		s.Errorf("the owner is %q and the caller %q; want %q and %q", g.GetOwner(), g.GetCaller(), s.owner, s.caller)
	}
}

// The returned caller belongs to another owner than c, and uses the same protocol.
func (s *stack) another(c caller) caller {
	s.Helper()
	if s.sharesKey() {
		return withKeyOf(c, "shop")
	}
	key, err := s.sandbox.CreateKey(s.Context(), sandbox.KeyConfig{BalanceCents: 100})
	if err != nil {
		s.Fatal(err)
	}
	return withKeyOf(c, key)
}

// sentAs returns the idempotency key that Easel sends to the catalog if the scenario's caller uses the given key.
func (s *stack) sentAs(key string) string {
	if !s.sharesKey() {
		return key
	}
	sent := binary.BigEndian.AppendUint64([]byte("easel1"), uint64(len(s.owner)))
	return fmt.Sprintf("%x", sha256.Sum256(append(sent, s.owner+key...)))
}

// overBothOnPorts is like [overBoth], but uses real time and real network connections.
func overBothOnPorts(t *testing.T, scenario func(t *testing.T, s *stack, c caller), change ...func(*options)) {
	for name, form := range forms {
		t.Run(name, func(t *testing.T) {
			s := newStack(t, change...)
			scenario(t, s, form(s, s.key))
		})
	}
}

// forms maps each protocol to a function that returns a caller for this protocol. The function's parameter key is an
// API key or a caller's token.
var forms = map[string]func(s *stack, key string) caller{
	"gRPC": func(s *stack, key string) caller { return grpcCaller{s, key} },
	"REST": func(s *stack, key string) caller { return restCaller{s, key} },
}

// grpcCaller sends calls over gRPC.
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

func (c grpcCaller) watch(ctx context.Context, req *easelv1.WatchGenerationRequest, fn func(*easelv1.WatchGenerationResponse)) error {
	stream, err := easelv1.NewGenerationServiceClient(c.grpc).WatchGeneration(c.keyed(ctx), req)
	return receiveAll(stream, err, func(m *easelv1.WatchGenerationResponse) bool { fn(m); return true })
}

// receiveAll passes every message of a stream to fn, until the stream ends or fn returns false. If the stream could not
// be opened, receiveAll returns the error openErr.
func receiveAll[M any](stream grpc.ServerStreamingClient[M], openErr error, fn func(*M) bool) error {
	err := openErr
	for err == nil {
		var m *M
		if m, err = stream.Recv(); err == nil && !fn(m) {
			return nil
		}
	}
	return unlessEOF(err)
}

func (c grpcCaller) watchMany(ctx context.Context, req *easelv1.WatchGenerationsRequest, fn func(*easelv1.WatchGenerationsResponse) bool) error {
	ctx, leave := context.WithCancel(ctx)
	defer leave()
	stream, err := easelv1.NewGenerationServiceClient(c.grpc).WatchGenerations(c.keyed(ctx), req)
	return receiveAll(stream, err, fn)
}

func (c grpcCaller) events(ctx context.Context, req *easelv1.WatchEventsRequest, fn func(*easelv1.WatchEventsResponse) bool) error {
	ctx, leave := context.WithCancel(ctx)
	defer leave()
	stream, err := easelv1.NewGenerationServiceClient(c.grpc).WatchEvents(c.keyed(ctx), req)
	return receiveAll(stream, err, fn)
}

func (c grpcCaller) download(ctx context.Context, req *easelv1.DownloadGenerationRequest, into io.Writer) error {
	stream, err := easelv1.NewGenerationServiceClient(c.grpc).DownloadGeneration(c.keyed(ctx), req)
	if err != nil {
		return err
	}
	sum := sha256.New()
	for next := req.GetReadOffset(); ; {
		m, err := stream.Recv()
		if err != nil {
			return unlessEOF(err)
		}
		chunk := m.GetChunk()
		if chunk.GetOffset() != next {
			return fmt.Errorf("got a chunk at offset %d, want %d", chunk.GetOffset(), next)
		}
		if crc32.Checksum(chunk.GetData(), crc32.MakeTable(crc32.Castagnoli)) != chunk.GetCrc32C() {
			return errors.New("a chunk has the wrong checksum")
		}
		next += int64(len(chunk.GetData()))
		_, _ = io.MultiWriter(into, sum).Write(chunk.GetData())
		if whole := chunk.GetSummary().GetSha256(); whole != "" && whole != fmt.Sprintf("%x", sum.Sum(nil)) {
			return fmt.Errorf("the summary has the wrong checksum %s", whole)
		}
	}
}

func unlessEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// errEnough ends a stream when the test needs no further messages.
var errEnough = errors.New("enough")

func oneMessage(*easelv1.WatchGenerationsResponse) (more bool) { return false }

func toTheEnd(*easelv1.WatchGenerationsResponse) (more bool) { return true }
