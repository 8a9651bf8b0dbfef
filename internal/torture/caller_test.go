//go:build unix

package torture

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/service"
)

// caller places orders sequentially, and repeats each until it knows the outcome.
type caller struct {
	world *world
	line  *callerProxy
	// create sends an order and returns its generation ID.
	create func(ctx context.Context, request *easelv1.CreateGenerationRequest) (string, error)
}

// connect creates a caller with a token for a line, and returns it with its closer.
func connect(w *world, l *callerProxy, token string) (*caller, io.Closer, error) {
	if l.rest {
		c := &restClient{address: l.listener.Addr().String(), token: token}
		return &caller{world: w, line: l, create: c.create}, c, nil
	}
	conn, err := dial(l)
	if err != nil {
		return nil, nil, err
	}
	client := easelv1.NewGenerationServiceClient(conn)
	create := func(ctx context.Context, request *easelv1.CreateGenerationRequest) (string, error) {
		answer, err := client.CreateGeneration(bearing(ctx, token), request, grpc.WaitForReady(true))
		return answer.GetGeneration().GetGenerationId(), err
	}
	return &caller{world: w, line: l, create: create}, conn, nil
}

// bearing returns a context of calls with a token.
func bearing(ctx context.Context, token string) context.Context {
	return metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+token)
}

// dial connects over gRPC. It reconnects immediately, because the back-off of callers is not under test.
func dial(l *callerProxy) (*grpc.ClientConn, error) {
	return grpc.NewClient(l.listener.Addr().String(),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: 10 * time.Millisecond, Multiplier: 1.5, Jitter: 0.2, MaxDelay: 50 * time.Millisecond},
			MinConnectTimeout: time.Second,
		}))
}

// largeEvery is the interval of large orders.
const largeEvery = 8

// picture is a model whose result is a file of more than one part in the database.
const picture = "studio/landscape"

// orderOf returns the n-th order. Some are large, some have a cost limit, some paint a picture.
func orderOf(n int) *easelv1.CreateGenerationRequest {
	r := &easelv1.CreateGenerationRequest{
		ModelId: "studio/haiku", IdempotencyKey: fmt.Sprintf("order-%d", n), InputsJson: fmt.Sprintf(`{"prompt":"order %d"}`, n),
	}
	if n%largeEvery == 1 {
		r.InputsJson = "{" + strings.Repeat(" ", largeBody) + r.GetInputsJson()[1:]
	}
	if n%40 == 20 {
		r.ModelId, r.InputsJson = picture, fmt.Sprintf(`{"prompt":"order %d","size":"640x400"}`, n)
	}
	if n%9 == 0 {
		r.MaxCostCents = new(int64(100))
	}
	return r
}

// work places orders while there are more to place.
func (c *caller) work(ctx context.Context, neighbour *caller) error {
	for n, more := c.world.next(); more; n, more = c.world.next() {
		request := orderOf(n)
		if n%20 == 7 { // concurrent orders of two callers with the same key, often at two facades
			var twin sync.WaitGroup
			var err error
			twin.Go(func() { err = neighbour.place(ctx, request) })
			mine := c.place(ctx, request)
			if twin.Wait(); err != nil {
				return err
			}
			if mine != nil {
				return mine
			}
			continue
		}
		if err := c.place(ctx, request); err != nil {
			return err
		}
		if c.line.beforeDelivery() || rand.IntN(8) == 0 {
			if err := c.place(ctx, request); err != nil {
				return err
			}
		}
	}
	return nil
}

// place sends an order until its generation is known.
func (c *caller) place(ctx context.Context, request *easelv1.CreateGenerationRequest) error {
	for {
		c.world.tally.call()
		id, err := c.send(ctx, request)
		switch {
		case err == nil:
			return c.world.promises.record(request.GetIdempotencyKey(), id)
		case ctx.Err() != nil:
			return fmt.Errorf("%s was never heard of: %w", request.GetIdempotencyKey(), err)
		case !retryable(err):
			return fmt.Errorf("%s was answered with %w", request.GetIdempotencyKey(), err)
		}
		if rand.IntN(2) == 0 { // while this facade may still be at it
			c.line.disconnect()
		}
		select { // a caller waits only for a short time
		case <-time.After(rand.N(60 * time.Millisecond)):
		case <-ctx.Done():
		}
	}
}

func (c *caller) send(ctx context.Context, request *easelv1.CreateGenerationRequest) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	return c.create(ctx, request)
}

// retryable reports whether an error allows a retry with the same key. Other errors would be wrong,
// because all orders are valid and the balance is sufficient.
func retryable(err error) bool {
	st := status.Convert(err)
	switch service.Reason(st) {
	case easelv1.ErrorReason_OVERLOADED, easelv1.ErrorReason_UPSTREAM_RATE_LIMITED: // it has no turn before its deadline
		return true
	}
	return st.Code() == codes.Unavailable || st.Code() == codes.DeadlineExceeded
}

// outcomes are the answers that callers got.
type outcomes struct {
	mu  sync.Mutex
	ids map[string]string // generation by idempotency key
}

// record stores the generation ID that a caller received. It returns an error if another caller
// received a different ID.
func (p *outcomes) record(order, id string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if before, known := p.ids[order]; known && before != id || id == "" {
		return fmt.Errorf("%s is the generation %q, and it was reported as %q", order, before, id)
	}
	p.ids[order] = id
	return nil
}

func (p *outcomes) count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.ids)
}
