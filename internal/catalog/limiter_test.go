package catalog

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// someone is a sharer with a name.
func someone(name string) sharer {
	return sharerOf(withOwner(context.Background(), name), "Bearer held")
}

// taking takes a place in the background, and tells when it is there.
func taking(ctx context.Context, p *limiter, h sharer) chan error {
	done := make(chan error, 1)
	go func() { done <- p.acquire(ctx, h) }()
	synctest.Wait()
	return done
}

func come(done chan error) bool {
	select {
	case err := <-done:
		return err == nil
	default:
		return false
	}
}

func TestOneSharerMayTakeNearlyAllSlots(t *testing.T) { // A8
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		p, greedy, modest := newLimiter(64), someone("greedy"), someone("modest")
		for n := range 60 {
			if !come(taking(ctx, p, greedy)) {
				t.Fatalf("it waits for place %d of 64", n+1)
			}
		}
		if come(taking(ctx, p, greedy)) {
			t.Error("it has a spare place too")
		}
		for n := range fewSlots {
			if !come(taking(ctx, p, modest)) {
				t.Errorf("another waits for its place %d", n+1)
			}
		}
		if come(taking(ctx, p, modest)) {
			t.Error("another has more than its part of the spare places")
		}
		cancel()
		synctest.Wait()
		if len(p.waiting) != 0 {
			t.Errorf("%d wait that have gone", len(p.waiting))
		}
	})
}

func TestTheSharerWithTheFewestSlotsGetsTheNext(t *testing.T) { // A8
	synctest.Test(t, func(t *testing.T) {
		p, greedy, modest := newLimiter(16), someone("greedy"), someone("modest")
		for range 15 {
			come(taking(t.Context(), p, greedy))
		}
		come(taking(t.Context(), p, modest)) // the spare one
		first, second := taking(t.Context(), p, greedy), taking(t.Context(), p, modest)
		if p.release(greedy); come(second) {
			t.Error("the spare place is given to one that waits, and is none any more")
		}
		p.release(greedy)
		synctest.Wait()
		if come(first) || !come(second) {
			t.Error("who has the most gets the next place")
		}
		p.release(greedy)
		synctest.Wait()
		if !come(first) {
			t.Error("nobody else waits, and the place stays free")
		}
	})
}

func TestAWaitForASlotIsNoSilenceOfTheCatalog(t *testing.T) { // A8
	synctest.Test(t, func(t *testing.T) {
		w := &wire{answer: func(_ int, _ *http.Request, conn net.Conn) {
			_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nx")
			_, _ = conn.Read(make([]byte, 1)) // until the reader is done
		}}
		base := NewTransport()
		base.DialContext, base.MaxConnsPerHost = w.dial, 1
		var told atomic.Int32
		client, err := New(Config{
			BaseURL: "http://catalog.example", AllowInsecure: true, Transport: poolsOf(t, base), AttemptTimeout: 5 * time.Second,
			Called: func(context.Context, Credential, error) { told.Add(1) },
		})
		if err != nil {
			t.Fatal(err)
		}
		unread, err := client.Content(t.Context(), testCredential, "g", 0, "")
		if err != nil {
			t.Fatal(err)
		}
		_, err = client.Content(t.Context(), Forwarded(NewSecret("another-key")), "g", 0, "")
		if KindOf(err) != KindBusy || !errors.Is(err, errNoConnection) && !strings.Contains(err.Error(), errNoConnection.Error()) {
			t.Errorf("got %v", err)
		}
		if n := told.Load(); n != 1 {
			t.Errorf("%d requests are told of, and one was sent", n)
		}
		_ = unread.Body.Close()
	})
}

// hangingCatalog is a catalog that answers no order and no download of one credential, and all of the other.
func hangingCatalog(t *testing.T) *Client {
	w := &wire{answer: func(_ int, r *http.Request, conn net.Conn) {
		if strings.Contains(r.URL.Path, "slow") || strings.HasPrefix(r.Header.Get("Idempotency-Key"), "slow") {
			_, _ = conn.Read(make([]byte, 1)) // until it is closed
			return
		}
		body := `{"id":"g1","status":"queued"}`
		_, _ = fmt.Fprintf(conn, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	}}
	return w.client(t, Config{})
}

func TestAttackOneOwnersRequestsKeepNoOtherWaiting(t *testing.T) { // A8
	held := Held(func() Secret { return NewSecret("the-key-that-is-held") })
	of := func(name string) Credential { c := held; c.Owner = name; return c }
	for name, creds := range map[string][2]Credential{
		"two API keys":                {testCredential, Forwarded(NewSecret("another-key"))},
		"two owners behind one":       {of("greedy"), of("modest")},
		"an owner and anonymous ones": {of("greedy"), held},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				client := hangingCatalog(t)
				ctx, cancel := context.WithCancel(t.Context())
				for n := range 260 {
					order := Order{ModelID: "m", Inputs: []byte(`{}`), IdempotencyKey: fmt.Sprint("slow ", n)}
					go func() { _, _ = client.Create(ctx, creds[0], order) }()
					go func() { _, _ = client.Content(ctx, creds[0], fmt.Sprint("slow", n), 0, "") }()
				}
				synctest.Wait()
				began := time.Now()
				_, err := client.Create(t.Context(), creds[1], Order{ModelID: "m", Inputs: []byte(`{}`), IdempotencyKey: "quick"})
				if err != nil {
					t.Errorf("an order: %v", err)
				}
				content, err := client.Content(t.Context(), creds[1], "g1", 0, "")
				if err != nil {
					t.Fatalf("a download: %v", err)
				}
				_, _ = io.Copy(io.Discard, content.Body)
				_ = content.Body.Close()
				if took := time.Since(began); took > 0 {
					t.Errorf("they took %v", took)
				}
				cancel()
				time.Sleep(3 * submitTimeout) // the orders that have left are sent again for a while
			})
		})
	}
}

