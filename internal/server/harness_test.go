package server

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/easel-grpc/easel/internal/admin"
	"github.com/easel-grpc/easel/internal/proctest"
	"github.com/easel-grpc/easel/internal/rest"
	"github.com/easel-grpc/easel/internal/server/servertest"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(withDatabase{m})
}

// withDatabase is a testing.M whose Run also stops PostgreSQL after the tests.
type withDatabase struct{ *testing.M }

func (w withDatabase) Run() int { return proctest.Main(w.M) }

// site is a server that serves over in-memory connections until the test ends.
type site struct {
	*servertest.Site
	chain  *chain
	Server *Server
}

// newTestConfig returns a configuration with free ports. It first passes the configuration to changeConfig, which
// may modify it.
func newTestConfig(studio *servertest.Studio, changeConfig func(*Config)) Config {
	config := Config{GRPCAddr: "127.0.0.1:0", HTTPAddr: "127.0.0.1:0", AdminAddr: "127.0.0.1:0", Service: studio, REST: restOf(studio), Admin: operators}
	changeConfig(&config)
	return config
}

func inPipes(c *Config) {
	c.Listeners = Listeners{GRPC: servertest.Pipe(), HTTP: servertest.Pipe(), Admin: servertest.Pipe()}
}

func serve(t testing.TB, studio *servertest.Studio, change ...func(*Config)) *site {
	t.Helper()
	s := &site{}
	s.Site = servertest.Start(t, studio, func(site *servertest.Site) (func(context.Context) error, error) {
		server, err := New(newTestConfig(studio, func(c *Config) {
			c.Listeners = Listeners{GRPC: site.GRPCPipe, HTTP: site.HTTPPipe, Admin: site.AdminPipe}
			c.Logger = slog.New(slog.NewJSONHandler(site.Logs, &slog.HandlerOptions{Level: slog.LevelDebug}))
			for _, f := range change {
				f(c)
			}
		}))
		if err != nil {
			return nil, err
		}
		s.chain, s.Server = server.chain, server
		return server.Serve, server.Listen()
	})
	return s
}

// restOf returns a function for Config.REST. The function creates a REST handler that reads results from the given
// studio, and has a short OpenAPI document and a single page.
func restOf(studio *servertest.Studio) func(*Server, *Local) (http.Handler, error) {
	return func(s *Server, local *Local) (http.Handler, error) {
		return rest.New(rest.Config{
			Calls: local, Content: studio.Content, OpenAPI: []byte(`{"openapi":"3.1.0"}`), Addr: s.HTTPAddr(),
			Pages: map[string]http.Handler{"/": http.HandlerFunc(servertest.Page)},
		})
	}
}

// operators returns the handler of the admin listener.
func operators(s *Server) http.Handler {
	metrics := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "metrics") })
	return admin.New(admin.Config{
		Status: admin.Status{Serving: s.Serving}, Addr: s.AdminAddr(), Metrics: metrics, Nameless: metrics,
		Prove: func(context.Context, []string) (string, error) { return "ada", nil },
	})
}

func writeFile(t *testing.T, name string, content []byte) {
	t.Helper()
	if err := os.WriteFile(name, content, 0o600); err != nil {
		t.Fatal(err)
	}
}
