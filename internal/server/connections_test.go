package server

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/server/servertest"
)

// fakeConn is a connection from an address.
type fakeConn struct {
	net.Conn
	from string
}

func (c fakeConn) RemoteAddr() net.Addr { return connAddr{Addr: fakeAddr(c.from)} }
func (c fakeConn) Close() error         { return nil }

type fakeAddr string

func (a fakeAddr) Network() string { return "tcp" }
func (a fakeAddr) String() string  { return string(a) + ":1" }

// room are connections, and what has become of each.
type room struct {
	*connections
	in []*limitedConn // the oldest first
}

// take takes one from an address in, and gives the number of the one that is closed for it: 0 is none, -1 the newcomer.
func (r *room) take(from string) (closed int) {
	in, out := r.connections.take(fakeConn{from: from})
	if in == nil {
		return -1
	}
	r.in = append(r.in, in)
	if old, ok := out.(*limitedConn); ok {
		r.in = slices.DeleteFunc(r.in, func(c *limitedConn) bool { return c == old })
		return int(old.number)
	}
	return 0
}

func TestANewConnectionGetsTheRoomOfOneThatHasProvedNothing(t *testing.T) { // D4
	type step struct {
		from   string
		closed int
	}
	for name, test := range map[string]struct {
		proved []int // numbers
		steps  []step
	}{
		"of the address that has the most": {nil, []step{{"1", 0}, {"2", 0}, {"2", 0}, {"3", 2}, {"3", 1}, {"4", 4}}},
		"the oldest of as many":            {nil, []step{{"2", 0}, {"1", 0}, {"3", 0}, {"4", 1}, {"5", 2}}},
		"its own where that has too many":  {nil, []step{{"1", 0}, {"1", 0}, {"1", 1}, {"1", 2}}},
		"not one that has proved itself":   {[]int{1, 2}, []step{{"1", 0}, {"1", 0}, {"2", 0}, {"3", 3}, {"1", -1}}},
		"none where all have":              {[]int{1, 2, 3}, []step{{"1", 0}, {"2", 0}, {"3", 0}, {"4", -1}, {"1", -1}}},
	} {
		r := room{connections: newConnections(2, 3)}
		for n, s := range test.steps {
			if closed := r.take(s.from); closed != s.closed {
				t.Errorf("%s: for newcomer %d, of %s, %d is closed, want %d", name, n+1, s.from, closed, s.closed)
			}
			if newest := r.in[len(r.in)-1]; slices.Contains(test.proved, int(newest.number)) {
				newest.prove()
			}
		}
	}
}

// wanted is which connection the rule closes for one of an address, as a person would look it up.
func (r *room) wanted(from string) (closed int) {
	oldest, counts, open := map[string]int{}, map[string]int{}, 0
	for _, c := range r.in {
		if c.from.name == from {
			open++
		}
		if !c.proved.Load() {
			if counts[c.from.name]++; counts[c.from.name] == 1 {
				oldest[c.from.name] = int(c.number)
			}
		}
	}
	most := ""
	for name, n := range counts {
		if most == "" || n > counts[most] || n == counts[most] && oldest[name] < oldest[most] {
			most = name
		}
	}
	if open >= r.each {
		most = from
	} else if len(r.in) < r.all {
		return 0
	}
	if counts[most] == 0 {
		return -1
	}
	return oldest[most]
}

func TestManyConnectionsComeAndGoByTheRule(t *testing.T) {
	random := rand.New(rand.NewPCG(7, 7))
	r := room{connections: newConnections(9, 20)}
	for n := range 50_000 {
		some := func() *limitedConn { return r.in[random.IntN(len(r.in))] }
		switch dice := random.IntN(10); {
		case dice < 6 || len(r.in) == 0:
			from := fmt.Sprint("10.0.0.", random.IntN(1+random.IntN(12)))
			want := r.wanted(from)
			if closed := r.take(from); closed != want {
				t.Fatalf("step %d: for one of %s %d is closed, want %d", n, from, closed, want)
			}
		case dice < 8:
			some().prove()
		default:
			gone := some()
			_, _ = gone.Close(), gone.Close()
			gone.prove() // too late
			r.in = slices.DeleteFunc(r.in, func(c *limitedConn) bool { return c == gone })
		}
		if r.inUse() != len(r.in) {
			t.Fatalf("step %d: %d are counted, of %d", n, r.inUse(), len(r.in))
		}
	}
	for _, one := range r.in {
		_ = one.Close()
	}
	if r.inUse() != 0 || len(r.addresses) != 0 || len(r.crowds) != 0 {
		t.Errorf("%d connections, %d addresses and %d crowds are left", r.inUse(), len(r.addresses), len(r.crowds))
	}
}

