package sandbox

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"
)

// BasePath is the path part of the catalog's base address. [Sandbox.ServeHTTP] answers below it and
// nowhere else.
const BasePath = "/api/v1/api/catalog"

// Config says how a sandbox behaves. The zero value is a private catalog in memory without limits and
// faults.
type Config struct {
	// Path is the SQLite file. Empty means a private database in memory that ends with the sandbox.
	// One sandbox at a time may have a file open: [Open] refuses a second one, in whatever process. A file
	// named like it with "-lock" at the end stands beside it for that.
	Path string
	// Seed is the seed of ids, API keys, durations and random failures. 0 means a random seed.
	Seed uint64
	// Speed divides the duration of every generation and the refund delay. 0 means 1.
	Speed float64
	// FailureRate is the share of generations that fail at random, from 0 to 1.
	FailureRate float64
	// DailyCapCents is the daily cap of API keys that are created without one. 0 means no cap.
	DailyCapCents int64
	// RateLimit is the number of requests a second that one API key may make. 0 means no limit.
	RateLimit float64
	// RateBurst is the size of the bucket behind RateLimit. 0 means RateLimit, rounded up.
	RateBurst int
	// RateRoute limits one route alone, such as "POST /generations". Empty limits every route together.
	RateRoute string
	// RefundDelay is the time from "failed" to "refunded" in dialects that show both. 0 means 2 s.
	RefundDelay time.Duration
	// Workers is the number of results that are produced at the same time. 0 means 2.
	Workers int
	// Dialect picks the shapes that the specification leaves open. The zero value is the default dialect.
	Dialect Dialect
	// Repeats says how the catalog treats a repeated Idempotency-Key. The zero value keeps the keys by
	// account and checks them first.
	Repeats Repeats
	// Now is the calendar: the day of a daily cap and the times in records. Nil means [time.Now].
	// Timers and durations do not use it.
	Now func() time.Time
	// Logger logs internal errors. Nil means nothing is logged.
	Logger *slog.Logger
}

// Repeats are ways in which real catalogs treat a repeated Idempotency-Key. The specification says only
// that it is not charged twice.
type Repeats struct {
	// PerAPIKey keeps idempotency keys by API key: a repeat under another API key of the same account is a
	// new order.
	PerAPIKey bool
	// MoneyFirst checks the balance and the daily cap before the idempotency key: a repeat is refused where
	// its own charge has taken the last money.
	MoneyFirst bool
	// Forget is how long an idempotency key is kept: a repeat after that is a new order. 0 means for ever.
	Forget time.Duration
}

func (c Config) withDefaults() Config {
	c.Speed = cmp.Or(c.Speed, 1)
	c.RefundDelay = cmp.Or(c.RefundDelay, 2*time.Second)
	c.Workers = cmp.Or(c.Workers, 2)
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

func (c Config) validate() error {
	var faults []error
	check := func(ok bool, text string) {
		if !ok {
			faults = append(faults, errors.New("sandbox: "+text))
		}
	}
	check(c.Speed >= 0, "Speed must not be negative")
	check(c.FailureRate >= 0 && c.FailureRate <= 1, "FailureRate must be from 0 to 1")
	check(c.DailyCapCents >= 0, "DailyCapCents must not be negative")
	check(c.RateLimit >= 0 && c.RateBurst >= 0, "RateLimit and RateBurst must not be negative")
	check(c.RateRoute == "" || slices.Contains(routeTemplates(), c.RateRoute), "RateRoute must be a route")
	check(c.RefundDelay >= 0, "RefundDelay must not be negative")
	check(c.Repeats.Forget >= 0, "Repeats.Forget must not be negative")
	check(c.Workers >= 0, "Workers must not be negative")
	return errors.Join(faults...)
}

// Sandbox is one running catalog. All methods may be called at the same time.
type Sandbox struct {
	cfg    Config
	db     *store
	random *randomSource
	rate   *requestRate

	done  chan struct{}  // closed when the sandbox ends
	slots chan struct{}  // of the workers
	steps sync.WaitGroup // scheduled and running
	close func() error

	mu       sync.Mutex
	faults   []*Injected // in place
	requests map[string]int
}

// Open starts a sandbox. It resumes the generations that an earlier process left in the file: overdue ones
// end at once, the others when they are due.
func Open(cfg Config) (*Sandbox, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	db, err := openStore(cfg.Path)
	if err != nil {
		return nil, fmt.Errorf("sandbox: open database %s: %w", cfg.Path, err)
	}
	s := &Sandbox{
		cfg:      cfg,
		db:       db,
		rate:     newRequestRate(cfg.RateLimit, cfg.RateBurst),
		done:     make(chan struct{}),
		slots:    make(chan struct{}, cfg.Workers),
		requests: map[string]int{},
	}
	s.close = sync.OnceValue(s.stop)
	if err := s.resumeSteps(); err != nil {
		return nil, errors.Join(fmt.Errorf("sandbox: recover renders: %w", err), s.Close())
	}
	return s, nil
}

// Close ends the background work, the waits of faults, and the database. Unfinished generations stay
// queued in the file. No goroutine of the sandbox is left when it returns; running requests get an error.
// Closing twice is harmless.
func (s *Sandbox) Close() error { return s.close() }

func (s *Sandbox) stop() error {
	s.mu.Lock()
	close(s.done)
	s.mu.Unlock()
	s.steps.Wait()
	return s.db.close()
}

func (s *Sandbox) ended() bool {
	select {
	case <-s.done:
		return true
	default:
		return false
	}
}

// ServeHTTP is the catalog: every route of the specification below [BasePath].
func (s *Sandbox) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	to := findRoute(r)
	s.count(to.template)
	serve := func(w http.ResponseWriter, r *http.Request) { s.serve(w, r, to) }
	if fault := s.fault(to.template, bearer(r)); fault != nil {
		s.applyFault(fault, w, r, serve)
		return
	}
	serve(w, r)
}

// Requests counts the received requests by method and route template, such as "POST /generations"
// or "GET /generations/{id}", also those that were refused or met a fault. Requests to no known route
// count as "unknown".
func (s *Sandbox) Requests() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.requests)
}

func (s *Sandbox) count(template string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests[template]++
}
