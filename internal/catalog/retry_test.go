package catalog

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestRetryAfterHeaderAcceptsSecondsOrDate(t *testing.T) {
	now := time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)
	for value, want := range map[string]time.Duration{
		"1": time.Second, " 30 ": 30 * time.Second, "120": 2 * time.Minute, "+5": 5 * time.Second,
		"121": 2 * time.Minute, "315360000": 2 * time.Minute, "99999999999999999999999": 2 * time.Minute,
		"0": 0, "-1": 0, "-99999999999999999999999": 0, "": 0, "soon": 0, "1.5": 0, "5 s": 0, "0x10": 0, "1e3": 0, "∞": 0,
		"Tue, 01 Jan 2030 12:00:09 GMT":   9 * time.Second,
		"Tuesday, 01-Jan-30 12:00:09 GMT": 9 * time.Second,
		"Tue Jan  1 12:00:09 2030":        9 * time.Second,
		"Tue, 01 Jan 2030 12:00:00 GMT":   0,
		"Tue, 01 Jan 2030 11:59:59 GMT":   0,
		"Thu, 01 Jan 1970 00:00:00 GMT":   0,
		"Tue, 01 Jan 2040 12:00:00 GMT":   2 * time.Minute,
		"Fri, 31 Dec 9999 23:59:59 GMT":   2 * time.Minute,
		"2030-01-01T12:00:09Z":            0,
	} {
		if got := ParseRetryAfter(value, now); got != want {
			t.Errorf("%q: got %v, want %v", value, got, want)
		}
	}
}

func FuzzParseRetryAfter(f *testing.F) {
	f.Add("7")
	f.Add("-")
	f.Add("0  ")
	f.Add("10000000000000000000")
	f.Add("Tue, 01 Jan 2030 12:00:09 GMT")
	f.Fuzz(func(t *testing.T, value string) {
		if got := ParseRetryAfter(value, observed); got < 0 || got > maxRetryAfter {
			t.Errorf("%q: got %v", value, got)
		}
	})
}

// failing is a transport that counts the requests and responds to all of them with the same status. If status is zero,
// all requests fail without a response.
type failing struct {
	status     int
	retryAfter string
	requests   int
}

func (f *failing) RoundTrip(r *http.Request) (*http.Response, error) {
	f.requests++
	if f.status == 0 {
		return nil, errors.New("connection refused")
	}
	return reply(r, f.status, http.Header{"Retry-After": {f.retryAfter}}, ""), nil
}

func TestServerErrorIsRetriedTwiceExceptForOrders(t *testing.T) {
	for status, want := range map[int]int{0: 3, 500: 3, 502: 3, 503: 3, 400: 1, 401: 1, 402: 1, 403: 1, 404: 1, 408: 1, 409: 1, 429: 1, 302: 1} {
		for op, call := range calls {
			synctest.Test(t, func(t *testing.T) {
				upstream := &failing{status: status}
				expected := want
				if op == OpCreate {
					expected = 1
				}
				err := call(t.Context(), newTestClient(t, upstream))
				if err == nil || upstream.requests != expected {
					t.Errorf("%s, %d: %d requests, want %d", op, status, upstream.requests, expected)
				}
				upstream.requests = 0
				err = call(t.Context(), newTestClient(t, upstream).Polls())
				if err == nil || upstream.requests != 1 {
					t.Errorf("%s, %d: %d requests by a client without retries, want 1", op, status, upstream.requests)
				}
			})
		}
	}
}

func TestRetriesAddAtMostTenPercentDuringOutage(t *testing.T) {
	for _, status := range []int{0, 503} {
		synctest.Test(t, func(t *testing.T) {
			upstream := &failing{status: status}
			c := newTestClient(t, upstream)
			const load = 200
			for range load {
				if _, err := c.Account(t.Context(), testCredential); KindOf(err) != KindUnavailable {
					t.Fatalf("got %v", err)
				}
			}
			if upstream.requests <= load || upstream.requests > load*110/100 {
				t.Errorf("%d requests for %d calls", upstream.requests, load)
			}
		})
	}
}

