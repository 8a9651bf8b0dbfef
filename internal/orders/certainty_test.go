package orders_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/easel-grpc/easel/internal/catalog"
	"github.com/easel-grpc/easel/internal/ledger"
	"github.com/easel-grpc/easel/internal/orders"
)

const testURL = "https://catalog.example/api"

// testCredential is the credential of a shared API key that never changes.
var testCredential = catalog.Shared(func() catalog.Secret { return catalog.NewSecret("studio_live_0123456789abcdef") })

func newTestClient(t *testing.T, transport http.RoundTripper) *client {
	t.Helper()
	return newClient(t, catalog.Config{BaseURL: testURL, Transport: transport})
}

// step is the catalog's response to one attempt to place an order.
type step struct {
	status int
	body   string
	err    error
}

var (
	placed     = step{status: 201, body: `{"id":"g1","status":"queued"}`}
	away       = step{status: 503}
	refusedNow = step{status: 402, body: `{"code":"INSUFFICIENT_BALANCE","message":"no money"}`}
	noDial     = step{err: &net.OpError{Op: "dial", Err: errors.New("connection refused")}}
)

// script responds to each attempt with the next step. When no steps are left, it repeats the last one. It records the
// API key, the idempotency key and the body of each attempt.
type script struct {
	steps   []step
	apiKeys []string
	keys    []string
	bodies  []string
	quote   step
}

func (s *script) RoundTrip(r *http.Request) (*http.Response, error) {
	now := s.quote
	if r.Pattern == "POST /generations" {
		now = s.steps[min(len(s.apiKeys), len(s.steps)-1)]
		s.apiKeys = append(s.apiKeys, r.Header.Get("Authorization"))
		s.keys = append(s.keys, r.Header.Get("Idempotency-Key"))
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return nil, err
		}
		s.bodies = append(s.bodies, string(body))
	}
	if now.err != nil {
		return nil, now.err
	}
	return reply(r, now.status, http.Header{"Content-Type": {"application/json"}}, now.body), nil
}

var plainOrder = order{ModelID: "a/b", Inputs: []byte(`{}`), IdempotencyKey: "k"}

// createWithin places the order o with the given timeout. It then calls c.Close, which waits until the order's submission
// has finished.
func createWithin(t *testing.T, c *client, cred catalog.Credential, o order, patience time.Duration) (orders.Receipt, *orders.Error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	receipt, err := c.Create(ctx, cred, o)
	if closed := c.Close(t.Context()); closed != nil {
		t.Fatal(closed)
	}
	if err == nil {
		return receipt, nil
	}
	failed, ok := errors.AsType[*orders.Error](err)
	if !ok {
		t.Fatalf("the error %v does not report the order's outcome", err)
	}
	return receipt, failed
}

func TestRejectionIsWithheldWhileOrderMayExist(t *testing.T) {
	for name, refusal := range map[string]step{
		"insufficient balance": refusedNow,
		"daily cap":            {status: 409, body: `{"code":"API_KEY_DAILY_CAP"}`},
		"invalid input":        {status: 400, body: `{"code":"INVALID"}`},
		"unknown model":        {status: 404, body: `{"code":"MODEL_NOT_FOUND"}`},
		"forbidden":            {status: 403},
		"rejected API key":     {status: 401},
		"request too large":    {status: 413},
		"rate limited":         {status: 429},
		"redirect":             {status: 307},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				upstream := &script{steps: []step{away, refusal}}
				c := newTestClient(t, upstream)
				for range 3 { // the first call receives a broken response, and the other two repeat the order
					_, err := createWithin(t, c, testCredential, plainOrder, time.Second)
					if err == nil || catalog.KindOf(err) != catalog.KindOutcomeUnknown || err.Outcome != orders.Unknown {
						t.Fatalf("got %+v, want an unknown outcome", err)
					}
				}
				attempts := len(upstream.apiKeys)
				upstream.steps = []step{placed}
				time.Sleep(time.Minute) // after a response that reports a daily cap, the limiter delays orders for a minute
				receipt, err := createWithin(t, c, testCredential, plainOrder, time.Minute)
				if err != nil || receipt.Generation.ID != "g1" || len(upstream.apiKeys) == attempts {
					t.Errorf("the order was resent %d times and returned %+v, %v", len(upstream.apiKeys)-attempts, receipt, err)
				}
			})
		})
	}
}

