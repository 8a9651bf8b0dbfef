package simulation

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/easel-grpc/easel/internal/promises"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
)

// caller simulates a thread of a program that uses Easel.
type caller struct {
	world  *world
	tenant *tenant
	name   string
	random *rand.Rand

	mu     sync.Mutex
	seq    int
	stream int
	at     int // index of the replica to which the caller is connected

	refused string // reason why the last order was rejected
}

func (w *world) caller(t *tenant, name string) *caller {
	seed := w.seed("caller " + t.name + name)
	return &caller{
		world: w, tenant: t, name: t.name + "." + name,
		random: rand.New(rand.NewPCG(seed, 1)), at: int(seed>>8) % len(w.replicas),
	}
}

// start runs fn in a goroutine, after a short pause.
func (c *caller) start(fn func(c *caller)) {
	w := c.world
	w.countHelper(c.name, 1)
	w.callers.Go(func() {
		defer w.countHelper(c.name, -1)
		c.pause(time.Millisecond)
		fn(c)
	})
}

// countHelper changes the number of running callers with the given name. The run's report uses these numbers to list
// callers that never finish.
func (w *world) countHelper(name string, by int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.busy[name] += by; w.busy[name] == 0 {
		delete(w.busy, name)
	}
}

// helper returns a new caller for the same tenant. It is connected to the same replica, and has its own random source.
func (c *caller) helper(name string) *caller {
	h := c.world.caller(c.tenant, c.name+"/"+name)
	h.name, h.at = c.name+"/"+name, c.at
	return h
}

// note adds an event of this caller to the run's event history.
func (c *caller) note(e promises.Event) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.seq++
	e.Actor, e.Seq = c.name, c.seq
	c.world.history.Add(e)
}

func (c *caller) over() bool { return c.world.ctx.Err() != nil }

// pause sleeps for d, plus or minus up to 20 %. It adds a random time of less than a millisecond, so that callers do
// not act at the same instant.
func (c *caller) pause(d time.Duration) { c.sleep(c.about(d)) }

func (c *caller) about(d time.Duration) time.Duration {
	return time.Duration(float64(d)*(0.8+0.4*c.random.Float64())) + time.Duration(c.random.Int64N(1e6))
}

func (c *caller) sleep(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-c.world.ctx.Done():
	}
}

func (c *caller) randomly(p float64) bool { return c.random.Float64() < p }

// endpoint returns the caller's connection to its current replica.
func (c *caller) endpoint() *endpoint { return c.tenant.endpoints[c.at] }

// switchEndpoint connects the caller to the next replica.
func (c *caller) switchEndpoint() { c.at = (c.at + 1) % len(c.tenant.endpoints) }

// restClient returns a REST client for an endpoint.
func (d *endpoint) restClient() promises.REST {
	return promises.REST{Client: d.http, Address: "localhost", Token: d.key}
}

// signedContext returns a context that carries the credential of an endpoint.
func (d *endpoint) signedContext(ctx context.Context) context.Context {
	if d.key == "" {
		return ctx
	}
	return metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+d.key)
}

// noteFailure adds the event e to the run's event history, with the code and the reason of err. It returns the code and
// the reason.
func (c *caller) noteFailure(e promises.Event, err error) (codes.Code, string) {
	st := status.Convert(err)
	reason := infoOf(err).GetReason()
	c.world.searchKeys(c, err.Error())
	e.Kind, e.Text = promises.Failed, st.Code().String()+" "+reason
	if code := st.Code(); code == codes.DeadlineExceeded || code == codes.Canceled {
		e.Text = code.String() // the reason is omitted, because it depends on whether the client or the server reports the timeout or cancellation first
	}
	c.note(e)
	return st.Code(), reason
}

func infoOf(err error) *errdetails.ErrorInfo {
	for _, d := range status.Convert(err).Details() {
		if info, ok := d.(*errdetails.ErrorInfo); ok {
			return info
		}
	}
	return nil
}

func (w *world) searchKeys(c *caller, text string) {
	if w.holdsKey(text) {
		c.note(promises.Event{Kind: promises.Leaked, Text: "a key is in an error"})
	}
}

// retryDelay returns the delay that an error requests.
func retryDelay(err error) time.Duration {
	for _, d := range status.Convert(err).Details() {
		if info, ok := d.(*errdetails.RetryInfo); ok {
			return info.GetRetryDelay().AsDuration()
		}
	}
	return 0
}

