package limiter_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/easel-grpc/easel/internal/limiter"
)

const key = "key"

// acquire waits for a permit and returns it. The test fails if this takes longer than an hour.
func acquire(t *testing.T, l *limiter.Limiter, r limiter.Request) *limiter.Permit {
	t.Helper()
	p, err := tryFor(t, time.Hour, l, r)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// tryFor waits for a permit until the timeout.
func tryFor(t *testing.T, timeout time.Duration, l *limiter.Limiter, r limiter.Request) (*limiter.Permit, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	return l.Acquire(ctx, r)
}

// startRequests enqueues the requests in order. When a request gets its permit, startRequests sends the owner and class of the
// request to the returned channel, and releases the permit.
func startRequests(t *testing.T, l *limiter.Limiter, requests ...limiter.Request) <-chan string {
	t.Helper()
	started := make(chan string, len(requests))
	for _, r := range requests {
		go func() {
			p, err := tryFor(t, time.Hour, l, r)
			if err != nil {
				t.Error(err)
			}
			started <- r.Owner + " " + r.Class.String()
			p.Release(limiter.Result{})
		}()
		synctest.Wait()
	}
	return started
}

// receiveNames returns the next n strings from a channel that startRequests returned.
func receiveNames(n int, started <-chan string) (names []string) {
	for range n {
		names = append(names, <-started)
	}
	return names
}

func TestPauseEndsWithSingleProbeRequest(t *testing.T) {
	for _, row := range []struct {
		outcome limiter.Outcome // outcome of the first request
		next    time.Duration   // time after which the next request gets a permit
	}{
		{limiter.Passed, 0},
		{limiter.Rejected, 0},
		{limiter.Unused, 0},
		{limiter.Abandoned, 0},
		{limiter.Throttled, 10 * time.Second},
		{limiter.Unavailable, 10 * time.Second},
		{limiter.Failed, 2 * time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			l, began := limiter.New(8), time.Now()
			acquire(t, l, limiter.Request{}).Release(limiter.Result{Outcome: limiter.Throttled, RetryAfter: 30 * time.Second})
			permits := make(chan *limiter.Permit, 6)
			for n := range cap(permits) {
				go func() {
					p, _ := tryFor(t, time.Hour, l, limiter.Request{Owner: fmt.Sprint(n), Class: limiter.Class(n % 3)})
					permits <- p
				}()
			}
			first := <-permits
			time.Sleep(5 * time.Second)
			if len(permits) > 0 || !l.State().Closed || time.Since(began) != 35*time.Second {
				t.Errorf("%d more requests started within %v, want 0 within 35s", len(permits), time.Since(began))
			}
			first.Release(limiter.Result{Outcome: row.outcome, RetryAfter: map[bool]time.Duration{true: 10 * time.Second}[row.next > 5*time.Second]})
			released := time.Now()
			for range cap(permits) - 1 {
				(<-permits).Release(limiter.Result{})
			}
			if waited := time.Since(released); waited != row.next {
				t.Errorf("outcome %d: the next request waited %v", row.outcome, waited)
			}
		})
	}
}

func TestPauseDoublesUpToOneMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := limiter.New(8)
		for n, want := range []time.Duration{1, 2, 4, 8, 16, 32, 60, 60} {
			acquire(t, l, limiter.Request{}).Release(limiter.Result{Outcome: limiter.Throttled})
			if got := time.Until(l.State().Paused); got != want*time.Second {
				t.Errorf("pause %d lasts %v", n, got)
			}
		}
		acquire(t, l, limiter.Request{}).Release(limiter.Result{})
		acquire(t, l, limiter.Request{}).Release(limiter.Result{Outcome: limiter.Unavailable, RetryAfter: 87600 * time.Hour})
		if got := time.Until(l.State().Paused); got != 2*time.Minute {
			t.Errorf("a pause of ten years lasts %v", got)
		}
	})
}

