package systemtest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/proctest"
)

// proxies maps the name of each proxy in deploy/ to a function that starts the proxy in front of a server. First, that
// function replaces the first string of each pair in swaps with the second in the proxy's configuration.
var proxies = map[string]func(t *testing.T, server *proctest.Process, swaps ...[2]string) proxied{"nginx": nginxBefore, "Envoy": envoyBefore}

// envoyBefore starts Envoy with deploy/envoy/envoy.yaml in front of a server. Envoy listens on a random loopback
// address, which another test is unlikely to use. In the file, the first string of each pair in swaps is replaced
// with the second.
func envoyBefore(t *testing.T, server *proctest.Process, swaps ...[2]string) proxied {
	t.Helper()
	binary := tool(t, "envoy")
	host := fmt.Sprintf("127.%d.%d.2", 1+rand.IntN(200), rand.IntN(256)) //nolint:gosec // any free loopback address is suitable
	text := readDeployed(t, filepath.Join("deploy", "envoy", "envoy.yaml"), append([][2]string{
		{"address: easel, port_value: 50051", socketOf(t, server.GRPC)},
		{"address: easel, port_value: 8080", socketOf(t, server.HTTP)},
		{"address: 0.0.0.0,", "address: " + host + ","},
		{"stream_idle_timeout: 75s", fmt.Sprintf("stream_idle_timeout: %ds", int(readTimeout.Seconds()))},
	}, swaps...))
	file := filepath.Join(t.TempDir(), "envoy.yaml")
	proctest.Write(t, file, text)
	p := proctest.Start(t, os.Environ(), binary, "-c", file, "--use-dynamic-base-id", "--concurrency", "1", "-l", "warn")
	t.Cleanup(func() { p.Stop() })
	dial := func(ctx context.Context, port string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", net.JoinHostPort(host, port))
	}
	waitFor(t, "Envoy that listens", func() bool {
		conn, err := dial(t.Context(), "8080")
		if err == nil {
			conn.Close()
		}
		return err == nil
	}, p.Output.String)
	conn := proctest.Dial(t, net.JoinHostPort(host, "50051"))
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx, "8080") }}
	t.Cleanup(transport.CloseIdleConnections)
	return proxied{easelv1.NewGenerationServiceClient(conn), &http.Client{Transport: transport}, server.Key}
}

// socketOf returns the address 127.0.0.1 with the port of the given address, in the format of Envoy's configuration.
func socketOf(t *testing.T, address string) string {
	t.Helper()
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	return "address: 127.0.0.1, port_value: " + port
}

// openWatch starts a watch over REST and returns the status of the response, or zero if the connection was closed.
func (p proxied) openWatch(ctx context.Context, t *testing.T) int {
	t.Helper()
	answer, err := p.send(ctx, t, "/v1/generations:watch?heartbeatInterval=1s", "text/event-stream")
	if err != nil {
		return 0
	}
	return answer.StatusCode
}

func TestProxiesRejectCallsBeyondTheirLimit(t *testing.T) {
	for name, row := range map[string]struct {
		proxy string
		swaps [][2]string // changes to the proxy's configuration that reduce its limit to three calls
		past  int         // HTTP status of the call that exceeds the limit, or zero if the proxy closes its connection
		frees bool        // whether the proxy, at its limit of three open watches, accepts another call after one watch has ended
	}{
		"concurrent calls at nginx":       {"nginx", [][2]string{{"limit_conn easel 2500;", "limit_conn easel 3;"}}, http.StatusTooManyRequests, true},
		"request rate at nginx":           {"nginx", [][2]string{{"rate=1000r/s", "rate=1r/m"}, {"burst=2000", "burst=2"}}, http.StatusTooManyRequests, false},
		"concurrent connections at Envoy": {"Envoy", [][2]string{{"max_connections: 10000\n", "max_connections: 3\n"}}, 0, true},
		"request rate at Envoy": {
			"Envoy",
			[][2]string{{"max_tokens: 2000, tokens_per_fill: 1000, fill_interval: 1s", "max_tokens: 3, tokens_per_fill: 1, fill_interval: 3600s"}},
			http.StatusTooManyRequests, false,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := proxies[row.proxy](t, proctest.StartDev(t, "--http-allowed-hosts", "easel.example"), row.swaps...)
			first, leave := context.WithCancel(t.Context())
			defer leave()
			for n, ctx := range []context.Context{first, t.Context(), t.Context()} {
				if status := p.openWatch(ctx, t); status != http.StatusOK {
					t.Fatalf("watch %d returned status %d", n+1, status)
				}
			}
			if status := p.openWatch(t.Context(), t); status != row.past {
				t.Errorf("watch 4 returned status %d", status)
			}
			if leave(); row.frees {
				waitFor(t, "accepted watch after another watch has ended", func() bool { return p.openWatch(t.Context(), t) == http.StatusOK }, func() string { return "" })
			}
		})
	}
}
