package catalog

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/easel-grpc/easel/internal/limiter"
)

// limited is a transport that records all requests. It responds with l.status before the time l.until, and with success
// afterwards.
type limited struct {
	mu         sync.Mutex
	status     int
	retryAfter string
	until      time.Time
	asked      []string // one entry for each request: "now" before the time in until, after that the idempotency key or the route
}

func (l *limited) RoundTrip(r *http.Request) (*http.Response, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if time.Now().Before(l.until) {
		l.asked = append(l.asked, "now")
		return reply(r, l.status, http.Header{"Retry-After": {l.retryAfter}}, "{}"), nil
	}
	who := r.Header.Get("Idempotency-Key")
	if who == "" {
		who = r.Pattern
	}
	l.asked = append(l.asked, who)
	return reply(r, 200, nil, `{"id":"g1","status":"queued","balanceCents":1}`), nil
}

func TestRetryAfterHeaderDelaysAllRequestsOfAPIKey(t *testing.T) {
	for name, status := range map[string]int{"too many requests": 429, "service unavailable": 503} {
		for op, call := range calls {
			t.Run(name+" of "+op, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					upstream := &limited{status: status, retryAfter: "30", until: time.Now().Add(30 * time.Second)}
					c := newTestClient(t, upstream)
					if err := call(t.Context(), c.Polls()); err == nil {
						t.Fatal("the request was not rejected")
					}
					began := time.Now()
					if _, err := c.Account(before(t, 10*time.Second), testCredential); KindOf(err) != KindRateLimited || asError(t, err).RetryAfter != 30*time.Second || time.Since(began) != 0 {
						t.Errorf("a caller with a short deadline gets %v after %v", err, time.Since(began))
					}
					other := Forwarded(NewSecret("another-key"))
					upstream.until = time.Time{}
					if _, err := c.Account(t.Context(), other); err != nil {
						t.Errorf("a request under another API key returns %v", err)
					}
					if _, err := c.Account(before(t, time.Minute), testCredential); err != nil || time.Since(began) != 30*time.Second {
						t.Errorf("a caller with a long deadline gets %v after %v", err, time.Since(began))
					}
					if len(upstream.asked) != 3 {
						t.Errorf("the catalog received %v", upstream.asked)
					}
				})
			})
		}
	}
}

func TestOwnersShareRequestRateInProportionToWeight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		upstream := &limited{status: 429, retryAfter: "1", until: time.Now().Add(time.Second)}
		c := newTestClient(t, upstream)
		shared := Shared(func() Secret { return NewSecret(testKey) })
		first := Order{ModelID: "m", Inputs: []byte(`{}`), IdempotencyKey: "first"}
		if _, _, err := c.Post(t.Context(), shared, first); KindOf(err) != KindRateLimited {
			t.Fatal(err)
		}
		var all sync.WaitGroup
		for owner, weight := range map[string]float64{"light": 1, "heavy": 3} {
			cred := shared
			cred.Owner, cred.Weight = owner, weight
			for n := range 40 {
				all.Go(func() {
					order := Order{ModelID: "m", Inputs: []byte(`{}`), IdempotencyKey: fmt.Sprint(owner, n)}
					if _, _, err := c.Post(before(t, time.Minute), cred, order); err != nil {
						t.Error(err)
					}
				})
			}
		}
		all.Wait()
		heavy := 0
		for _, who := range upstream.asked[1:41] {
			if strings.HasPrefix(who, "heavy") {
				heavy++
			}
		}
		if heavy < 28 || heavy > 32 {
			t.Errorf("%d of the first 40 requests are from the owner with weight 3, want 28 to 32", heavy)
		}
	})
}

func TestListRequestWaitsForEndOfPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newTestClient(t, answeringTransport(200, "application/json", `[{"id":"g1","status":"queued"}]`))
		permit, err := c.Limiter(testCredential.Tenant).Acquire(t.Context(), limiter.Request{})
		if err != nil {
			t.Fatal(err)
		}
		permit.Release(limiter.Result{Outcome: limiter.Throttled, RetryAfter: 30 * time.Second})
		began := time.Now()
		var callers sync.WaitGroup
		for n := range 5 { // the deadline of caller 0 is before the end of the pause, so its call fails at once
			callers.Go(func() {
				lasts := time.Minute
				if n == 0 {
					lasts = 20 * time.Second
				}
				list, err := c.List(before(t, lasts), testCredential, time.Time{})
				_, ok := list.Find("g1")
				switch took := time.Since(began); {
				case n == 0 && (KindOf(err) != KindRateLimited || took != 0), n > 0 && (err != nil || !ok || took != 30*time.Second):
					t.Errorf("a caller with a deadline of %v gets %v after %v", lasts, err, took)
				}
			})
			if n < 2 {
				synctest.Wait() // the second caller's list request waits for a permit; all later callers share the response to that request
			}
		}
		callers.Wait()
	})
}

// slowCatalog returns a client of a simulated catalog. Each response contains a record of about size bytes, which the
// catalog sends immediately. The catalog ends the response a second later. *most is set to the maximum number of
// responses that were incomplete at the same time.
func slowCatalog(t *testing.T, size int, most *int) *Client {
	record, reading := `{"id":"g1","status":"queued","inputs":{"prompt":"`+strings.Repeat("x", size)+`"}}`, 0
	w := &wire{}
	count := func(n int) {
		w.mu.Lock()
		defer w.mu.Unlock()
		reading += n
		*most = max(*most, reading)
	}
	w.answer = func(_ int, _ *http.Request, conn net.Conn) {
		if _, err := fmt.Fprintf(conn, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n", len(record), record); err != nil {
			return
		}
		count(1)
		time.Sleep(time.Second)
		count(-1)
		_, _ = io.WriteString(conn, "0\r\n\r\n")
	}
	return w.client(t, Config{})
}

func TestConcurrentReadsOfLargeResponsesAreLimited(t *testing.T) {
	for name, row := range map[string]struct {
		size    int
		isLarge bool
	}{"small": {smallBody - 1000, false}, "large": {2 * smallBody, true}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				most := 0
				c := slowCatalog(t, row.size, &most)
				var all sync.WaitGroup
				for range 20 {
					all.Go(func() {
						if _, err := c.Generation(before(t, 10*time.Second), testCredential, "g1"); err != nil {
							t.Error(err)
						}
					})
				}
				all.Wait()
				if (most == maxLargeBodies) != row.isLarge {
					t.Errorf("%d bodies were read at the same time", most)
				}
			})
		})
	}
}

func TestReadFailsAsBusyAfterLongWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := slowCatalog(t, 2*smallBody, new(int)).Polls()
		c.upstream.timeout = 1500 * time.Millisecond
		failed := make(chan error, 3*maxLargeBodies)
		for range 3 * maxLargeBodies {
			go func() { _, err := c.Generation(before(t, time.Minute), testCredential, "g1"); failed <- err }()
		}
		busy := 0
		for range 3 * maxLargeBodies {
			if err := <-failed; KindOf(err) == KindBusy {
				busy++
			}
		}
		if busy == 0 {
			t.Error("no read was rejected")
		}
		time.Sleep(time.Second) // waits until the catalog has finished all responses
	})
}
