package rest

import (
	"context"
	"log/slog"
	"net/http"
	"testing"

	"go.uber.org/goleak"

	"github.com/easel-grpc/easel/internal/server"
	"github.com/easel-grpc/easel/internal/server/servertest"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m)
}

// serve starts a server with a REST gateway for studio. The functions in change may modify both
// configurations before the start. The server stops when the test ends.
func serve(t testing.TB, studio *servertest.Studio, change ...func(*server.Config, *Config)) *servertest.Site {
	t.Helper()
	return servertest.Start(t, studio, func(site *servertest.Site) (func(context.Context) error, error) {
		config := server.Config{
			Listeners: server.Listeners{GRPC: site.GRPCPipe, HTTP: site.HTTPPipe, Admin: site.AdminPipe},
			Service:   studio,
			Admin:     func(*server.Server) http.Handler { return http.NotFoundHandler() },
			Logger:    slog.New(slog.NewJSONHandler(site.Logs, &slog.HandlerOptions{Level: slog.LevelDebug})),
		}
		form := Config{
			Content: studio.Content, OpenAPI: []byte(`{"openapi":"3.1.0"}`),
			Pages: map[string]http.Handler{"/": http.HandlerFunc(servertest.Page)},
		}
		for _, f := range change {
			f(&config, &form)
		}
		config.REST = func(s *server.Server, local *server.Local) (http.Handler, error) {
			form.Calls, form.Addr = local, s.HTTPAddr()
			return New(form)
		}
		front, err := server.New(config)
		if err != nil {
			return nil, err
		}
		return front.Serve, front.Listen()
	})
}
