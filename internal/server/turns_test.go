package server

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/easel-grpc/easel/internal/service"
)

// begin takes a turn that must be there at once.
func begin(t *testing.T, turns *turns, p priority) (leave func()) {
	t.Helper()
	began := time.Now()
	leave, err := turns.take(t.Context(), p, "anybody")
	if err != nil || time.Since(began) != 0 {
		t.Fatalf("a turn of priority %d came after %v with %v", p, time.Since(began), err)
	}
	return leave
}

func TestTheLastTurnsAreKeptForWhatMattersMost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := newTurns(16)
		refused := func(p priority) {
			t.Helper()
			began := time.Now()
			if _, err := turns.take(t.Context(), p, "anybody"); service.Reason(service.Status(err)) != "OVERLOADED" || time.Since(began) != turnPatience {
				t.Errorf("priority %d is answered %v after %v", p, err, time.Since(began))
			}
		}
		for range 12 {
			begin(t, turns, priorityList)
		}
		refused(priorityList)
		for range 3 {
			begin(t, turns, priorityRead)
		}
		refused(priorityRead)
		begin(t, turns, priorityOrder)
		refused(priorityOrder)
	})
}

func TestNoTurnIsLeftUnusedWhileOrdersAreFew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := newTurns(16)
		begin(t, turns, priorityOrder)
		for range 12 {
			begin(t, turns, priorityList)
		}
		for range 3 {
			begin(t, turns, priorityRead)
		}
	})
}

func TestAmongThoseWhoWaitTheOrderComesFirstAndOnlySoManyMayWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := newTurns(1)
		leave := begin(t, turns, priorityOrder)
		var order strings.Builder
		enter := func(name string, p priority) {
			go func() {
				leave, err := turns.take(t.Context(), p, "anybody")
				if err != nil {
					name += "-"
				}
				order.WriteString(name)
				if err == nil {
					leave()
				}
			}()
			synctest.Wait()
		}
		enter("list ", priorityList)
		enter("read ", priorityRead)
		enter("order ", priorityOrder)
		enter("one order too many ", priorityOrder)
		leave()
		synctest.Wait()
		if got := order.String(); got != "one order too many -order read list " {
			t.Errorf("the turns came as %q", got)
		}
		if turns.running != [priorities]int{} {
			t.Errorf("%v turns are still taken", turns.running)
		}
	})
}

func TestACallThatStopsWaitingLeavesNothingBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := newTurns(1)
		leave := begin(t, turns, priorityOrder)
		ctx, cancel := context.WithCancel(t.Context())
		go cancel()
		if _, err := turns.take(ctx, priorityRead, "anybody"); err == nil {
			t.Error("a call that has ended got a turn")
		}
		leave()
		begin(t, turns, priorityList)()
		if turns.running != [priorities]int{} || len(turns.waiting[priorityRead]) != 0 {
			t.Errorf("%v run and %d wait", turns.running, len(turns.waiting[priorityRead]))
		}
	})
}

func TestOneCallersTurnsKeepNoOtherWaiting(t *testing.T) { // A8
	synctest.Test(t, func(t *testing.T) {
		turns := newTurns(64)
		take := func(caller string) chan func() {
			come := make(chan func(), 1)
			go func() {
				leave, err := turns.take(t.Context(), priorityOrder, caller)
				if err == nil {
					come <- leave
				}
			}()
			synctest.Wait()
			return come
		}
		var leave []func()
		for range 64 {
			leave = append(leave, <-take("greedy")) // alone it has all
		}
		for range hardlyAny {
			select {
			case <-take("modest"):
			default:
				t.Error("another's order waits")
			}
		}
		first, second := take("greedy"), take("modest")
		for n := range 3 { // the spare ones stay so
			leave[n]()
		}
		synctest.Wait()
		if len(first) > 0 || len(second) != 1 {
			t.Errorf("the next turn is for the one who has most: %d and %d", len(first), len(second))
		}
		for range 5 * turns.limit[priorityOrder] {
			take("greedy")
		}
		if n := len(turns.waiting[priorityOrder]); n != turns.limit[priorityOrder] {
			t.Errorf("%d wait", n)
		}
		if take("modest"); len(turns.waiting[priorityOrder]) != turns.limit[priorityOrder]+1 {
			t.Error("another may not even wait")
		}
	})
}

func TestEveryMethodIsLetInByItsKind(t *testing.T) {
	var counted, prioritised int
	for method := range fullMethods() {
		if lasting[method] {
			counted++
		}
		if _, ok := priorityOf[method]; ok {
			prioritised++
		}
	}
	if counted != len(lasting) || prioritised != len(priorityOf) {
		t.Error("a method is named that the contract does not have")
	}
	for _, service := range service.Services() {
		for n := range service.Methods().Len() {
			m := service.Methods().Get(n)
			name := "/" + string(service.FullName()) + "/" + string(m.Name())
			if m.IsStreamingServer() && !lasting[name] {
				t.Errorf("%s is a stream and not counted as one", name)
			}
			if r, ok := priorityOf[name]; strings.HasPrefix(string(m.Name()), "List") && (!ok || r != priorityList) {
				t.Errorf("%s is not let in as a list", name)
			}
		}
	}
}

// BenchmarkATurn is what every call pays where nobody has to wait.
func BenchmarkATurn(b *testing.B) {
	turns := newTurns(128)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			leave, err := turns.take(b.Context(), priorityRead, "anybody")
			if err != nil {
				b.Fatal(err)
			}
			leave()
		}
	})
}
