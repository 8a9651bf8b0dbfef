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
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
)

const fleetRate = 5 // polls a second that all replicas together may make

// stubCatalog is a catalog whose generations end when the test ends them. It records every request.
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

// since counts the requests after the given time.
func (m *stubCatalog) since(at time.Time) (n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, one := range m.asked {
		if !one.Before(at) {
			n++
		}
	}
	return n
}

// fleet is replicas in front of one catalog, over one database.
type fleet struct {
	t        *testing.T
	site     *database
	meter    *stubCatalog
	upstream string
	ids      []string
	watchers []*watcher
	work     sync.WaitGroup
	began    time.Time

	starts int // number of starts of replicas

	mu       sync.Mutex
	replicas []*process
	conns    []*grpc.ClientConn
}

// startFleet starts the given numbers of replicas and generations.
func startFleet(t *testing.T, at *database, replicas, generations int) *fleet {
	t.Helper()
	f := &fleet{t: t, site: at, meter: &stubCatalog{states: map[string]string{}}}
	for i := range generations {
		f.ids = append(f.ids, fmt.Sprintf("generation-%04d", i))
	}
	f.meter.set("queued", f.ids...)
	catalog := httptest.NewServer(f.meter)
	t.Cleanup(catalog.Close)
	f.upstream = catalog.Listener.Addr().String()
	f.replicas, f.conns = make([]*process, replicas), make([]*grpc.ClientConn, replicas)
	for i := range replicas {
		f.start(i)
	}
	t.Cleanup(func() {
		for i := range replicas {
			f.kill(i)
		}
		f.work.Wait()
	})
	f.began = time.Now()
	return f
}

// start starts the i-th replica.
func (f *fleet) start(i int) {
	f.t.Helper()
	p, err := f.site.launch(f.t, i, f.upstream, "EASEL_LOG_LEVEL=debug", "EASEL_CALLER_STREAMS=20000", fmt.Sprint("EASEL_POLL_RATE=", fleetRate))
	if err != nil {
		f.t.Fatal(err)
	}
	conn, err := grpc.NewClient(p.found[0], grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		f.t.Fatal(err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.replicas[i], f.conns[i] = p, conn
	f.starts++
}

func (f *fleet) kill(i int) {
	f.mu.Lock()
	p, conn := f.replicas[i], f.conns[i]
	f.mu.Unlock()
	p.kill()
	conn.Close()
}

func (f *fleet) signal(p *process, s syscall.Signal) {
	f.t.Helper()
	if err := p.command.Process.Signal(s); err != nil {
		f.t.Fatal(err)
	}
}

func (f *fleet) conn(i int) *grpc.ClientConn {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.conns[i%len(f.conns)]
}

// watcher watches one generation until it is over, through whichever replica is there.
type watcher struct {
	id    string
	first int // replica

	mu     sync.Mutex
	on     int // replica of its newest stream; after an error the next one is used
	etags  []string
	states []easelv1.State
	at     []time.Time // arrival time of each state
	over   bool
	breaks int
	fault  error
}

// watch starts n watches, spread over the generations and the replicas.
func (f *fleet) watch(n int) {
	ctx := metadata.AppendToOutgoingContext(f.t.Context(), "authorization", "Bearer "+key)
	for i := range n {
		w := &watcher{id: f.ids[i%len(f.ids)], first: i / len(f.ids) % len(f.replicas)}
		f.watchers = append(f.watchers, w)
		f.work.Go(func() {
			for at := i / len(f.ids); ctx.Err() == nil && !w.watch(ctx, f.conn(at), at%len(f.replicas)); at++ {
				pauseFor(ctx, 50*time.Millisecond+rand.N(200*time.Millisecond))
			}
		})
	}
	eventually(f.t, "the first state of every watch", func() bool { return f.count(func(w *watcher) bool { return len(w.states) > 0 }) == n })
}

func pauseFor(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// watch opens one stream at a replica and reports whether the goal was reached.
func (w *watcher) watch(ctx context.Context, conn *grpc.ClientConn, replica int) bool {
	request := &easelv1.WatchGenerationRequest{GenerationId: w.id}
	w.mu.Lock()
	if w.on = replica; len(w.etags) > 0 {
		request.KnownEtag = w.etags[len(w.etags)-1]
	}
	w.mu.Unlock()
	stream, err := easelv1.NewGenerationServiceClient(conn).WatchGeneration(ctx, request)
	for err == nil {
		var m *easelv1.WatchGenerationResponse
		if m, err = stream.Recv(); err == nil && m.GetUpdate() != nil {
			w.take(m.GetUpdate().GetGeneration())
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.over = errors.Is(err, io.EOF)
	w.breaks++
	return w.over
}

// take records a state. It must be new and must not go backwards.
func (w *watcher) take(g *easelv1.Generation) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i, etag := range w.etags {
		if etag == g.GetEtag() {
			w.fault = errors.Join(w.fault, fmt.Errorf("%s is delivered twice as %v", w.id, w.states[i]))
		}
	}
	if n := len(w.states); n > 0 && g.GetState() < w.states[n-1] {
		w.fault = errors.Join(w.fault, fmt.Errorf("%s goes from %v to %v", w.id, w.states[n-1], g.GetState()))
	}
	w.etags, w.states, w.at = append(w.etags, g.GetEtag()), append(w.states, g.GetState()), append(w.at, time.Now())
}

// count counts the watchers that meet a condition.
func (f *fleet) count(is func(*watcher) bool) (n int) {
	for _, w := range f.watchers {
		w.mu.Lock()
		if is(w) {
			n++
		}
		w.mu.Unlock()
	}
	return n
}

// end ends all generations with success, waits until every watch has ended, and checks the
// promises.
func (f *fleet) end() {
	f.t.Helper()
	f.meter.set("succeeded", f.ids...)
	eventually(f.t, "the end of every watch", func() bool { return f.count(func(w *watcher) bool { return w.over }) == len(f.watchers) })
	breaks := 0
	for _, w := range f.watchers {
		if w.fault != nil || w.states[len(w.states)-1] != easelv1.State_STATE_SUCCEEDED {
			f.t.Errorf("%s: told %v, %v", w.id, w.states, w.fault)
		}
		breaks += w.breaks - 1
	}
	took := time.Since(f.began)
	late := f.starts * int(renewal.Seconds()) // until the others know about a started replica
	n, most := f.meter.since(f.began), fleetRate*(took.Seconds()+float64(late)+1)
	f.t.Logf("%d watches of %d generations told to the end, %d broken on the way; %d requests in %.0f s, where %.0f are allowed",
		len(f.watchers), len(f.ids), breaks, n, took.Seconds(), most)
	if float64(n) > most {
		f.t.Errorf("%d requests in %v", n, took)
	}
}
