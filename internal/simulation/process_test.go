package simulation

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/easel-grpc/easel/internal/catalog"
	"github.com/easel-grpc/easel/internal/events"
	"github.com/easel-grpc/easel/internal/ledger"
	"github.com/easel-grpc/easel/internal/orders"
	"github.com/easel-grpc/easel/internal/rest"
	"github.com/easel-grpc/easel/internal/sandbox"
	"github.com/easel-grpc/easel/internal/server"
	"github.com/easel-grpc/easel/internal/service"
	"github.com/easel-grpc/easel/internal/watch"
)

// replica is a pair of addresses, for gRPC and for REST. At most one process at a time serves them.
type replica struct {
	world      *world
	name       string
	grpc, rest sharedAddress

	mu      sync.Mutex
	count   int
	process *process // current process or, if none is running, the last one
	absent  bool     // whether a fault has stopped the process and not yet started a new one
}

// process is a running instance of Easel.
type process struct {
	name      string
	world     *world
	uplink    *link
	transport *catalog.TransportPools
	services  *service.Service
	client    *catalog.Client
	hub       *watch.Hub
	gateway   *gateway // access to the database; nil if the ledger is in memory
	ledger    *ledger.Ledger
	orders    *orders.Orders
	teams     *events.Teams      // teams that receive events; nil if the plan has no events
	followers sync.WaitGroup     // goroutines that submit orders or run background jobs
	sharing   sync.WaitGroup     // goroutine that keeps the process's share of the poll rate up to date
	unshare   context.CancelFunc // stops the updates of the process's share of the poll rate
	stop      context.CancelFunc
	stopped   chan struct{} // closed when the server has stopped
}

// nextName returns a name for the next process of the replica.
func (r *replica) nextName() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.count++
	return fmt.Sprintf("%s%d", r.name, r.count)
}

// setAbsent sets r.absent. It returns false if r.absent already had that value.
func (r *replica) setAbsent(absent bool) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	changed := r.absent != absent
	r.absent = absent
	return changed
}

// setCurrent sets the current process of the replica to p.
func (r *replica) setCurrent(p *process) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.process = p
}

// boot starts a process at the replica's addresses, with the same components as in 'easel serve'. It opens the
// ledger without holding the mutex, because virtual time does not advance while a goroutine waits for a mutex.
func (r *replica) boot() error {
	w := r.world
	p := &process{name: r.nextName(), world: w, uplink: newLink(), stopped: make(chan struct{})}
	transport := catalog.NewTransport()
	transport.DialContext = func(ctx context.Context, _, addr string) (net.Conn, error) {
		if addr != catalogAddr {
			w.recordLeak("a connection was made to " + addr)
			return nil, dialError(errors.New("no such host"))
		}
		return p.uplink.dial(ctx, &w.address)
	}
	p.transport = catalog.NewTransportPools(transport)
	upstream, err := catalog.New(catalog.Config{
		BaseURL: "http://catalog" + sandbox.BasePath, AllowInsecure: true, Seed: w.seed("client " + p.name),
		Transport: &tap{
			base: p.transport, traffic: w.traffic, process: p.name, seed: w.seed("way " + p.name),
			tenants: w.keys, times: map[string]int{}, owner: p, world: w,
		},
	})
	if err != nil {
		return err
	}
	if p.ledger, err = p.openLedger(w); err != nil {
		return err
	}
	recorder := &orders.Recorder{Ledger: p.ledger, Logger: w.logger()}
	p.hub, err = watch.New(watch.Config{
		Upstream: polls{upstream.Polls()}, MinInterval: minInterval, MaxInterval: maxInterval, Rate: pollRate,
		RefundWindow: refundWindow, Seed: w.seed("hub " + p.name), Logger: w.logger(), Recorder: recorder, Ledger: p.ledger,
	})
	if err != nil {
		return err
	}
	p.divideRate(w)
	ctx, cancel := context.WithCancel(context.Background())
	p.stop = cancel
	p.client = upstream.Reporting(func(_ context.Context, cred catalog.Credential, err error) { p.hub.Called(cred, err) })
	p.startOrders(ctx, w, recorder)
	front, err := r.frontend(p)
	if err == nil {
		err = front.Listen()
	}
	if err != nil {
		return err
	}
	go func() {
		defer close(p.stopped)
		if err := front.Serve(ctx); err != nil {
			w.recordProblem("%s did not serve: %v", p.name, err)
		}
	}()
	r.setCurrent(p)
	return nil
}

