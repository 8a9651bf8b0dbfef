package server

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/tap"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/gate"
	"github.com/easel-grpc/easel/internal/reload"
	"github.com/easel-grpc/easel/internal/service"
)

// checkInterval is how often calls are looked at whose callers hold a request back or take nothing of an answer.
const checkInterval = time.Second

// refusedLines is how many refused calls have a line in the log in each interval, and how many of these lines may wait.
const refusedLines = 100

// door lets calls in, over gRPC and over REST. It looks at the headers of a call while nothing of its request is read:
// who calls, and whether there is a place. It never waits. A call holds its place until the last byte of its answer has
// left.
type door struct {
	service Service
	logger  *slog.Logger
	rules   rules
	tracing *tracing
	// certificates are those in force; nil without TLS.
	certificates *reload.Value[*tls.Config]
	proofs       *proofs
	// Turns of calls, and to receive the requests of streams and, behind them, of public calls.
	turns, reading *gate.Gate

	calls                           [gate.Classes]*places
	streams, generations, public    *places
	checks                          *places // of health
	pages, refusals                 *places // over HTTP
	unprovedKeys, unprovedAddresses *places
	methods                         map[string]grpc.MethodInfo // that the server has

	refused  chan ended   // whose lines are to be written: the goroutine of a connection writes none
	unlogged atomic.Int64 // refused calls without a line

	mu       sync.Mutex
	open     map[*conn]map[*call]bool // that hold their places, by the connections that there are
	requests map[string]*call         // of REST, by what stands in metadataCall
	last     uint64                   // of them
}

func newDoor(config Config, rules rules, tracing *tracing) *door {
	limits := config.Limits
	d := &door{
		service: config.Service, logger: config.logger(), rules: rules, tracing: tracing,
		proofs:            newProofs(config.Service.Prove, config.Service.Vouch),
		turns:             gate.New(gate.Config{Places: withReserved(turnsOf(limits.calls())), OwnerPlaces: callerTurns(limits.calls())}),
		reading:           gate.New(gate.Config{Places: [gate.Classes]int{2 * readsAtOnce, 2 * readsAtOnce, readsAtOnce}, OwnerPlaces: readsOfCaller}),
		streams:           newPlaces("watches, waits and downloads", "end one first, or watch many renders on one stream", limits.callerStreams(), limits.streams()),
		generations:       newPlaces("generation_ids in watches", "end a watch first, or watch everything that the catalog lists", callerGenerations, allGenerations),
		public:            newPlaces("calls without a credential", "", addressCalls, publicCalls),
		checks:            newPlaces("health checks", "", addressCalls, allChecks),
		pages:             newPlaces("pages and files without a credential", "", addressCalls, publicCalls),
		refusals:          newPlaces("refusals", "", addressRefusals, allRefusals),
		unprovedKeys:      newPlaces("calls under API keys that the catalog has not accepted lately", "", unprovedKeyCalls, 2*unprovedCalls),
		unprovedAddresses: newPlaces("calls whose API keys are new here", "", unprovedAddressCalls, unprovedCalls),
		methods:           map[string]grpc.MethodInfo{}, open: map[*conn]map[*call]bool{}, requests: map[string]*call{},
		refused: make(chan ended, refusedLines),
	}
	for class, turns := range turnsOf(limits.calls()) {
		d.calls[class] = newPlaces("calls", "", waitingShare*min(turns, callerTurns(limits.calls())), waitingShare*turns)
		d.calls[class].spare = max(1, waitingShare*turns/spareShare)
	}
	d.unprovedAddresses.spare = unprovedCalls / spareShare
	for _, p := range []*places{d.public, d.checks, d.pages, d.refusals} {
		p.spare = p.all / spareShare
	}
	return d
}

// tap lets a call of a connection in, or refuses it. It runs on the connection's own goroutine.
func (d *door) tap(ctx context.Context, info *tap.Info) (context.Context, error) {
	at := connContextOf(ctx)
	c := &call{door: d, method: info.FullMethodName, conn: at.conn, cancel: at.take(), start: time.Now()}
	c.arrived, _ = at.conn.raw.(*limitedConn)
	if p, ok := peer.FromContext(ctx); ok {
		state := tlsState(p)
		c.peer, c.certificate, c.uncertified = p.Addr.String(), d.certificate(state), !d.stillVerified(state)
	}
	known, err := d.enter(ctx, c)
	if c.uncertified {
		_ = at.conn.raw.Close() // what is open there has no certificate either; a newer one needs a new connection
	}
	if err != nil {
		at.conn.end(c.cancel) // the library leaves the timer of the caller's deadline behind
		return nil, d.refuse(ctx, c, err)
	}
	d.mu.Lock()
	d.open[c.conn][c] = true
	d.mu.Unlock()
	c.conn.frames.allow()
	return c.within(known), nil
}

