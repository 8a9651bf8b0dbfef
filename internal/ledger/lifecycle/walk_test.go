package lifecycle

import (
	"testing"
)

// The walk tries every sequence of events of one idempotency key: callers, two replicas that crash or
// stop anywhere, commits that are lost or in doubt, a catalog that loses answers, takes a request late and
// refuses repeats, a rotated API key, an operator. One thing is taken for granted: an attempt that was
// allowed has left or has failed before the resend window ends, as a claim is short beside the window.
const (
	replicas  = 2
	mostRows  = 2 // orders written down under the key, one after the other was refused
	mostClaim = 2 // of an order
	mostTries = 2 // attempts under a claim
	mostCalls = 2
)

// place is where a replica stands.
type place uint8

const (
	idle     place = iota
	writing        // it has looked the key up, and is about to write the order down
	checking       // it has a claim, and is about to ask whether an attempt may leave
	armed          // an attempt may leave
	settled        // the attempts are over, and the outcome is about to be recorded
)

// replica is what one process knows.
type replica struct {
	at        place
	row       uint8
	claim     uint8
	tries     uint8
	uncertain bool // an attempt under the claim may have been taken
	named     bool
	called    bool // a caller waits
	rotated   bool // the attempt would leave under another API key than the first
}

// world is everything. Ids are not told apart: a generation is known by the row that it is charged to.
type world struct {
	rows     [mostRows]Order
	written  uint8
	replicas [replicas]replica
	calls    uint8
	rotated  bool
	looked   sight // what an operator has seen in the account

	charges [mostRows]uint8 // what the catalog has made of this row's attempts
	forgot  bool            // the catalog has forgotten the idempotency key
	late    [mostRows]bool  // a request of this row is on its way, and nobody waits for its answer
	fault   bool            // the book was said to be wrong

	toldPlaced, toldNot [mostRows]bool
	sent                [mostRows]bool // an attempt has left
}

const id = "g"

// sight is what an operator has seen in the account.
type sight uint8

const (
	unseen sight = iota
	seenNone
	seenOne
	resolved
)

// row is the newest order of the idempotency key.
func (w *world) row() Order {
	if w.written == 0 {
		return Order{}
	}
	return w.rows[w.written-1]
}

// exists reports whether the catalog has a generation under the upstream key.
func (w *world) exists() bool {
	return w.charges != [mostRows]uint8{}
}

// take is the catalog, when it takes a request of a row. A request whose key it knows, under this API
// key, makes nothing new.
func (w *world) take(row uint8, rotated bool) {
	if !w.exists() || w.forgot || rotated {
		w.charges[row]++
		w.forgot = false
	}
}

// say tells the caller of a replica.
func (w *world) say(r *replica, answer Answer) {
	switch {
	case !r.called:
	case answer == Replay:
		w.toldPlaced[r.row] = true
	case answer == NotPlaced:
		w.toldNot[r.row] = true
	}
	*r = replica{}
}

// next gives every world that may follow.
func (w world) next() (all []world) {
	also := func(change func(*world)) {
		changed := w
		change(&changed)
		changed.sort()
		all = append(all, changed)
	}
	for n := range w.replicas {
		w.step(n, also)
	}
	w.elsewhere(also)
	return all
}

// sort makes one world of two in which the replicas have changed places.
func (w *world) sort() {
	if a, b := w.replicas[0], w.replicas[1]; a.order() > b.order() {
		w.replicas[0], w.replicas[1] = b, a
	}
}

// order is a number that no other replica has.
func (r replica) order() (n int) {
	for _, part := range []uint8{uint8(r.at), r.row, r.claim, r.tries} {
		n = n<<4 | int(part)
	}
	for _, part := range []bool{r.uncertain, r.named, r.called, r.rotated} {
		if n <<= 1; part {
			n++
		}
	}
	return n
}

// step is what may happen at a replica.
func (w world) step(n int, also func(func(*world))) {
	r := w.replicas[n]
	if r.at != idle {
		also(func(w *world) { w.replicas[n] = replica{} }) // it crashes, or gives up without an answer
	}
	switch r.at {
	case idle:
		w.begin(n, also)
	case writing:
		w.write(n, also)
	case checking:
		w.check(n, also)
	case armed:
		w.attempt(n, also)
	case settled:
		w.record(n, also)
	}
}

