//go:build unix

package torture

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/catalog"
	"github.com/easel-grpc/easel/internal/proctest"
	"github.com/easel-grpc/easel/internal/promises"
)

const fleetRate = 5 // maximum number of polls per second by all replicas together

// stubCatalog is a catalog with generations whose states the test sets. It records the time of each request.
type stubCatalog struct {
	mu     sync.Mutex
	states map[string]string
	asked  []time.Time
}

func (m *stubCatalog) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.asked = append(m.asked, time.Now())
	_, id, _ := strings.Cut(r.URL.Path, "/generations")
	var body any
	if id = strings.Trim(id, "/"); id != "" {
		state, ok := m.states[id]
		if !ok {
			http.NotFound(w, r)
			return
		}
		body = entryOf(id, state)
	} else {
		list := []any{}
		for id, state := range m.states {
			list = append(list, entryOf(id, state))
		}
		body = list
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(body)
}

func entryOf(id, state string) map[string]any {
	entry := map[string]any{"id": id, "status": state, "modelId": "m"}
	if state == "succeeded" {
		entry["contentUrl"] = "/content"
	}
	return entry
}

func (m *stubCatalog) set(state string, ids ...string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, id := range ids {
		m.states[id] = state
	}
}

// requestsSince returns the number of requests that arrived at or after the given time.
func (m *stubCatalog) requestsSince(at time.Time) (n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, one := range m.asked {
		if !one.Before(at) {
			n++
		}
	}
	return n
}

// fleet is a group of replicas with the same catalog and the same PostgreSQL server. Each replica connects to
// PostgreSQL through its own proxy. All replicas connect to the catalog through one shared proxy.
type fleet struct {
	t        *testing.T
	postgres *proctest.Postgres
	url      *url.URL // URL of the ledger
	ledgers  []*proctest.Wire
	upstream *proctest.Wire
	meter    *stubCatalog
	ids      []string
	record   *promises.Record
	watchers []*watcher
	work     sync.WaitGroup
	began    time.Time
	starts   int // number of replica starts, including restarts

	mu       sync.Mutex
	replicas []*proctest.Process
	conns    []*grpc.ClientConn
}

// startFleet starts replicas, generations and watches. It waits until the generations are polled.
func startFleet(t *testing.T, replicas int) *fleet {
	t.Helper()
	f := &fleet{
		t: t, postgres: proctest.StartPostgres(t), meter: &stubCatalog{states: map[string]string{}}, record: &promises.Record{Begin: time.Now()},
		ledgers: make([]*proctest.Wire, replicas), replicas: make([]*proctest.Process, replicas), conns: make([]*grpc.ClientConn, replicas), began: time.Now(),
	}
	f.useLedger(f.postgres.Database(t))
	for i := range max(min(*watchesWanted/5, 1000), 1) {
		f.ids = append(f.ids, fmt.Sprintf("generation-%04d", i))
	}
	f.meter.set("queued", f.ids...)
	site := httptest.NewServer(f.meter)
	t.Cleanup(site.Close)
	f.upstream = proctest.NewWire(t, site.Listener.Addr().String())
	for i := range replicas {
		f.start(i)
	}
	t.Cleanup(func() {
		for i := range replicas {
			f.kill(i)
		}
		f.work.Wait()
	})
	f.startWatches(*watchesWanted)
	before := time.Now()
	awaitCondition(t, "polls", func() bool { return f.meter.requestsSince(before) > 2 })
	return f
}

// useLedger sets the ledger URL of replicas that are started later.
func (f *fleet) useLedger(ledger string) {
	f.t.Helper()
	var err error
	if f.url, err = url.Parse(ledger); err != nil {
		f.t.Fatal(err)
	}
	for i := range f.ledgers {
		f.ledgers[i] = proctest.NewWire(f.t, f.url.Host)
	}
}

// start starts the i-th replica.
func (f *fleet) start(i int) {
	f.t.Helper()
	through := *f.url
	through.Host = f.ledgers[i].Address
	p := proctest.Serve(f.t, before(f.upstream.Address).With(proctest.Settings{
		"EASEL_LOG_LEVEL": "debug", "EASEL_CALLER_STREAMS": "20000", "EASEL_POLL_RATE": fmt.Sprint(fleetRate), "EASEL_LEDGER_URL": through.String(),
	}))
	conn := proctest.Dial(f.t, p.GRPC)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.replicas[i], f.conns[i] = p, conn
	f.starts++
}

func (f *fleet) kill(i int) {
	f.mu.Lock()
	p, conn := f.replicas[i], f.conns[i]
	f.mu.Unlock()
	p.Kill()
	conn.Close()
}

func (f *fleet) signal(p *proctest.Process, s syscall.Signal) {
	f.t.Helper()
	if err := p.Signal(s); err != nil {
		f.t.Fatal(err)
	}
}

func (f *fleet) client(i int) easelv1.GenerationServiceClient {
	f.mu.Lock()
	defer f.mu.Unlock()
	return easelv1.NewGenerationServiceClient(f.conns[i%len(f.conns)])
}

// watcher watches a generation until the generation has ended. After an error, it reconnects to another replica.
type watcher struct {
	fleet *fleet
	id    string
	name  string

	mu          sync.Mutex
	on          int // index of the replica to which the latest stream was opened
	stream      int
	etag        string
	states      int // number of states that the watcher has received
	over        bool
	unreachable bool // whether a heartbeat has reported that the catalog is unreachable
}

