package main

import (
	"maps"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/easel-grpc/easel/internal/sandbox"
)

const (
	catalogRate  = 20.0                   // orders a second that the catalog takes; above it answers 429
	orderLatency = 200 * time.Millisecond // of an order that it takes
	orderRoute   = "POST /generations"
)

// limitedCatalog is a sandbox that takes so many orders a second, and notes what comes.
type limitedCatalog struct {
	box *sandbox.Sandbox
	url string
	key string

	mu       sync.Mutex
	requests []time.Time
	orders   []time.Time // that were taken
	pauses   []catalogPause
}

// catalogPause is the time for which the catalog has asked not to be asked.
type catalogPause struct{ from, until time.Time }

func newLimitedCatalog(t *testing.T) *limitedCatalog {
	t.Helper()
	box, err := sandbox.Open(sandbox.Config{Seed: 1, Speed: 1000, RateLimit: catalogRate, RateRoute: orderRoute})
	if err != nil {
		t.Fatal(err)
	}
	c := &limitedCatalog{box: box}
	server := httptest.NewServer(c)
	t.Cleanup(func() { server.Close(); _ = box.Close() })
	c.url = server.URL + sandbox.BasePath
	if c.key, err = box.CreateKey(t.Context(), sandbox.KeyConfig{BalanceCents: 1 << 40}); err != nil {
		t.Fatal(err)
	}
	return c
}

// ServeHTTP notes the request and its answer. An order that is taken is answered late, as elsewhere.
func (c *limitedCatalog) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	answer, at := httptest.NewRecorder(), time.Now()
	c.box.ServeHTTP(answer, r)
	c.note(r, answer, at)
	if answer.Code == http.StatusCreated {
		time.Sleep(orderLatency)
	}
	maps.Copy(w.Header(), answer.Header())
	w.WriteHeader(answer.Code)
	_, _ = w.Write(answer.Body.Bytes())
}

func (c *limitedCatalog) note(r *http.Request, answer *httptest.ResponseRecorder, at time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.requests = append(c.requests, at)
	switch answer.Code {
	case http.StatusCreated:
		c.orders = append(c.orders, at)
	case http.StatusTooManyRequests:
		seconds, _ := strconv.Atoi(answer.Header().Get("Retry-After"))
		now := time.Now()
		c.pauses = append(c.pauses, catalogPause{now, now.Add(time.Duration(seconds) * time.Second)})
	}
}

// taken counts the orders that were taken between two times.
func (c *limitedCatalog) taken(from, to time.Time) (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, at := range c.orders {
		if !at.Before(from) && at.Before(to) {
			n++
		}
	}
	return n
}

// mostInPauses is the greatest number of requests in one pause that began in a time. Those of its first moments were on
// their way already.
func (c *limitedCatalog) mostInPauses(from, to time.Time, grace time.Duration) (most, pauses int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range c.pauses {
		if p.from.Before(from) || !p.from.Before(to) {
			continue
		}
		pauses++
		n := 0
		for _, at := range c.requests {
			if at.After(p.from.Add(grace)) && at.Before(p.until) {
				n++
			}
		}
		most = max(most, n)
	}
	return most, pauses
}

// paused is how much of a time the catalog has asked not to be asked: no order can be served then.
func (c *limitedCatalog) paused(from, to time.Time) (d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range c.pauses {
		begins, ends := p.from, p.until
		if begins.Before(from) {
			begins = from
		}
		if ends.After(to) {
			ends = to
		}
		d, from = d+max(0, ends.Sub(begins)), maxTime(from, ends)
	}
	return d
}

func maxTime(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// posts counts all orders that came, taken or not.
func (c *limitedCatalog) posts() int { return c.box.Requests()[orderRoute] }

// sandboxPause is a catalog that answers one order with a 429, and asks for a pause.
func sandboxPause(pause time.Duration) sandbox.Fault {
	return sandbox.Fault{
		Route: orderRoute, Status: http.StatusTooManyRequests, Header: map[string]string{"Retry-After": strconv.Itoa(int(pause.Seconds()))},
		Body: `{"code":"RATE_LIMITED","message":"Too many requests."}`, Skip: 5, Count: 1,
	}
}

// capped makes an API key whose daily cap one haiku reaches.
func (c *limitedCatalog) capped(t *testing.T) string {
	t.Helper()
	key, err := c.box.CreateKey(t.Context(), sandbox.KeyConfig{BalanceCents: 1 << 40, DailyCapCents: 1})
	if err != nil {
		t.Fatal(err)
	}
	return key
}