// tapLocal lets a call in that a REST request makes in memory: the request has passed the door.
func (d *door) tapLocal(ctx context.Context, info *tap.Info) (context.Context, error) {
	c := d.request(ctx)
	if c == nil || c.method != info.FullMethodName {
		return nil, errPanicked
	}
	known, err := d.service.Authenticate(ctx, c.certificate) // which finds the same caller
	if err != nil {
		return nil, d.refuse(ctx, c, err)
	}
	c.count(1, 0)
	return c.within(known), nil
}

// within is the context of a call that was let in. The library drops a call without a word whose deadline has passed by now.
func (c *call) within(ctx context.Context) context.Context {
	if _, ok := ctx.Deadline(); ok {
		c.begin = context.AfterFunc(ctx, func() { c.count(-1, 0) })
	}
	c.own = ownContext{ctx, c}
	return &c.own
}

// enter finds out who calls, and takes a place. The context that it gives says who calls.
func (d *door) enter(ctx context.Context, c *call) (context.Context, error) {
	if _, ok := d.methods[c.method]; !ok {
		return ctx, errUnknownMethod
	}
	if c.uncertified {
		return ctx, service.ErrUncertified
	}
	c.working = 1
	switch {
	case c.method == grpc_health_v1.Health_Check_FullMethodName:
		return ctx, c.sit(d.checks.take(host(c.peer), 1))
	case public(c.method):
		return ctx, c.sit(d.public.take(host(c.peer), 1))
	}
	known, err := d.service.Authenticate(ctx, c.certificate)
	if err != nil {
		return ctx, err
	}
	ctx = known
	if c.unproved = !d.service.Proven(ctx); !c.unproved {
		return ctx, c.takePlace(ctx)
	}
	err = d.proofs.rejected(service.Subject(ctx))
	if err == nil {
		err = c.sit(d.unprovedKeys.take(service.Subject(ctx), 1))
	}
	if err == nil {
		err = c.sit(d.unprovedAddresses.take(host(c.peer), 1))
	}
	return ctx, err
}

var errUnknownMethod = service.Fail(easelv1.ErrorReason_UNIMPLEMENTED, "this server has no such call: it is older than the caller's stubs, or its name is wrong")

// takePlace takes a place among those of known callers. The connection has proved itself, whether there is one or not.
func (c *call) takePlace(ctx context.Context) error {
	c.arrived.prove()
	if longLived[c.method] {
		return c.sit(c.streams.take(service.Subject(ctx), 1))
	}
	return c.sit(c.calls[classOf[c.method]].take(service.Subject(ctx), 1))
}

// admit waits until the API key of a call is proved, and for its turn. It runs before anything of the request is read.
func (c *call) admit(ctx context.Context) error {
	if c.unproved {
		if err := c.proofs.wait(ctx, service.Subject(ctx), host(c.peer)); err != nil {
			return err
		}
		c.stand()
		c.unproved = false
		if err := c.takePlace(ctx); err != nil {
			return err
		}
	}
	if class, ok := classOf[c.method]; ok && c.turn == nil {
		return c.await(ctx, class)
	}
	return nil
}

