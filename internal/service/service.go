// Package service is the contract's three services: it translates between the words
// of the contract and those of the catalog, errors included, and nothing more.
//
// A handler reads as parse, call, convert. The hard parts are elsewhere: money and
// bytes in package catalog, polling in package watch.
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
	"github.com/easel-grpc/easel/internal/orders"
	"github.com/easel-grpc/easel/internal/watch"
)

// How long a caller may take nothing while something waits for it, over gRPC and over REST.
const (
	DefaultSendTimeout     = 30 * time.Second
	DefaultDownloadTimeout = 2 * time.Minute // of the bytes of a result: a caller may pause on purpose
)

// Config has the dependencies and limits of the services.
type Config struct {
	Catalog *catalog.Client // required
	Hub     *watch.Hub      // required

	// Orders takes orders through the ledger. Required.
	Orders *orders.Orders

	// Contents are the results. Nil reads them from the catalog alone.
	Contents *content.Results

	// Auth is the configuration of authentication. New sets its Catalog.
	Auth auth.Config

	// MaxInputs is the maximum size of the inputs of a request as JSON, in bytes. Zero means [DefaultMaxInputs].
	MaxInputs int
	// MaxStreamAge ends a watch after about this time, so that callers spread over
	// replicas again. 0 = never.
	MaxStreamAge time.Duration
	// SendTimeout is how long a watch waits for a caller that takes no message. 0 = 30 s.
	SendTimeout time.Duration
	// DownloadTimeout is the same for a download, which may stall on purpose. 0 = 2 min.
	DownloadTimeout time.Duration

	// Seed is that of the jitter: when streams end, and when their callers come back.
	// 0 = random.
	Seed uint64
}

// Service is the three services of the contract.
type Service struct {
	*auth.Authenticator

	cfg    Config
	copies *modelCache
	askAt  atomic.Int64 // time before which no open watch asks the ledger, in Unix nanoseconds

	mu     sync.Mutex
	random *rand.Rand // of the jitter
}

// closing is why the server ends a stream before its goal.
type closing struct {
	reason easelv1.StreamClosingReason
	delay  time.Duration // before the caller comes back
}

func (c *closing) Error() string {
	if c.reason == easelv1.StreamClosingReason_STREAM_CLOSING_REASON_DRAINING {
		return "the server is going down"
	}
	return "the stream has reached its maximum age, or the token or client certificate of its caller has expired"
}

// below draws from 0 up to limit.
func (s *Service) below(limit time.Duration) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return time.Duration(s.random.Float64() * float64(limit))
}

// New makes the services.
func New(cfg Config) (*Service, error) {
	if cfg.Catalog == nil || cfg.Hub == nil || cfg.Orders == nil {
		return nil, errors.New("service: Catalog, Hub and Orders are required")
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
	s := &Service{Authenticator: auth.New(cfg.Auth), cfg: cfg, random: rand.New(rand.NewPCG(cfg.Seed, 0))}
	s.copies = newModelCache(cfg.Catalog, copyCapacity)
	return s, nil
}

// Register adds the services to a server.
func (s *Service) Register(r grpc.ServiceRegistrar) {
	easelv1.RegisterAccountServiceServer(r, &accounts{Service: s})
	easelv1.RegisterModelServiceServer(r, &models{Service: s})
	easelv1.RegisterGenerationServiceServer(r, &generations{Service: s})
}

// Drain tells every open watch and wait that the server is going down, and ends them.
// Downloads go on: the server's own deadline ends those that are not done by then.
func (s *Service) Drain() { s.cfg.Hub.Drain() }

// Close ends the reads in the background, and waits for them. The server must have stopped: a later call
// that has to read is refused.
func (s *Service) Close() { s.copies.close() }

// until is when a watch that begins now reaches its maximum age, or its caller's token ends; zero: never. The age is up to a
// tenth less, so that streams that began together do not end together.
func (s *Service) until(ctx context.Context) (end time.Time) {
	if s.cfg.MaxStreamAge > 0 {
		end = time.Now().Add(s.cfg.MaxStreamAge - s.below(s.cfg.MaxStreamAge/10))
	}
	if proved := auth.Of(ctx).Until(); end.IsZero() || !proved.IsZero() && proved.Before(end) {
		end = proved
	}
	return end
}

// closes translates the hub's end of a watch before its goal. The delay is random, so that callers whose
// streams end together do not reconnect together. Any other error stays as it is.
func (s *Service) closes(err error) error {
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
	end.delay = retryDelay/2 + s.below(2*retryDelay)
	return end
}