// order describes an order that a caller places.
type order struct {
	model  string
	inputs string
	key    string
	limit  *int64
	leave  time.Duration // time after which the caller cancels its first attempt; zero means that it waits until the attempt's timeout

	elsewhere bool // whether each attempt goes to a different replica
	forgotten bool // whether the caller abandons the order instead of repeating it
}

// haiku returns an order for the cheapest model. If fails is true, its generation fails.
func (c *caller) haiku(fails bool) order {
	prompt := fmt.Sprintf("%s %d", c.name, c.random.Int64())
	if fails {
		prompt += " [fail]"
	}
	return order{model: "studio/haiku", inputs: fmt.Sprintf(`{"prompt":%q}`, prompt), key: c.key()}
}

func (c *caller) essay(fails bool) order {
	o := c.haiku(fails)
	o.model = "studio/essay"
	o.inputs = o.inputs[:len(o.inputs)-1] + `,"paragraphs":1}`
	return o
}

func (c *caller) picture() order {
	o := c.haiku(false)
	o.model = "studio/abstract"
	o.inputs = o.inputs[:len(o.inputs)-1] + `,"size":"64x40"}`
	return o
}

func (c *caller) key() string { return fmt.Sprintf("%s-%x", c.name, c.random.Uint64()) }

// buy places an order as a correct client does: after each error that allows a retry, it resends the order with the
// same key. firstTimeout is the timeout of the first attempt. buy returns the generation's ID. ok is false if the order
// was rejected or abandoned.
func (c *caller) buy(o order, firstTimeout time.Duration) (id string, ok bool) {
	patience, maybe, began := firstTimeout, false, c.world.history.Since()
	for attempt := 1; !c.over(); attempt++ {
		sent := c.world.history.Since()
		c.note(promises.Event{Kind: promises.Ordered, Text: o.key, Process: c.endpoint().replica.currentProcess().name, Lasts: patience})
		ctx, cancel := context.WithTimeout(c.world.ctx, patience)
		if o.leave > 0 && attempt == 1 {
			time.AfterFunc(o.leave, cancel)
		}
		g, err := c.send(ctx, o)
		cancel()
		if o.leave > 0 && attempt == 1 {
			c.pause(patience) // the caller has disconnected, so no call for this order is open during this pause
		}
		if err == nil {
			c.note(promises.Event{Kind: promises.Placed, Generation: g.GetGenerationId(), Text: o.key, State: g.GetState(), Etag: g.GetEtag(), Observed: c.world.sinceStart(g.GetObserveTime().AsTime())})
			return g.GetGenerationId(), true
		}
		outcome := infoOf(err).GetMetadata()["order_outcome"]
		code, reason := c.noteFailure(promises.Event{
			Generation: o.key, Process: c.endpoint().replica.currentProcess().name, Order: o.key, Outcome: outcome, Since: sent,
		}, err)
		maybe = maybe || outcome != promises.NotPlacedByThisCall && outcome != promises.NotPlaced
		switch {
		case !isRejection(code, reason):
		case !maybe:
			c.refused = reason
			c.note(promises.Event{Kind: promises.Rejected, Text: o.key, Generation: reason})
			return "", false
		case attempt > 60:
			c.note(promises.Event{Kind: promises.GaveUp, Text: o.key, Generation: reason})
			return "", false
		}
		patience = 20*time.Second + time.Duration(c.random.Int64N(1e10))
		if code == codes.Unavailable && reason == "" {
			c.switchEndpoint() // the replica is down
		}
		if o.forgotten {
			c.note(promises.Event{Kind: promises.GaveUp, Text: o.key, Generation: reason})
			return "", false
		}
		if o.elsewhere {
			c.switchEndpoint()
		}
		if c.world.plan.Forgets > 0 && c.world.history.Since() > began+c.world.plan.Window+20*time.Second {
			c.note(promises.Event{Kind: promises.GaveUp, Text: o.key, Generation: reason})
			return "", false
		}
		if c.world.plan.Rotates && !c.world.plan.Ledger && attempt > 20 { // the outcome may stay unknown, because the API key may have been rotated since the first attempt
			c.note(promises.Event{Kind: promises.GaveUp, Text: o.key, Generation: reason})
			return "", false
		}
		c.pause(max(retryDelay(err), min(time.Duration(attempt)*300*time.Millisecond, 5*time.Second)))
	}
	return "", false
}

func (c *caller) send(ctx context.Context, o order) (*easelv1.Generation, error) {
	request := &easelv1.CreateGenerationRequest{ModelId: o.model, InputsJson: o.inputs, IdempotencyKey: o.key, MaxCostCents: o.limit, Labels: c.labels()}
	if c.randomly(0.15) {
		return c.endpoint().restClient().Create(ctx, request)
	}
	resp, err := c.endpoint().grpc.CreateGeneration(c.endpoint().signedContext(ctx), request)
	return resp.GetGeneration(), err
}

