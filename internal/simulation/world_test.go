package simulation

import (
	"context"
	"fmt"
	"hash/fnv"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/easel-grpc/easel/internal/promises"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/catalog"
	"github.com/easel-grpc/easel/internal/sandbox"
)

// Settings of the simulated servers. All of them except drainTimeout have the default values of 'easel serve'.
const (
	minInterval  = time.Second
	maxInterval  = 10 * time.Second
	pollRate     = 5.0
	refundWindow = 10 * time.Minute
	drainTimeout = 7 * time.Second
)

const catalogAddr = "catalog:80"

// world contains all components of a run and their users.
type world struct {
	plan    plan
	history *promises.Record
	traffic *traffic

	box       *sandbox.Sandbox
	site      *http.Server  // HTTP server in front of the sandbox
	address   sharedAddress // address of the HTTP server
	posts     atomic.Int64  // number of orders that reached the catalog
	replicas  []*replica
	tenants   []*tenant
	keys      map[string]string      // names of the tenants, keyed by API key or service token
	sharedKey atomic.Pointer[string] // current shared API key; nil before the first rotation
	rotated   atomic.Int64           // number of rotations of the shared API key

	account     *tenant   // tenant that owns the account of the shared API key; nil in a world without a ledger
	database    *database // the ledger's database
	callersFile string
	operator    *tenant
	receivers   *receivers // receivers of events

	ctx     context.Context // parent of the context of every call by a caller
	cancel  context.CancelFunc
	callers sync.WaitGroup
	trouble sync.WaitGroup
	ending  sync.WaitGroup // shutdowns in progress

	mu       sync.Mutex
	faults   []span
	problems []string       // unexpected errors, and contradictions between the ledger and the catalog; each of them fails the run
	busy     map[string]int // number of running callers, keyed by caller name
	traps    []*trap
}

// span is a fault that happened, with the period in which it was active.
type span struct {
	id       string
	from, to time.Duration
	reach    reach
	replica  string // name of the affected replica; empty means all
	tenant   string // name of the affected tenant; empty means all
	fired    int
}

// reach is the part of the system that a fault affects. Promises that depend on this part may be broken while the fault
// is active.
type reach int

const (
	reachOrders   reach = iota // affects the catalog's responses to orders
	reachCatalog               // affects all responses from the catalog
	reachReads                 // affects the catalog's responses to reads of generations
	reachCallers               // affects the network between a tenant and a replica
	reachReplica               // stops or freezes a process
	reachNobody                // affects only the caller for which the fault was planned, and no part of the system
	reachOutage                // makes the catalog unavailable
	reachRejected              // makes the catalog reject API keys
	reachLedger                // makes the ledger respond late or not at all
)

// tenant is a user of the replicas, with its credential and its connections.
type tenant struct {
	name, key string
	next      []string    // other API keys of the tenant's account, for later rotations
	endpoints []*endpoint // the tenant's connections, one to each replica
}

// endpoint is a tenant's connection to a replica.
type endpoint struct {
	link    *link
	replica *replica
	key     string // API key or service token; empty if the replica requires no credential
	conn    *grpc.ClientConn
	grpc    easelv1.GenerationServiceClient
	money   easelv1.AccountServiceClient
	http    *http.Client
}

// seed returns the seed for a part of the world. Each part has its own seed, so that its random numbers do not depend
// on the other parts.
func (w *world) seed(part string) uint64 {
	sum := fnv.New64a()
	fmt.Fprintf(sum, "%d %s", w.plan.Seed, part)
	return mix(sum.Sum64()) | 1 // never zero, because zero would select a random seed
}