// crowd opens connections from an address that never call, and reads what comes on them; it opens each again that is ended.
func (s siege) crowd(ctx context.Context, addr, from string, many int) {
	dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	opened := make(chan struct{}, many)
	for range many {
		go func() {
			for ctx.Err() == nil {
				conn, err := dialer.DialContext(ctx, "tcp", addr)
				if err != nil {
					continue
				}
				stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
				if addr == s.grpcAddr && s.client == nil { // else it says nothing, and has 10 s for that
					_, _ = io.WriteString(conn, http2.ClientPreface)
				}
				select {
				case opened <- struct{}{}:
				default:
				}
				_, _ = io.Copy(io.Discard, conn)
				stop()
				_ = conn.Close()
				time.Sleep(50 * time.Millisecond) // else the crowd takes the processors
			}
		}()
	}
	for range many {
		<-opened
	}
}

// neighbour is a caller with an address of its own.
type neighbour struct {
	siege
	dialer *net.Dialer
	lost   atomic.Int64 // watches that have ended before ctx did
}

// call makes a call of each form, over new connections. A watch goes on until ctx ends.
func (n *neighbour) call(ctx context.Context) error {
	transport, scheme := insecure.NewCredentials(), "http"
	if n.client != nil {
		transport, scheme = credentials.NewTLS(n.client), "https"
	}
	conn, err := grpc.NewClient("passthrough:///"+n.grpcAddr, grpc.WithTransportCredentials(transport),
		grpc.WithContextDialer(func(ctx context.Context, addr string) (net.Conn, error) {
			return n.dialer.DialContext(ctx, "tcp", addr)
		}))
	if err != nil {
		return err
	}
	context.AfterFunc(ctx, func() { _ = conn.Close() })
	soon, cancel := context.WithTimeout(servertest.WithKey(ctx), 5*time.Second) // the crowd is on this machine, too
	defer cancel()
	calls := easelv1.NewGenerationServiceClient(conn)
	if _, err := calls.GetGeneration(soon, &easelv1.GetGenerationRequest{GenerationId: "g"}); err != nil {
		return err
	}
	watch, err := calls.WatchGeneration(servertest.WithKey(ctx), &easelv1.WatchGenerationRequest{GenerationId: "g"})
	if err != nil {
		return err
	}
	go func() {
		for err == nil {
			_, err = watch.Recv()
		}
		if ctx.Err() == nil {
			n.lost.Add(1)
		}
	}()
	browser := &http.Client{Transport: &http.Transport{DialContext: n.dialer.DialContext, TLSClientConfig: n.client, DisableKeepAlives: true}}
	return fetch(soon, browser, scheme+"://"+n.httpAddr+"/v1/generations/g")
}

func TestAttackOfTwoAddressesOnAllConnections(t *testing.T) { // D4
	const conns = 100
	for form, encrypted := range map[string]bool{"plaintext": false, "TLS": true} {
		t.Run(form, func(t *testing.T) {
			s := besiege(t, encrypted, func(c *Config) { c.Limits.Conns = conns })
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			for _, addr := range []string{s.grpcAddr, s.httpAddr} {
				for _, from := range []string{"127.0.0.2", "127.0.0.3"} {
					s.crowd(ctx, addr, from, conns*3/4)
				}
			}
			honest := &neighbour{siege: s, dialer: &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP("127.0.0.4")}}}
			took := make([]time.Duration, 20)
			for n := range took {
				began := time.Now()
				if err := honest.call(ctx); err != nil {
					t.Errorf("call %d of a neighbour: %v", n, err)
				}
				took[n] = time.Since(began)
			}
			if slices.Sort(took); took[len(took)-3] > time.Second {
				t.Errorf("the calls of a neighbour take %v", took)
			}
			for _, usage := range s.server.Usage() {
				if usage.Max == conns && usage.Used < conns*9/10 {
					t.Errorf("%d of %d %s are taken: there was no crowd", usage.Used, usage.Max, usage.Limit)
				}
			}
			if n := honest.lost.Load(); n > 0 {
				t.Errorf("%d watches of a neighbour have ended", n)
			}
		})
	}
}