// isRejection reports whether an error means that the order is rejected. If an earlier attempt may have placed the
// order, a correct client resends it even after such an error.
func isRejection(code codes.Code, reason string) bool {
	switch code {
	case codes.InvalidArgument, codes.FailedPrecondition, codes.PermissionDenied, codes.AlreadyExists, codes.NotFound:
		return true
	case codes.ResourceExhausted:
		return reason == "API_KEY_DAILY_CAP" || reason == "BUDGET_EXCEEDED"
	}
	return false
}

// sinceStart returns the time from the start of the run's event history to t, which is a time on the world's clock. It
// returns -1 for a zero time.
func (w *world) sinceStart(t time.Time) time.Duration {
	if t.IsZero() || t.Unix() == 0 {
		return -1
	}
	return t.Sub(w.history.Begin)
}

// viewing describes a watch of a single generation.
type viewing struct {
	id    string
	until easelv1.WatchUntil
	every time.Duration // heartbeat interval; zero means 15 s
	slow  time.Duration // time that the caller pauses after each message
	rest  bool
}

// messages is a function that returns the next message of a watch of a single generation.
type messages = func() (*easelv1.WatchGenerationResponse, error)

// followGeneration watches a generation until a stream ends with OK. It reconnects after errors, silence and shutdowns.
// It reports whether it has received a terminal state.
func (c *caller) followGeneration(v viewing) bool {
	v.every = c.heartbeatInterval(v.every)
	known, last := "", easelv1.State_STATE_UNSPECIFIED
	for tries := 0; !c.over(); tries++ {
		end, etag, state := c.watchOnce(v, known)
		if etag != "" {
			known, last = etag, state
		}
		switch end {
		case endOK:
			if promises.IsEnd(last) {
				c.note(promises.Event{Kind: promises.Done, Generation: v.id, State: last})
			}
			return promises.IsEnd(last)
		case endUnknown:
			return false
		case endLost:
			c.switchEndpoint()
		}
		c.pause(time.Duration(300+200*min(tries, 10)) * time.Millisecond)
	}
	return false
}

// heartbeatInterval returns a heartbeat interval: interval, or 15 s if interval is zero, plus a random time of up to a
// millisecond. The random time keeps heartbeats from coinciding with timeouts, many of which are multiples of 15 s.
func (c *caller) heartbeatInterval(interval time.Duration) time.Duration {
	return cmp.Or(interval, 15*time.Second) + time.Duration(c.random.Int64N(1e6))
}

// ending classifies the end of a stream.
type ending int

const (
	endOK      ending = iota // the stream ended with OK
	endLost                  // the stream ended with an error, or was silent for too long
	endUnknown               // the generation was not found
)

// watchOnce opens one stream and reads it to its end. knownEtag is the etag of the state that the caller already has,
// or empty. watchOnce returns the way in which the stream ended, and the etag and the value of the state that it
// delivered last. If the stream delivered no state, these two are zero.
func (c *caller) watchOnce(v viewing, knownEtag string) (end ending, etag string, state easelv1.State) {
	c.stream++
	d := c.endpoint()
	base := promises.Event{Generation: v.id, Stream: c.stream, Process: d.replica.currentProcess().name, Goal: v.until, Heartbeat: v.every}
	say := func(e promises.Event) {
		e.Generation, e.Stream, e.Process, e.Goal, e.Heartbeat = base.Generation, base.Stream, base.Process, base.Goal, base.Heartbeat
		c.note(e)
	}
	patience := c.patience(v.every)
	open := promises.Event{Kind: promises.Opened, Etag: knownEtag}
	if v.slow > 0 {
		open.Text = "slow"
	}
	say(open)
	err, cause := readStream(c, reading{patience, v.slow, 0}, func(ctx context.Context) (messages, error) { return d.watch(ctx, v, knownEtag) },
		func(m *easelv1.WatchGenerationResponse) {
			switch {
			case m.GetUpdate() != nil:
				g := m.GetUpdate().GetGeneration()
				etag, state = g.GetEtag(), g.GetState()
				c.recordState(say, g, m.GetUpdate().GetInitial())
			case m.GetHeartbeat() != nil:
				say(promises.Event{Kind: promises.Heartbeat, Text: conditionName(m.GetHeartbeat())})
				c.world.searchKeys(c, m.GetHeartbeat().GetLastError())
			case m.GetClosing() != nil:
				say(promises.Event{Kind: promises.Closing})
			}
		})
	switch {
	case errors.Is(err, io.EOF):
		say(promises.Event{Kind: promises.EndedOK, State: state})
		return endOK, etag, state
	case errors.Is(cause, errSilence):
		say(promises.Event{Kind: promises.Silent})
		return endLost, etag, state
	case c.over():
		return endLost, etag, state
	}
	if code, _ := c.noteFailure(base, err); code == codes.NotFound {
		return endUnknown, etag, state
	}
	return endLost, etag, state
}

