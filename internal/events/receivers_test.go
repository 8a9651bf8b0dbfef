package events_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/easel-grpc/easel/internal/events"
	"github.com/easel-grpc/easel/internal/jobs"
	"github.com/easel-grpc/easel/internal/ledger"
	"github.com/easel-grpc/easel/internal/ledger/lifecycle"
	"github.com/easel-grpc/easel/internal/proctest"
)

const (
	oneSecret   = "whsec_ZWFzZWwgZGV2IHNpZ25zIGV2ZXJ5IGV2ZW50IHdpdGggdGhpcw=="
	otherSecret = "whsec_YW5vdGhlciBzZWNyZXQgdGhhdCBzaWducyBmcm9tIG5vdyBvbg=="
)

// post is a request that reached a receiver.
type post struct {
	id, kind, subject string
	header            http.Header
	body              []byte
}

// receivers contains a test's receivers, keyed by host.
type receivers struct {
	t      *testing.T
	answer func(host string, p post) (status int, err error)

	mu  sync.Mutex
	all map[string][]post
}

func (r *receivers) RoundTrip(request *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(request.Body)
	if err != nil {
		return nil, err
	}
	document := struct{ ID, Type, Subject string }{}
	if err := json.Unmarshal(body, &document); err != nil {
		r.t.Error(err)
	}
	p := post{document.ID, strings.TrimPrefix(document.Type, "easel."), document.Subject, request.Header, body}
	status, err := r.answer(request.URL.Host, p)
	if request.Context().Err() != nil {
		return nil, request.Context().Err()
	}
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if status < 300 {
		r.all[request.URL.Host] = append(r.all[request.URL.Host], p)
	}
	return &http.Response{StatusCode: status, Body: http.NoBody, Header: http.Header{}, Request: request}, nil
}

func (r *receivers) got(host string) []post {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.all[host])
}

// office is a ledger with teams that receive events, in simulated time.
type office struct {
	*testing.T
	*receivers
	url     string // URL of the ledger
	ledger  *ledger.Ledger
	teams   *events.Teams
	secrets string // path of the file with the receivers' signing secrets
	sender  *events.Sender

	log *proctest.Output

	mu     sync.Mutex
	counts map[string]int64
}

// countLogged returns the number of times that the log contains text.
func (o *office) countLogged(text string) int { return strings.Count(o.log.String(), text) }

func inOffice(t *testing.T, test func(*office)) {
	synctest.Test(t, func(t *testing.T) {
		test(newOffice(t, "sqlite:"+filepath.Join(t.TempDir(), "ledger.db")))
	})
}

func newOffice(t *testing.T, url string) *office {
	o := &office{
		T: t, url: url, teams: &events.Teams{}, secrets: proctest.File(t, oneSecret+"\n"), log: proctest.NewOutput(), counts: map[string]int64{},
		receivers: &receivers{t: t, all: map[string][]post{}, answer: func(string, post) (int, error) { return http.StatusNoContent, nil }},
	}
	o.registerTeams("studio", "print")
	var err error
	o.ledger, err = ledger.Open(t.Context(), ledger.Config{URL: url, Catalog: "https://catalog.example", ResendWindow: time.Hour, RefundWindow: time.Hour, Events: &ledger.EventConfig{
		Teams: o.teams.Known, Generation: func(o ledger.Order, _ *string) string { return fmt.Sprintf(`{"generationId":%q}`, o.Generation) },
		Budget: func(ledger.Budget) string { return "{}" },
	}})
	if err != nil {
		t.Fatal(err)
	}
	o.sender = o.newSender(o.receivers)
	t.Cleanup(func() {
		if err := o.ledger.Close(); err != nil {
			t.Error(err)
		}
	})
	return o
}

// newSender returns a sender that uses the given transport. If the transport is nil, the sender
// uses the real network.
func (o *office) newSender(transport http.RoundTripper) *events.Sender {
	return events.New(events.Config{Ledger: o.ledger, Teams: o.teams, Logger: slog.New(slog.NewTextHandler(o.log, nil)), Transport: transport, Count: func(team, outcome string, n int64) {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.counts[team+" "+outcome] += n
	}})
}

// awaitJobs waits until all jobs that are due have run.
func (o *office) awaitJobs() {
	time.Sleep(100 * time.Millisecond)
	synctest.Wait()
}

func (o *office) count(what string) int64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.counts[what]
}

// registerTeams registers the given teams. Each team has a receiver with the team's name.
func (o *office) registerTeams(names ...string) {
	teams := map[string]events.Team{}
	for _, name := range names {
		teams[name] = events.Team{URL: "http://" + name + "/events", SecretFile: o.secrets}
	}
	o.teams.Set(teams)
}

// runSender runs a sender's jobs until stop is called.
func (o *office) runSender(sender *events.Sender) (stop func()) {
	ctx, cancel := context.WithCancel(o.Context())
	done := make(chan struct{})
	go func() {
		jobs.New(o.ledger, slog.New(slog.NewTextHandler(o.log, nil)), sender.Kinds()...).Run(ctx)
		close(done)
	}()
	return func() {
		cancel()
		<-done
	}
}

// placeOrder places an owner's order and records the given states of its generation.
func (o *office) placeOrder(owner, generation string, seen ...lifecycle.Status) {
	o.Helper()
	order, free, err := o.ledger.Write(o.Context(), ledger.Request{Namespace: owner, Owner: owner, Caller: owner + "-service", IdempotencyKey: generation, UpstreamKey: owner + generation, ModelID: "m", APIKey: "k", Digest: "d"})
	if err == nil && free {
		_, err = o.ledger.Conclude(o.Context(), order.ID, 1, ledger.Conclusion{Outcome: lifecycle.Named, Generation: generation})
	}
	for _, status := range seen {
		if err == nil {
			_, err = o.ledger.Observe(o.Context(), generation, ledger.Observation{Observation: lifecycle.Observation{Status: status}})
		}
	}
	if err != nil {
		o.Fatal(err)
	}
}

func kinds(all []post) (kinds []string) {
	for _, p := range all {
		kinds = append(kinds, p.subject+" "+p.kind)
	}
	return kinds
}
