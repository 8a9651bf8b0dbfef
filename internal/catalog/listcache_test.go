package catalog

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// size returns the number of API keys for which a list is cached.
func (l *lists) size() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.all)
}

// slowLister returns a client of a simulated catalog, and a counter of the requests that the catalog has received. The
// catalog takes half a second for each response. respond returns the status and the body of the response to the n-th
// request.
func slowLister(t *testing.T, respond func(n int64, r *http.Request) (int, string)) (*Client, *atomic.Int64) {
	asked := new(atomic.Int64)
	return newTestClient(t, roundTrip(func(r *http.Request) (*http.Response, error) {
		n := asked.Add(1)
		select {
		case <-time.After(time.Second / 2):
		case <-r.Context().Done():
			return nil, r.Context().Err()
		}
		status, body := respond(n, r)
		return reply(r, status, nil, body), nil
	})).Polls(), asked
}

func numbered(n int64, _ *http.Request) (int, string) {
	return 200, fmt.Sprintf(`[{"id":"g%d","status":"queued"}]`, n)
}

func TestCallersWithinOneSecondShareOneListRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, asked := slowLister(t, numbered)
		began, served := time.Now(), new(atomic.Int64)
		for i := range 150 {
			go func() {
				time.Sleep(time.Duration(i) * time.Second / 150) // all calls start within a second of the first one
				list, err := c.List(t.Context(), testCredential, time.Time{})
				if _, ok := list.Find("g1"); err != nil || !ok {
					t.Errorf("after %v: %+v, %v", time.Since(began), list, err)
				}
				served.Add(1)
			}()
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if asked.Load() != 1 || served.Load() != 150 {
			t.Errorf("%d lists served %d callers, want 1 list for 150", asked.Load(), served.Load())
		}
		if n := c.lists.size(); n != 0 {
			t.Errorf("%d lists are still stored after a second", n)
		}
		if list, err := c.List(t.Context(), testCredential, time.Time{}); err != nil || asked.Load() != 2 || list.Records[0].ID != "g2" {
			t.Errorf("after one second, the list is %+v, %v", list, err)
		}
		if list, err := c.List(t.Context(), Forwarded(NewSecret("another-key-of-another")), time.Time{}); err != nil || list.Records[0].ID != "g3" {
			t.Errorf("under another API key: %+v, %v", list, err)
		}
	})
}

func TestCallerGetsListNoOlderThanRequested(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, asked := slowLister(t, numbered)
		go func() { _, _ = c.List(t.Context(), testCredential, time.Time{}) }()
		time.Sleep(time.Second / 4)
		for range 10 { // these callers need a list that is newer than the first one, and share one request for it
			go func() {
				if list, err := c.List(t.Context(), testCredential, time.Now()); err != nil || list.Records[0].ID != "g2" {
					t.Errorf("%+v, %v", list, err)
				}
			}()
		}
		time.Sleep(time.Second / 2)
		synctest.Wait()
		if asked.Load() != 2 {
			t.Errorf("%d lists were requested, want 2", asked.Load())
		}
		time.Sleep(time.Second / 4)
		list, err := c.List(t.Context(), testCredential, time.Now().Add(time.Hour)) // a time in the future, as if it came from a clock that is ahead
		if err != nil || list.Records[0].ID != "g3" {
			t.Errorf("%+v, %v", list, err)
		}
	})
}

func TestDeletionInvalidatesOverlappingList(t *testing.T) {
	for _, start := range []time.Duration{time.Second / 4, -time.Second / 4} { // start of the deletion, relative to the start of the list request; each of the two requests takes half a second
		synctest.Test(t, func(t *testing.T) {
			c, _ := slowLister(t, numbered)
			go func() {
				time.Sleep(max(0, -start))
				_, _ = c.List(t.Context(), testCredential, time.Time{})
			}()
			time.Sleep(max(0, start))
			if err := c.Delete(t.Context(), testCredential, "g1"); err != nil {
				t.Fatal(err)
			}
			if list, err := c.List(t.Context(), testCredential, time.Time{}); err != nil || list.Records[0].ID != "g3" {
				t.Errorf("deletion at %v: got %+v, %v", start, list, err)
			}
			time.Sleep(time.Second)
		})
	}
}

func TestCanceledListCallerDoesNotFailOtherCallers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, asked := slowLister(t, numbered)
		first, leave := context.WithCancel(t.Context())
		go func() {
			if _, err := c.List(first, testCredential, time.Time{}); !errors.Is(err, context.Canceled) {
				t.Errorf("the first caller gets %v", err)
			}
		}()
		synctest.Wait()
		go func() {
			if list, err := c.List(t.Context(), testCredential, time.Time{}); err != nil || list.Records[0].ID != "g2" {
				t.Errorf("the second caller gets %+v, %v", list, err)
			}
		}()
		synctest.Wait()
		if asked.Load() != 1 {
			t.Errorf("%d lists were requested", asked.Load())
		}
		leave()
		time.Sleep(time.Second)
	})
}

func TestCanceledListRequestIsNotCached(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := slowLister(t, numbered)
		ctx, leave := context.WithTimeout(t.Context(), time.Second/4)
		defer leave()
		if _, err := c.List(ctx, testCredential, time.Time{}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		synctest.Wait()
		if c.lists.size() != 0 {
			t.Error("the list is still stored")
		}
		if list, err := c.List(t.Context(), testCredential, time.Time{}); err != nil || list.Records[0].ID != "g2" {
			t.Errorf("the next list is %+v, %v", list, err)
		}
	})
}

func TestFailedListRequestIsNotCached(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := slowLister(t, func(n int64, _ *http.Request) (int, string) {
			if n == 1 {
				return 401, "{}"
			}
			return numbered(n, nil)
		})
		for range 2 {
			go func() {
				if _, err := c.List(t.Context(), testCredential, time.Time{}); KindOf(err) != KindCredentialRejected {
					t.Errorf("got %v", err)
				}
			}()
		}
		time.Sleep(time.Second / 2)
		synctest.Wait()
		if c.lists.size() != 0 {
			t.Error("the list of a rejected API key is still stored")
		}
		if list, err := c.List(t.Context(), testCredential, time.Time{}); err != nil || list.Records[0].ID != "g2" {
			t.Errorf("the next list is %+v, %v", list, err)
		}
	})
}

func TestOwnersOfOneAPIKeyShareOneListRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, asked := slowLister(t, numbered)
		shared := Shared(func() Secret { return NewSecret("a-key-that-is-held-here") })
		for _, owner := range []string{"studio", "print", ""} {
			cred := shared
			cred.Owner = owner
			go func() { _, _ = c.List(t.Context(), cred, time.Time{}) }()
		}
		time.Sleep(time.Second / 2)
		synctest.Wait()
		if asked.Load() != 1 {
			t.Errorf("%d lists were requested", asked.Load())
		}
	})
}
