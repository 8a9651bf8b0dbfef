package admin

import (
	"context"
	"net/http"
	"time"

	"github.com/easel-grpc/easel/internal/ledger"
	"github.com/easel-grpc/easel/internal/limiter"
	"github.com/easel-grpc/easel/internal/watch"
)

// Status provides the data of the status page, which shows operators the server's state and problems. All fields are
// required.
type Status struct {
	Version, Revision string    // version of the program
	Began             time.Time // start time of the program
	Hub               func() watch.Snapshot
	Limiters          func() map[string]limiter.State // limiter states by tenant
	Usage             func() []Usage
	Ledger            func() ledger.Reading
	Copies            bool                       // whether results are copied into a store
	Serving           func(context.Context) bool // whether the server should receive calls
	Problems          func() map[string][]error  // errors of reloading files by setting, and of reading keys under [Issuers]
}

// Issuers is the key in [Status.Problems] for errors of reading the issuers' keys.
const Issuers = "issuers"

// Usage is the current use of a limit for all callers together.
type Usage struct {
	Limit string `json:"name"` // "streams" or "calls"
	Used  int    `json:"used"`
	Max   int    `json:"max"`
}

// ready reports whether the server should receive calls.
func (s Status) ready(w http.ResponseWriter, r *http.Request) {
	if s.Serving(r.Context()) {
		writeText(w, http.StatusOK, "ready\n")
		return
	}
	writeText(w, http.StatusServiceUnavailable, "not ready\n")
}

// report is the body of /status.json. Members are camelCase, and times RFC 3339.
type report struct {
	Time        time.Time                `json:"time"`
	Version     string                   `json:"version"`
	Revision    string                   `json:"revision"`
	Began       time.Time                `json:"began"`
	Serving     bool                     `json:"serving"`
	Concerns    []concern                `json:"concerns"` // warnings; empty if all is well
	Usage       []Usage                  `json:"usage"`
	Watching    watching                 `json:"watching"`
	Limiters    limiters                 `json:"limiters"`
	Ledger      ledgerReport             `json:"ledger"`
	Copies      *copies                  `json:"copies,omitempty"` // absent if there is no store
	Keys        []watch.PolledCredential `json:"keys"`             // at most 100, unhealthy API keys first
	Generations []watch.PolledGeneration `json:"generations"`      // at most 100, sorted by the time since the last response
}

// watching contains totals of the hub.
type watching struct {
	watch.Stats

	StalestSeconds float64 `json:"stalestSeconds"`
}

// copies describes the copies of results in the report.
type copies struct {
	Waiting       int64      `json:"waiting"`
	OldestWaiting *time.Time `json:"oldestWaiting"`
	Failed        int64      `json:"failed"` // results whose copy is no longer retried
}

// report returns the current report.
func (s Status) report(ctx context.Context) report {
	hub, known := s.Hub(), s.Ledger()
	r := report{
		Time: hub.Time.UTC(), Version: s.Version, Revision: s.Revision, Began: s.Began.UTC(), Serving: s.Serving(ctx),
		Usage: append([]Usage{}, s.Usage()...), Watching: watching{hub.Stats, hub.Stats.Stalest.Seconds()},
		Limiters: limitersOf(s.Limiters(), hub.Time), Ledger: ledgerReportOf(known, hub.Time),
		Keys: append([]watch.PolledCredential{}, hub.Credentials...), Generations: append([]watch.PolledGeneration{}, hub.Generations...),
	}
	if s.Copies {
		c := known.Contents
		r.Copies = &copies{Waiting: c.Waiting, OldestWaiting: oldest(hub.Time, c.Waiting, c.Oldest), Failed: c.Failed}
	}
	r.Concerns = r.concerns(known, s.Problems())
	return r
}

// when returns nil for the zero time.
func when(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC()
	return &t
}

// serveReport responds with the report.
func (s Status) serveReport(w http.ResponseWriter, r *http.Request) {
	writeJSON(w, s.report(r.Context()))
}