func TestConcurrentThrottledResponsesCauseOnePause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, late := limiter.New(8), limiter.Result{Outcome: limiter.Throttled}
		first, second, third := acquire(t, l, limiter.Request{}), acquire(t, l, limiter.Request{}), acquire(t, l, limiter.Request{})
		for _, p := range []*limiter.Permit{first, second, third} { // these requests got their permits before the pause
			p.Release(late)
		}
		if got := time.Until(l.State().Paused); got != time.Second {
			t.Errorf("the first pause lasts %v", got)
		}
		acquire(t, l, limiter.Request{}).Release(late)
		if got := time.Until(l.State().Paused); got != 2*time.Second {
			t.Errorf("the second pause lasts %v", got)
		}
	})
}

func TestRequestsAreRejectedWhenAPauseExceedsTheirDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, rejected := limiter.New(8), make(chan error)
		late := acquire(t, l, limiter.Request{})
		acquire(t, l, limiter.Request{}).Release(limiter.Result{Outcome: limiter.Throttled, RetryAfter: 10 * time.Second})
		go func() { _, err := tryFor(t, 20*time.Second, l, limiter.Request{}); rejected <- err }()
		synctest.Wait()
		began := time.Now()
		late.Release(limiter.Result{Outcome: limiter.Throttled, RetryAfter: 40 * time.Second})
		for n := range 2 { // request 0 is already waiting
			if n == 1 {
				go func() { _, err := tryFor(t, 20*time.Second, l, limiter.Request{}); rejected <- err }()
			}
			err := (*limiter.Error)(nil)
			if !errors.As(<-rejected, &err) || err.RetryAfter != 40*time.Second || err.Capped || time.Since(began) != 0 {
				t.Errorf("request %d: %v after %v", n, err, time.Since(began))
			}
		}
		if _, err := tryFor(t, time.Minute, l, limiter.Request{}); err != nil || time.Since(began) != 40*time.Second {
			t.Errorf("a request with a later deadline: %v after %v", err, time.Since(began))
		}
	})
}

func TestReadsBehindALongQueueAreRejectedImmediately(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := limiter.New(4) // at most four requests in flight, each of which takes a second
		ctx, cancel := context.WithCancel(t.Context())
		var all sync.WaitGroup
		defer all.Wait()
		defer cancel()
		for range 400 {
			all.Go(func() {
				if p, err := l.Acquire(ctx, limiter.Request{Owner: "many"}); err == nil {
					time.Sleep(time.Second)
					p.Release(limiter.Result{})
				}
			})
		}
		time.Sleep(20*time.Second + time.Millisecond) // 320 of the 400 requests are still waiting
		for _, row := range []struct {
			owner      string
			class      limiter.Class
			timeout    time.Duration
			isRejected bool
		}{
			{"many", limiter.Read, 60 * time.Second, true},
			{"many", limiter.Read, 90 * time.Second, false},
			{"few", limiter.Read, 10 * time.Second, false},
			{"many", limiter.Order, 60 * time.Second, false},
		} {
			began, done := time.Now(), make(chan error, 1)
			ctx, cancel := context.WithTimeout(ctx, row.timeout)
			all.Go(func() {
				p, err := l.Acquire(ctx, limiter.Request{Owner: row.owner, Class: row.class})
				p.Release(limiter.Result{Outcome: limiter.Unused})
				done <- err
			})
			synctest.Wait()
			err, isRejected := (*limiter.Error)(nil), len(done) == 1
			if isRejected != row.isRejected || isRejected && (!errors.As(<-done, &err) || err.RetryAfter < 10*time.Second || err.RetryAfter > 30*time.Second) {
				t.Errorf("%+v: the request was rejected: %v, with the error %v after %v", row, isRejected, err, time.Since(began))
			}
			cancel()
		}
	})
}

func TestCanceledRequestsLeaveTheQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, done := limiter.New(1), make(chan error)
		held := acquire(t, l, limiter.Request{})
		ctx, cancel := context.WithCancel(t.Context())
		go func() { _, err := l.Acquire(ctx, limiter.Request{}); done <- err }()
		synctest.Wait()
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) || len(l.State().Waiting) > 0 {
			t.Errorf("got %v with the waiting requests %v, want context.Canceled and none", err, l.State().Waiting)
		}
		if _, err := tryFor(t, time.Second, l, limiter.Request{}); !errors.As(err, new(*limiter.Error)) {
			t.Errorf("at its deadline a request gets %v", err)
		}
		held.Release(limiter.Result{})
		acquire(t, l, limiter.Request{}).Release(limiter.Result{})
	})
}

func TestTheDailyCapAllowsOneOrderAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := limiter.New(8)
		// place places a number of orders, each with the outcome o. It returns the number of orders that got a permit.
		place := func(orders int, o limiter.Outcome) (sent int) {
			for range orders {
				p, err := tryFor(t, time.Second, l, limiter.Request{})
				rejected, ok := errors.AsType[*limiter.Error](err)
				if err != nil && (!ok || !rejected.Capped) {
					t.Error(err)
				} else if err == nil {
					sent++
				}
				p.Release(limiter.Result{Outcome: o})
			}
			return sent
		}
		sent := place(100, limiter.Capped)
		time.Sleep(time.Minute)
		if sent += place(100, limiter.Capped); sent != 2 || !l.State().Capped {
			t.Errorf("%d of 200 orders were sent", sent)
		}
		acquire(t, l, limiter.Request{Class: limiter.Read}).Release(limiter.Result{})
		time.Sleep(time.Minute)
		probe := acquire(t, l, limiter.Request{})
		if sent := place(1, limiter.Capped); sent > 0 {
			t.Error("two orders probe the cap at the same time")
		}
		acquire(t, l, limiter.Request{Resend: true}).Release(limiter.Result{Outcome: limiter.Passed})
		if !l.State().Capped {
			t.Error("a resent order lifted the daily cap")
		}
		time.Sleep(time.Minute)
		acquire(t, l, limiter.Request{Resend: true}).Release(limiter.Result{Outcome: limiter.Capped})
		acquire(t, l, limiter.Request{}).Release(limiter.Result{Outcome: limiter.Unused}) // the resend does not delay the next probe
		probe.Release(limiter.Result{Outcome: limiter.Unused})
		if sent := place(3, limiter.Passed); sent != 3 {
			t.Errorf("%d of 3 orders were sent, want 3, because the first was accepted", sent)
		}
		place(1, limiter.Capped)
		const day = 24 * time.Hour
		time.Sleep(time.Until(time.Now().UTC().Truncate(day).Add(day)))
		if sent := place(2, limiter.Passed); sent != 2 {
			t.Errorf("%d of 2 orders were sent on the next day", sent)
		}
	})
}

func TestLimiterPrioritizesOrdersOverReadsAndPolls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := limiter.New(1)
		held := acquire(t, l, limiter.Request{})
		started := startRequests(t, l, limiter.Request{Owner: "a", Class: limiter.Poll}, limiter.Request{Owner: "a", Class: limiter.Read}, limiter.Request{Owner: "a"})
		held.Release(limiter.Result{})
		if got := receiveNames(3, started); !slices.Equal(got, []string{"a order", "a read", "a poll"}) {
			t.Errorf("requests started in the order %v", got)
		}
	})
}

func TestLimiterReportsOldestWaitingRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, arrived := limiter.New(1), time.Now()
		held := acquire(t, l, limiter.Request{})
		time.Sleep(time.Second)
		started := startRequests(t, l, limiter.Request{Owner: "a", Class: limiter.Read}, limiter.Request{Owner: "a", Class: limiter.Read, Arrived: arrived}, limiter.Request{Owner: "b"})
		if w := l.State().Waiting; len(w) != 2 || w[0] != (limiter.Waiting{Owner: "a", Class: limiter.Read, Count: 2, Since: arrived}) {
			t.Errorf("the waiting requests are %+v", w)
		}
		held.Release(limiter.Result{})
		receiveNames(3, started)
	})
}

