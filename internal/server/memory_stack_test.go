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
	"github.com/easel-grpc/easel/internal/server"
	"github.com/easel-grpc/easel/internal/server/servertest"
)

// upstream starts the sandbox's server and sets its URL. It returns a transport to the sandbox, and a function that stops both.
func (s *stack) upstream(memory bool) (transport *catalog.TransportPools, stop func()) {
	listening, base := httptest.NewUnstartedServer(s.sandbox), catalog.NewTransport()
	s.catalog = "http://" + listening.Listener.Addr().String()
	if memory {
		listening.Listener.Close()
		pipe := servertest.Pipe()
		listening.Listener = pipe
		base.DialContext = servertest.PipeDialer(pipe)
	}
	listening.Start()
	transport = catalog.NewTransportPools(base)
	return transport, func() { transport.CloseIdleConnections(); listening.Close() }
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

// inMemory sets in-memory listeners if the options require them, and returns functions that connect to them. Both are nil if
// the stack listens on ports.
func inMemory(o *options) (dialGRPC []grpc.DialOption, dialHTTP func(ctx context.Context, network, addr string) (net.Conn, error)) {
	if !o.memory {
		return nil, nil
	}
	calls, rest, admin := servertest.Pipe(), servertest.Pipe(), servertest.Pipe()
	o.server.Listeners = server.Listeners{GRPC: calls, HTTP: rest, Admin: admin}
	return []grpc.DialOption{grpc.WithContextDialer(servertest.GRPCDialer(calls))}, servertest.PipeDialer(rest)
}