// startWatches starts n watches, which are distributed over generations and replicas.
func (f *fleet) startWatches(n int) {
	ctx := proctest.Bearing(f.t.Context(), key)
	for i := range n {
		w := &watcher{fleet: f, id: f.ids[i%len(f.ids)], name: fmt.Sprint("fleet.", i)}
		f.watchers = append(f.watchers, w)
		f.work.Go(func() {
			for at := i / len(f.ids); ctx.Err() == nil && !w.watchOnce(ctx, at%len(f.replicas)); at++ {
				pauseFor(ctx, 50*time.Millisecond+rand.N(200*time.Millisecond))
			}
		})
	}
	awaitCondition(f.t, "the first state of every watch", func() bool { return f.countWatchers(func(w *watcher) bool { return w.states > 0 }) == n })
}

func (w *watcher) note(e promises.Event) {
	e.Actor, e.Generation, e.Stream = w.name, w.id, w.stream
	w.fleet.record.Add(e)
}

// watchOnce opens a stream to a replica and reads it until the stream ends. It reports whether the generation has
// ended.
func (w *watcher) watchOnce(ctx context.Context, replica int) bool {
	w.mu.Lock()
	w.on = replica
	w.stream++
	w.note(promises.Event{Kind: promises.Opened, Etag: w.etag})
	request := &easelv1.WatchGenerationRequest{GenerationId: w.id, KnownEtag: w.etag, HeartbeatInterval: durationpb.New(5 * time.Second)}
	w.mu.Unlock()
	stream, err := w.fleet.client(replica).WatchGeneration(ctx, request)
	for err == nil {
		var m *easelv1.WatchGenerationResponse
		if m, err = stream.Recv(); err == nil {
			w.recordMessage(m)
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.over = errors.Is(err, io.EOF); w.over {
		w.note(promises.Event{Kind: promises.EndedOK})
	}
	return w.over
}

// recordMessage records a message that the watcher has received.
func (w *watcher) recordMessage(m *easelv1.WatchGenerationResponse) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if m.GetHeartbeat().GetUpstreamCondition() == easelv1.UpstreamCondition_UPSTREAM_CONDITION_UNREACHABLE {
		w.unreachable = true
	}
	g := m.GetUpdate().GetGeneration()
	if g == nil {
		return
	}
	w.etag = g.GetEtag()
	w.states++
	w.note(promises.Event{Kind: promises.Updated, Etag: w.etag, State: g.GetState()})
	if promises.IsEnd(g.GetState()) {
		w.note(promises.Event{Kind: promises.Done, State: g.GetState()})
	}
}

// countWatchers returns the number of watchers for which isCounted returns true.
func (f *fleet) countWatchers(isCounted func(*watcher) bool) (n int) {
	for _, w := range f.watchers {
		w.mu.Lock()
		if isCounted(w) {
			n++
		}
		w.mu.Unlock()
	}
	return n
}

// awaitChange sets the state of all generations to running, and waits until every watch has received the new state. If
// this takes too long, the test fails. The string situation appears in the failure message.
func (f *fleet) awaitChange(situation string) {
	f.t.Helper()
	f.meter.set("running", f.ids...)
	awaitCondition(f.t, "the change "+situation, func() bool { return f.countWatchers(func(w *watcher) bool { return w.states > 1 }) == len(f.watchers) })
}

// readGeneration calls GetGeneration at the first replica and returns the error. The replica must request the
// generation from the catalog. The call has a timeout of one second. It fails the test if it takes longer than 1.5
// seconds.
func (f *fleet) readGeneration() error {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(proctest.Bearing(f.t.Context(), key), time.Second)
	defer cancel()
	began := time.Now()
	_, err := f.client(0).GetGeneration(ctx, &easelv1.GetGenerationRequest{GenerationId: f.ids[0], MaxStaleness: durationpb.New(0)})
	if took := time.Since(began); took > 1500*time.Millisecond {
		f.t.Errorf("a read took %v and returned %v", took, status.Code(err))
	}
	return err
}

// endGenerations sets all generations to succeeded, and waits until every watch has ended. Then it checks the guarantees in
// package promises against the recorded events, and checks that the replicas did not exceed the poll rate.
func (f *fleet) endGenerations() {
	f.t.Helper()
	f.meter.set("succeeded", f.ids...)
	awaitCondition(f.t, "the terminal state in every watch", func() bool { return f.countWatchers(func(w *watcher) bool { return w.over }) == len(f.watchers) })
	run := promises.Run{Events: f.record.Sorted(), Truth: map[string]promises.Truth{}}
	for _, id := range f.ids {
		run.Truth[id] = promises.Truth{Owner: "fleet", State: catalog.StateSucceeded}
	}
	for _, b := range promises.Check(promises.All, &run) {
		f.t.Error(b)
	}
	took := time.Since(f.began)
	late := f.starts * int(renewal.Seconds()) // seconds in which the replicas may exceed the poll rate, because not all of them know about a new replica yet
	n, most := f.meter.requestsSince(f.began), fleetRate*(took.Seconds()+float64(late)+1)
	f.t.Logf("%d watches of %d generations, %d streams; %d requests in %.0f s, where %.0f are allowed",
		len(f.watchers), len(f.ids), f.streamCount(), n, took.Seconds(), most)
	if float64(n) > most {
		f.t.Errorf("%d requests in %v exceed the poll rate", n, took)
	}
}

// streamCount returns the number of streams that the watchers have opened.
func (f *fleet) streamCount() (n int) {
	f.countWatchers(func(w *watcher) bool { n += w.stream; return true })
	return n
}
