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
func begin(t *testing.T, turns *turns, r rank) (leave func()) {
	t.Helper()
	began := time.Now()
	leave, err := turns.take(t.Context(), r, "anybody")
	if err != nil || time.Since(began) != 0 {
		t.Fatalf("a turn of rank %d came after %v with %v", r, time.Since(began), err)
	}
	return leave
}

func TestTheLastTurnsAreKeptForWhatMattersMost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := newTurns(16)
		refused := func(r rank) {
			t.Helper()
			began := time.Now()
			if _, err := turns.take(t.Context(), r, "anybody"); service.Reason(service.Status(err)) != "OVERLOADED" || time.Since(began) != turnPatience {
				t.Errorf("rank %d is answered %v after %v", r, err, time.Since(began))
			}
		}
		for range 12 {
			begin(t, turns, rankList)
		}
		refused(rankList)
		for range 3 {
			begin(t, turns, rankRead)
		}
		refused(rankRead)
		begin(t, turns, rankOrder)
		refused(rankOrder)
	})
}

func TestNoTurnIsLeftUnusedWhileOrdersAreFew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := newTurns(16)
		begin(t, turns, rankOrder)
		for range 12 {
			begin(t, turns, rankList)
		}
		for range 3 {
			begin(t, turns, rankRead)
		}
	})
}

func TestAmongThoseWhoWaitTheOrderComesFirstAndOnlySoManyMayWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := newTurns(1)
		leave := begin(t, turns, rankOrder)
		var order strings.Builder
		enter := func(name string, r rank) {
			go func() {
				leave, err := turns.take(t.Context(), r, "anybody")
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
		enter("list ", rankList)
		enter("read ", rankRead)
		enter("order ", rankOrder)
		enter("one order too many ", rankOrder)
		leave()
		synctest.Wait()
		if got := order.String(); got != "one order too many -order read list " {
			t.Errorf("the turns came as %q", got)
		}
		if turns.running != [ranks]int{} {
			t.Errorf("%v turns are still taken", turns.running)
		}
	})
}

func TestACallThatStopsWaitingLeavesNothingBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := newTurns(1)
		leave := begin(t, turns, rankOrder)
		ctx, cancel := context.WithCancel(t.Context())
		go cancel()
		if _, err := turns.take(ctx, rankRead, "anybody"); err == nil {
			t.Error("a call that has ended got a turn")
		}
		leave()
		begin(t, turns, rankList)()
		if turns.running != [ranks]int{} || len(turns.waiting[rankRead]) != 0 {
			t.Errorf("%v run and %d wait", turns.running, len(turns.waiting[rankRead]))
		}
	})
}

func TestOneCallersTurnsKeepNoOtherWaiting(t *testing.T) { // A8
	synctest.Test(t, func(t *testing.T) {
		turns := newTurns(64)
		take := func(caller string) chan func() {
			come := make(chan func(), 1)
			go func() {
				leave, err := turns.take(t.Context(), rankOrder, caller)
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
		for range 5 * turns.limit[rankOrder] {
			take("greedy")
		}
		if n := len(turns.waiting[rankOrder]); n != turns.limit[rankOrder] {
			t.Errorf("%d wait", n)
		}
		if take("modest"); len(turns.waiting[rankOrder]) != turns.limit[rankOrder]+1 {
			t.Error("another may not even wait")
		}
	})
}

func TestEveryMethodIsLetInByItsKind(t *testing.T) {
	var counted, ranked int
	for method := range fullMethods() {
		if lasting[method] {
			counted++
		}
		if _, ok := rankOf[method]; ok {
			ranked++
		}
	}
	if counted != len(lasting) || ranked != len(rankOf) {
		t.Error("a method is named that the contract does not have")
	}
	for _, service := range service.Services() {
		for n := range service.Methods().Len() {
			m := service.Methods().Get(n)
			name := "/" + string(service.FullName()) + "/" + string(m.Name())
			if m.IsStreamingServer() && !lasting[name] {
				t.Errorf("%s is a stream and not counted as one", name)
			}
			if r, ok := rankOf[name]; strings.HasPrefix(string(m.Name()), "List") && (!ok || r != rankList) {
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
			leave, err := turns.take(b.Context(), rankRead, "anybody")
			if err != nil {
				b.Fatal(err)
			}
			leave()
		}
	})
}
