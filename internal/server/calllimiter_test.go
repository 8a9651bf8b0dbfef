package server

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/service"
)

// begin begins a call that must be admitted at once.
func begin(t *testing.T, limiter *callLimiter, p priority) (release func()) {
	t.Helper()
	began := time.Now()
	release, err := limiter.acquire(t.Context(), p, "anybody")
	if err != nil || time.Since(began) != 0 {
		t.Fatalf("a call of priority %d was admitted after %v with %v", p, time.Since(began), err)
	}
	return release
}

func TestTheLastCallsAreKeptForHigherPriorities(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limiter := newCallLimiter(16)
		refused := func(p priority) {
			t.Helper()
			began := time.Now()
			if _, err := limiter.acquire(t.Context(), p, "anybody"); service.Reason(service.Status(err)) != easelv1.ErrorReason_OVERLOADED || time.Since(began) != callWait {
				t.Errorf("priority %d is answered %v after %v", p, err, time.Since(began))
			}
		}
		for range 12 {
			begin(t, limiter, priorityList)
		}
		refused(priorityList)
		for range 3 {
			begin(t, limiter, priorityRead)
		}
		refused(priorityRead)
		begin(t, limiter, priorityOrder)
		refused(priorityOrder)
	})
}

func TestNoLimitIsLeftUnusedWhileOrdersAreFew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limiter := newCallLimiter(16)
		begin(t, limiter, priorityOrder)
		for range 12 {
			begin(t, limiter, priorityList)
		}
		for range 3 {
			begin(t, limiter, priorityRead)
		}
	})
}

func TestAmongThoseWhoWaitTheOrderComesFirstAndOnlySoManyMayWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limiter := newCallLimiter(1)
		release := begin(t, limiter, priorityOrder)
		var order strings.Builder
		enter := func(name string, p priority) {
			go func() {
				release, err := limiter.acquire(t.Context(), p, "anybody")
				if err != nil {
					name += "-"
				}
				order.WriteString(name)
				if err == nil {
					release()
				}
			}()
			synctest.Wait()
		}
		enter("list ", priorityList)
		enter("read ", priorityRead)
		enter("order ", priorityOrder)
		enter("one order too many ", priorityOrder)
		release()
		synctest.Wait()
		if got := order.String(); got != "one order too many -order read list " {
			t.Errorf("the calls were admitted as %q", got)
		}
		if limiter.running != [priorities]int{} {
			t.Errorf("%v calls still count", limiter.running)
		}
	})
}

func TestACallThatStopsWaitingLeavesNothingBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limiter := newCallLimiter(1)
		release := begin(t, limiter, priorityOrder)
		ctx, cancel := context.WithCancel(t.Context())
		go cancel()
		if _, err := limiter.acquire(ctx, priorityRead, "anybody"); err == nil {
			t.Error("a call that has ended was admitted")
		}
		release()
		begin(t, limiter, priorityList)()
		if limiter.running != [priorities]int{} || len(limiter.waiting[priorityRead]) != 0 {
			t.Errorf("%v run and %d wait", limiter.running, len(limiter.waiting[priorityRead]))
		}
	})
}

func TestOneCallersCallsKeepNoOtherWaiting(t *testing.T) { // A8
	synctest.Test(t, func(t *testing.T) {
		limiter := newCallLimiter(64)
		take := func(caller string) chan func() {
			come := make(chan func(), 1)
			go func() {
				release, err := limiter.acquire(t.Context(), priorityOrder, caller)
				if err == nil {
					come <- release
				}
			}()
			synctest.Wait()
			return come
		}
		var release []func()
		for range 64 {
			release = append(release, <-take("greedy")) // alone it has all
		}
		for range fewCalls {
			select {
			case <-take("modest"):
			default:
				t.Error("another's order waits")
			}
		}
		first, second := take("greedy"), take("modest")
		for n := range 3 { // the spare ones stay so
			release[n]()
		}
		synctest.Wait()
		if len(first) > 0 || len(second) != 1 {
			t.Errorf("the caller with the most calls is next: %d and %d", len(first), len(second))
		}
		for range 5 * limiter.limit[priorityOrder] {
			take("greedy")
		}
		if n := len(limiter.waiting[priorityOrder]); n != limiter.limit[priorityOrder] {
			t.Errorf("%d wait", n)
		}
		if take("modest"); len(limiter.waiting[priorityOrder]) != limiter.limit[priorityOrder]+1 {
			t.Error("another may not even wait")
		}
	})
}

func TestEveryMethodIsLetInByItsKind(t *testing.T) {
	var counted, prioritised int
	for method := range fullMethods() {
		if longLived[method] {
			counted++
		}
		if _, ok := priorityOf[method]; ok {
			prioritised++
		}
	}
	if counted != len(longLived) || prioritised != len(priorityOf) {
		t.Error("a method is named that the contract does not have")
	}
	for _, service := range service.Services() {
		for n := range service.Methods().Len() {
			m := service.Methods().Get(n)
			name := "/" + string(service.FullName()) + "/" + string(m.Name())
			if m.IsStreamingServer() && !longLived[name] {
				t.Errorf("%s is a stream and not counted as one", name)
			}
			if r, ok := priorityOf[name]; strings.HasPrefix(string(m.Name()), "List") && (!ok || r != priorityList) {
				t.Errorf("%s is not let in as a list", name)
			}
		}
	}
}

// BenchmarkAnAdmittedCall is what every call pays where nobody has to wait.
func BenchmarkAnAdmittedCall(b *testing.B) {
	limiter := newCallLimiter(128)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			release, err := limiter.acquire(b.Context(), priorityRead, "anybody")
			if err != nil {
				b.Fatal(err)
			}
			release()
		}
	})
}