func TestAttackOrdersOfLongInputsLeaveShortReceipts(t *testing.T) { // A6
	if testing.Short() {
		t.Skip("it is of scale and races nothing: make test runs it without the race detector")
	}
	const orders, size = 12, 700_000
	inputs := `{"prompt":"` + strings.Repeat("x", size) + `"}`
	client := newTestClient(t, roundTrip(func(r *http.Request) (*http.Response, error) {
		_, _ = io.Copy(io.Discard, r.Body)
		return reply(r, 200, nil, `{"id":"g`+r.Header.Get("Idempotency-Key")+`","status":"queued","inputs":`+inputs+`}`), nil
	}))
	before := inUse()
	for n := range orders {
		order := Order{ModelID: "m", Inputs: []byte(inputs), IdempotencyKey: fmt.Sprint(n)}
		if _, err := client.Create(t.Context(), testCredential, order); err != nil {
			t.Fatal(err)
		}
	}
	if each := (inUse() - before) / orders; each > 4000 {
		t.Errorf("%d bytes are kept of an order of %d", each, size)
	}
	if client.orders.book.receipts.count != orders {
		t.Error("the orders are not remembered")
	}
}

func inUse() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// receiptFor is an order of an owner that was placed at a time.
func receiptFor(whose string, n int, at time.Time, id string) *submission {
	return &submission{key: orderKey{idempotencyKey: fmt.Sprint(whose, n)}, owner: owner{name: whose}, receipt: receiptOf(Generation{ID: id}, at)}
}

func TestAttackOneOwnersOrdersPushOutNoOthers(t *testing.T) { // A7
	r, now := receipts{byOwner: map[owner][]*submission{}}, time.Now()
	for n := range 10 {
		r.add(receiptFor("modest", n, now, "g"))
	}
	gone := 0
	for n := range maxReceipts + 500 {
		for _, sub := range r.add(receiptFor("greedy", n, now, "g")) {
			if gone++; sub.owner.name != "greedy" {
				t.Fatal("an order of another is pushed out")
			}
		}
	}
	if gone != 510 || r.count != maxReceipts || len(r.byOwner[owner{name: "modest"}]) != 10 {
		t.Errorf("%d orders are pushed out, %d are left", gone, r.count)
	}
}

func TestReceiptsAreBoundedInBytesAndAge(t *testing.T) { // A6
	r, now := receipts{byOwner: map[owner][]*submission{}}, time.Now()
	long := strings.Repeat("g", 1<<20)
	for n := range 200 {
		r.add(receiptFor("any", n, now.Add(time.Duration(n)*time.Hour), long))
	}
	if r.count != maxReceiptBytes/(1<<20)-1 || r.bytes > maxReceiptBytes {
		t.Errorf("%d orders take %d bytes", r.count, r.bytes)
	}
	left := r.count
	gone := r.expired(now.Add(199 * time.Hour))
	if len(gone) != left-24 || r.count != 24 {
		t.Errorf("%d of %d are too old, %d are left", len(gone), left, r.count)
	}
	if r.expired(now.Add(300 * time.Hour)); r.count != 0 || r.bytes != 0 || len(r.byOwner) != 0 {
		t.Errorf("%d are left of %d owners", r.count, len(r.byOwner))
	}
}

func TestAnOwnerHasSoManyOrdersOfUnknownOutcomeAndNoMore(t *testing.T) { // A6
	b := newOrderBook(time.Hour)
	cred := testCredential
	order := func(n int) Order { return Order{ModelID: "m", Inputs: []byte(`{}`), IdempotencyKey: fmt.Sprint(n)} }
	for n := range maxPendingOrders {
		if _, err := b.find(cred, order(n)); err != nil {
			t.Fatal(err)
		}
	}
	_, err := b.find(cred, order(maxPendingOrders))
	if e, ok := errors.AsType[*Error](err); !ok || e.Kind != KindBusy || !e.Unsent {
		t.Errorf("got %v", err)
	}
	sub, err := b.find(cred, order(7))
	if err != nil {
		t.Errorf("one of them can't be sent again: %v", err)
	}
	cred.Owner = "another"
	if _, err := b.find(cred, order(maxPendingOrders)); err != nil {
		t.Errorf("another owner: %v", err)
	}
	run := &submitRun{book: b, done: make(chan struct{})}
	b.finish(sub, run, Receipt{Generation: Generation{ID: "g"}}, nil)
	if _, err := b.find(testCredential, order(maxPendingOrders)); err != nil {
		t.Errorf("after one was named: %v", err)
	}
}