// Reasons why a caller cancels a stream.
var (
	errSilence = errors.New("silence")
	errEnough  = errors.New("enough")
)

// patience returns the time without messages after which a caller cancels a stream. interval is the heartbeat interval
// of the stream.
func (c *caller) patience(interval time.Duration) time.Duration {
	return 3*interval + time.Duration(c.random.Int64N(1e6))
}

// reading contains the durations that apply when a caller reads a stream.
type reading struct {
	patience, slow time.Duration // maximum time without messages, and time that the caller pauses after each message
	limit          time.Duration // time after which the caller cancels the stream; zero means never
}

// readStream opens a stream by calling openStream. It calls handleMessage with each message until the stream ends. It
// returns the error that ended the stream. If the caller canceled the stream, the second result is the reason.
func readStream[M any](c *caller, r reading, openStream func(ctx context.Context) (func() (M, error), error), handleMessage func(M)) (err, cause error) {
	ctx, cancel := context.WithCancelCause(c.world.ctx)
	defer cancel(nil)
	if r.limit > 0 {
		timer := time.AfterFunc(r.limit, func() { cancel(errEnough) })
		defer timer.Stop()
	}
	watchdog := time.AfterFunc(r.patience, func() { cancel(errSilence) })
	defer watchdog.Stop()
	next, err := openStream(ctx)
	for err == nil {
		var m M
		if m, err = next(); err != nil {
			break
		}
		watchdog.Reset(r.patience + r.slow)
		handleMessage(m)
		if r.slow > 0 {
			c.sleep(r.slow)
		}
	}
	return err, context.Cause(ctx)
}

func conditionName(b *easelv1.Heartbeat) string {
	return b.GetUpstreamCondition().String()[len("UPSTREAM_CONDITION_"):]
}

// recordState records a state that was delivered by a stream.
func (c *caller) recordState(say func(promises.Event), g *easelv1.Generation, initial bool) {
	say(promises.Event{
		Kind: promises.Updated, State: g.GetState(), Etag: g.GetEtag(), Initial: initial,
		Observed: c.world.sinceStart(g.GetObserveTime().AsTime()), Text: g.GetUpstreamStatus(),
	})
	c.world.checkOwner(c, g)
}

// checkOwner checks that a generation belongs to the caller's tenant. The prompt of each generation starts with the
// name of its tenant.
func (w *world) checkOwner(c *caller, g *easelv1.Generation) {
	prompt := g.GetInputs().GetFields()["prompt"].GetStringValue()
	if c.tenant == w.operator && c.tenant != nil {
		if owner, _, _ := strings.Cut(prompt, "."); prompt != "" && g.GetOwner() != "" && owner != g.GetOwner() {
			c.note(promises.Event{Kind: promises.Leaked, Generation: g.GetGenerationId(), Text: fmt.Sprintf("it is called %s's, and is %s's", g.GetOwner(), owner)})
		}
		return
	}
	if prompt != "" && (!w.plan.Held || w.plan.Ledger) && prompt[:min(len(c.tenant.name)+1, len(prompt))] != c.tenant.name+"." {
		c.note(promises.Event{Kind: promises.Leaked, Generation: g.GetGenerationId(), Text: "the generation of another tenant: " + prompt})
	}
	if owner := g.GetOwner(); owner != "" && owner != c.tenant.name {
		c.note(promises.Event{Kind: promises.Leaked, Generation: g.GetGenerationId(), Text: "another owner is shown: " + owner})
	}
}

// watch opens a stream that watches a single generation. knownEtag is the etag of the state that the caller already
// has, or empty.
func (d *endpoint) watch(ctx context.Context, v viewing, knownEtag string) (messages, error) {
	request := &easelv1.WatchGenerationRequest{GenerationId: v.id, Until: v.until, KnownEtag: knownEtag, HeartbeatInterval: durationpb.New(v.every)}
	if v.rest {
		return d.restClient().Watch(ctx, request)
	}
	stream, err := d.grpc.WatchGeneration(d.signedContext(ctx), request)
	if err != nil {
		return nil, err
	}
	return stream.Recv, nil
}