// newWorld builds the world. It must be called in the synctest bubble, because everything that it creates belongs to
// the bubble.
func newWorld(p plan, dir string) (*world, error) {
	w := &world{plan: p, history: &promises.Record{Begin: time.Now()}, keys: map[string]string{}, busy: map[string]int{}}
	w.traffic = &traffic{history: w.history}
	w.ctx, w.cancel = context.WithCancel(context.Background())
	err := w.openCatalog()
	if err != nil {
		return nil, err
	}
	for i := range p.Replicas {
		r := &replica{world: w, name: string(rune('a' + i))}
		w.replicas = append(w.replicas, r)
	}
	if p.Ledger {
		if err := w.openLedger(dir); err != nil {
			return nil, err
		}
	}
	for _, name := range p.tenantNames() {
		if err := w.admit(name); err != nil {
			return nil, err
		}
	}
	if p.Ledger {
		if w.operator, err = w.addEndpoints(w.enlist(promises.Operator)); err != nil {
			return nil, err
		}
	}
	for i, r := range w.replicas {
		if err := r.boot(); err != nil {
			return nil, err
		}
		if w.plan.Ledger && i == 0 {
			if err := w.database.createJournal(); err != nil {
				return nil, err
			}
		}
	}
	return w, nil
}

func (w *world) openCatalog() (err error) {
	w.box, err = sandbox.Open(sandbox.Config{
		Seed: w.seed("sandbox"), Speed: w.plan.Speed, FailureRate: w.plan.Failures, Dialect: dialect(w.plan.Dialect),
		Repeats: sandbox.Repeats{PerAPIKey: w.plan.Rotates, Forget: w.plan.Forgets},
	})
	if err != nil {
		return err
	}
	w.site = &http.Server{Handler: w.countOrders(w.box), ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)}
	l := w.address.listen()
	go w.site.Serve(l)
	return nil
}

// countOrders returns a handler that counts the orders before it passes them to next.
func (w *world) countOrders(next http.Handler) http.Handler {
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost && r.URL.Path == sandbox.BasePath+"/generations" {
			w.posts.Add(1)
		}
		next.ServeHTTP(rw, r)
	})
}

func dialect(name string) sandbox.Dialect {
	for _, d := range sandbox.Dialects() {
		if d.Name == name {
			return d
		}
	}
	panic("simulation: unknown dialect " + name)
}

// admit creates a tenant with an endpoint for each replica. If the plan has a ledger, the tenants share one API key,
// and the first call also opens the account of this key.
func (w *world) admit(name string) (err error) {
	t := &tenant{}
	switch {
	case w.plan.Ledger && w.account == nil:
		if w.account, err = w.openAccount("held"); err == nil {
			t = w.enlist(name)
		}
	case w.plan.Ledger:
		t = w.enlist(name)
	default:
		t, err = w.openAccount(name)
	}
	if err != nil {
		return err
	}
	t, err = w.addEndpoints(t)
	w.tenants = append(w.tenants, t)
	return err
}

// addEndpoints adds an endpoint for each replica to a tenant.
func (w *world) addEndpoints(t *tenant) (*tenant, error) {
	for _, r := range w.replicas {
		d, err := w.door(r, t.key)
		if err != nil {
			return nil, err
		}
		t.endpoints = append(t.endpoints, d)
	}
	return t, nil
}

// openAccount creates a tenant that has an account with a balance in the catalog.
func (w *world) openAccount(name string) (*tenant, error) {
	key, err := w.box.CreateKey(w.ctx, sandbox.KeyConfig{
		Name: name, BalanceCents: 10_000_000, Key: fmt.Sprintf("%ssimulated_%s_%x", sandbox.KeyPrefix, name, w.seed("key "+name)),
	})
	if err != nil {
		return nil, err
	}
	w.keys[key] = name
	t := &tenant{name: name, key: key}
	if w.plan.Rotates {
		err = w.addKeys(t)
	}
	return t, err
}

// rotations is the number of additional API keys for each account in a plan with rotated API keys.
const rotations = 200

func (w *world) addKeys(t *tenant) error {
	for i := range rotations {
		key := fmt.Sprintf("%ssimulated_%s_%d_%x", sandbox.KeyPrefix, t.name, i, w.seed(fmt.Sprint("key ", t.name, i)))
		if _, err := w.box.AddKey(w.ctx, t.key, key); err != nil {
			return err
		}
		t.next = append(t.next, key)
		w.keys[key] = t.name
	}
	return nil
}

