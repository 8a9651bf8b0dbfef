package admin

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/easel-grpc/easel/internal/telemetry"
)

func TestAttackOnTheAdminListenerByPages(t *testing.T) { // A17
	const link = "Sec-Fetch-Mode: navigate\nSec-Fetch-Dest: document"
	for _, addr := range []string{"127.0.0.1", "0.0.0.0"} {
		t.Run(addr, func(t *testing.T) {
			const port = "40464"
			_, status := quiet()
			level := &telemetry.Level{}
			handler, shutdown := New(Config{
				Status: status, LogLevel: level, Orders: Orders{Ledger: labelled(t)}, Prove: func(context.Context, []string) (string, error) { return "ada", nil }, Addr: net.JoinHostPort(addr, port), ConfiguredAddr: "ops.example:9464", AllowedHosts: []string{"easel.example"},
			})
			defer shutdown()
			elsewhere := addr == "0.0.0.0"
			for _, test := range []struct {
				method, path, host, headers string
				served                      bool
			}{
				{"GET", "/loglevel", "localhost:" + port, "", true},
				{"GET", "/loglevel", "127.0.0.1:" + port, "Sec-Fetch-Site: none", true},
				{"PUT", "/loglevel?level=debug", "localhost:" + port, "Sec-Fetch-Site: same-origin\nOrigin: http://localhost:" + port, true},
				{"GET", "/loglevel", "easel.example", "", true},
				{"GET", "/loglevel", "192.0.2.1:9464", "", elsewhere},
				{"GET", "/loglevel", "[2001:db8::1]:9464", "", elsewhere},
				{"GET", "/loglevel", "ops.example:9464", "", elsewhere},
				{"GET", "/", "localhost:" + port, "Sec-Fetch-Site: cross-site\n" + link, true}, // a link to the status page

				{"GET", "/loglevel", "evil.example", "", false},
				{"GET", "/loglevel", "evil.example", "Sec-Fetch-Site: same-origin\nOrigin: http://evil.example", false},
				{"GET", "/healthz", "evil.example", "", false},
				{"GET", "/debug/pprof/profile?seconds=30", "evil.example", "Sec-Fetch-Site: same-origin", false},
				{"GET", "/loglevel", "localhost:" + port, "Sec-Fetch-Site: cross-site", false},
				{"GET", "/loglevel", "localhost:" + port, "Sec-Fetch-Site: same-site", false},
				{"GET", "/loglevel", "localhost:" + port, "Sec-Fetch-Site: cross-site\n" + link, false},
				{"GET", "/loglevel", "localhost:" + port, "Origin: https://evil.example", false},
				{"PUT", "/loglevel?level=debug", "localhost:" + port, "Origin: https://evil.example", false},
				{"GET", "/debug/pprof/profile?seconds=30", "localhost:" + port, "Sec-Fetch-Site: cross-site\nSec-Fetch-Mode: no-cors", false},
				{"GET", "/debug/pprof/trace?seconds=30", "localhost:" + port, "Sec-Fetch-Site: cross-site\n" + link, false},
				{"POST", "/debug/pprof/symbol", "localhost:" + port, "Sec-Fetch-Site: cross-site", false},
			} {
				level.Set(slog.LevelInfo, 0)
				r := httptest.NewRequest(test.method, "http://"+test.host+test.path, nil)
				for header := range strings.Lines(test.headers) {
					name, value, _ := strings.Cut(strings.TrimSpace(header), ": ")
					r.Header.Set(name, value)
				}
				w := httptest.NewRecorder()
				handler.ServeHTTP(w, r)
				refused := w.Code == http.StatusForbidden || w.Code == http.StatusMisdirectedRequest
				changed := level.Level() != slog.LevelInfo
				if test.served != (w.Code == http.StatusOK) || test.served == refused || changed != (test.served && test.method == http.MethodPut) {
					t.Errorf("%s %s of %s with %q is answered %d: %s", test.method, test.path, test.host, test.headers, w.Code, w.Body)
				}
			}
		})
	}
}
