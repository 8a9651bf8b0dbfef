package sandbox_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/easel-grpc/easel/internal/sandbox"
)

// bubble is a sandbox in virtual time, without a network.
type bubble struct {
	t       *testing.T
	s       *sandbox.Sandbox
	dialect sandbox.Dialect
	key     string
}

func openBubble(t *testing.T, cfg sandbox.Config) *bubble {
	t.Helper()
	cfg.Seed = 7
	s, err := sandbox.Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	b := &bubble{t: t, s: s, dialect: cfg.Dialect}
	b.key = b.newKey(t)
	t.Cleanup(func() {
		b.books()
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return b
}

func (b *bubble) newKey(t *testing.T) string {
	t.Helper()
	key, err := b.s.CreateKey(t.Context(), sandbox.KeyConfig{BalanceCents: 1000})
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func (b *bubble) books() sandbox.Audit {
	b.t.Helper()
	a, err := b.s.Audit(b.t.Context(), b.key)
	if err != nil {
		b.t.Fatal(err)
	}
	if err := a.Check(); err != nil {
		b.t.Errorf("the accounts are wrong: %v", err)
	}
	return a
}

func (b *bubble) send(method, path, body string, head ...string) reply {
	r := httptest.NewRequest(method, sandbox.BasePath+path, strings.NewReader(body))
	r.Header.Set("Authorization", "Bearer "+b.key)
	r.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(head); i += 2 {
		r.Header.Set(head[i], head[i+1])
	}
	w := httptest.NewRecorder()
	b.s.ServeHTTP(w, r)
	return reply{w.Code, w.Header(), w.Body.Bytes()}
}

func (b *bubble) create(body string, head ...string) string {
	b.t.Helper()
	return b.send("POST", "/generations", body, head...).want(b.t, 201, "").record(b.t)["id"].(string)
}

func (b *bubble) status(id string) string {
	b.t.Helper()
	return b.send("GET", "/generations/"+id, "").want(b.t, 200, "").record(b.t)["status"].(string)
}

func TestGenerationsTakeVirtualTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := openBubble(t, sandbox.Config{})
		start := time.Now()
		var ids []string
		for range 40 {
			ids = append(ids, b.create(`{"modelId":"studio/landscape","inputs":{"prompt":"x","size":"64x40"}}`))
			time.Sleep(10 * time.Second)
		}
		time.Sleep(5 * time.Minute)
		for _, id := range ids {
			if got := b.status(id); got != "succeeded" {
				t.Errorf("%s is %s", id, got)
			}
		}
		if passed := time.Since(start); passed != 700*time.Second {
			t.Errorf("%s have passed", passed)
		}
	})
}

func TestAnIdleSandboxSetsNoTimer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := openBubble(t, sandbox.Config{})
		id := b.create(haiku)
		start := time.Now()
		time.Sleep(1000 * time.Hour) // must advance in one step, or this test would take long
		if b.status(id) != "succeeded" || time.Since(start) != 1000*time.Hour {
			t.Error("the render did not end")
		}
	})
}

func TestAFailedGenerationIsRefundedExactlyOnceInEachWay(t *testing.T) {
	for _, c := range []struct {
		way    sandbox.Refund
		states string
	}{
		{sandbox.RefundLater, "queued failed refunded"},
		{sandbox.RefundAtOnce, "queued refunded"},
		{sandbox.RefundSilent, "queued failed"},
	} {
		t.Run(c.states, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := openBubble(t, sandbox.Config{Dialect: sandbox.Dialect{Refund: c.way}})
				id := b.create(doomed)
				states := "queued"
				for range 80 {
					time.Sleep(100 * time.Millisecond)
					if now := b.status(id); !strings.HasSuffix(states, now) {
						states += " " + now
					}
					b.books()
				}
				if states != c.states {
					t.Errorf("states were %q, want %q", states, c.states)
				}
				if a := b.books(); a.RefundCents != 1 || a.BalanceCents != 1000 {
					t.Errorf("refunds %d, balance %d", a.RefundCents, a.BalanceCents)
				}
				if got := b.send("GET", "/generations/"+id, "").record(t)["failureReason"]; got != "The prompt asked for a failure." {
					t.Errorf("failureReason is %v", got)
				}
			})
		})
	}
}

func TestAnAuditHasTheTrueTimesOfAGeneration(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := openBubble(t, sandbox.Config{RefundDelay: time.Hour})
		b.create(doomed, "Idempotency-Key", "k")
		time.Sleep(time.Second)
		good, ordered := b.create(small), time.Now().UTC()
		time.Sleep(30 * time.Minute)
		bad := b.books().Generations[0]
		if bad.Status != "failed" || bad.RefundedAt != (time.Time{}) || bad.IdempotencyKey != "k" || bad.Model != "studio/haiku" {
			t.Errorf("the failed one: %+v", bad)
		}
		time.Sleep(time.Hour)
		bad = b.books().Generations[0]
		if bad.Status != "refunded" || bad.RefundedAt.Sub(bad.FinishedAt) != time.Hour {
			t.Errorf("the refunded one: %+v", bad)
		}
		done := b.books().Generations[1]
		shown := b.send("GET", "/generations/"+good, "").record(t)
		if !done.CreatedAt.Equal(ordered) || shown["finishedAt"] != done.FinishedAt.Format(time.RFC3339Nano) || !done.RefundedAt.IsZero() {
			t.Errorf("the good one: %+v, shown as %v", done, shown)
		}
	})
}