func TestThrottledRequestDoesNotReduceOwnersShare(t *testing.T) {
	for o, want := range map[limiter.Outcome]string{limiter.Unused: "abba", limiter.Throttled: "abba", limiter.Rejected: "abab"} {
		synctest.Test(t, func(t *testing.T) {
			l, started := limiter.New(1), ""
			held := acquire(t, l, limiter.Request{})
			var all sync.WaitGroup
			for _, owner := range []string{"a", "b", "a", "b"} {
				all.Go(func() {
					p, _ := tryFor(t, time.Hour, l, limiter.Request{Owner: owner})
					if started += owner; started == "ab" {
						p.Release(limiter.Result{Outcome: o})
					}
					p.Release(limiter.Result{})
				})
				synctest.Wait()
			}
			held.Release(limiter.Result{})
			all.Wait()
			if started != want {
				t.Errorf("outcome %d: requests started in the order %s", o, started)
			}
		})
	}
}

func TestPollsStayWithinConfiguredRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, began := limiter.New(8), time.Now()
		l.SetPollRate(2)
		acquire(t, l, limiter.Request{}).Release(limiter.Result{Outcome: limiter.Throttled, RetryAfter: 10 * time.Second})
		started := startRequests(t, l, slices.Repeat([]limiter.Request{{Class: limiter.Poll}}, 6)...)
		if n, _ := l.Polls(); n != 0 {
			t.Errorf("%d polls may start during a pause", n)
		}
		for n, want := range []time.Duration{10000, 10000, 10500, 11000, 11500, 12000} {
			if <-started; time.Since(began) != want*time.Millisecond {
				t.Errorf("poll %d started after %v", n, time.Since(began))
			}
		}
		if n, next := l.Polls(); n != 0 || time.Until(next) != time.Second/2 || time.Since(began) != 12*time.Second {
			t.Errorf("%d polls may start, and the next one in %v, %v after the start; want 0, 500ms and 12s", n, time.Until(next), time.Since(began))
		}
		l = limiter.New(1)
		l.SetPollRate(2)
		held := acquire(t, l, limiter.Request{})
		started = startRequests(t, l, limiter.Request{Class: limiter.Poll})
		if n, _ := l.Polls(); n != 1 {
			t.Errorf("%d more polls may start while one waits, want 1", n)
		}
		held.Release(limiter.Result{})
		<-started
	})
}

func TestSlotsAreReservedForOwnersWithFewRequests(t *testing.T) {
	const places, reserved = 32, 2
	synctest.Test(t, func(t *testing.T) {
		l := limiter.New(places)
		for range places - reserved {
			if _, err := l.Acquire(t.Context(), limiter.Request{Owner: "many", Class: limiter.Read}); err != nil {
				t.Fatal(err)
			}
		}
		go func() { _, _ = l.Acquire(t.Context(), limiter.Request{Owner: "many", Class: limiter.Read}) }()
		synctest.Wait()
		if _, err := l.Acquire(t.Context(), limiter.Request{Owner: "few", Class: limiter.Read}); err != nil {
			t.Errorf("an owner without requests got no slot: %v", err)
		}
		if w := l.State().Waiting; len(w) != 1 || w[0].Owner != "many" {
			t.Errorf("%+v are waiting; an owner with many requests must not get a reserved slot", w)
		}
	})
}

