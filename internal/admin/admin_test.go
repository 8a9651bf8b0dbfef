package admin

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestAttackByWebPagesOnAdminListenerIsRejected(t *testing.T) {
	const link = "Sec-Fetch-Mode: navigate\nSec-Fetch-Dest: document"
	for _, addr := range []string{"127.0.0.1", "0.0.0.0"} {
		t.Run(addr, func(t *testing.T) {
			const port = "40464"
			_, status := quietStatus()
			handler := New(Config{
				Status: status, Orders: Orders{Ledger: openLabeled(t)}, Prove: func(context.Context, []string) (string, error) { return "ada", nil }, Addr: net.JoinHostPort(addr, port), ConfiguredAddr: "ops.example:9464", AllowedHosts: []string{"easel.example"},
			})
			elsewhere := addr == "0.0.0.0"
			for _, test := range []struct {
				method, path, host, headers string
				served                      bool
			}{
				{"GET", "/orders", "localhost:" + port, "", true},
				{"GET", "/orders", "127.0.0.1:" + port, "Sec-Fetch-Site: none", true},
				{"POST", "/orders:erase", "localhost:" + port, "Sec-Fetch-Site: same-origin\nOrigin: http://localhost:" + port, true},
				{"GET", "/orders", "easel.example", "", true},
				{"GET", "/orders", "192.0.2.1:9464", "", elsewhere},
				{"GET", "/orders", "[2001:db8::1]:9464", "", elsewhere},
				{"GET", "/orders", "ops.example:9464", "", elsewhere},
				{"GET", "/", "localhost:" + port, "Sec-Fetch-Site: cross-site\n" + link, true}, // a link from another site

				{"GET", "/orders", "evil.example", "", false},
				{"GET", "/orders", "evil.example", "Sec-Fetch-Site: same-origin\nOrigin: http://evil.example", false},
				{"GET", "/healthz", "evil.example", "", false},
				{"GET", "/debug/pprof/profile?seconds=30", "evil.example", "Sec-Fetch-Site: same-origin", false},
				{"GET", "/orders", "localhost:" + port, "Sec-Fetch-Site: cross-site", false},
				{"GET", "/orders", "localhost:" + port, "Sec-Fetch-Site: same-site", false},
				{"GET", "/orders", "localhost:" + port, "Sec-Fetch-Site: cross-site\n" + link, false},
				{"GET", "/orders", "localhost:" + port, "Origin: https://evil.example", false},
				{"POST", "/orders:erase", "localhost:" + port, "Origin: https://evil.example", false},
				{"GET", "/debug/pprof/profile?seconds=30", "localhost:" + port, "Sec-Fetch-Site: cross-site\nSec-Fetch-Mode: no-cors", false},
				{"GET", "/debug/pprof/trace?seconds=30", "localhost:" + port, "Sec-Fetch-Site: cross-site\n" + link, false},
			} {
				r := httptest.NewRequest(test.method, "http://"+test.host+test.path, nil)
				for header := range strings.Lines(test.headers) {
					name, value, _ := strings.Cut(strings.TrimSpace(header), ": ")
					r.Header.Set(name, value)
				}
				w := httptest.NewRecorder()
				handler.ServeHTTP(w, r)
				refused := w.Code == http.StatusForbidden || w.Code == http.StatusMisdirectedRequest
				asked := w.Code == http.StatusOK || test.method == http.MethodPost && w.Code == http.StatusBadRequest // whether the request reached its route, which responds with 400 to a POST without a body
				if test.served != asked || test.served == refused {
					t.Errorf("%s %s for the host %s with %q returned status %d: %s", test.method, test.path, test.host, test.headers, w.Code, w.Body)
				}
			}
		})
	}
}
