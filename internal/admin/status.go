package admin

import (
	"context"
	"net/http"
	"time"

	"github.com/easel-grpc/easel/internal/catalog"
	"github.com/easel-grpc/easel/internal/ledger"
	"github.com/easel-grpc/easel/internal/limiter"
	"github.com/easel-grpc/easel/internal/watch"
)

// Status provides the data of the status page, which shows the server's state and problems to operators. All fields are
// required.
type Status struct {
	Version, Revision string    // version and source revision of the program
	Began             time.Time // start time of the program
	Hub               func() watch.Snapshot
	Limiters          func() map[string]limiter.State // returns the states of the limiters, keyed by [catalog.Tenant]
	Usage             func() []Usage
	Ledger            func() ledger.Reading
	Copies            bool                       // whether results are copied into a store
	Serving           func(context.Context) bool // reports whether the server should receive calls
	Problems          func() map[string][]error  // returns the errors from the last reload, keyed by setting; the key [Issuers] has the errors from loading the token issuers' keys
}

// Issuers is the key in [Status.Problems] for errors from loading the token issuers' keys.
const Issuers = "issuers"

// Usage is the current use of a limit by all callers together.
type Usage struct {
	Limit string `json:"name"` // "streams" or "calls"
	Used  int    `json:"used"`
	Max   int    `json:"max"`
}

// serveReady serves GET /readyz. It reports whether the server should receive calls.
func (s Status) serveReady(w http.ResponseWriter, r *http.Request) {
	if s.Serving(r.Context()) {
		writeText(w, http.StatusOK, "ready\n")
		return
	}
	writeText(w, http.StatusServiceUnavailable, "not ready\n")
}

// report is the body of /status.json. Members are camelCase, times are RFC 3339, and durations are in nanoseconds.
type report struct {
	Time        time.Time                `json:"time"`
	Version     string                   `json:"version"`
	Revision    string                   `json:"revision"`
	Began       time.Time                `json:"began"`
	Serving     bool                     `json:"serving"`
	Concerns    []concern                `json:"concerns"` // warnings; empty if all is well
	Usage       []Usage                  `json:"usage"`
	Watching    watch.Stats              `json:"watching"`
	Limiters    limiters                 `json:"limiters"`
	Ledger      ledger.Reading           `json:"ledger"`
	LedgerMeans string                   `json:"ledgerMeans"` // description of the ledger's durability, for display
	Copies      bool                     `json:"copies"`      // whether results are copied into a store
	Keys        []watch.PolledCredential `json:"keys"`        // at most 100 API keys, unhealthy ones first
	Generations []watch.PolledGeneration `json:"generations"` // at most 100 generations, starting with those that have waited longest for a response
}

// limiters contains the states of the limiters that currently reject or delay requests. The keys are fingerprints of API
// keys.
type limiters map[string]limiter.State

// report collects the data for /status.json.
func (s Status) report(ctx context.Context) report {
	hub, known := s.Hub(), s.Ledger()
	r := report{
		Time: hub.Time.UTC(), Version: s.Version, Revision: s.Revision, Began: s.Began.UTC(), Serving: s.Serving(ctx),
		Usage: append([]Usage{}, s.Usage()...), Watching: hub.Stats, Limiters: limiters{}, Ledger: known, LedgerMeans: ledger.Meaning(known.Kind), Copies: s.Copies,
		Keys: append([]watch.PolledCredential{}, hub.Credentials...), Generations: append([]watch.PolledGeneration{}, hub.Generations...),
	}
	for key, state := range s.Limiters() {
		if state.Closed || state.Capped || len(state.Waiting) > 0 {
			r.Limiters[catalog.Tenant(key).Fingerprint()] = state
		}
	}
	r.Concerns = r.concerns(s.Problems())
	return r
}

// serveReport serves /status.json.
func (s Status) serveReport(w http.ResponseWriter, r *http.Request) {
	writeJSON(w, s.report(r.Context()))
}