// begin is a call, or the recovery.
func (w world) begin(n int, also func(func(*world))) {
	if w.calls < mostCalls {
		row := w.row()
		switch step := row.Call(true); {
		case step.Action == Write && w.written < mostRows:
			also(func(w *world) { w.calls++; w.replicas[n] = replica{at: writing, called: true} })
		case step.Action == Submit && step.Order.Claims <= mostClaim:
			also(func(w *world) { w.calls++; w.claimed(n, w.written-1, step.Order, true) })
		case step.Answer == Replay:
			also(func(w *world) { w.calls++; w.toldPlaced[w.written-1] = true })
		}
	}
	for row := range w.written {
		if step := w.rows[row].Resume(); step.Action == Submit && step.Order.Claims <= mostClaim {
			also(func(w *world) { w.claimed(n, row, step.Order, false) })
			also(func(w *world) { w.rows[row] = step.Order }) // it has the claim, and does not know
		}
	}
}

// claimed gives a replica the claim that it has taken.
func (w *world) claimed(n int, row uint8, order Order, called bool) {
	w.rows[row] = order
	w.replicas[n] = replica{at: checking, row: row, claim: uint8(order.Claims), called: called}
}

// write is the commit of the order, which may also be lost, or land in doubt.
func (w world) write(n int, also func(func(*world))) {
	also(func(w *world) { w.replicas[n] = replica{} }) // nothing was begun, or it is in doubt and is not there
	order, free := w.row().Written()
	if !free || w.written == mostRows {
		return
	}
	also(func(w *world) { w.add(order); w.claimed(n, w.written-1, order, true) })
	also(func(w *world) { w.add(order); w.replicas[n] = replica{} }) // in doubt, and there
}

// add writes an order down. Nobody has looked what became of it.
func (w *world) add(order Order) {
	w.rows[w.written] = order
	w.written++
	if w.looked != resolved {
		w.looked = unseen
	}
}

// check asks whether an attempt may leave.
func (w world) check(n int, also func(func(*world))) {
	r := w.replicas[n]
	if !w.rows[r.row].May(int(r.claim)) {
		also(func(w *world) { w.replicas[n].at = settled })
		return
	}
	also(func(w *world) { w.replicas[n].at, w.replicas[n].rotated = armed, w.rows[r.row].Rotated })
}

// attempt is a POST and what becomes of it.
func (w world) attempt(n int, also func(func(*world))) {
	row, rotated := w.replicas[n].row, w.replicas[n].rotated
	after := func(w *world) *replica {
		r := &w.replicas[n]
		r.tries, r.rotated = r.tries+1, false
		if r.at = settled; r.tries < mostTries {
			r.at = checking
		}
		return r
	}
	also(func(w *world) { after(w) }) // no connection: it has not left
	left := func(change func(*world, *replica)) {
		also(func(w *world) { w.sent[row] = true; change(w, after(w)) })
	}
	left(func(w *world, r *replica) { w.take(row, rotated); r.named, r.at = true, settled })
	left(func(w *world, r *replica) { w.take(row, rotated); r.uncertain = true }) // the answer is lost
	left(func(w *world, r *replica) { w.late[row] = true; r.uncertain = true })   // it is taken later, perhaps
	left(func(w *world, r *replica) { r.uncertain = true })                       // it never arrives
	left(func(w *world, r *replica) { r.at = settled })                           // also where there is an order
}

// outcome is what a replica knows when its attempts are over.
func (r replica) outcome() Outcome {
	switch {
	case r.named:
		return Named
	case r.uncertain:
		return Uncertain
	}
	return TurnedAway // refused, or nothing has left
}

// record is the commit of the outcome, which may also be lost, or land in doubt.
func (w world) record(n int, also func(func(*world))) {
	r := w.replicas[n]
	also(func(w *world) { w.say(&w.replicas[n], Unknown) }) // it is lost, or in doubt
	step := w.rows[r.row].Concluded(int(r.claim), r.outcome(), id)
	for _, answer := range []Answer{Unknown, step.Answer} { // in doubt, or known to be there
		also(func(w *world) {
			w.rows[r.row], w.fault = step.Order, w.fault || step.Action == Report
			w.say(&w.replicas[n], answer)
		})
	}
}

// elsewhere is what may happen beside the replicas.
func (w world) elsewhere(also func(func(*world))) {
	for row := range w.written {
		if w.late[row] {
			also(func(w *world) { w.late[row] = false; w.take(row, false) })
			also(func(w *world) { w.late[row] = false })
		}
		if w.rows[row].Claimed {
			also(func(w *world) { w.rows[row].Claimed = false }) // it lapses, and the holder may not know
		}
	}
	if w.calm() {
		w.quiet(also)
	}
	w.resolve(also)
	if !w.rotated {
		also(func(w *world) {
			w.rotated = true
			for row := range w.written {
				w.rows[row].Rotated = true
			}
		})
	}
}