func TestSlowRequestsDoNotBlockOtherOwners(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, waited := limiter.New(16), make(chan time.Duration, 1000)
		ctx, stop := context.WithCancel(t.Context())
		var all sync.WaitGroup
		for range 200 {
			all.Go(func() {
				for {
					p, err := l.Acquire(ctx, limiter.Request{Owner: "slow", Class: limiter.Read})
					if err != nil {
						return
					}
					time.Sleep(time.Second)
					p.Release(limiter.Result{})
				}
			})
		}
		time.Sleep(10 * time.Second)
		var quick sync.WaitGroup
		for range cap(waited) { // starts 100 requests per second, each of which takes 60 ms
			quick.Go(func() {
				began := time.Now()
				p := acquire(t, l, limiter.Request{Owner: "quick", Class: limiter.Read})
				waited <- time.Since(began)
				time.Sleep(60 * time.Millisecond)
				p.Release(limiter.Result{})
			})
			time.Sleep(10 * time.Millisecond)
		}
		quick.Wait()
		stop()
		all.Wait()
		close(waited)
		longest := time.Duration(0)
		for w := range waited {
			longest = max(longest, w)
		}
		if longest > time.Second {
			t.Errorf("a request waited %v", longest)
		}
	})
}

func TestInFlightLimitAdaptsToResponses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := limiter.NewSet().Of(key)
		check := func(event string, want int) {
			t.Helper()
			var permits []*limiter.Permit
			for n := 0; ; n++ {
				p, err := tryFor(t, time.Millisecond, l, limiter.Request{Owner: fmt.Sprint(n), Class: limiter.Read})
				if err != nil {
					break
				}
				permits = append(permits, p)
			}
			for _, p := range permits {
				p.Release(limiter.Result{Outcome: limiter.Unused})
			}
			if len(permits) != want {
				t.Errorf("%d requests may be in flight after %s, want %d", len(permits), event, want)
			}
		}
		check("the start", 16)
		receiveNames(400, startRequests(t, l, slices.Repeat([]limiter.Request{{}}, 400)...))
		check("requests that did not wait", 16)
		acquire(t, l, limiter.Request{}).Release(limiter.Result{Outcome: limiter.Unavailable, RetryAfter: time.Second})
		acquire(t, l, limiter.Request{}).Release(limiter.Result{})
		check("a pause without a 429", 16)
		acquire(t, l, limiter.Request{}).Release(limiter.Result{Outcome: limiter.Throttled, RetryAfter: time.Second})
		acquire(t, l, limiter.Request{}).Release(limiter.Result{})
		check("a 429", 4)
		var held []*limiter.Permit
		for n := range 4 {
			held = append(held, acquire(t, l, limiter.Request{Owner: fmt.Sprint(n)}))
		}
		started := startRequests(t, l, slices.Repeat([]limiter.Request{{}}, 9000)...)
		for _, p := range held {
			p.Release(limiter.Result{})
		}
		receiveNames(9000, started)
		check("many requests that waited", limiter.MaxInFlight)
	})
}

func TestConsecutiveFailuresExhaustRetries(t *testing.T) {
	l := limiter.New(1)
	retries := func(requests int, o limiter.Outcome) (n int) {
		for range requests {
			if acquire(t, l, limiter.Request{}).Release(limiter.Result{Outcome: o}); l.MayRetry() {
				n++
			}
		}
		return n
	}
	if n := retries(100, limiter.Failed); n != 4 {
		t.Errorf("%d of 100 failures may be retried", n)
	}
	if retries(100, limiter.Rejected) != 0 || retries(1, limiter.Passed) != 1 {
		t.Error("a retry is allowed before a success, or denied after it")
	}
}

func TestIdleLimitersAreRemoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := limiter.NewSet()
		acquire(t, s.Of(key), limiter.Request{}).Release(limiter.Result{Outcome: limiter.Unavailable, RetryAfter: 2 * time.Minute})
		held := acquire(t, s.Of("held"), limiter.Request{})
		for n := range 62 {
			s.Of(fmt.Sprint(n))
		}
		time.Sleep(time.Minute)
		s.Of("another")
		if states := s.States(); len(states) != 3 || states[key].Paused.IsZero() || states["held"].InFlight != 1 {
			t.Errorf("the set of limiters contains %v, want 3 limiters", states)
		}
		held.Release(limiter.Result{})
	})
}
