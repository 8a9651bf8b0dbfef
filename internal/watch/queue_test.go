package watch

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

func TestQueueReturnsDueGenerationsAfterRandomChanges(t *testing.T) {
	random, begin := rand.New(rand.NewPCG(1, 2)), time.Now()
	for range 200 {
		var q queue
		generations, want := make([]*generation, 50), map[*generation]bool{}
		for i := range generations {
			generations[i] = newGeneration(fmt.Sprint(i), begin, 1)
		}
		for range 300 {
			e := generations[random.IntN(len(generations))]
			if random.IntN(4) == 0 {
				q.removeGeneration(e)
				delete(want, e)
				continue
			}
			e.polling.due = begin.Add(time.Duration(random.IntN(100)) * time.Second)
			q.putGeneration(e)
			want[e] = true
			if random.IntN(10) == 0 {
				checkDue(t, &q, want, begin.Add(time.Duration(random.IntN(100))*time.Second))
			}
		}
		checkDue(t, &q, want, begin.Add(time.Hour))
	}
}

func checkDue(t *testing.T, q *queue, want map[*generation]bool, now time.Time) {
	t.Helper()
	ready, next := q.selectDue(now, func(e *generation) bool { return want[e] })
	for e := range want {
		if due := !e.polling.due.After(now); due && !slices.Contains(ready, e) {
			t.Fatalf("%s is due, but is not ready", e.id)
		}
	}
	for i, e := range ready {
		if !want[e] || slices.Contains(ready[:i], e) {
			t.Fatalf("%s is ready, although it was removed, or is ready twice", e.id)
		}
	}
	if !next.IsZero() && !next.After(now) {
		t.Fatalf("the next generation is due at %v, but is not ready", next)
	}
}