// currentSharedKey returns the current shared API key of the replicas.
func (w *world) currentSharedKey() catalog.Secret {
	if key := w.sharedKey.Load(); key != nil {
		return catalog.NewSecret(*key)
	}
	return catalog.NewSecret(w.holder().key)
}

func (w *world) door(r *replica, key string) (*endpoint, error) {
	d := &endpoint{link: newLink(), replica: r, key: key}
	if w.plan.Held && !w.plan.Ledger {
		d.key = ""
	}
	conn, err := grpc.NewClient("passthrough:///"+r.name,
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return d.link.dial(ctx, &r.grpc) }),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		// The backoff has no jitter, because the jitter's random numbers would not depend on the seed.
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: 250 * time.Millisecond, Multiplier: 1.6, MaxDelay: 5 * time.Second},
			MinConnectTimeout: 5 * time.Second,
		}),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 20 * time.Second, Timeout: 10 * time.Second}),
		grpc.WithIdleTimeout(2*time.Minute),
		// The flow-control windows have a fixed size, because they could otherwise grow to megabytes. The server could then
		// send megabytes to a caller that reads nothing, before a write blocks.
		grpc.WithStaticStreamWindowSize(64<<10), grpc.WithStaticConnWindowSize(1<<20),
		grpc.WithDisableRetry(),
	)
	if err != nil {
		return nil, err
	}
	d.conn, d.grpc, d.money = conn, easelv1.NewGenerationServiceClient(conn), easelv1.NewAccountServiceClient(conn)
	d.http = &http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return d.link.dial(ctx, &r.rest) },
	}}
	return d, nil
}

func (d *endpoint) close() {
	_ = d.conn.Close()
	d.http.CloseIdleConnections()
}

// stop stops everything, so that no goroutine remains in the bubble.
func (w *world) stop() {
	for _, r := range w.replicas {
		r.drain()
	}
	for _, t := range w.allTenants() {
		for _, d := range t.endpoints {
			d.close()
		}
	}
	w.ending.Wait()
	if w.database != nil {
		w.database.close()
	}
	_ = w.box.Close()
	_ = w.site.Close()
}

// recordProblem records a deviation from the plan.
func (w *world) recordProblem(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.problems = append(w.problems, fmt.Sprintf(format, args...))
}

// recordLeak records a leak: a secret in public data, or a connection to an unexpected address.
func (w *world) recordLeak(text string) {
	w.traffic.mu.Lock()
	defer w.traffic.mu.Unlock()
	w.traffic.leaks = append(w.traffic.leaks, text)
}

// logger returns a logger that searches each record for API keys and service tokens.
func (w *world) logger() *slog.Logger { return slog.New(secretSearch{w}) }

type secretSearch struct{ world *world }

func (s secretSearch) Enabled(context.Context, slog.Level) bool { return true }
func (s secretSearch) WithAttrs([]slog.Attr) slog.Handler       { return s }
func (s secretSearch) WithGroup(string) slog.Handler            { return s }

func (s secretSearch) Handle(_ context.Context, r slog.Record) error {
	r.Attrs(func(a slog.Attr) bool {
		if a.Value.Kind() != slog.KindInt64 && a.Value.Kind() != slog.KindDuration && s.world.holdsKey(a.Value.String()) {
			s.world.recordLeak("a key is in the log line " + r.Message + ", attribute " + a.Key)
		}
		return true
	})
	return nil
}

// holdsKey reports whether a text contains one of the simulated API keys or service tokens.
func (w *world) holdsKey(text string) bool {
	if !strings.Contains(text, "simulated_") { // all API keys and tokens contain this text
		return false
	}
	for key := range w.keys {
		if strings.Contains(text, key) {
			return true
		}
	}
	return false
}