// await waits for the turn of a call.
func (c *call) await(ctx context.Context, class gate.Class) error {
	turn, err := c.turns.Enter(ctx, gate.Request{Owner: service.Subject(ctx), Class: class, Patience: callWait})
	if _, ok := errors.AsType[*gate.Refused](err); ok {
		return overload("more is asked of this server than it can serve", c.calls[class].delay())
	}
	if err != nil {
		return err // the caller has left
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.turn = turn
	return nil
}

// refuse refuses a call. It is counted, logged and traced as every other; a made-up method is not, as its name would be.
func (d *door) refuse(ctx context.Context, c *call, cause error) error {
	c.stand()
	if cause == errUnknownMethod { //nolint:errorlint // it is our own
		return service.Status(cause).Err()
	}
	ctx = d.tag(ctx, c)
	err := c.fail(cause)
	end := c.ending(err)
	select {
	case d.refused <- end:
	default:
		d.unlogged.Add(1)
	}
	c.span.end(end.status, end.took)
	c.otel.HandleRPC(ctx, &stats.End{BeginTime: c.start, EndTime: time.Now(), Error: err})
	return err
}

// tag begins the span of a call.
func (d *door) tag(ctx context.Context, c *call) context.Context {
	c.otel = d.tracing.handler(c.method)
	ctx = c.otel.TagRPC(ctx, &stats.RPCTagInfo{FullMethodName: c.method})
	c.ctx, c.span = d.tracing.begin(ctx, c.method, c.peer)
	return c.ctx
}

// underWay is how many calls have their turn.
func (d *door) underWay() (n int) {
	for _, held := range d.turns.State().Held {
		n += held
	}
	return n
}

// TagConn implements stats.Handler.
func (d *door) TagConn(ctx context.Context, info *stats.ConnTagInfo) context.Context {
	addr, ok := info.RemoteAddr.(connAddr)
	if !ok { // the one in memory
		return ctx
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.open[addr.conn] = map[*call]bool{}
	return newConnContext(ctx, addr.conn)
}

// HandleConn implements stats.Handler. What has not left a connection that has ended never leaves it.
func (d *door) HandleConn(ctx context.Context, event stats.ConnStats) {
	at := connContextOf(ctx)
	if _, ended := event.(*stats.ConnEnd); !ended || at == nil {
		return
	}
	d.mu.Lock()
	lost := d.open[at.conn]
	delete(d.open, at.conn)
	d.mu.Unlock()
	for c := range lost {
		c.lose()
	}
}

// TagRPC implements stats.Handler.
func (d *door) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context {
	c := callOf(ctx)
	if c.begin != nil && !c.begin() {
		c.count(1, 0) // its deadline has passed just now
	}
	c.done = ctx.Done()
	c.tagged = ownContext{d.tag(ctx, c), c}
	return &c.tagged
}

// HandleRPC implements stats.Handler.
func (d *door) HandleRPC(ctx context.Context, event stats.RPCStats) {
	switch event := event.(type) {
	case *stats.OutPayload: // OpenTelemetry's handler does nothing with a message
		if out, ok := event.Payload.(*answer); ok {
			out.call.sent()
		}
	case *stats.InPayload:
	case *stats.End:
		c := callOf(ctx)
		defer c.count(-1, 0)
		c.finish(event.Error)
		c.otel.HandleRPC(ctx, event)
	default:
		callOf(ctx).otel.HandleRPC(ctx, event)
	}
}

// begin begins to run the door, until end.
func (d *door) begin() (end func()) {
	var running sync.WaitGroup
	ctx, cancel := context.WithCancel(context.Background())
	running.Go(func() { d.run(ctx) })
	return func() { cancel(); running.Wait() }
}

// run ends what callers hold up: a request that does not come, and the connection of an answer that does not leave. It
// writes the lines of refused calls too, so many in each interval; one line says how many more there were.
func (d *door) run(ctx context.Context) {
	tick := time.NewTicker(checkInterval)
	defer tick.Stop()
	for lines := 0; ; {
		select {
		case <-ctx.Done():
			for ; len(d.refused) > 0; (<-d.refused).log() {
			}
			return
		case end := <-d.refused:
			if lines++; lines > refusedLines {
				d.unlogged.Add(1)
				continue
			}
			end.log()
		case now := <-tick.C:
			lines = 0
			if n := d.unlogged.Swap(0); n > 0 {
				d.logger.Warn("more calls were refused than are logged one by one", "count", n)
			}
			for _, c := range d.openCalls() {
				c.look(now)
			}
		}
	}
}

func (d *door) openCalls() (all []*call) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, calls := range d.open {
		all = slices.AppendSeq(all, maps.Keys(calls))
	}
	return all
}

// request is the REST request that a call is made for, which it has begun.
func (d *door) request(ctx context.Context) *call {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, id := range metadata.ValueFromIncomingContext(ctx, metadataCall) {
		if c := d.requests[id]; c != nil {
			c.begun = true
			return c
		}
	}
	return nil
}
