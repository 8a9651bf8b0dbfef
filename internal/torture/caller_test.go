//go:build unix

package torture

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/proctest"
	"github.com/easel-grpc/easel/internal/promises"
	"github.com/easel-grpc/easel/internal/service"
)

// caller places orders for a team. If the outcome of an order is unknown, the caller repeats the order later or abandons it.
type caller struct {
	world    *world
	team     string
	name     string
	overREST bool
	newest   atomic.Pointer[exchange] // the caller's latest connection to an Easel server
	client   easelv1.GenerationServiceClient
	rest     promises.REST
	later    []*easelv1.CreateGenerationRequest // orders whose outcome is unknown
	placed   []*easelv1.CreateGenerationRequest // orders for which the caller has received a generation
}

// outcome is the caller's knowledge about the result of an order.
type outcome int

const (
	unknown outcome = iota
	placed
	rejected // the order exceeds the team's budget, so it was not placed
)

// connectCallers creates the given number of callers. A quarter of them use REST.
func (w *world) connectCallers(callers int) {
	for n := range callers {
		team := teams[n%len(w.tokens)]
		c := &caller{world: w, team: team, name: fmt.Sprintf("%s.%d", team, n), overREST: n/len(w.tokens)%4 == 3}
		address := w.startRelay(w.t, net.ListenConfig{}, c.forwardToFacade)
		// If an idle connection breaks, Go's transport resends a request that has an Idempotency-Key header. The test
		// would record these two calls as one, so it opens a new connection for each call.
		transport := &http.Transport{DisableKeepAlives: true}
		c.rest = promises.REST{Client: &http.Client{Transport: transport}, Address: address, Token: w.tokens[team]}
		conn, err := grpc.NewClient(address,
			grpc.WithTransportCredentials(insecure.NewCredentials()),
			grpc.WithConnectParams(grpc.ConnectParams{ // a short back-off, because the test does not measure it
				Backoff:           backoff.Config{BaseDelay: 10 * time.Millisecond, Multiplier: 1.5, Jitter: 0.2, MaxDelay: 50 * time.Millisecond},
				MinConnectTimeout: time.Second,
			}))
		if err != nil {
			w.t.Fatal(err)
		}
		w.t.Cleanup(func() {
			conn.Close()
			transport.CloseIdleConnections()
		})
		c.client = easelv1.NewGenerationServiceClient(conn)
		w.callers = append(w.callers, c)
	}
}

// One in largeEvery orders has a large request body.
const largeEvery = 8

// orderOf returns the request for a team's n-th order. Some orders have a large request body, and some have a cost limit.
func orderOf(n int) *easelv1.CreateGenerationRequest {
	r := &easelv1.CreateGenerationRequest{
		ModelId: "studio/haiku", IdempotencyKey: fmt.Sprintf("order-%d", n), InputsJson: fmt.Sprintf(`{"prompt":"order %d"}`, n),
	}
	if n%largeEvery == 1 {
		r.InputsJson = "{" + strings.Repeat(" ", largeBody) + r.GetInputsJson()[1:]
	}
	if n%9 == 0 {
		r.MaxCostCents = new(int64(100))
	}
	return r
}

// placeOrders places orders until the run has reached its planned numbers of orders and faults. Sometimes the second
// caller sends the same order at the same time, often through another Easel server.
func (c *caller) placeOrders(ctx context.Context, colleague *caller) error {
	for c.world.calmIfDone(); !c.world.isCalm() && ctx.Err() == nil; c.world.calmIfDone() {
		request := c.nextOrder()
		if rand.IntN(20) == 0 {
			var twin sync.WaitGroup
			twin.Go(func() { _, _ = colleague.sendOrder(ctx, request) })
			err := c.tryOrder(ctx, request)
			if twin.Wait(); err != nil {
				return err
			}
			continue
		}
		if err := c.tryOrder(ctx, request); err != nil {
			return err
		}
	}
	return nil
}