func (r *replica) frontend(p *process) (*server.Server, error) {
	w := r.world
	cfg := service.Config{
		Feed: events.NewFeed(p.ledger, slog.New(slog.DiscardHandler)), Catalog: p.client, Hub: p.hub, Orders: p.orders, MaxStreamAge: w.plan.StreamAge, Seed: w.seed("service " + p.name),
	}
	if w.plan.Held {
		held := catalog.Shared(w.currentSharedKey)
		cfg.Auth.SharedKey, cfg.Auth.AllowAnonymous = &held, true
	}
	if w.plan.Ledger {
		if err := w.withCallers(&cfg); err != nil {
			return nil, err
		}
	}
	services, err := service.New(cfg)
	if err != nil {
		return nil, err
	}
	p.services = services
	return server.New(server.Config{
		Listeners: server.Listeners{GRPC: r.grpc.listen(), HTTP: r.rest.listen(), Admin: (&sharedAddress{}).listen()},
		Service:   services, Logger: w.logger(), DrainTimeout: drainTimeout,
		Admin: func(*server.Server) http.Handler { return http.NotFoundHandler() },
		REST: func(front *server.Server, local *server.Local) (http.Handler, error) {
			return rest.New(rest.Config{Calls: local, Content: services.Content, Addr: front.HTTPAddr()})
		},
		// Connections have no maximum age. Otherwise, grpc-go would add jitter to the age, from a random source
		// that does not use the seed.
		Limits: server.Limits{ConnAge: 1<<63 - 1},
	})
}

// currentProcess returns the current process or, if none is running, the last one.
func (r *replica) currentProcess() *process {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.process
}

// drain stops the process gracefully, as SIGTERM does.
func (r *replica) drain() {
	p := r.currentProcess()
	p.stop()
	r.world.ending.Go(func() { p.shutDown() })
}

// kill ends the process abruptly, as SIGKILL does. Requests that the process sends afterwards do not reach the catalog.
func (r *replica) kill() {
	p := r.currentProcess()
	if p.gateway != nil {
		p.gateway.die()
	}
	p.uplink.setCondition(refused)
	p.uplink.cutConnections()
	for _, t := range r.world.allTenants() {
		t.endpoints[r.index()].link.cutConnections()
	}
	p.stop()
	r.world.ending.Go(func() { p.shutDown() })
}

func (r *replica) index() int { return int(r.name[0] - 'a') }

// shutDown shuts down the parts of the process, in the same order as 'easel serve'.
func (p *process) shutDown() {
	<-p.stopped
	p.services.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
	defer cancel()
	_ = p.orders.Close(ctx) // waits up to 3 s; orders that are still in flight end when the connections are cut below
	p.uplink.setCondition(refused)
	p.uplink.cutConnections()
	_ = p.orders.Close(context.Background())
	p.followers.Wait()
	p.unshare()
	p.sharing.Wait()
	p.hub.Close()
	p.transport.CloseIdleConnections()
	p.world.recordContradictions(p)
	_ = p.ledger.Close()
}

// sharedAddress is an address at which one listener at a time accepts connections.
type sharedAddress struct {
	mu     sync.Mutex
	server *listener
}

func (p *sharedAddress) current() *listener {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.server
}

// listen replaces the listener of the address with a new one, and returns the new one.
func (p *sharedAddress) listen() *listener {
	l := &listener{conns: make(chan net.Conn), done: make(chan struct{})}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.server = l
	return l
}

// listener is an in-memory net.Listener.
type listener struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

func (l *listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

func (l *listener) Close() error {
	l.once.Do(func() { close(l.done) })
	return nil
}

func (l *listener) Addr() net.Addr { return here }

var here = &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1}
