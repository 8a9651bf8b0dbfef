package orders_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/easel-grpc/easel/internal/catalog"
	"github.com/easel-grpc/easel/internal/orders"
)

// busyCatalog is a catalog that rejects orders and quotes until a given time.
type busyCatalog struct {
	refusal    step
	retryAfter string
	until      time.Time
	posts      atomic.Int32
	inPause    atomic.Int32
	quotes     atomic.Int32
}

func (b *busyCatalog) RoundTrip(r *http.Request) (*http.Response, error) {
	quote := r.Pattern == "POST /quote"
	n := b.quotes.Load()
	if quote {
		n = b.quotes.Add(1)
	} else {
		n += b.posts.Add(1)
	}
	time.Sleep(time.Millisecond)
	header := http.Header{"Content-Type": {"application/json"}}
	switch {
	case time.Now().Before(b.until):
		if n > 1 {
			b.inPause.Add(1)
		}
		header.Set("Retry-After", b.retryAfter)
		return reply(r, b.refusal.status, header, b.refusal.body), nil
	case quote:
		return reply(r, 200, header, `{"priceCents":5}`), nil
	}
	return reply(r, 201, header, fmt.Sprintf(`{"id":"g%d","status":"queued"}`, n)), nil
}

// placeMany concurrently places the given number of orders, each with the given timeout. It first passes each order
// to the function change, which may modify it. placeMany returns the errors from the orders that failed.
func placeMany(t *testing.T, c *client, many int, within time.Duration, change func(*order)) (failed []*orders.Error) {
	t.Helper()
	var mu sync.Mutex
	var all sync.WaitGroup
	for n := range many {
		one := plainOrder
		one.IdempotencyKey = fmt.Sprint("k", n)
		change(&one)
		all.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), within)
			defer cancel()
			_, err := c.Create(ctx, testCredential, one)
			if e, ok := errors.AsType[*orders.Error](err); ok {
				mu.Lock()
				defer mu.Unlock()
				failed = append(failed, e)
			}
		})
	}
	all.Wait()
	return failed
}

func TestOrdersWaitDuringPauseRequestedByCatalog(t *testing.T) {
	for name, change := range map[string]func(*order){
		"without a quote": func(*order) {},
		"with a quote":    func(o *order) { limit := int64(9); o.MaxCostCents = &limit },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				upstream := &busyCatalog{refusal: step{status: 429}, retryAfter: "30", until: time.Now().Add(30 * time.Second)}
				c := newTestClient(t, upstream)
				began := time.Now()
				if failed := placeMany(t, c, 1, 50*time.Second, change); len(failed) != 0 || time.Since(began) < 30*time.Second {
					t.Fatalf("the order was rejected: %v, after %v", failed, time.Since(began))
				}
				upstream.until = time.Now().Add(30 * time.Second)
				if failed := placeMany(t, c, 1, 50*time.Second, change); len(failed) != 0 {
					t.Fatalf("an order was rejected: %v", failed[0])
				}
				if n := upstream.inPause.Load(); n != 1 { // the second order's first request gets a 429, and the client sends no other request until the pause ends
					t.Errorf("%d requests in the second pause, want 1", n)
				}
			})
		})
	}
}

func TestOrderFailsImmediatelyIfPauseExceedsDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		upstream := &busyCatalog{refusal: step{status: 429}, retryAfter: "30", until: time.Now().Add(30 * time.Second)}
		c := newTestClient(t, upstream)
		var patient sync.WaitGroup
		patient.Go(func() {
			if failed := placeMany(t, c, 1, 50*time.Second, func(*order) {}); len(failed) != 0 {
				t.Errorf("the order with the long deadline was rejected: %v", failed[0])
			}
		})
		time.Sleep(time.Second)
		began := time.Now()
		failed := placeMany(t, c, 20, 10*time.Second, func(o *order) { o.IdempotencyKey = "short " + o.IdempotencyKey })
		if len(failed) != 20 || time.Since(began) > time.Second {
			t.Fatalf("%d orders were rejected, after %v", len(failed), time.Since(began))
		}
		for _, e := range failed {
			var refused *catalog.Error
			if !errors.As(e, &refused) || refused.Kind != catalog.KindRateLimited || e.Outcome != orders.NotPlacedByThisCall || refused.RetryAfter < 28*time.Second || refused.RetryAfter > 31*time.Second {
				t.Errorf("the caller received %+v, %v", e, e.Outcome)
			}
		}
		ctx, leave := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, leave)
		_, err := c.Create(ctx, testCredential, order{ModelID: "a/b", Inputs: []byte(`{}`), IdempotencyKey: "left"})
		if outcomeOf(err) != orders.Unknown {
			t.Errorf("a caller that has disconnected receives %+v", err)
		}
		patient.Wait()
		if closed := c.Close(t.Context()); closed != nil || upstream.posts.Load() != 2 {
			t.Errorf("%d orders were posted, want 2; Close returned %v", upstream.posts.Load(), closed)
		}
	})
}

func TestWaitingOrderIsNotTreatedAsAbandoned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		upstream := &busyCatalog{refusal: step{status: 429}, retryAfter: "100", until: time.Now().Add(100 * time.Second)}
		c := newTestClient(t, upstream)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go c.ResendAbandoned(ctx, testCredential)
		if failed := placeMany(t, c, 2, 3*time.Minute, func(*order) {}); len(failed) != 0 {
			t.Errorf("the order was rejected: %v", failed[0])
		}
		if n := upstream.posts.Load(); n > 4 {
			t.Errorf("%d requests for two orders, want at most 4", n)
		}
		cancel()
		synctest.Wait()
	})
}