func TestRetryIsDelayedByRetryAfterHeader(t *testing.T) {
	for name, c := range map[string]struct {
		retryAfter time.Duration
		deadline   time.Duration
		requests   int
		takes      time.Duration
	}{
		"time for both retries":          {4 * time.Second, time.Minute, 3, 8 * time.Second},
		"no time for the first retry":    {4 * time.Second, 3 * time.Second, 1, 0},
		"no time for the second retry":   {4 * time.Second, 6 * time.Second, 2, 4 * time.Second},
		"delay over the attempt timeout": {time.Minute, 10 * time.Minute, 1, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				upstream := &failing{status: 503, retryAfter: fmt.Sprint(c.retryAfter.Seconds())}
				start := time.Now()
				_, err := newTestClient(t, upstream).Account(before(t, c.deadline), testCredential)
				if e := asError(t, err); e.Kind != KindUnavailable || e.RetryAfter != c.retryAfter || upstream.requests != c.requests || time.Since(start) != c.takes {
					t.Errorf("%d requests in %v, %v", upstream.requests, time.Since(start), err)
				}
			})
		})
	}
}

// neverRespond waits until the request is canceled, and then returns an error. It never responds.
func neverRespond(r *http.Request) (*http.Response, error) {
	<-r.Context().Done()
	return nil, r.Context().Err()
}

func TestCallTimesOutWhenCatalogNeverResponds(t *testing.T) {
	for op, call := range calls {
		synctest.Test(t, func(t *testing.T) {
			c := newTestClient(t, roundTrip(neverRespond)).Polls()
			start := time.Now()
			err := call(t.Context(), c)
			want := KindUnavailable
			if op == OpCreate {
				want = KindOutcomeUnknown
			}
			if e := asError(t, err); e.Kind != want || !strings.Contains(err.Error(), "no response in time") || time.Since(start) != 15*time.Second {
				t.Errorf("%s: got %v after %v", op, err, time.Since(start))
			}
		})
	}
}

func TestCallReturnsErrorOfCallersContext(t *testing.T) {
	for op, call := range calls {
		synctest.Test(t, func(t *testing.T) {
			c := newTestClient(t, roundTrip(neverRespond))
			start := time.Now()
			err := call(before(t, 2*time.Second), c)
			if !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != 2*time.Second {
				t.Errorf("%s: got %v after %v", op, err, time.Since(start))
			}
			if op == OpCreate { // the order may have reached the catalog before the interruption
				if KindOf(err) != KindOutcomeUnknown {
					t.Errorf("got %v", err)
				}
			} else if err != context.DeadlineExceeded {
				t.Errorf("%s: got %v, want context.DeadlineExceeded without wrapping", op, err)
			}
			ctx, cancel := context.WithCancel(context.Background())
			cancel()
			if err := call(ctx, c); err != context.Canceled {
				t.Errorf("%s: got %v, want context.Canceled", op, err)
			}
		})
	}
}

func TestRetryDelayEndsWithCallersContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(context.Background())
		time.AfterFunc(time.Second, cancel)
		_, err := newTestClient(t, &failing{status: 503, retryAfter: "9"}).Account(ctx, testCredential)
		if err != context.Canceled {
			t.Errorf("got %v", err)
		}
	})
}

func TestRetriedDeletionTreatsNotFoundAsSuccess(t *testing.T) {
	for name, c := range map[string]struct {
		answers []int // HTTP statuses of the catalog's responses; zero means that the response is lost
		want    Kind
	}{
		"confirmed":                       {[]int{204}, 0},
		"confirmed with a body":           {[]int{200}, 0},
		"not found":                       {[]int{404}, KindNotFound},
		"not found after a lost response": {[]int{0, 404}, 0},
		"gone after two failures":         {[]int{0, 503, 410}, 0},
		"forbidden after a lost response": {[]int{0, 403}, KindForbidden},
		"no response":                     {[]int{0, 0, 0}, KindUnavailable},
		"rate limited":                    {[]int{429}, KindRateLimited},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := 0
				err := newTestClient(t, roundTrip(func(r *http.Request) (*http.Response, error) {
					status := c.answers[n]
					if n++; status == 0 {
						return nil, errors.New("connection reset")
					}
					return reply(r, status, nil, "not even JSON"), nil
				})).Delete(t.Context(), testCredential, "g1")
				if KindOf(err) != c.want || (err == nil) != (c.want == 0) || n != len(c.answers) {
					t.Errorf("got %v after %d requests", err, n)
				}
			})
		})
	}
}