func TestDifferentOrderWithUsedIdempotencyKeyIsNotSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		upstream := &script{steps: []step{away}}
		c := newTestClient(t, upstream)
		_, _ = createWithin(t, c, testCredential, plainOrder, time.Second)
		attempts := len(upstream.keys)
		other := plainOrder
		other.Inputs = []byte(`{"n":1}`)
		_, err := createWithin(t, c, testCredential, other, time.Second)
		if err == nil || catalog.KindOf(err) != catalog.KindKeyReused || err.Outcome != orders.NotPlacedByThisCall || len(upstream.keys) != attempts {
			t.Errorf("got %+v after %d further attempts", err, len(upstream.keys)-attempts)
		}
	})
}

func TestAllAttemptsUseSameKeysAndBody(t *testing.T) {
	numbered := order{ModelID: "m/1", Inputs: []byte(`{"n": 9007199254740993}`), IdempotencyKey: "key-1"}
	for name, steps := range map[string][]step{
		"two 503s first":      {away, away, placed},
		"no connection first": {noDial, away, placed},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rotations := 0
				upstream := &script{steps: steps}
				c := newTestClient(t, upstream)
				held := catalog.Shared(func() catalog.Secret { // each call returns a different API key
					rotations++
					return catalog.NewSecret(string(rune('a' + rotations)))
				})
				for range 10 {
					if _, err := createWithin(t, c, held, numbered, time.Second); err == nil {
						break
					}
				}
				if len(upstream.apiKeys) != len(steps) || rotations < 1 {
					t.Fatalf("%d attempts, want %d; the API key was read %d times", len(upstream.apiKeys), len(steps), rotations)
				}
				for n, body := range upstream.bodies {
					if upstream.apiKeys[n] != upstream.apiKeys[0] || upstream.keys[n] != "key-1" || body != `{"modelId":"m/1","inputs":{"n": 9007199254740993}}` {
						t.Errorf("attempt %d has the API key %q, the idempotency key %q and the body %s", n, upstream.apiKeys[n], upstream.keys[n], body)
					}
				}
			})
		})
	}
}

func TestRejectedOrderCanBeSentWithNewAPIKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		upstream := &script{steps: []step{{status: 401, body: `{"code":"INVALID_API_KEY"}`}, placed}}
		c := newTestClient(t, upstream)
		key := "old"
		held := catalog.Shared(func() catalog.Secret { return catalog.NewSecret(key) })
		_, err := createWithin(t, c, held, plainOrder, time.Second)
		if err == nil || catalog.KindOf(err) != catalog.KindCredentialRejected {
			t.Fatalf("got %+v", err)
		}
		key = "new"
		if _, err := createWithin(t, c, held, plainOrder, time.Second); err != nil || upstream.apiKeys[1] != "Bearer new" {
			t.Errorf("got %v; the attempts had the API keys %q", err, upstream.apiKeys)
		}
	})
}

