package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/easel-grpc/easel/internal/catalog"
	"github.com/easel-grpc/easel/internal/ledger"
	"github.com/easel-grpc/easel/internal/proctest"
	"github.com/easel-grpc/easel/internal/reload"
)

// guarded is an account guard with a simulated catalog. In this catalog, an API key belongs to the account whose ID is
// the part of the key before the first dash.
type guarded struct {
	*accountGuard
	away atomic.Bool
	body string // body of the response; "forbidden" means a 403, and empty means the account of the API key
}

func inGuard(t *testing.T, test func(t *testing.T, g *guarded)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		g := &guarded{}
		led, err := ledger.Open(t.Context(), ledger.Config{URL: "sqlite:" + filepath.Join(t.TempDir(), "book.db"), Catalog: "https://catalog.example", ResendWindow: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = led.Close() }()
		client, err := catalog.New(catalog.Config{BaseURL: "http://127.0.0.1/catalog", Seed: 1, Transport: g})
		if err != nil {
			t.Fatal(err)
		}
		g.accountGuard = &accountGuard{client: client, ledger: led, logger: slog.New(slog.DiscardHandler)}
		test(t, g)
	})
}

// RoundTrip implements [http.RoundTripper] for the simulated catalog. If g.away is true, it returns an error, as if
// the catalog were unavailable.
func (g *guarded) RoundTrip(r *http.Request) (*http.Response, error) {
	if g.away.Load() {
		return nil, errors.New("no server is there")
	}
	account, _, _ := strings.Cut(strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "), "-")
	answer := httptest.NewRecorder()
	answer.Header().Set("Content-Type", "application/json")
	switch g.body {
	case "":
	case "forbidden":
		answer.WriteHeader(http.StatusForbidden)
		return answer.Result(), nil
	default:
		fmt.Fprint(answer, g.body)
		return answer.Result(), nil
	}
	fmt.Fprintf(answer, `{"balanceCents":100,"currencyCode":"EUR","account":{"id":%q}}`, account)
	return answer.Result(), nil
}

func keyOf(text string) func() catalog.Secret {
	return func() catalog.Secret { return catalog.NewSecret(text) }
}

func TestSharedAPIKeyMustBelongToLedgerAccount(t *testing.T) {
	inGuard(t, func(t *testing.T, g *guarded) {
		for _, row := range []struct {
			key   string
			other bool
		}{{"one-first", false}, {"other-first", true}, {"one-second", false}} {
			repeat, err := g.checkAtStart(t.Context(), keyOf(row.key))
			if errors.Is(err, errOtherAccount) != row.other || repeat != nil {
				t.Errorf("start with the API key %s: %v", row.key, err)
			}
			if err := g.acceptKey(catalog.NewSecret(row.key)); errors.Is(err, errOtherAccount) != row.other {
				t.Errorf("change to the API key %s: %v", row.key, err)
			}
		}
	})
}

// An API key is accepted if the catalog's response does not identify the key's account, for example because the key may
// not read the account. It is also accepted if it belongs to another member of the organization that owns the account.
func TestAPIKeyWithUnidentifiedAccountIsAccepted(t *testing.T) {
	inGuard(t, func(t *testing.T, g *guarded) {
		for _, body := range []string{
			`{"balanceCents":1,"userId":"u1","organizationId":"o1"}`, `{"balanceCents":1,"userId":"u2","organizationId":"o1"}`,
			`{"balanceCents":1,"user":{"id":"u3"}}`, `forbidden`, `{`,
		} {
			g.body = body
			if err := g.check(t.Context(), catalog.NewSecret("one-first")); err != nil {
				t.Errorf("%s: %v", body, err)
			}
		}
		g.body = `{"balanceCents":1,"userId":"u1","organizationId":"o2"}`
		if err := g.check(t.Context(), catalog.NewSecret("one-first")); !errors.Is(err, errOtherAccount) {
			t.Errorf("API key of another organization: got error %v, want errOtherAccount", err)
		}
	})
}

func TestNewAPIKeyIsUsedOnlyAfterAccountCheck(t *testing.T) {
	inGuard(t, func(t *testing.T, g *guarded) {
		file := filepath.Join(t.TempDir(), "key")
		put := func(key string) {
			proctest.Write(t, file, key)
			time.Sleep(reload.Interval)
		}
		put("one-first")
		held, err := openHeldKey(file, slog.New(slog.DiscardHandler), g.acceptKey)
		if err != nil {
			t.Fatal(err)
		}
		if repeat, err := g.checkAtStart(t.Context(), held.Known); err != nil || repeat != nil {
			t.Fatalf("the account is unknown at startup: %v", err)
		}
		for _, row := range []struct {
			key, inForce string
			away         bool
		}{{"one-second", "one-second", false}, {"other-first", "one-second", false}, {"one-third", "one-second", true}, {"one-third", "one-third", false}} {
			g.away.Store(row.away)
			put(row.key)
			time.Sleep(accountPause)
			if held.Reload(); held.Known().Reveal() != row.inForce || (held.Problem() != nil) != (row.key != row.inForce) {
				t.Errorf("new API key %s, catalog unavailable: %v: got API key %s, problem %v", row.key, row.away, held.Known().Reveal(), held.Problem())
			}
		}
	})
}

// The server starts while the catalog is unavailable. If the server's API key and ledger belong to different accounts,
// the server stops once the catalog is available again.
func TestAccountCheckIsRetriedUntilCatalogResponds(t *testing.T) {
	for key, other := range map[string]bool{"one-second": false, "other-first": true} {
		t.Run(key, func(t *testing.T) {
			inGuard(t, func(t *testing.T, g *guarded) {
				if err := g.check(context.Background(), catalog.NewSecret("one-first")); err != nil {
					t.Fatal(err)
				}
				g.away.Store(true)
				repeat, err := g.checkAtStart(t.Context(), keyOf(key))
				if err != nil {
					t.Fatal(err)
				}
				ctx, stop := context.WithCancel(t.Context())
				defer stop()
				ended := make(chan error, 1)
				go func() { ended <- repeat(ctx) }()
				time.Sleep(time.Hour)
				if !g.ledger.AccountUnknown.Load() {
					t.Error("orders are sent before the account is known")
				}
				g.away.Store(false)
				time.Sleep(2 * accountPause)
				if g.ledger.AccountUnknown.Load() != other {
					t.Errorf("after the catalog responded, AccountUnknown is %v", !other)
				}
				if err := <-ended; errors.Is(err, errOtherAccount) != other {
					t.Errorf("the check ended with %v", err)
				}
			})
		})
	}
}

func TestFailedAccountCheckIsRetriedWithinOneSecond(t *testing.T) {
	inGuard(t, func(t *testing.T, g *guarded) {
		g.away.Store(true)
		repeat, err := g.checkAtStart(t.Context(), keyOf("one-first"))
		if err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() { ended <- repeat(t.Context()) }()
		g.away.Store(false)
		if time.Sleep(time.Second); g.ledger.AccountUnknown.Load() {
			t.Error("orders still wait a second after the catalog has responded")
		}
		if err := <-ended; err != nil {
			t.Errorf("the check ended with %v", err)
		}
	})
}
