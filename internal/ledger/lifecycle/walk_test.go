package lifecycle

// The walk tries every sequence of events of one idempotency key of one caller: calls, two replicas that crash or
// stop anywhere, also past the window, commits that are lost, silent or in doubt, a catalog that loses answers, takes a
// request late and refuses repeats, a caller that is moved to another team or removed while its order is quoted, a
// rotated API key, an operator. A walk of its own restores the ledger from a backup.
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
	idle      place = iota
	writing         // it has looked the key up, and is about to write the order down
	checking        // it has a claim, and is about to ask whether an attempt may leave
	armed           // an attempt may leave
	settled         // the attempts are over, and the outcome is about to be recorded
	returning       // the outcome is recorded, and the caller is about to receive it
	asking          // it has met a refusal, and is about to ask for the key once more
)

// replica is what one process knows.
type replica struct {
	at        place
	row       uint8
	claim     uint8
	tries     uint8
	uncertain bool // an attempt under the claim may have been taken
	refused   bool // the last attempt was
	named     bool
	called    bool // a caller waits
	rotated   bool // the attempt would leave under another API key than the first
	team      team // of the caller, when it called
}

// team is the team of the caller: the first, or the one that it is moved to.
type team = uint8

// world is everything. Ids are not told apart: a generation is known by the row that it is charged to.
type world struct {
	rows     [mostRows]Order
	teams    [mostRows]team // of the rows
	written  uint8
	replicas [replicas]replica
	calls    uint8
	rotated  bool
	team     team // of the caller, by the callers file
	removed  bool
	keyFirst bool  // the catalog looks at the idempotency key before all else
	looked   sight // what an operator has seen in the account

	restores bool // the ledger is restored from a backup, once; keys and teams stay, and each claim has one attempt
	backup   backup
	restored bool
	lost     uint8          // charges for rows that the restored ledger does not have
	gaveUp   [mostRows]bool // before the restore, a caller received not_placed for the order
	unasked  bool           // the recovery has sent an order whose caller received not_placed

	charges [mostRows]uint8 // what the catalog has made of this row's attempts
	forgot  bool            // the catalog has forgotten the idempotency key
	late    [mostRows]bool  // a request of this row is on its way, and nobody waits for its answer
	fault   bool            // the book was said to be wrong

	toldPlaced, toldNot [mostRows]bool
	toldFree            bool           // a caller was told that there is no order, while there was one
	sent                [mostRows]bool // an attempt has left
}

