package cluster

import (
	"flag"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/easel-grpc/easel/internal/catalog"
	"github.com/easel-grpc/easel/internal/watch"
)

var runs = flag.Int("runs", 12, "random runs of the model")

// TestAnyNetworkDeliversEachEndOnceWithinTheBudget runs replicas over the weakest
// network there is, and counts what befell them: a run in which nothing did proves nothing.
func TestAnyNetworkDeliversEachEndOnceWithinTheBudget(t *testing.T) {
	var lost, repeated, overtaken, takings, fenced, delivered int64
	events, checked := map[string]int{}, 0
	for seed := range uint64(*runs) {
		synctest.Test(t, func(t *testing.T) {
			s := newStorm(t, seed)
			defer s.end()
			s.run()
			checked += s.checked
			for name, n := range s.events {
				events[name] += n
			}
			lost, repeated, overtaken = lost+int64(s.fabric.lost), repeated+int64(s.fabric.repeated), overtaken+int64(s.fabric.overtaken)
			for _, r := range s.replicas {
				takings, fenced, delivered = takings+r.cluster.Stats().Acquired, fenced+r.cluster.Stats().Fenced, delivered+r.hub.Stats().Applied
			}
		})
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
	t.Logf("%d runs: %v; messages lost %d, repeated %d, overtaken %d; leases taken %d, messages fenced %d, states delivered %d; %d last states compared",
		*runs, events, lost, repeated, overtaken, takings, fenced, delivered, checked)
	for name, n := range map[string]int64{"lost": lost, "repeated": repeated, "overtaken": overtaken, "takings": takings, "delivered": delivered, "compared": int64(checked)} {
		if n == 0 {
			t.Errorf("no message %s: the load did not run", name)
		}
	}
}

// storm is a world to which things happen.
type storm struct {
	*world
	random  *rand.Rand
	ids     []string
	events  map[string]int
	checked int // last states compared
}

func newStorm(t *testing.T, seed uint64) *storm {
	random := rand.New(rand.NewPCG(seed, 2))
	states, ids := many(1+random.IntN(40), queued)
	s := &storm{
		world:  &world{t: t, up: &upstream{states: states, thin: random.IntN(2) == 0}, fabric: newFabric(seed)},
		random: random, ids: ids, events: map[string]int{},
	}
	s.fabric.loss, s.fabric.twice = 0.3*random.Float64(), 0.3*random.Float64()
	s.fabric.delay = time.Duration(random.Int64N(int64(3 * time.Second)))
	for range 2 + random.IntN(3) {
		s.start()
	}
	return s
}

func (s *storm) run() {
	began := time.Now()
	for range 60 {
		s.event()
		advance(time.Duration(s.random.Int64N(int64(5 * time.Second))))
	}
	s.heal()
	for _, id := range s.ids { // the last step of those that have not ended
		if state := s.up.states[id]; !state.Terminal() {
			s.up.set(succeeded, id)
		}
	}
	advance(3 * time.Minute)
	s.checkEnds()
	took := time.Since(began)
	if n, most := s.up.since(began, nil), 5*took.Seconds()*1.05; float64(n) > most {
		s.t.Errorf("%d requests in %v", n, took)
	}
}

// event lets one thing happen.
func (s *storm) event() {
	names := []string{"watch", "watch", "watch", "move", "move", "move", "cut", "mend", "down", "up", "restart", "kill", "close", "start"}
	name := names[s.random.IntN(len(names))]
	s.events[name]++
	r := s.replicas[s.random.IntN(len(s.replicas))]
	switch name {
	case "watch":
		if !r.closed {
			s.open(r)
		}
	case "move":
		s.move()
	case "cut", "mend":
		s.fabric.with(func() { r.net.cut = name == "cut" })
	case "down", "up":
		s.fabric.with(func() { s.fabric.down = name == "down" })
	case "restart":
		s.fabric.restart()
	case "kill":
		if s.alive() > 1 && !r.closed {
			r.kill()
		}
	case "close":
		if s.alive() > 1 && !r.closed {
			r.close()
		}
	case "start":
		if s.alive() < 5 {
			s.start()
		}
	}
}

func (s *storm) alive() (n int) {
	for _, r := range s.replicas {
		if !r.closed {
			n++
		}
	}
	return n
}

func (s *storm) open(r *replica) {
	goal := watch.Goal(s.random.IntN(2))
	var ids []string
	for _, id := range s.ids {
		if s.random.IntN(3) == 0 {
			ids = append(ids, id)
		}
	}
	if len(ids) > 0 {
		r.watch(goal, ids...)
	}
}

// move takes a generation one step on.
func (s *storm) move() {
	id := s.ids[s.random.IntN(len(s.ids))]
	next := map[catalog.State][]catalog.State{queued: {running, failed}, running: {succeeded, failed}, failed: {refunded}}[s.up.states[id]]
	if len(next) > 0 {
		s.up.set(next[s.random.IntN(len(next))], id)
	}
}

func (s *storm) heal() {
	s.fabric.with(func() {
		s.fabric.down = false
		for _, r := range s.replicas {
			r.net.cut = r.net.cut && r.closed
		}
	})
}

// checkEnds sees that every watch of a replica that lives got the last state of each
// generation, each state once and in order.
func (s *storm) checkEnds() {
	for i, r := range s.replicas {
		for j, w := range r.watches {
			w.check(s.t)
			if r.closed {
				continue
			}
			for _, id := range w.ids {
				s.checked++
				got, want := w.last(id), s.up.states[id]
				if met := got == want || got == failed && want == refunded; !met { // a failure is a goal, and its refund came later
					s.t.Errorf("watch %d of replica %d got %s as %v, and it is %v", j, i, id, w.states(id), want)
				}
			}
		}
	}
}
