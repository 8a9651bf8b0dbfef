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

// Status is the source of the status page, which shows an operator whether all is well, and what is
// wrong. All of it is required.
type Status struct {
	Version, Revision string    // of the program
	Began             time.Time // when the program did
	Hub               func() watch.Snapshot
	Limiters          func() map[string]limiter.State // states by tenant
	Usage             func() []Usage
	Ledger            func(context.Context) ledger.Reading
	Copies            bool                       // results, into a store
	Serving           func(context.Context) bool // false where calls should not be sent here
	Files             func() []string            // what is wrong with files that could not be taken over; nil: none are read again
	Issuers           func() map[string]error    // why the keys of issuers can't be read, by issuer; nil: there are none
}

// Usage is how much of one of the limits for all callers together is used.
type Usage struct {
	Limit string `json:"name"` // "streams" or "calls"
	Used  int    `json:"used"`
	Max   int    `json:"max"`
}

// ready answers whether calls should be sent here.
func (s Status) ready(w http.ResponseWriter, r *http.Request) {
	if s.Serving(r.Context()) {
		writeText(w, http.StatusOK, "ready\n")
		return
	}
	writeText(w, http.StatusServiceUnavailable, "not ready\n")
}

// report is what /status.json answers. Members are camelCase, times RFC 3339 or null.
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
	Keys        []apiKey     `json:"keys"`             // at most 100, those in trouble first
	Generations []generation `json:"generations"`      // at most 100, the one that has waited longest first

	brokenFiles   []string
	brokenIssuers map[string]error
}

// concern is something that an operator should know, in a sentence.
type concern struct {
	Grave bool   `json:"grave"`
	Text  string `json:"text"`
}

// watching is the hub as a whole.
type watching struct {
	Replicas       int     `json:"replicas"` // replicas that divide the rate of polls
	Keys           int     `json:"keys"`
	Active         int     `json:"active"`
	Watches        int     `json:"watches"`
	StalestSeconds float64 `json:"stalestSeconds"`
	Reads          int64   `json:"reads"`
	Sweeps         int64   `json:"sweeps"`
	Unshared       int64   `json:"unshared"` // requests that as many pollers would have made
	Saved          int64   `json:"saved"`    // of those
	Conflated      int64   `json:"conflated"`
	Regressed      int64   `json:"regressed"`
}

type apiKey struct {
	Key        string     `json:"key"` // its fingerprint
	IsShared   bool       `json:"shared"`
	Condition  string     `json:"condition"`
	Failures   int        `json:"failures"`
	LastError  string     `json:"lastError"`
	Answered   *time.Time `json:"answered"`
	Ready      float64    `json:"ready"` // polls that may be made at once
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

// conditions are named as in metrics.
var conditions = [...]string{"unknown", "healthy", "throttled", "unreachable", "credential_rejected"}

// report reads everything now.
func (s Status) report(ctx context.Context) report {
	hub := s.Hub()
	r := report{
		Time: hub.Time.UTC(), Version: s.Version, Revision: s.Revision, Began: s.Began.UTC(), Serving: s.Serving(ctx),
		Watching: watchingOf(hub.Stats), Usage: append([]Usage{}, s.Usage()...), Keys: []apiKey{}, Generations: []generation{},
	}
	r.Limiters = limitersOf(s.Limiters(), hub.Time)
	known := s.Ledger(ctx)
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
	made := s.Reads + s.Sweeps
	return watching{
		Replicas: s.Replicas, Keys: s.Pollers, Active: s.Active, Watches: s.Watches, StalestSeconds: s.Stalest.Seconds(), Reads: s.Reads, Sweeps: s.Sweeps,
		Unshared: int64(s.Unshared), Saved: max(0, int64(s.Unshared)-made), Conflated: s.Conflated, Regressed: s.Regressions,
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

// when is nil for no time.
func when(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC()
	return &t
}

// serveReport answers with the report.
func (s Status) serveReport(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	_ = encoder.Encode(s.report(r.Context())) // a client that went away needs no answer
}
