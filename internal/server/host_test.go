package server

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
)

// listenOn takes a free port of an address of this machine.
func listenOn(t *testing.T, host string) net.Listener {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", net.JoinHostPort(host, "0"))
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// asked answers a request that a listener gets, under any name.
func asked(t *testing.T, l net.Listener, host string, r *http.Request) (*http.Response, string) {
	t.Helper()
	r.URL.Host, r.Host = l.Addr().String(), host
	return do(t, &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}, r)
}

func TestAttackByDNSRebinding(t *testing.T) { // A14
	foreign := []string{
		"evil.example", "evil.example:8080", "localhost.evil.example", "127.0.0.1.evil.example:8080", "notlocalhost",
		"192.0.2.1:8080", "[2001:db8::1]:8080", "0.0.0.0:8080", "[::]:8080", "user@localhost", "easel.example.evil.example", "xeasel.example",
	}
	own := []string{"localhost", "LocalHost:8080", "127.0.0.1:8080", "127.0.0.2", "[::1]:8080", "[::1]"}
	listed := []string{"easel.example", "Easel.example.:8080", "192.0.2.9:80", "[2001:db8::9]"}
	for _, test := range []struct {
		addr            string
		allowed         []string
		served, refused []string
	}{
		{"127.0.0.1", nil, own, append(foreign, listed...)},
		{"127.0.0.1", []string{"easel.example", "192.0.2.9", "2001:db8::9"}, append(own, listed...), foreign},
		{"0.0.0.0", []string{"easel.example", "192.0.2.9", "2001:db8::9"}, append(own, listed...), foreign},
		{"0.0.0.0", nil, append(append(own, listed...), "easel.evil.example"), nil},
	} {
		t.Run(fmt.Sprint(test.addr, test.allowed), func(t *testing.T) {
			studio, orders := newStudio(), 0
			studio.create = func(context.Context, *easelv1.CreateGenerationRequest) (*easelv1.CreateGenerationResponse, error) {
				orders++
				return &easelv1.CreateGenerationResponse{}, nil
			}
			l := listenOn(t, test.addr)
			serve(t, studio, func(c *Config) { c.Listeners.HTTP, c.AllowedHosts = l, test.allowed })
			order := func(host string) (*http.Response, string) {
				return asked(t, l, host, request(t, http.MethodPost, "/v1/generations", `{"modelId":"m","inputs":{},"idempotencyKey":"k"}`,
					"Origin: http://"+host, "Sec-Fetch-Site: same-origin"))
			}
			for _, host := range test.refused {
				answer, body := order(host)
				if answer.StatusCode != http.StatusMisdirectedRequest {
					t.Errorf("%s is answered %s: %s", host, answer.Status, body)
				}
				wantError(t, restStatus(t, body).Err(), codes.PermissionDenied, "HOST_NOT_ALLOWED")
			}
			if orders != 0 {
				t.Fatalf("%d orders got through", orders)
			}
			for _, host := range test.served {
				if answer, body := order(host); answer.StatusCode != http.StatusOK {
					t.Errorf("%s is answered %s: %s", host, answer.Status, body)
				}
			}
			if orders != len(test.served) {
				t.Errorf("%d orders, want %d", orders, len(test.served))
			}
		})
	}
}

func TestAttackOnTheAdminListenerByPages(t *testing.T) { // A17
	const link = "Sec-Fetch-Mode: navigate\nSec-Fetch-Dest: document"
	for _, addr := range []string{"127.0.0.1", "0.0.0.0"} {
		t.Run(addr, func(t *testing.T) {
			acted, l := 0, listenOn(t, addr)
			act := http.HandlerFunc(func(http.ResponseWriter, *http.Request) { acted++ })
			serve(t, newStudio(), func(c *Config) {
				c.Listeners.Admin, c.AdminAddr, c.AllowedHosts = l, "ops.example:9464", []string{"easel.example"}
				c.Admin = map[string]http.Handler{"GET /{$}": act, "GET /act": act, "PUT /act": act}
			})
			_, port, _ := net.SplitHostPort(l.Addr().String())
			elsewhere := addr == "0.0.0.0"
			for _, test := range []struct {
				method, path, host, headers string
				served                      bool
			}{
				{"GET", "/act", "localhost:" + port, "", true},
				{"GET", "/act", "127.0.0.1:" + port, "Sec-Fetch-Site: none", true},
				{"PUT", "/act", "localhost:" + port, "Sec-Fetch-Site: same-origin\nOrigin: http://localhost:" + port, true},
				{"GET", "/act", "easel.example", "", true},
				{"GET", "/act", "192.0.2.1:9464", "", elsewhere},
				{"GET", "/act", "[2001:db8::1]:9464", "", elsewhere},
				{"GET", "/act", "ops.example:9464", "", elsewhere},
				{"GET", "/", "localhost:" + port, "Sec-Fetch-Site: cross-site\n" + link, true}, // a link to the status page

				{"GET", "/act", "evil.example", "", false},
				{"GET", "/act", "evil.example", "Sec-Fetch-Site: same-origin\nOrigin: http://evil.example", false},
				{"GET", "/healthz", "evil.example", "", false},
				{"GET", "/debug/pprof/profile?seconds=30", "evil.example", "Sec-Fetch-Site: same-origin", false},
				{"GET", "/act", "localhost:" + port, "Sec-Fetch-Site: cross-site", false},
				{"GET", "/act", "localhost:" + port, "Sec-Fetch-Site: same-site", false},
				{"GET", "/act", "localhost:" + port, "Sec-Fetch-Site: cross-site\n" + link, false},
				{"GET", "/act", "localhost:" + port, "Origin: https://evil.example", false},
				{"PUT", "/act", "localhost:" + port, "Origin: https://evil.example", false},
				{"GET", "/debug/pprof/profile?seconds=30", "localhost:" + port, "Sec-Fetch-Site: cross-site\nSec-Fetch-Mode: no-cors", false},
				{"GET", "/debug/pprof/trace?seconds=30", "localhost:" + port, "Sec-Fetch-Site: cross-site\n" + link, false},
				{"POST", "/debug/pprof/symbol", "localhost:" + port, "Sec-Fetch-Site: cross-site", false},
			} {
				r := request(t, test.method, test.path, "", "Authorization: ")
				for header := range strings.Lines(test.headers) {
					name, value, _ := strings.Cut(strings.TrimSpace(header), ": ")
					r.Header.Set(name, value)
				}
				before := acted
				answer, body := asked(t, l, test.host, r)
				refused := answer.StatusCode == http.StatusForbidden || answer.StatusCode == http.StatusMisdirectedRequest
				if test.served == refused || test.served != (acted > before) {
					t.Errorf("%s %s of %s with %q is answered %s: %s", test.method, test.path, test.host, test.headers, answer.Status, body)
				}
			}
		})
	}
}
