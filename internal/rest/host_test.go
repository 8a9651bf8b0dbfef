package rest

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"testing"

	"google.golang.org/grpc/codes"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/server"
	"github.com/easel-grpc/easel/internal/server/servertest"
)

// listenOn returns a listener on a free port of host, which must be an address of this machine.
func listenOn(t *testing.T, host string) net.Listener {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", net.JoinHostPort(host, "0"))
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// sendTo sends a request with the given host name to a listener. It returns the response and its body.
func sendTo(t *testing.T, l net.Listener, host string, r *http.Request) (*http.Response, string) {
	t.Helper()
	r.URL.Host, r.Host = l.Addr().String(), host
	return servertest.Do(t, &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}, r)
}

func TestAttackByDNSRebinding(t *testing.T) {
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
			studio, orders := servertest.NewStudio(), 0
			studio.Create = func(context.Context, *easelv1.CreateGenerationRequest) (*easelv1.CreateGenerationResponse, error) {
				orders++
				return &easelv1.CreateGenerationResponse{}, nil
			}
			l := listenOn(t, test.addr)
			serve(t, studio, func(c *server.Config, form *Config) { c.Listeners.HTTP, form.AllowedHosts = l, test.allowed })
			order := func(host string) (*http.Response, string) {
				return sendTo(t, l, host, servertest.Request(t, http.MethodPost, "/v1/generations", `{"modelId":"m","inputs":{},"idempotencyKey":"k"}`,
					"Origin: http://"+host, "Sec-Fetch-Site: same-origin"))
			}
			for _, host := range test.refused {
				answer, body := order(host)
				if answer.StatusCode != http.StatusMisdirectedRequest {
					t.Errorf("host %s: got %s, want 421: %s", host, answer.Status, body)
				}
				servertest.WantError(t, servertest.RESTStatus(t, body).Err(), codes.PermissionDenied, "HOST_NOT_ALLOWED")
			}
			if orders != 0 {
				t.Fatalf("%d orders from rejected hosts were accepted", orders)
			}
			for _, host := range test.served {
				if answer, body := order(host); answer.StatusCode != http.StatusOK {
					t.Errorf("host %s: got %s, want 200: %s", host, answer.Status, body)
				}
			}
			if orders != len(test.served) {
				t.Errorf("%d orders, want %d", orders, len(test.served))
			}
		})
	}
}
