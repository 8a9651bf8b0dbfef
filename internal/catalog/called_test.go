package catalog

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// hearing is what a client has told of its requests.
type hearing struct {
	mu     sync.Mutex
	heard  []error
	client *Client
}

// newClient makes a client that tells h. It must hold no lock then: whoever is told has
// locks of its own.
func (h *hearing) newClient(t *testing.T, transport http.RoundTripper) *Client {
	t.Helper()
	c, err := New(Config{BaseURL: testURL, Transport: transport})
	if err != nil {
		t.Fatal(err)
	}
	c = c.Reporting(func(ctx context.Context, cred Credential, err error) {
		if ctx == nil {
			t.Error("told without a context")
		}
		if cred.Tenant != testCredential.Tenant {
			t.Errorf("told of the tenant %s", cred.Tenant)
		}
		for _, mu := range []*sync.Mutex{&h.client.upstream.jitter.mu} {
			if !mu.TryLock() {
				t.Error("told with a lock held")
				continue
			}
			mu.Unlock()
		}
		h.mu.Lock()
		defer h.mu.Unlock()
		h.heard = append(h.heard, err)
	})
	h.client = c
	return c
}

// kinds gives the kinds of what was heard; 0 is a 2xx.
func (h *hearing) kinds() (kinds []Kind) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, err := range h.heard {
		kinds = append(kinds, KindOf(err))
	}
	return kinds
}

func TestReportingGivesEveryRequestOfACallOnceWithItsOutcome(t *testing.T) {
	for status, want := range map[int]Kind{200: 0, 204: 0, 0: KindUnavailable, 503: KindUnavailable, 429: KindRateLimited, 401: KindCredentialRejected} {
		for op, call := range calls {
			synctest.Test(t, func(t *testing.T) {
				var h hearing
				upstream := &failing{status: status, retryAfter: "7"}
				_ = call(t.Context(), h.newClient(t, upstream))
				if upstream.requests == 0 || len(h.heard) != upstream.requests {
					t.Fatalf("%s, %d: told of %d requests, sent %d", op, status, len(h.heard), upstream.requests)
				}
				for _, err := range h.heard {
					if KindOf(err) != want || want == 0 && err != nil {
						t.Errorf("%s, %d: told %v", op, status, err)
					}
					if want == KindRateLimited && asError(t, err).RetryAfter != 7*time.Second {
						t.Errorf("%s: the time that the catalog asked for is missing in %v", op, err)
					}
				}
			})
		}
	}
}

func TestReportingGivesEachConnectionOfADownload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var h hearing
		requests := 0
		c := h.newClient(t, roundTrip(func(r *http.Request) (*http.Response, error) {
			requests++
			header := http.Header{"Etag": {`"a"`}}
			if requests == 1 { // cut after half of it
				resp := reply(r, 200, header, "01234")
				resp.ContentLength = 10
				return resp, nil
			}
			header.Set("Content-Range", "bytes 5-9/10")
			return reply(r, 206, header, "56789"), nil
		}))
		content, err := c.Content(t.Context(), testCredential, "g1", 0, "")
		if err != nil {
			t.Fatal(err)
		}
		defer content.Body.Close()
		if data, err := io.ReadAll(content.Body); string(data) != "0123456789" || err != nil {
			t.Fatalf("%q, %v", data, err)
		}
		if want := []Kind{0, 0}; !slices.Equal(h.kinds(), want) {
			t.Errorf("told %v, want %v", h.kinds(), want)
		}
	})
}

func TestReportingGivesNoRequestThatWasNeverSent(t *testing.T) {
	over, cancel := context.WithCancel(t.Context())
	cancel()
	past, cancel := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
	defer cancel()
	var h hearing
	upstream := &failing{status: 200}
	c := h.newClient(t, upstream)
	for _, call := range calls {
		_ = call(over, c)
		_ = call(past, c)
	}
	for _, key := range []string{"", "a b", "k\u00e9y"} {
		if _, err := c.Account(t.Context(), Forwarded(NewSecret(key))); KindOf(err) != KindCredentialRejected {
			t.Errorf("%q: %v", key, err)
		}
	}
	if _, err := c.Generation(t.Context(), testCredential, "../me"); KindOf(err) != KindInvalidInput {
		t.Error(err)
	}
	if upstream.requests != 0 || len(h.heard) != 0 {
		t.Errorf("%d requests sent, told %v", upstream.requests, h.heard)
	}
}

func TestReportingGivesARequestWhoseCallerHasLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var h hearing
		c := h.newClient(t, roundTrip(silent))
		_, err := c.Account(before(t, time.Second), testCredential)
		if !errors.Is(err, context.DeadlineExceeded) || len(h.heard) != 1 || !errors.Is(h.heard[0], context.DeadlineExceeded) {
			t.Errorf("%v, told %v", err, h.heard)
		}
	})
}

func TestReportingGivesARefusedConnectionAsUnavailable(t *testing.T) {
	var h hearing
	c := h.newClient(t, roundTrip(func(*http.Request) (*http.Response, error) {
		return nil, &net.OpError{Op: "dial", Err: errors.New("connection refused")}
	}))
	_ = calls[OpCreate](t.Context(), c)
	if want := []Kind{KindUnavailable}; !slices.Equal(h.kinds(), want) {
		t.Errorf("told %v, want %v", h.kinds(), want)
	}
}
