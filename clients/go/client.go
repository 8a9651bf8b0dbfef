// Package easel is a robust client of Easel: it orders paid renders once, watches them through whatever
// breaks, and downloads their files whole.
//
// Every function goes on until its context ends, so give it a deadline. It tries again after what a repeat
// may mend: when the server says so, else with back-off and jitter.
package easel

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
)

// Client has every call of the contract, and those of this package beside them. Many goroutines may
// share one.
type Client struct {
	easelv1.AccountServiceClient
	easelv1.GenerationServiceClient
	easelv1.ModelServiceClient
	close func() error
}

// Dial makes a client of the server at target, as grpc.NewClient reads it. The secret, an API key or a
// service token, goes with every call; an empty one does not. transport is credentials.NewTLS(nil) or
// insecure.NewCredentials(). The connection retries unary calls and finds out when the server is gone.
func Dial(target, secret string, transport credentials.TransportCredentials, more ...grpc.DialOption) (*Client, error) {
	options := []grpc.DialOption{
		grpc.WithTransportCredentials(transport),
		grpc.WithDefaultServiceConfig(easelv1.ServiceConfig),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 10 * time.Second, Timeout: 5 * time.Second}),
	}
	if secret != "" {
		options = append(options, grpc.WithPerRPCCredentials(bearer(secret)))
	}
	conn, err := grpc.NewClient(target, append(options, more...)...)
	if err != nil {
		return nil, err
	}
	client := New(conn)
	client.close = conn.Close
	return client, nil
}

// New makes a client over a connection that stays the caller's own.
func New(conn grpc.ClientConnInterface) *Client {
	return &Client{
		easelv1.NewAccountServiceClient(conn), easelv1.NewGenerationServiceClient(conn), easelv1.NewModelServiceClient(conn),
		func() error { return nil },
	}
}

// Close closes the connection of Dial.
func (c *Client) Close() error { return c.close() }

// Order places an order, and sends it again with the same idempotency_key until its outcome is known.
// Write the key down before: whoever sends the same request with it again gets the same render, and it
// is paid once. Where OrderOutcome of the error is OutcomeUnknown, the order may exist: keep the key.
func (c *Client) Order(ctx context.Context, request *easelv1.CreateGenerationRequest) (*easelv1.Generation, error) {
	if request.GetIdempotencyKey() == "" {
		return nil, status.Error(codes.InvalidArgument, "an order needs an idempotency_key that was written down before")
	}
	for attempt := 0; ; attempt++ {
		response, err := c.CreateGeneration(ctx, request)
		if err == nil {
			return response.GetGeneration(), nil
		}
		if !repeatHelps(err) {
			return nil, err
		}
		if err := pause(ctx, attempt, 0, err); err != nil {
			return nil, err
		}
	}
}

// Run orders, watches until the render is finished, and gives it: its text, or what to Download. A render
// that did not succeed comes with a *FailedError.
func (c *Client) Run(ctx context.Context, request *easelv1.CreateGenerationRequest) (*easelv1.Generation, error) {
	render, err := c.Order(ctx, request)
	if err != nil {
		return nil, err
	}
	for newer, err := range c.Watch(ctx, &easelv1.WatchGenerationRequest{GenerationId: render.GetGenerationId()}) {
		if err != nil {
			return render, err
		}
		render = newer
	}
	if render.GetState() != easelv1.State_STATE_SUCCEEDED {
		return render, &FailedError{render}
	}
	return render, nil
}

// FailedError is of a render that was paid and came to nothing, or was deleted.
type FailedError struct{ Generation *easelv1.Generation }

// Error implements error.
func (e *FailedError) Error() string {
	return fmt.Sprintf("%s: %s", e.Generation.GetState(), e.Generation.GetFailureMessage())
}

// longest is the most that back-off comes to, before jitter.
const longest = 10 * time.Second

// pause waits before the next attempt, as long as the server asks for and no less than back-off. It gives
// the error of the attempt where the context ends first, or the client was closed.
func pause(ctx context.Context, attempt int, told time.Duration, err error) error {
	if errors.Is(err, grpc.ErrClientConnClosing) { //nolint:staticcheck // its code alone can't be told from one that a repeat mends
		return err
	}
	delay := min(time.Second/2<<min(attempt, 8), longest)
	delay = delay/2 + rand.N(delay) //nolint:gosec // it spreads callers
	asked, _ := RetryDelay(err)
	timer := time.NewTimer(max(delay, asked, told))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%w, after %w", context.Cause(ctx), err)
	}
}

// bearer goes with every call, over the transport that the caller has chosen.
type bearer string

func (b bearer) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	return map[string]string{"authorization": "Bearer " + string(b)}, nil
}

func (bearer) RequireTransportSecurity() bool { return false }