// calm means that no attempt is about to leave, and none is on its way.
func (w *world) calm() bool {
	for _, r := range w.replicas {
		if r.at == armed {
			return false
		}
	}
	return w.late == [mostRows]bool{}
}

// quiet is what takes so long that nothing is on its way any more: the end of the window, the memory
// of the catalog, which is longer than that, and an operator who looks at the account and says later what
// was there.
func (w world) quiet(also func(func(*world))) {
	if w.written == 0 {
		return
	}
	row := w.written - 1
	order := w.rows[row]
	if !order.Expired {
		also(func(w *world) { w.rows[row].Expired = true })
	} else if !w.forgot {
		also(func(w *world) { w.forgot = true })
	}
	generation := ""
	if w.exists() {
		generation = id
	}
	if _, possible := order.Resolved(generation); possible && w.looked == unseen {
		also(func(w *world) {
			if w.looked = seenNone; generation != "" {
				w.looked = seenOne
			}
		})
	}
}

// resolve is an operator who says what was in the account.
func (w world) resolve(also func(func(*world))) {
	generation := ""
	if w.looked == seenOne {
		generation = id
	}
	order, possible := w.row().Resolved(generation)
	if possible && (w.looked == seenOne || w.looked == seenNone) {
		also(func(w *world) { w.looked = resolved; w.rows[w.written-1] = order })
	}
}

// broken names the promise that a world breaks.
func (w *world) broken() string {
	charges, live := 0, 0
	for row, order := range w.rows {
		charged := w.charges[row] > 0
		charges += int(w.charges[row])
		if order.State == Open || order.State == Placed {
			live++
		}
		switch {
		case w.sent[row] && row >= int(w.written):
			return "an attempt has left for an order that is not written down"
		case w.toldPlaced[row] && order.State != Placed:
			return "a caller was told a generation that the ledger does not hold"
		case w.toldNot[row] && order.State != Refused:
			return "a caller was told that there is no order, and there may be one"
		case order.State == Refused && charged:
			return "the ledger has freed the money of an order that is charged"
		case order.State == Refused && w.late[row]:
			return "the ledger calls an order refused that may be taken yet"
		case order.State == Placed && !w.exists():
			return "the ledger has a generation that the catalog does not have"
		}
	}
	switch {
	case charges > 1:
		return "the order was charged twice"
	case live > 1:
		return "two orders stand under one idempotency key"
	case w.fault:
		return "the book is said to be wrong, and nobody has made it so"
	}
	return ""
}

// follows says that a change of one order takes nothing back.
func (w *world) follows(before world) string {
	for row := range before.written {
		was, is := before.rows[row], w.rows[row]
		switch {
		case was.State == Placed && (is.State != Placed || is.Generation != was.Generation):
			return "a generation was overwritten"
		case was.State == Refused && is.State == Open, is.State == None:
			return "an order was forgotten"
		}
	}
	return ""
}

// concludes lets nothing go wrong any more, and reports whether every order gets its outcome that may
// still be sent.
func (w world) concludes() bool {
	w.replicas = [replicas]replica{} // whoever was there is dead
	for row := range w.written {
		order := w.rows[row]
		order.Claimed = false // it lapses
		step := order.Resume()
		if step.Action == Submit {
			w.take(row, false)
			order = step.Order.Concluded(step.Order.Claims, Named, id).Order
		}
		if w.rows[row] = order; order.State == Open && !order.Expired && !order.Rotated {
			return false
		}
	}
	return w.broken() == ""
}

func TestEverySequenceOfEventsKeepsThePromises(t *testing.T) { // T3, T4, T9, T10
	seen := map[world]bool{{}: true}
	steps := 0
	for todo := []world{{}}; len(todo) > 0; {
		w := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		for _, after := range w.next() {
			steps++
			if why := after.broken() + after.follows(w); why != "" {
				t.Fatalf("%s:\n%+v\n%+v", why, w, after)
			}
			if len(seen) > 5000000 {
				t.Fatal("many")
			}
			if !seen[after] {
				seen[after] = true
				todo = append(todo, after)
				if !after.concludes() {
					t.Fatalf("the order stays unknown when all is well again: %+v", after)
				}
			}
		}
	}
	t.Logf("%d states, %d steps between them", len(seen), steps)
	if len(seen) < 100_000 {
		t.Errorf("only %d states: the walk does not reach what it is for", len(seen))
	}
}