// nextOrder returns either an order to repeat or a new order. All teams use the same idempotency keys, to test that a key
// needs to be unique only within a team.
func (c *caller) nextOrder() *easelv1.CreateGenerationRequest {
	if n := len(c.later); n > 20 || n > 0 && rand.IntN(3) == 0 {
		request := c.later[0]
		c.later = c.later[1:]
		return request
	}
	c.world.mu.Lock()
	defer c.world.mu.Unlock()
	c.world.last[c.team]++
	return orderOf(c.world.last[c.team])
}

// tryOrder sends an order. If the order is placed, the caller sometimes repeats it at once. If the outcome is unknown,
// the caller repeats the order later. With PostgreSQL, the caller sometimes abandons such an order instead, because
// another process can complete it.
func (c *caller) tryOrder(ctx context.Context, request *easelv1.CreateGenerationRequest) error {
	outcome, err := c.sendOrder(ctx, request)
	switch {
	case err != nil || outcome == rejected:
		return err
	case outcome == placed:
		c.placed = append(c.placed, request)
		if c.isKilledHearing() || rand.IntN(8) == 0 {
			_, err = c.sendOrder(ctx, request)
		}
		return err
	case c.world.postgres != nil && rand.IntN(4) == 0:
		c.world.mu.Lock()
		c.world.gaveUp++
		c.world.mu.Unlock()
	default:
		c.later = append(c.later, request)
	}
	if newest := c.newest.Load(); newest != nil && rand.IntN(2) == 0 { // disconnects while the server may still be processing the order
		newest.near.Close()
	}
	pauseFor(ctx, rand.N(20*time.Millisecond))
	return nil
}

// isKilledHearing sometimes kills the Easel server just after it has returned a generation. It reports whether it
// killed the server.
func (c *caller) isKilledHearing() bool {
	newest := c.newest.Load()
	if newest == nil {
		return false
	}
	f := c.world.drawFault(returned)
	return f != nil && c.world.injectFault(f, newest)
}

func (c *caller) note(e promises.Event) {
	e.Actor = c.name
	c.world.record.Add(e)
}

// sendOrder sends an order, records the response and returns the outcome. It returns an error if the call failed for a reason
// that is not expected in the test.
func (c *caller) sendOrder(ctx context.Context, request *easelv1.CreateGenerationRequest) (outcome, error) {
	order, since := request.GetIdempotencyKey(), c.world.record.Since()
	c.note(promises.Event{Kind: promises.Ordered, Text: order})
	g, err := c.create(ctx, request)
	if err == nil {
		c.note(promises.Event{Kind: promises.Placed, Text: order, Generation: g.GetGenerationId()})
		c.world.mu.Lock()
		defer c.world.mu.Unlock()
		c.world.placed[c.team+" "+order], c.world.shown[c.team] = g.GetGenerationId(), g.GetGenerationId()
		return placed, nil
	}
	why := service.Detail[*errdetails.ErrorInfo](status.Convert(err))
	c.note(promises.Event{
		Kind: promises.Failed, Order: order, Generation: order, Outcome: why.GetMetadata()["order_outcome"], Since: since,
		Text: status.Code(err).String() + " " + why.GetReason(),
	})
	switch {
	case why.GetReason() == "BUDGET_EXCEEDED" && c.world.limits[c.team].MonthlyCents != nil:
		c.note(promises.Event{Kind: promises.Rejected, Text: order, Generation: why.GetReason()})
		return rejected, nil
	case !isRetryable(err):
		return unknown, fmt.Errorf("order %s of team %s: %w", order, c.team, err)
	}
	return unknown, nil
}

func (c *caller) create(ctx context.Context, request *easelv1.CreateGenerationRequest) (*easelv1.Generation, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second) // the caller's timeout
	defer cancel()
	if c.overREST {
		return c.rest.Create(ctx, request)
	}
	answer, err := c.client.CreateGeneration(proctest.Bearing(ctx, c.world.tokens[c.team]), request, grpc.WaitForReady(true))
	return answer.GetGeneration(), err
}

