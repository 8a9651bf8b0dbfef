package server_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"

	"google.golang.org/grpc"

	"github.com/easel-grpc/easel/internal/catalog"
	"github.com/easel-grpc/easel/internal/proctest"
	"github.com/easel-grpc/easel/internal/server"
)

// upstream is a stack's connection to its sandbox.
type upstream struct {
	url       string
	transport http.RoundTripper
	close     func()
}

func (s *stack) upstream(memory bool) upstream {
	listening, base := httptest.NewUnstartedServer(s.sandbox), catalog.NewTransport()
	url := "http://" + listening.Listener.Addr().String()
	if memory {
		listening.Listener.Close()
		pipe := proctest.NewPipe(1 << 16)
		listening.Listener = pipe
		base.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) { return pipe.DialContext(ctx) }
	}
	listening.Start()
	transport := catalog.NewTransportPools(base)
	return upstream{url, transport, func() { transport.CloseIdleConnections(); listening.Close() }}
}

// handled is a transport that passes requests directly to a handler.
type handled struct{ http.Handler }

func (h handled) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	if r.Body == nil {
		r.Body = http.NoBody
	}
	answer := httptest.NewRecorder()
	if strings.HasSuffix(r.URL.Path, "/me") { // accepts every API key
		_, _ = io.WriteString(answer, `{"balanceCents":0}`)
	} else {
		h.ServeHTTP(answer, r)
	}
	result := answer.Result()
	result.Request = r
	return result, nil
}

// dialers contains the functions with which a stack's clients connect. It is empty if the stack listens on
// ports.
type dialers struct {
	grpc []grpc.DialOption
	http func(ctx context.Context, network, addr string) (net.Conn, error)
}

// inMemory sets in-memory listeners if the options require them, and returns their dialers.
func inMemory(o *options) dialers {
	if !o.memory {
		return dialers{}
	}
	calls, rest, admin := proctest.NewPipe(1<<16), proctest.NewPipe(1<<16), proctest.NewPipe(1<<16)
	o.server.Listeners = server.Listeners{GRPC: calls, HTTP: rest, Admin: admin}
	dial := func(l *proctest.Pipe) func(context.Context) (net.Conn, error) {
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
