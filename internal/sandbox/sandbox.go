package sandbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// BasePath is the path of the catalog's base URL. [Sandbox.ServeHTTP] serves only paths below it.
const BasePath = "/api/v1/api/catalog"

const (
	// maxWorkers is the maximum number of results that are rendered concurrently.
	maxWorkers = 2

	headerTimeout  = 10 * time.Second
	idleTimeout    = 2 * time.Minute
	maxHeaderBytes = 32 << 10
)

// Config configures a sandbox. The zero value is a catalog in memory without limits or faults.
type Config struct {
	// Path is the path of the SQLite file. Only one sandbox can have the file open at a time. Empty means that the database is
	// in memory.
	Path string
	// Seed is the seed for random IDs, API keys, durations and failures. Zero means a random seed.
	Seed uint64
	// Speed divides render times and the refund delay. Zero means 1.
	Speed float64
	// FailureRate is the share of generations that fail at random, from 0 to 1.
	FailureRate float64
	// DailyCapCents is the daily cap of accounts for which [KeyConfig] specifies none. Zero means no cap.
	DailyCapCents int64
	// RateLimit is the maximum number of requests per second for each account. Zero means no limit.
	RateLimit float64
	// RefundDelay is the time after which the status of a generation changes from "failed" to "refunded", in dialects that use
	// both statuses. Zero means 2 s.
	RefundDelay time.Duration
	// Dialect selects the sandbox's behavior where the specification leaves it open.
	Dialect Dialect
	// Repeats determines how a repeated Idempotency-Key is handled.
	Repeats Repeats
	// Logger logs internal errors. Nil means that nothing is logged.
	Logger *slog.Logger
}

// Repeats determines how a repeated Idempotency-Key is handled. Real catalogs differ, because the specification only requires
// that a repeat is not charged again. With the zero value, the sandbox keeps Idempotency-Keys forever, separately for each
// account, and checks them before the balance.
type Repeats struct {
	// PerAPIKey means that idempotency keys are stored separately for each API key. A repeat with another API key of the same
	// account is then a new order.
	PerAPIKey bool
	// MoneyFirst means that the balance and the daily cap are checked before the idempotency key. A repeat is then rejected if
	// the account could not pay for a second order.
	MoneyFirst bool
	// Forget is the age at which an order's Idempotency-Key is forgotten, so that a repeat is a new order. Zero means never.
	Forget time.Duration
}

func (c Config) withDefaults() Config {
	c.Speed = cmp.Or(c.Speed, 1)
	c.RefundDelay = cmp.Or(c.RefundDelay, 2*time.Second)
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

// Sandbox is a running catalog. All methods may be called concurrently.
type Sandbox struct {
	cfg    Config
	db     *store
	mux    *http.ServeMux
	random *randomSource

	life  context.Context // canceled by Close
	end   context.CancelFunc
	slots chan struct{}  // limits concurrent renders to maxWorkers
	steps sync.WaitGroup // goroutines that change the states of generations, now or at a scheduled time
	close func() error

	mu       sync.Mutex
	faults   []*Injected // active faults
	requests map[string]int
	buckets  map[int64]*rate.Limiter // rate limiters, keyed by the row ID of the account
}

// Open starts a sandbox. It resumes the generations that an earlier process did not finish: overdue generations finish
// immediately, and the others when they are due.
func Open(cfg Config) (*Sandbox, error) {
	cfg = cfg.withDefaults()
	db, err := openStore(cfg.Path)
	if err != nil {
		return nil, fmt.Errorf("sandbox: open database %s: %w", cfg.Path, err)
	}
	s := &Sandbox{
		cfg:      cfg,
		db:       db,
		slots:    make(chan struct{}, maxWorkers),
		requests: map[string]int{},
		buckets:  map[int64]*rate.Limiter{},
	}
	s.life, s.end = context.WithCancel(context.Background())
	s.mux = s.newMux()
	s.close = sync.OnceValue(s.stop)
	if err := s.resumeSteps(); err != nil {
		return nil, errors.Join(fmt.Errorf("sandbox: recover renders: %w", err), s.Close())
	}
	return s, nil
}

// Close stops the background work, ends the delays of faults, and closes the database. Unfinished generations stay queued in
// the database file. Requests in flight fail. Close waits until the sandbox's own goroutines have returned. A second call
// returns the result of the first.
func (s *Sandbox) Close() error { return s.close() }

func (s *Sandbox) stop() error {
	s.mu.Lock()
	s.end()
	s.mu.Unlock()
	s.steps.Wait()
	return s.db.db.Close()
}

func (s *Sandbox) isClosed() bool { return s.life.Err() != nil }

// ServeHTTP serves the routes of the specification, which are below [BasePath].
func (s *Sandbox) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	template := s.template(r)
	if fault := s.nextFault(template, bearer(r)); fault != nil {
		s.applyFault(fault, w, r, s.mux.ServeHTTP)
		return
	}
	s.mux.ServeHTTP(w, r)
}

// Server returns an HTTP server for the catalog. If hasAdmin is true, it also serves the administration API, which requires
// no credential.
func (s *Sandbox) Server(hasAdmin bool) *http.Server {
	routes := http.NewServeMux()
	routes.Handle(BasePath+"/", s)
	if hasAdmin {
		routes.Handle(AdminPath, s.AdminHandler())
	}
	return &http.Server{
		Handler: routes, ReadHeaderTimeout: headerTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeaderBytes,
		ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError),
	}
}

// Requests returns a map from each route, such as "GET /generations/{id}" or "unknown", to the number of requests that it has
// received. The numbers include rejected requests, and requests that a fault affected.
func (s *Sandbox) Requests() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.requests)
}
