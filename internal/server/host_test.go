package server

import (
	"context"
	"net/http"
	"testing"

	"google.golang.org/grpc/codes"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
)

func TestAPageThatRebindsItsNameOrdersNothing(t *testing.T) {
	studio, orders := newStudio(), 0
	studio.create = func(context.Context, *easelv1.CreateGenerationRequest) (*easelv1.CreateGenerationResponse, error) {
		orders++
		return &easelv1.CreateGenerationResponse{}, nil
	}
	s := serve(t, studio, func(c *Config) { c.LoopbackHostsOnly = true })
	order := func(host string) *http.Request {
		r := request(t, http.MethodPost, "/v1/generations", `{"modelId":"m","inputs":{},"idempotencyKey":"k"}`,
			"Origin: http://"+host, "Sec-Fetch-Site: same-origin")
		r.Host = host
		return r
	}
	for _, host := range []string{
		"evil.example", "evil.example:8080", "localhost.evil.example", "127.0.0.1.evil.example:8080", "notlocalhost",
		"192.0.2.1:8080", "[2001:db8::1]:8080", "0.0.0.0:8080", "[::]:8080", "user@localhost",
	} {
		answer, body := do(t, s.http, order(host))
		if answer.StatusCode != http.StatusMisdirectedRequest {
			t.Errorf("%s is answered %s: %s", host, answer.Status, body)
		}
		wantError(t, restStatus(t, body).Err(), codes.PermissionDenied, "HOST_NOT_ALLOWED")
	}
	if orders != 0 {
		t.Fatalf("%d orders got through", orders)
	}
	own := []string{"localhost", "LocalHost:8080", "127.0.0.1:8080", "127.0.0.2", "[::1]:8080", "[::1]"}
	for _, host := range own {
		if answer, body := do(t, s.http, order(host)); answer.StatusCode != http.StatusOK {
			t.Errorf("%s is answered %s: %s", host, answer.Status, body)
		}
	}
	if orders != len(own) {
		t.Errorf("%d orders, want %d", orders, len(own))
	}
}

func TestAServerThatKnowsItsCallersTakesAnyHost(t *testing.T) {
	s := serve(t, newStudio())
	if answer, body := do(t, s.http, request(t, http.MethodGet, "/v1/generations/g", "")); answer.StatusCode != http.StatusOK {
		t.Errorf("easel.test is answered %s: %s", answer.Status, body)
	}
}
