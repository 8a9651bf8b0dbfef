package main

import (
	"cmp"
	"context"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
)

// peer is the facade that easel is compared with. It is a careful implementation that uses standard libraries, but it
// has only the features that the benchmark measures: reads, orders and watches. It traces, measures, validates and
// logs all calls (peerserve.go). It has no ledger.
type peer struct {
	easelv1.UnimplementedGenerationServiceServer
	polling context.Context // context of all pollers; when it is done, the pollers stop
	catalog *peerCatalog
	every   time.Duration // interval between polls of a generation

	mu      sync.Mutex
	pollers map[pollerKey]*poller
}

// pollerKey identifies a poller. Callers with different API keys do not share a poller.
type pollerKey struct{ authorization, id string }

// authorization returns a call's authorization header, which contains the caller's API key. The peer forwards the
// header to the catalog, and does not check it.
func authorization(ctx context.Context) string {
	return strings.Join(metadata.ValueFromIncomingContext(ctx, "authorization"), ",")
}

// GetGeneration implements easelv1.GenerationServiceServer.
func (f *peer) GetGeneration(ctx context.Context, request *easelv1.GetGenerationRequest) (*easelv1.GetGenerationResponse, error) {
	g, err := f.catalog.readGeneration(ctx, authorization(ctx), request.GetGenerationId())
	if err != nil {
		return nil, err
	}
	return &easelv1.GetGenerationResponse{Generation: g}, nil
}

// CreateGeneration implements easelv1.GenerationServiceServer.
func (f *peer) CreateGeneration(ctx context.Context, request *easelv1.CreateGenerationRequest) (*easelv1.CreateGenerationResponse, error) {
	g, err := f.catalog.placeOrder(ctx, authorization(ctx), request)
	if err != nil {
		return nil, err
	}
	return &easelv1.CreateGenerationResponse{Generation: g}, nil
}

// WatchGeneration implements easelv1.GenerationServiceServer. The call's goroutine sends the current state, and then
// the latest state after each change, until the generation is terminal. If the state does not change for the
// heartbeat interval, the goroutine sends a heartbeat.
func (f *peer) WatchGeneration(request *easelv1.WatchGenerationRequest, stream grpc.ServerStreamingServer[easelv1.WatchGenerationResponse]) error {
	ctx := stream.Context()
	p, leave := f.joinPoller(pollerKey{authorization(ctx), request.GetGenerationId()})
	defer leave()
	silence := cmp.Or(request.GetHeartbeatInterval().AsDuration(), 15*time.Second)
	heartbeat := time.NewTimer(silence)
	defer heartbeat.Stop()
	for sent, initial := request.GetKnownEtag(), true; ; {
		now := p.state()
		if now.err != nil {
			return now.err
		}
		if g := now.generation; g != nil && g.GetEtag() != sent {
			if err := stream.Send(updateOf(g, initial)); err != nil {
				return err
			}
			sent, initial = g.GetEtag(), false
			heartbeat.Reset(silence)
		}
		if now.generation.GetTerminal() {
			return nil
		}
		select {
		case <-now.changed:
		case <-heartbeat.C:
			if err := stream.Send(heartbeatOf(p.state())); err != nil {
				return err
			}
			heartbeat.Reset(silence)
		case <-ctx.Done():
			return status.FromContextError(ctx.Err()).Err()
		}
	}
}

func updateOf(g *easelv1.Generation, initial bool) *easelv1.WatchGenerationResponse {
	return &easelv1.WatchGenerationResponse{
		Event:    &easelv1.WatchGenerationResponse_Update{Update: &easelv1.GenerationUpdate{Generation: g, Initial: initial}},
		EmitTime: timestamppb.Now(),
	}
}

func heartbeatOf(now pollerState) *easelv1.WatchGenerationResponse {
	return &easelv1.WatchGenerationResponse{
		Event:    &easelv1.WatchGenerationResponse_Heartbeat{Heartbeat: &easelv1.Heartbeat{ObserveTime: timestamppb.New(now.observed)}},
		EmitTime: timestamppb.Now(),
	}
}

// joinPoller returns the poller of a generation, and starts it if necessary. A watcher must call leave when it ends.
// The poller stops when its last watcher has called leave.
func (f *peer) joinPoller(key pollerKey) (p *poller, leave func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if p = f.pollers[key]; p == nil {
		p = &poller{now: pollerState{changed: make(chan struct{})}}
		f.pollers[key] = p
		var ctx context.Context
		ctx, p.stop = context.WithCancel(f.polling)
		go p.poll(ctx, f.every, func() (*easelv1.Generation, error) { return f.catalog.readGeneration(ctx, key.authorization, key.id) })
	}
	p.watchers++
	return p, func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		if p.watchers--; p.watchers == 0 {
			p.stop()
			delete(f.pollers, key)
		}
	}
}

// poller reads one generation for all its watchers.
type poller struct {
	stop     context.CancelFunc
	watchers int // number of watchers; guarded by the mutex of the [peer] that contains this poller

	mu  sync.Mutex
	now pollerState
}

// pollerState is the latest state that a poller has read.
type pollerState struct {
	generation *easelv1.Generation // nil before the first response
	err        error               // error that ends every watch, or nil
	observed   time.Time
	changed    chan struct{} // closed when a newer state or an error replaces this state
}

func (p *poller) state() pollerState {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.now
}

// poll calls readGeneration at the given interval, and passes each result to applyResult. It stops when applyResult
// returns true or ctx is done.
func (p *poller) poll(ctx context.Context, interval time.Duration, readGeneration func() (*easelv1.Generation, error)) {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for !p.applyResult(readGeneration()) {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
}

// applyResult applies the result of a poll, and reports whether it was the last poll. A failed poll is the last one
// only if the generation does not exist or the catalog rejects the API key. After any other error, polling continues.
func (p *poller) applyResult(g *easelv1.Generation, err error) (isLast bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch status.Code(err) {
	case codes.OK:
		p.now.observed = time.Now()
		if g.GetEtag() == p.now.generation.GetEtag() {
			return false
		}
	case codes.NotFound, codes.Unauthenticated:
	default:
		return false
	}
	close(p.now.changed)
	p.now.generation, p.now.err, p.now.changed = g, err, make(chan struct{})
	return err != nil || g.GetTerminal()
}