// isRetryable reports whether an error allows the caller to retry with the same key. Other errors must not occur,
// because all orders are valid and the balance is sufficient.
func isRetryable(err error) bool {
	st := status.Convert(err)
	switch service.Reason(st) {
	case easelv1.ErrorReason_OVERLOADED, easelv1.ErrorReason_UPSTREAM_RATE_LIMITED: // Easel could not send the order to the catalog before the deadline
		return true
	}
	return st.Code() == codes.Unavailable || st.Code() == codes.DeadlineExceeded || st.Code() == codes.Canceled
}

// repeatOrders repeats the caller's orders, except the abandoned ones, until the outcome of each order is known. A
// repeat may reach a different Easel server than the original order.
func (c *caller) repeatOrders(ctx context.Context) error {
	for _, request := range append(c.placed, c.later...) {
		for answer := unknown; answer == unknown; {
			var err error
			if answer, err = c.sendOrder(ctx, request); err != nil {
				return err
			}
			if ctx.Err() != nil {
				return fmt.Errorf("order %s has no outcome", request.GetIdempotencyKey())
			}
		}
	}
	return nil
}

// checkIsolation checks, while faults happen, that a team sees only its own generations. It lists and watches all
// generations, and tries to read a generation of another team.
func (c *caller) checkIsolation(ctx context.Context) error {
	ctx = proctest.Bearing(ctx, c.world.tokens[c.team])
	c.world.work.Go(func() {
		for ; ctx.Err() == nil; pauseFor(ctx, 20*time.Millisecond) {
			c.watchEverything(ctx) // called in a loop, because each watch ends after ten seconds, or earlier with an error
		}
	})
	for ; !c.world.isCalm() && ctx.Err() == nil; pauseFor(ctx, 50*time.Millisecond) {
		if err := errors.Join(c.list(ctx), c.readForeign(ctx)); err != nil {
			return err
		}
	}
	return nil
}

// recordGeneration records that the caller has received a generation.
func (c *caller) recordGeneration(g *easelv1.Generation) {
	c.note(promises.Event{Kind: promises.Listed, Generation: g.GetGenerationId()})
	if g.GetOwner() != c.team && g.GetOwner() != "" { // while the database is unavailable, messages from a watch of all generations have no owner
		c.note(promises.Event{Kind: promises.Leaked, Generation: g.GetGenerationId(), Text: "it is shown as a generation of " + g.GetOwner()})
	}
}

func (c *caller) watchEverything(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	stream, err := c.client.WatchGenerations(ctx, &easelv1.WatchGenerationsRequest{})
	for err == nil {
		var m *easelv1.WatchGenerationsResponse
		if m, err = stream.Recv(); m.GetUpdate() != nil {
			c.recordGeneration(m.GetUpdate().GetGeneration())
		}
	}
}

func (c *caller) list(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	answer, err := c.client.ListGenerations(ctx, &easelv1.ListGenerationsRequest{PageSize: 50})
	if err != nil && !isRetryable(err) {
		return fmt.Errorf("list of team %s: %w", c.team, err)
	}
	for _, g := range answer.GetGenerations() {
		c.recordGeneration(g)
	}
	return nil
}

// readForeign tries to read another team's generation, which must fail.
func (c *caller) readForeign(ctx context.Context) error {
	c.world.mu.Lock()
	id := ""
	for team, one := range c.world.shown {
		if team != c.team {
			id = one
		}
	}
	c.world.mu.Unlock()
	if id == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	_, err := c.client.GetGeneration(ctx, &easelv1.GetGenerationRequest{GenerationId: id})
	if status.Code(err) != codes.NotFound && !isRetryable(err) {
		c.note(promises.Event{Kind: promises.Leaked, Generation: id, Text: fmt.Sprintf("another team reads it: %v", err)})
	}
	return nil
}