func TestResentOrderUsesWeightOfItsOwner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		upstream := &busyCatalog{refusal: step{status: 500}, until: time.Now().Add(time.Minute)}
		c := newTestClient(t, upstream)
		var asked atomic.Value
		c.Weight = func(owner string) float64 { asked.Store(owner); return 3 }
		placeMany(t, c, 1, 30*time.Second, func(*order) {})
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
		defer cancel()
		c.ResendAbandoned(ctx, testCredential)
		if asked.Load() != testCredential.Owner {
			t.Errorf("the weight was requested for the owner %v, want the order's owner", asked.Load())
		}
	})
}

func TestUncertainOrderIsResentDespiteDailyCap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		capped := step{status: 409, body: `{"code":"API_KEY_DAILY_CAP"}`}
		upstream := &script{steps: []step{capped, away, placed}}
		c := newTestClient(t, upstream)
		first := plainOrder
		first.IdempotencyKey = "first"
		if _, err := c.Create(t.Context(), testCredential, first); catalog.KindOf(err) != catalog.KindDailyCap {
			t.Fatalf("got %v, want the daily cap", err)
		}
		time.Sleep(time.Minute) // after a minute, one order may probe the daily cap
		receipt, err := c.Create(t.Context(), testCredential, plainOrder)
		if err != nil || receipt.Generation.ID != "g1" {
			t.Errorf("got %+v, %v after a response that left the outcome open", receipt, err)
		}
	})
}

func TestResendsAreLimitedWhileDailyCapIsReached(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		upstream := &busyCatalog{refusal: step{status: 500}, until: time.Now().Add(time.Hour)}
		c := newTestClient(t, upstream)
		var begun atomic.Int32
		c.Weight = func(string) float64 { begun.Add(1); return 1 }
		placeMany(t, c, 20, 30*time.Second, func(*order) {})
		upstream.refusal = step{status: 409, body: `{"code":"API_KEY_DAILY_CAP"}`}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
		defer cancel()
		before := upstream.posts.Load()
		var others sync.WaitGroup
		others.Go(func() { // places new orders, one of which probes the daily cap each minute
			for n := 0; ctx.Err() == nil; n++ {
				one := plainOrder
				one.IdempotencyKey = fmt.Sprint("new", n)
				_, _ = c.Create(ctx, testCredential, one)
				time.Sleep(time.Second)
			}
		})
		c.ResendAbandoned(ctx, testCredential)
		others.Wait()
		// Resends run in rounds, a minute apart. In ten minutes, at least 7 and at most 11 rounds run. Each round
		// resends 8 orders concurrently. Another order may already have been selected when the round ends, so a round
		// starts at most 9 resends.
		if n, posts := begun.Load(), upstream.posts.Load()-before; n < 7*8 || n > 11*9 || posts > n+12 {
			t.Errorf("in ten minutes %d resends started and %d requests were sent", n, posts)
		}
	})
}

func TestOrderLeaseIsKeptDuringCatalogPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		upstream := &busyCatalog{refusal: step{status: 503}, retryAfter: "45", until: time.Now().Add(time.Second)}
		c := newTestClient(t, upstream)
		var caller sync.WaitGroup
		caller.Go(func() {
			if failed := placeMany(t, c, 1, time.Minute, func(*order) {}); len(failed) != 0 {
				t.Errorf("the order failed: %v", failed[0])
			}
		})
		for range 44 {
			time.Sleep(time.Second)
			if _, found, err := c.ledger.Resume(t.Context(), testCredential.Pinned().APIKeySum(), ""); found || err != nil {
				t.Errorf("another process may lease the order: %v", err)
				break
			}
		}
		caller.Wait()
	})
}

// slowAfterAPause fails the first attempt, asks for a pause in response to the second, and takes most of an attempt's timeout to
// accept the third.
type slowAfterAPause struct{ posts atomic.Int32 }

func (s *slowAfterAPause) RoundTrip(r *http.Request) (*http.Response, error) {
	header := http.Header{"Content-Type": {"application/json"}}
	switch s.posts.Add(1) {
	case 1:
		return reply(r, 503, header, ""), nil
	case 2:
		header.Set("Retry-After", "19")
		return reply(r, 429, header, ""), nil
	}
	time.Sleep(14 * time.Second)
	return reply(r, 201, header, `{"id":"g1","status":"queued"}`), nil
}

func TestTheLeaseLastsUntilTheEndOfTheAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		upstream := &slowAfterAPause{}
		c := newTestClient(t, upstream)
		ctx, leave := context.WithTimeout(t.Context(), time.Minute)
		time.AfterFunc(9500*time.Millisecond, leave) // shortly before the lease must be renewed
		if _, err := c.Create(ctx, testCredential, plainOrder); catalog.KindOf(err) != catalog.KindOutcomeUnknown {
			t.Fatalf("got %v, want an unknown outcome", err)
		}
		for range 23 {
			time.Sleep(time.Second)
			if _, found, err := c.ledger.Resume(t.Context(), testCredential.Pinned().APIKeySum(), ""); found || err != nil {
				t.Errorf("another process may lease the order after %d attempts: %v", upstream.posts.Load(), err)
				break
			}
		}
		if err := c.Close(t.Context()); err != nil || upstream.posts.Load() != 3 {
			t.Errorf("%d attempts, want 3; Close returned %v", upstream.posts.Load(), err)
		}
	})
}
