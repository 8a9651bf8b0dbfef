package limiter

import (
	"runtime"
	"sync"
	"testing"
)

func TestLargeWorkOfOneOwnerLeavesTurnsToAnother(t *testing.T) { // D6
	places, free := processors.cfg.Places[Order], make(chan struct{})
	var all sync.WaitGroup
	var mu sync.Mutex
	var order []string
	work := func(owner string, bytes int, until <-chan struct{}) {
		all.Go(func() {
			_ = Work(t.Context(), owner, bytes, func() error {
				<-until
				mu.Lock()
				defer mu.Unlock()
				order = append(order, owner)
				return nil
			})
		})
	}
	wait := func(waiting, held int) {
		for got := [2]int{-1}; got != [2]int{waiting, held}; runtime.Gosched() {
			processors.mu.Lock()
			got = [2]int{processors.waiting, processors.held[Order]}
			processors.mu.Unlock()
		}
	}
	atOnce := make(chan struct{})
	close(atOnce)
	for n := range places {
		work("busy", largeWork, free)
		wait(0, n+1)
	}
	for n := range 20 {
		work("busy", largeWork, atOnce)
		wait(n+1, places)
	}
	work("other", largeWork, atOnce)
	wait(21, places)
	work("small", largeWork-1, atOnce)
	for done := 0; done == 0; runtime.Gosched() {
		mu.Lock()
		done = len(order)
		mu.Unlock()
	}
	close(free)
	all.Wait()
	for n, owner := range order {
		if owner == "other" && n <= 2*places+1 {
			return
		}
	}
	t.Errorf("they came in the order %v", order)
}
