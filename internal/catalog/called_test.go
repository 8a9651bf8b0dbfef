package catalog

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"testing/synctest"
	"time"
)

// reportingClient returns a client that reports the result of each request: an error, or nil for success. The client
// appends the results to the returned list.
func reportingClient(t *testing.T, transport http.RoundTripper) (*Client, *[]error) {
	t.Helper()
	reported := new([]error)
	c := newTestClient(t, transport)
	return c.Reporting(func(ctx context.Context, cred Credential, err error) {
		if ctx == nil || cred.Tenant != testCredential.Tenant || !c.upstream.jitter.mu.TryLock() {
			t.Errorf("%v is reported with an invalid context, for the wrong tenant %s, or while a lock is held", err, cred.Tenant)
			return
		}
		c.upstream.jitter.mu.Unlock()
		*reported = append(*reported, err)
	}), reported
}

func TestEachSentRequestIsReportedOnceWithItsOutcome(t *testing.T) {
	for status, want := range map[int]Kind{200: 0, 204: 0, 0: KindUnavailable, 503: KindUnavailable, 429: KindRateLimited, 401: KindCredentialRejected} {
		for op, call := range calls {
			synctest.Test(t, func(t *testing.T) {
				upstream := &failing{status: status, retryAfter: "7"}
				c, reported := reportingClient(t, upstream)
				_ = call(t.Context(), c)
				if upstream.requests == 0 || len(*reported) != upstream.requests {
					t.Fatalf("%s, %d: %d requests reported, %d sent", op, status, len(*reported), upstream.requests)
				}
				for _, err := range *reported {
					if KindOf(err) != want || want == 0 && err != nil {
						t.Errorf("%s, %d: reported %v", op, status, err)
					}
					if want == KindRateLimited && asError(t, err).RetryAfter != 7*time.Second {
						t.Errorf("%s: the delay that the catalog requested is missing in %v", op, err)
					}
				}
			})
		}
	}
}

func TestUnsentRequestIsNotReported(t *testing.T) {
	over, cancel := context.WithCancel(t.Context())
	cancel()
	past, cancel := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
	defer cancel()
	upstream := &failing{status: 200}
	c, reported := reportingClient(t, upstream)
	for _, call := range calls {
		_ = call(over, c)
		_ = call(past, c)
	}
	for _, key := range []string{"", "a b", "a\nb", "k\u00e9y"} {
		if _, err := c.Account(t.Context(), Forwarded(NewSecret(key))); KindOf(err) != KindCredentialRejected {
			t.Errorf("%q: %v", key, err)
		}
	}
	if _, err := c.Generation(t.Context(), testCredential, "../me"); KindOf(err) != KindInvalidInput {
		t.Error(err)
	}
	if upstream.requests != 0 || len(*reported) != 0 {
		t.Errorf("%d requests sent, reported %v", upstream.requests, *reported)
	}
}

func TestRequestIsReportedWhenCallersDeadlineExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, reported := reportingClient(t, roundTrip(neverRespond))
		_, err := c.Account(before(t, time.Second), testCredential)
		if !errors.Is(err, context.DeadlineExceeded) || len(*reported) != 1 || !errors.Is((*reported)[0], context.DeadlineExceeded) {
			t.Errorf("got %v, reported %v", err, *reported)
		}
	})
}
