package server_test

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"

	"google.golang.org/grpc"
	"google.golang.org/grpc/test/bufconn"

	"github.com/easel-grpc/easel/internal/catalog"
	"github.com/easel-grpc/easel/internal/server"
)

// upstream is how a stack reaches its sandbox.
type upstream struct {
	url       string
	transport http.RoundTripper
	close     func()
}

func (s *stack) upstream(memory bool) upstream {
	if memory {
		return upstream{"http://localhost", handled{s.sandbox}, func() {}}
	}
	listening, transport := httptest.NewServer(s.sandbox), catalog.NewTransportPools(catalog.NewTransport())
	return upstream{listening.URL, transport, func() { transport.CloseIdleConnections(); listening.Close() }}
}

// handled is a transport that calls a handler.
type handled struct{ http.Handler }

func (h handled) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	if r.Body == nil {
		r.Body = http.NoBody
	}
	answer := httptest.NewRecorder()
	h.ServeHTTP(answer, r)
	result := answer.Result()
	result.Request = r
	return result, nil
}

// dialers are those of a stack's clients; of a stack on ports the usual ones.
type dialers struct {
	grpc []grpc.DialOption
	http func(ctx context.Context, network, addr string) (net.Conn, error)
}

// inMemory gives a stack in-memory listeners where it wants them.
func inMemory(o *options) dialers {
	if !o.memory {
		return dialers{}
	}
	calls, rest, admin := bufconn.Listen(1<<16), bufconn.Listen(1<<16), bufconn.Listen(1<<16)
	o.server.Listeners = server.Listeners{GRPC: calls, HTTP: rest, Admin: admin}
	dial := func(l *bufconn.Listener) func(context.Context) (net.Conn, error) {
		return func(ctx context.Context) (net.Conn, error) {
			conn, err := l.DialContext(ctx)
			if err == nil && o.dialed != nil {
				conn = o.dialed(conn)
			}
			return conn, err
		}
	}
	return dialers{
		grpc: []grpc.DialOption{grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return dial(calls)(ctx) })},
		http: func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(rest)(ctx) },
	}
}

// overBothInMemory is overBoth in virtual time.
func overBothInMemory(t *testing.T, scenario func(t *testing.T, s *stack, c caller), change ...func(*options)) {
	change = append(change, func(o *options) { o.memory = true })
	for name, form := range map[string]func(*stack) caller{
		"gRPC": func(s *stack) caller { return grpcCaller{s, s.key} },
		"REST": func(s *stack) caller { return restCaller{s, s.key} },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStack(t, change...)
				scenario(t, s, form(s))
			})
		})
	}
}
