package admin

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/easel-grpc/easel/internal/ledger"
	"github.com/easel-grpc/easel/internal/limiter"
	"github.com/easel-grpc/easel/internal/watch"
)

// Status is the source of the status page, which shows operators the state of the server and its problems. All fields
// are required.
type Status struct {
	Version, Revision string    // version of the program
	Began             time.Time // start time of the program
	Hub               func() watch.Snapshot
	Limiters          func() map[string]limiter.State // states by tenant
	Usage             func() []Usage
	Ledger            func() ledger.Reading
	Copies            bool                       // whether results are copied into a store
	Serving           func(context.Context) bool // whether the server should receive calls
	Files             func() []string            // errors of files that could not be reloaded; nil if files are not reloaded
	Issuers           func() map[string]error    // errors of reading issuer keys, by issuer; nil if there are no issuers
}

// Usage is the usage of one limit on all callers.
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

// report is the body of /status.json. Members are camelCase, times RFC 3339 or null.
type report struct {
	Time        time.Time    `json:"time"`
	Version     string       `json:"version"`
	Revision    string       `json:"revision"`
	Began       time.Time    `json:"began"`
	Serving     bool         `json:"serving"`
	Concerns    []concern    `json:"concerns"` // empty if all is well
	Usage       []Usage      `json:"usage"`
	Watching    watching     `json:"watching"`
	Limiters    limiters     `json:"limiters"`
	Ledger      book         `json:"ledger"`
	Copies      *copies      `json:"copies,omitempty"` // absent without a store
	Keys        []apiKey     `json:"keys"`             // at most 100, with those in trouble first
	Generations []generation `json:"generations"`      // at most 100, sorted by the time since the last response

	brokenFiles   []string
	brokenIssuers map[string]error
}

// concern is a warning to the operator.
type concern struct {
	Grave bool   `json:"grave"`
	Text  string `json:"text"`
}

// watching contains totals of the hub.
type watching struct {
	Replicas       int     `json:"replicas"` // replicas that divide the rate of polls
	Keys           int     `json:"keys"`
	Active         int     `json:"active"`
	Watches        int     `json:"watches"`
	StalestSeconds float64 `json:"stalestSeconds"`
	Reads          int64   `json:"reads"`
	Sweeps         int64   `json:"sweeps"`
	Conflated      int64   `json:"conflated"`
	Regressed      int64   `json:"regressed"`
}

type apiKey struct {
	Key        string     `json:"key"` // fingerprint
	IsShared   bool       `json:"shared"`
	Condition  string     `json:"condition"`
	Failures   int        `json:"failures"`
	LastError  string     `json:"lastError"`
	Answered   *time.Time `json:"answered"`
	Ready      float64    `json:"ready"` // number of polls that may be sent immediately
	Rate       float64    `json:"rate"`
	Limit      float64    `json:"limit"`
	PausedTill *time.Time `json:"pausedTill"`
	Active     int        `json:"active"`
	Watches    int        `json:"watches"`
	Swept      *time.Time `json:"swept"`
}

type generation struct {
	Key       string     `json:"key"`
	ID        string     `json:"id"`
	Model     string     `json:"model"`
	State     string     `json:"state"`
	Began     time.Time  `json:"began"`
	Answered  *time.Time `json:"answered"`
	NextPoll  time.Time  `json:"nextPoll"`
	Watches   int        `json:"watches"`
	Failures  int        `json:"failures"`
	LastError string     `json:"lastError"`
}

// conditions are the names of conditions, as in metrics.
var conditions = [...]string{"unknown", "healthy", "throttled", "unreachable", "credential_rejected"}

// report returns the current report.
func (s Status) report(ctx context.Context) report {
	hub := s.Hub()
	r := report{
		Time: hub.Time.UTC(), Version: s.Version, Revision: s.Revision, Began: s.Began.UTC(), Serving: s.Serving(ctx),
		Watching: watchingOf(hub.Stats), Usage: append([]Usage{}, s.Usage()...), Keys: []apiKey{}, Generations: []generation{},
	}
	r.Limiters = limitersOf(s.Limiters(), hub.Time)
	known := s.Ledger()
	r.Ledger = bookOf(known, hub.Time)
	if s.Copies {
		r.Copies = copiesOf(known.Contents, hub.Time)
	}
	for _, k := range hub.Credentials {
		r.Keys = append(r.Keys, apiKeyOf(k, hub.Time))
	}
	for _, g := range hub.Generations {
		r.Generations = append(r.Generations, generationOf(g))
	}
	if s.Files != nil {
		r.brokenFiles = s.Files()
	}
	if s.Issuers != nil {
		r.brokenIssuers = s.Issuers()
	}
	r.Concerns = concernsOf(r, hub.Stats)
	return r
}

func watchingOf(s watch.Stats) watching {
	return watching{
		Replicas: s.Replicas, Keys: s.Pollers, Active: s.Active, Watches: s.Watches, StalestSeconds: s.Stalest.Seconds(), Reads: s.Reads, Sweeps: s.Sweeps,
		Conflated: s.Conflated, Regressed: s.Regressions,
	}
}

func apiKeyOf(k watch.PolledCredential, now time.Time) apiKey {
	shown := apiKey{
		Key: k.Tenant.Fingerprint(), IsShared: k.IsShared, Condition: conditions[k.Condition], Failures: k.Failures, LastError: k.LastError,
		Answered: when(k.Answered), Ready: k.Ready, Rate: k.Rate, Limit: k.Limit, Active: k.Active, Watches: k.Watches, Swept: when(k.Swept),
	}
	if k.Paused.After(now) {
		shown.PausedTill = when(k.Paused)
	}
	return shown
}

func generationOf(r watch.PolledGeneration) generation {
	state := "unknown"
	if r.State != 0 {
		state = r.State.String()
	}
	return generation{
		Key: r.Tenant.Fingerprint(), ID: r.ID, Model: r.Model, State: state, Began: r.Began.UTC(), Answered: when(r.Answered),
		NextPoll: r.NextPoll.UTC(), Watches: r.Watches, Failures: r.Failures, LastError: r.LastError,
	}
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
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	_ = encoder.Encode(s.report(r.Context())) // the client may have disconnected
}