// backup is a copy of the ledger.
type backup struct {
	rows    [mostRows]Order
	written uint8
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

// row is the newest order under the idempotency key of a team, and its place.
func (w *world) row(of team) (order Order, at uint8) {
	for row := range w.written {
		if w.teams[row] == of {
			order, at = w.rows[row], row
		}
	}
	return order, at
}

// isLive reports whether an order stands under the caller's idempotency key, of whichever team.
func (w *world) isLive() bool {
	for _, order := range w.rows {
		if order.State == Open || order.State == Placed {
			return true
		}
	}
	return false
}

// exists reports whether the catalog has a generation under the upstream key of a team.
func (w *world) exists(of team) bool {
	for row := range w.written {
		if w.teams[row] == of && w.charges[row] > 0 {
			return true
		}
	}
	return w.lost > 0
}

// take is the catalog, when it takes a request of a row. A request whose key it knows, under this API
// key, makes nothing new.
func (w *world) take(row uint8, rotated bool) {
	if !w.exists(w.teams[row]) || w.forgot || rotated {
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
		w.toldNot[r.row], w.toldFree = true, w.toldFree || w.isLive()
	}
	*r = replica{}
}

// next passes every world that may follow to visit.
func (w world) next(visit func(*world)) {
	var changed world
	also := func(change func(*world)) {
		changed = w
		change(&changed)
		changed.sort()
		visit(&changed)
	}
	for n := range w.replicas {
		w.step(n, also)
	}
	w.elsewhere(also)
}

// sort makes one world of two in which the replicas have changed places, or differ in what no longer matters.
func (w *world) sort() {
	for n := range w.replicas {
		switch r := &w.replicas[n]; r.at {
		case settled:
			r.tries = 0
		case returning:
			*r = replica{at: returning, row: r.row, called: true}
		case asking:
			*r = replica{at: asking}
		}
	}
	if w.removed {
		w.calls = mostCalls // there will be no more
	}
	if a, b := w.replicas[0], w.replicas[1]; a.order() > b.order() {
		w.replicas[0], w.replicas[1] = b, a
	}
}

// order is a number that no other replica has.
func (r replica) order() (n int) {
	for _, part := range []uint8{uint8(r.at), r.row, r.claim, r.tries, r.team} {
		n = n<<4 | int(part)
	}
	for _, part := range []bool{r.uncertain, r.refused, r.named, r.called, r.rotated} {
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
	if r.called && (r.at == checking || r.at == armed || r.at == settled) { // told before recorded: the attempts continue without the caller
		also(func(w *world) {
			left := w.replicas[n] // nothing else changes: a later answer to the caller is lost
			w.say(&left, w.rows[r.row].Left().Answer)
		})
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
	case returning:
		w.answer(n, also)
	case asking:
		w.refuse(n, also)
	}
}

// begin is a call, or the recovery.
func (w world) begin(n int, also func(func(*world))) {
	if w.calls < mostCalls && !w.removed {
		row, at := w.row(w.team)
		elsewhere, _ := w.row(1 - w.team)
		switch step := row.Call(true); {
		case elsewhere.State == Open || elsewhere.State == Placed: // the key is used in the other team
		case step.Action == Write && w.written < mostRows:
			also(func(w *world) { w.calls++; w.replicas[n] = replica{at: writing, called: true, team: w.team} })
		case step.Action == Submit && step.Order.Claims <= mostClaim:
			also(func(w *world) { w.calls++; w.repeat(at); w.claimed(n, at, step.Order, true) })
		case step.Answer == Replay:
			also(func(w *world) { w.calls++; w.toldPlaced[at] = true })
		}
	}
	for row := range w.written {
		if step := w.rows[row].Resume(); step.Action == Submit && step.Order.Claims <= mostClaim {
			also(func(w *world) { w.claimed(n, row, step.Order, false) })
			also(func(w *world) { w.rows[row] = step.Order }) // it has the claim, and does not know
		}
	}
}

// repeat records that a caller wants an order again. An operator has to inspect the account once more.
func (w *world) repeat(row uint8) {
	w.gaveUp[row] = false
	if w.rows[row].Held {
		w.looked = unseen
	}
}

// claimed gives a replica the claim that it has taken.
func (w *world) claimed(n int, row uint8, order Order, called bool) {
	w.rows[row] = order
	w.replicas[n] = replica{at: checking, row: row, claim: uint8(order.Claims), called: called}
}

// write is the commit of the order, which may also be lost, or land in doubt. The replica may not know yet that the
// caller was moved: that the key stands in the other team, every replica finds out.
func (w world) write(n int, also func(func(*world))) {
	of := w.replicas[n].team
	also(func(w *world) { w.replicas[n] = replica{} }) // nothing was begun, or it is in doubt and is not there
	also(func(w *world) { w.replicas[n].at = asking }) // it is too dear, or the caller may no more
	order, free := Order{State: Refused}.Written()     // of a new row
	if w.restored && w.forgot {                        // the runbook forbids it
		return
	}
	if w.isLive() || !free || w.written == mostRows || w.removed { // the key is not free, or the caller is gone
		return
	}
	also(func(w *world) { w.add(order, of); w.claimed(n, w.written-1, order, true) })
	also(func(w *world) { w.add(order, of); w.replicas[n] = replica{} }) // in doubt, and there
}

// add writes an order down. Nobody has looked what became of it.
func (w *world) add(order Order, of team) {
	w.rows[w.written], w.teams[w.written] = order, of
	w.written++
	if w.looked != resolved {
		w.looked = unseen
	}
}

// refuse asks once more whether an order stands under the key, before the caller is told that there is none.
func (w world) refuse(n int, also func(func(*world))) {
	also(func(w *world) {
		r := &w.replicas[n]
		if !w.isLive() && !w.restored { // a restored ledger never says that there is no order
			w.toldFree = w.toldFree || w.charges != [mostRows]uint8{}
		}
		*r = replica{}
	})
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

// attempt is a POST and what becomes of it. None leaves past the window or its claim, however long ago it was allowed.
func (w world) attempt(n int, also func(func(*world))) {
	row, rotated := w.replicas[n].row, w.replicas[n].rotated
	after := func(w *world) *replica {
		r := &w.replicas[n]
		r.tries, r.rotated, r.refused = r.tries+1, false, false
		if r.at = settled; r.tries < mostTries && !w.restores {
			r.at = checking
		}
		return r
	}
	also(func(w *world) { after(w) }) // no connection, or too late: it has not left
	if order := w.rows[row]; order.Expired || !order.Claimed || order.Claims != int(w.replicas[n].claim) {
		return
	}
	left := func(change func(*world, *replica)) {
		also(func(w *world) {
			w.sent[row], w.unasked = true, w.unasked || w.gaveUp[row]
			change(w, after(w))
		})
	}
	left(func(w *world, r *replica) { w.take(row, rotated); r.named, r.at = true, settled })
	left(func(w *world, r *replica) { w.take(row, rotated); r.uncertain = true }) // the answer is lost
	left(func(w *world, r *replica) { w.late[row] = true; r.uncertain = true })   // it is taken later, perhaps
	left(func(w *world, r *replica) { r.uncertain = true })                       // it never arrives
	if !w.keyFirst || !w.exists(w.teams[row]) && !w.late[row] {
		left(func(w *world, r *replica) { r.refused, r.at = true, settled }) // also where there is an order
	}
}

// outcome is what a replica knows when its attempts are over.
func (w world) outcome(r replica) Outcome {
	switch {
	case r.named:
		return Named
	case r.uncertain && r.refused && w.keyFirst, r.refused && r.claim > 1 && w.keyFirst:
		return KeyRefused
	case r.uncertain:
		return Uncertain
	}
	return TurnedAway // refused, or nothing has left
}

// record is the commit of the outcome, which may also be lost, or land in doubt; then it may be tried again.
func (w world) record(n int, also func(func(*world))) {
	r := w.replicas[n]
	also(func(w *world) { w.say(&w.replicas[n], Unknown) }) // it is lost, or in doubt
	step := w.rows[r.row].Concluded(int(r.claim), w.outcome(r), id)
	landed := func(w *world) { w.rows[r.row], w.fault = step.Order, w.fault || step.Action == Report }
	also(func(w *world) { landed(w); w.say(&w.replicas[n], Unknown) }) // in doubt
	also(landed)                                                       // silent: it is recorded once more
	also(func(w *world) {
		if landed(w); r.called && step.Answer == NotPlaced {
			w.replicas[n].at = returning
			return
		}
		w.say(&w.replicas[n], step.Answer)
	})
}

// answer answers a caller that there is no order. The key is looked up first, because it may have been used again.
func (w world) answer(n int, also func(func(*world))) {
	also(func(w *world) {
		answer := NotPlaced
		if w.isLive() {
			answer = Unknown
		}
		w.say(&w.replicas[n], answer)
	})
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
	w.quiet(also)
	w.resolve(also)
	if w.restores {
		w.restore(also)
		return
	}
	if w.keyFirst { // it has nothing to do with API keys and teams
		return
	}
	if !w.rotated {
		also(func(w *world) {
			w.rotated = true
			for row := range w.written {
				w.rows[row].Rotated = true
			}
		})
	}
	if w.team == 0 && !w.removed && w.quotes() { // at another time it is as if it had been so from the start
		also(func(w *world) { w.team = 1 })
		also(func(w *world) { w.removed = true })
	}
}

// restore writes a backup, or puts it in the place of the ledger when every process has ended and no request is under way.
func (w world) restore(also func(func(*world))) {
	if !w.restored && w.backup == (backup{}) && w.written == 1 && w.rows[0].State == Open {
		also(func(w *world) { w.backup = backup{w.rows, w.written} })
	}
	if w.backup == (backup{}) || !w.calm() {
		return
	}
	also(func(w *world) {
		expired := false // a window that has passed since the backup stays so, and that of an earlier order ends earlier
		for row := mostRows - 1; row >= 0; row-- {
			expired = expired || w.rows[row].Expired
			w.gaveUp[row] = w.toldNot[row] && row < int(w.backup.written)
			if row >= int(w.backup.written) {
				w.lost += w.charges[row]
				w.charges[row] = 0
			}
			if saved := &w.backup.rows[row]; saved.State == Open {
				saved.Held, saved.Expired = true, expired
			}
		}
		w.rows, w.written = w.backup.rows, w.backup.written
		w.replicas, w.toldPlaced, w.toldNot, w.sent = [replicas]replica{}, [mostRows]bool{}, [mostRows]bool{}, [mostRows]bool{}
		w.backup, w.restored, w.calls, w.looked = backup{}, true, min(w.calls, mostCalls-1), unseen
	})
}

// quotes reports whether an order is being quoted.
func (w *world) quotes() bool { return w.replicas[0].at == writing || w.replicas[1].at == writing }

// calm means that no attempt is on its way.
func (w *world) calm() bool { return w.late == [mostRows]bool{} }

// quiet is what takes long: the end of the window, whoever stands still meanwhile; and what takes so long that nothing is
// on its way any more: the memory of the catalog, which is longer than the window, and an operator who looks at the
// account and says later what was there.
func (w world) quiet(also func(func(*world))) {
	if w.written == 0 {
		return
	}
	row := w.written - 1
	order := w.rows[row]
	if !order.Expired {
		also(func(w *world) { w.rows[row].Expired = true })
	} else if w.calm() && !w.forgot {
		also(func(w *world) { w.forgot = true })
	}
	for _, r := range w.replicas {
		if r.at == armed && !order.Expired {
			return
		}
	}
	generation := ""
	if w.exists(w.teams[row]) {
		generation = id
	}
	if _, possible := order.Resolve(generation); w.calm() && possible && w.looked == unseen {
		also(func(w *world) {
			if w.looked = seenNone; generation != "" {
				w.looked = seenOne
			}
		})
	}
}

// resolve is an operator who says what was in the account.
func (w world) resolve(also func(func(*world))) {
	if w.written == 0 || w.looked != seenOne && w.looked != seenNone {
		return
	}
	row, generation := w.written-1, ""
	if w.looked == seenOne {
		generation = id
	}
	if order, possible := w.rows[row].Resolve(generation); possible {
		also(func(w *world) { w.looked, w.rows[row] = resolved, order })
	}
}
