// Package service implements the three services of the contract. It converts requests, responses and errors between the
// contract and the other packages.
//
// A handler parses the request, calls another package and converts the result. The main logic is in other packages:
// orders sends orders and settles their costs, watch polls generations, and content opens results.
package service

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/auth"
	"github.com/easel-grpc/easel/internal/catalog"
	"github.com/easel-grpc/easel/internal/content"
	"github.com/easel-grpc/easel/internal/events"
	"github.com/easel-grpc/easel/internal/orders"
	"github.com/easel-grpc/easel/internal/watch"
)

// Default time limits for sending to a caller that does not read, over gRPC and REST.
const (
	DefaultSendTimeout     = 30 * time.Second
	DefaultDownloadTimeout = 2 * time.Minute // longer than DefaultSendTimeout, because callers may pause a download on purpose
)

// Config contains the dependencies and limits of the services.
type Config struct {
	Catalog *catalog.Client // required
	Hub     *watch.Hub      // required

	// Orders places orders through the ledger. Required.
	Orders *orders.Orders

	// Feed reads the events in the ledger. Required.
	Feed *events.Feed

	// Contents reads results. Nil means that results are read only from the catalog.
	Contents *content.Results

	// Auth is the configuration of authentication. The function New sets the field Catalog.
	Auth auth.Config

	// MaxInputs is the maximum size in bytes of a request's inputs, encoded as JSON. Zero means [DefaultMaxInputs].
	MaxInputs int
	// MaxStreamAge is the approximate maximum duration of a watch. It makes callers reconnect, so that load spreads
	// over the replicas. Zero means no limit.
	MaxStreamAge time.Duration
	// SendTimeout is the maximum time for which a watch waits for a caller that does not read. Zero means
	// [DefaultSendTimeout].
	SendTimeout time.Duration
	// DownloadTimeout is the maximum time for which a download waits for a caller that does not read. Zero means
	// [DefaultDownloadTimeout].
	DownloadTimeout time.Duration

	// Seed is the seed for the random parts of stream ages and reconnect delays. Zero means a random seed.
	Seed uint64
}

// Service implements the three services of the contract.
type Service struct {
	*auth.Authenticator

	cfg    Config
	copies *modelCache
	askAt  atomic.Int64 // earliest time at which open watches may query the ledger again, in Unix nanoseconds

	draining chan struct{} // closed by Drain
	drain    sync.Once

	mu     sync.Mutex
	random *rand.Rand // source of random durations
}

// closing is the error for a stream that the server closes early. The reason is a shutdown, the age of the stream, or
// an expired credential of the caller.
type closing struct {
	reason easelv1.StreamClosingReason
	delay  time.Duration // time that the caller should wait before it reconnects
}

func (c *closing) Error() string {
	if c.reason == easelv1.StreamClosingReason_STREAM_CLOSING_REASON_DRAINING {
		return "the server is shutting down"
	}
	return "the stream has reached its maximum age, or the token or client certificate of its caller has expired"
}

// randomDelay returns a random duration in the half-open interval [0, limit).
func (s *Service) randomDelay(limit time.Duration) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return time.Duration(s.random.Float64() * float64(limit))
}

// New returns a Service with the given configuration.
func New(cfg Config) (*Service, error) {
	if cfg.Catalog == nil || cfg.Hub == nil || cfg.Orders == nil || cfg.Feed == nil {
		return nil, errors.New("service: Catalog, Hub, Orders and Feed are required")
	}
	if cfg.Contents == nil {
		cfg.Contents = content.New(content.Config{Catalog: cfg.Catalog})
	}
	if cfg.SendTimeout == 0 {
		cfg.SendTimeout = DefaultSendTimeout
	}
	if cfg.DownloadTimeout == 0 {
		cfg.DownloadTimeout = DefaultDownloadTimeout
	}
	if cfg.Seed == 0 {
		cfg.Seed = rand.Uint64()
	}
	cfg.Auth.Catalog = cfg.Catalog
	s := &Service{Authenticator: auth.New(cfg.Auth), cfg: cfg, random: rand.New(rand.NewPCG(cfg.Seed, 0)), draining: make(chan struct{})}
	s.copies = newModelCache(cfg.Catalog, copyCapacity)
	return s, nil
}

// Register adds the services to a server.
func (s *Service) Register(r grpc.ServiceRegistrar) {
	easelv1.RegisterAccountServiceServer(r, &accounts{Service: s})
	easelv1.RegisterModelServiceServer(r, &models{Service: s})
	easelv1.RegisterGenerationServiceServer(r, &generations{Service: s})
}

// Drain closes every open watch, wait and event stream, and notifies its caller of the shutdown. Downloads continue
// until the server's drain timeout.
func (s *Service) Drain() {
	s.drain.Do(func() { close(s.draining) })
	s.cfg.Hub.Drain()
}

// Close cancels the background reads of models. Call it only after the server has stopped: after Close, an RPC fails if
// it needs such a read.
func (s *Service) Close() { s.copies.close() }

// watchEnd returns the time at which a watch that starts now must end, or zero if it need not end. A watch ends at its
// maximum age or when the caller's credential expires, whichever is earlier. The maximum age is [Config.MaxStreamAge],
// reduced by up to a tenth at random, so that streams that started together do not end together.
func (s *Service) watchEnd(ctx context.Context) (end time.Time) {
	if s.cfg.MaxStreamAge > 0 {
		end = time.Now().Add(s.cfg.MaxStreamAge - s.randomDelay(s.cfg.MaxStreamAge/10))
	}
	if proved := auth.Of(ctx).Until(); end.IsZero() || !proved.IsZero() && proved.Before(end) {
		end = proved
	}
	return end
}

// convertWatchError converts an error with which the hub has ended a watch early to the error for the caller. It
// returns other errors unchanged. The reconnect delay is random, so that callers whose streams end together do not
// reconnect together.
func (s *Service) convertWatchError(err error) error {
	end := &closing{}
	switch {
	case errors.Is(err, watch.ErrStalled):
		return tooSlow(s.cfg.SendTimeout)
	case errors.Is(err, watch.ErrDraining):
		end.reason = easelv1.StreamClosingReason_STREAM_CLOSING_REASON_DRAINING
	case errors.Is(err, watch.ErrExpired):
		end.reason = easelv1.StreamClosingReason_STREAM_CLOSING_REASON_MAX_AGE
	default:
		return err
	}
	end.delay = retryDelay/2 + s.randomDelay(2*retryDelay)
	return end
}