func TestAShareOfGenerationsFailsAtRandom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := openBubble(t, sandbox.Config{FailureRate: 0.25})
		for range 200 {
			b.create(haiku)
		}
		time.Sleep(time.Hour)
		failed := 0
		for _, g := range b.books().Generations {
			if g.Status == "refunded" {
				failed++
			}
		}
		if failed < 30 || failed > 70 {
			t.Errorf("%d of 200 failed", failed)
		}
	})
}

func TestTheSameSeedMakesTheSameHistory(t *testing.T) {
	history := func() (lines []string) {
		synctest.Test(t, func(t *testing.T) {
			b := openBubble(t, sandbox.Config{FailureRate: 0.3})
			for i := range 20 {
				b.create(haiku)
				time.Sleep(time.Duration(i) * 100 * time.Millisecond)
			}
			time.Sleep(time.Minute)
			lines = []string{string(b.send("GET", "/generations", "").body), b.key}
		})
		return lines
	}
	if one, two := fmt.Sprint(history()), fmt.Sprint(history()); one != two {
		t.Errorf("histories differ:\n%.600s\n%.600s", one, two)
	}
}

func TestDeletingAnUnfinishedGenerationRefundsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := openBubble(t, sandbox.Config{})
		id := b.create(haiku)
		b.send("DELETE", "/generations/"+id, "").want(t, 204, "")
		time.Sleep(time.Hour)
		if a := b.books(); a.BalanceCents != 999 || len(a.Entries) != 2 || !a.Generations[0].Deleted || a.Generations[0].Status != "queued" {
			t.Errorf("the accounts: %+v", a)
		}
	})
}

func TestDeletingAFailedGenerationBringsItsRefundForward(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := openBubble(t, sandbox.Config{RefundDelay: time.Hour})
		id := b.create(doomed)
		time.Sleep(time.Minute)
		if got := b.status(id); got != "failed" || b.books().RefundCents != 0 {
			t.Fatalf("status %s", got)
		}
		b.send("DELETE", "/generations/"+id, "").want(t, 204, "")
		if a := b.books(); a.RefundCents != 1 {
			t.Errorf("refunds are %d", a.RefundCents)
		}
		time.Sleep(2 * time.Hour)
		if a := b.books(); a.RefundCents != 1 {
			t.Errorf("refunds are %d later", a.RefundCents)
		}
	})
}

// pipes is a listener without a network, which works inside a bubble.
type pipes struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

func newPipes() *pipes { return &pipes{conns: make(chan net.Conn), done: make(chan struct{})} }

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	p.once.Do(func() { close(p.done) })
	return nil
}

func (p *pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipes"} }

func (p *pipes) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	ours, theirs := net.Pipe()
	select {
	case p.conns <- theirs:
		return ours, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func TestFaultsWorkOverHTTPInVirtualTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := sandbox.Open(sandbox.Config{Seed: 1})
		if err != nil {
			t.Fatal(err)
		}
		listener := newPipes()
		server := &http.Server{Handler: s}
		go server.Serve(listener)
		transport := &http.Transport{DialContext: listener.dial}
		sh := &shop{t: t, s: s, url: "http://catalog", c: &http.Client{Transport: transport}}
		sh.key = sh.newKey(100)

		start := time.Now()
		s.Inject(sandbox.Fault{Route: "GET /me", Count: 1, Drip: 1})
		size := len(sh.do("GET", "/me", "").want(t, 200, "").body)
		if passed := time.Since(start); passed != time.Duration(size-1)*time.Second {
			t.Errorf("%d bytes dripped in %s", size, passed)
		}
		s.Inject(sandbox.Fault{Route: "POST /generations", Count: 1, AfterCommit: true, Reset: true})
		if _, err := sh.try("POST", "/generations", haiku, "Idempotency-Key", "k"); err == nil {
			t.Error("the answer was not lost")
		}
		s.Inject(sandbox.Fault{Route: "GET /models", Count: 1, Hang: true})
		sh.c.Timeout = time.Hour
		if _, err := sh.try("GET", "/models", ""); !isTimeout(err) {
			t.Errorf("a hang ended with %v", err)
		}
		id := sh.do("POST", "/generations", haiku, "Idempotency-Key", "k").want(t, 200, "").record(t)["id"].(string)
		if got := sh.do("GET", "/generations/"+id, "").record(t)["status"]; got != "succeeded" {
			t.Errorf("after an hour the render is %v", got)
		}
		sh.books()
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		transport.CloseIdleConnections()
		server.Close()
	})
}