func TestAttemptsContinueForLimitedTimeAfterCallerCancels(t *testing.T) {
	for name, row := range map[string]struct {
		steps    []step
		patience time.Duration // timeout of the call; zero means no deadline
		wait     time.Duration
		attempts int
		placed   bool
	}{
		"placed after a 503":                     {[]step{away, placed}, 20 * time.Second, time.Minute, 2, true},
		"placed after three 503s, no deadline":   {[]step{away, away, away, placed}, 0, time.Minute, 4, true},
		"no connection before the caller leaves": {[]step{noDial, placed}, 20 * time.Second, time.Minute, 1, false},
		"Retry-After beyond the deadline":        {[]step{{status: 503, body: "wait"}, placed}, 20 * time.Second, time.Minute, 1, false},
		"deadline weeks away":                    {[]step{away}, 1000 * time.Hour, time.Minute + 5*time.Second, 0, false},
		"attempts end at the deadline":           {[]step{away}, 2 * time.Second, 2 * time.Second, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				upstream := &script{steps: row.steps}
				transport := roundTrip(func(r *http.Request) (*http.Response, error) {
					resp, err := upstream.RoundTrip(r)
					if err == nil && r.Pattern == "POST /generations" && resp.StatusCode == http.StatusServiceUnavailable && row.steps[0].body == "wait" {
						resp.Header.Set("Retry-After", "60")
					}
					return resp, err
				})
				c := newTestClient(t, transport)
				ctx, cancel := context.WithCancel(t.Context())
				if row.patience > 0 {
					var stop context.CancelFunc
					ctx, stop = context.WithTimeout(ctx, row.patience)
					defer stop()
				}
				go func() {
					time.Sleep(50 * time.Millisecond)
					cancel()
				}()
				began := time.Now()
				_, err := c.Create(ctx, testCredential, plainOrder)
				if catalog.KindOf(err) != catalog.KindOutcomeUnknown || time.Since(began) > time.Second {
					t.Errorf("the caller got %v after %v", err, time.Since(began))
				}
				if err := c.Close(t.Context()); err != nil || time.Since(began) > row.wait {
					t.Errorf("Close returned %v, the attempts took %v, want at most %v", err, time.Since(began), row.wait)
				}
				if n := len(upstream.keys); row.attempts > 0 && n != row.attempts || n == 0 {
					t.Errorf("%d attempts, want %d", n, row.attempts)
				}
				if !row.placed {
					return
				}
				attempts := len(upstream.keys)
				if receipt, err := createWithin(t, c, testCredential, plainOrder, time.Second); err != nil || receipt.Generation.ID != "g1" || len(upstream.keys) != attempts {
					t.Errorf("the repeat returned %+v, %v, and the order was resent %d times", receipt, err, len(upstream.keys)-attempts)
				}
			})
		})
	}
}

func TestAttemptsStopAfterShutdownTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		upstream := &script{steps: []step{away}}
		c := newTestClient(t, upstream)
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			time.Sleep(50 * time.Millisecond)
			cancel()
		}()
		_, err := c.Create(ctx, testCredential, plainOrder)
		if catalog.KindOf(err) != catalog.KindOutcomeUnknown {
			t.Fatal(err)
		}
		short, stop := context.WithTimeout(t.Context(), 3*time.Second)
		defer stop()
		if err := c.Close(short); err == nil {
			t.Error("Close reports that all orders have finished")
		}
		ended := time.Now()
		if err := c.Close(t.Context()); err != nil || time.Since(ended) > 0 {
			t.Errorf("Close returned %v, and the attempts continued for %v", err, time.Since(ended))
		}
	})
}

func TestTheResendWindowBeginsWithTheFirstAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		attempts := 0
		c := newClient(t, catalog.Config{BaseURL: testURL, Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
			attempts++
			time.Sleep(20 * time.Second)
			return reply(r, http.StatusServiceUnavailable, nil, ""), nil
		})}, func(at *ledger.Config) { at.ResendWindow = time.Minute })
		_, _ = createWithin(t, c, testCredential, plainOrder, time.Second) // the timeout of 1 s prevents a second attempt, but does not interrupt the first one, which takes 20 s
		time.Sleep(40 * time.Second)
		before := attempts
		_, failed := createWithin(t, c, testCredential, plainOrder, time.Second)
		if !errors.Is(failed, orders.ErrResendWindow) || attempts != before {
			t.Errorf("a minute after the first attempt, the repeat returned %v, and the order was resent %d times", failed, attempts-before)
		}
	})
}
