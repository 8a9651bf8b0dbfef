package lifecycle

// A walk tries every sequence of events for one idempotency key of one caller. Two replicas can crash at any step, or
// pause until after the resend window. A commit can fail, or it can succeed although its response is lost. The catalog can
// lose a response, accept a request late, or reject a repeat. The caller can change teams or be removed while an order is
// quoted. The API key can be rotated, and an operator can resolve the order. Only a separate walk restores the ledger from
// a backup.
const (
	replicas  = 2
	mostRows  = 2 // maximum number of orders under the key; a new order follows only a rejected one
	maxLeases = 2 // maximum number of leases for an order
	maxTries  = 2 // maximum number of attempts under a lease
	mostCalls = 2
)

// phase is a replica's position in the submission of an order.
type phase uint8

const (
	idle      phase = iota
	writing         // the replica has looked up the key, and will write the order
	checking        // the replica has a lease, and will check whether it may send an attempt
	armed           // the replica will send an attempt
	settled         // the replica has finished the attempts, and will record the outcome
	returning       // the replica has recorded the outcome, and will respond to the caller
	asking          // the replica has rejected the order, and will check whether the key has another order
)

// replica is the state of a process.
type replica struct {
	at        phase
	row       uint8
	lease     uint8
	tries     uint8
	uncertain bool // an attempt under this lease may have been accepted
	refused   bool // the catalog rejected the last attempt
	named     bool
	called    bool // a caller is waiting for the response
	rotated   bool // the API key has changed since the first attempt
	team      team // the caller's team at the time of its call
}

// team identifies one of the caller's teams: 0 is the first team, and 1 is the team to which the caller moves.
type team = uint8

// world is the complete state of a model of the ledger, the replicas and the catalog. It needs no generation IDs, because
// a generation is identified by the row that is charged for it.
type world struct {
	rows     [mostRows]Order
	teams    [mostRows]team // team of each row's order
	written  uint8
	replicas [replicas]replica
	calls    uint8
	rotated  bool
	team     team // the caller's team in the callers file
	removed  bool
	keyFirst bool  // whether the catalog checks the idempotency key before everything else
	looked   sight // result of the operator's latest check of the account

	restores bool // whether this walk can restore a backup, once; in such a walk, API keys and teams do not change, and each lease has one attempt
	backup   backup
	restored bool
	lost     uint8          // number of charges for orders that the restored backup lacks
	gaveUp   [mostRows]bool // whether, before the restore, a caller received not_placed for an order that the backup contains
	unasked  bool           // whether the recovery has resent an order for which the caller had received not_placed

	charges [mostRows]uint8 // for each order in rows, the number of generations that the catalog has created and charged
	forgot  bool            // whether the catalog has forgotten the idempotency key
	late    [mostRows]bool  // whether a request for the row is in flight although no process waits for its response
	fault   bool            // whether the ledger has reported a contradiction

	toldPlaced, toldNot [mostRows]bool
	toldFree            bool           // whether a caller received not_placed although an order exists
	sent                [mostRows]bool // for each row, whether an attempt was sent
}

// backup is a copy of the ledger.
type backup struct {
	rows    [mostRows]Order
	written uint8
}

const id = "g"

// sight is an operator's progress in resolving an order. The operator first searches the account for generations of the
// order, and then resolves the order.
type sight uint8

const (
	unseen sight = iota
	seenNone
	seenOne
	resolved
)

// latestOrder returns a team's latest order and the index of its row, or zeros if the team has no order.
func (w *world) latestOrder(of team) (order Order, at uint8) {
	for row := range w.written {
		if w.teams[row] == of {
			order, at = w.rows[row], row
		}
	}
	return order, at
}

// isLive reports whether the caller's idempotency key has an open or placed order in any team.
func (w *world) isLive() bool {
	for _, order := range w.rows {
		if order.State == Open || order.State == Placed {
			return true
		}
	}
	return false
}

// hasGeneration reports whether the catalog has a generation under the idempotency key of a team's orders. If the restored
// backup lacks an order that was charged, the result is true for both teams, because the team of such an order is not
// recorded.
func (w *world) hasGeneration(of team) bool {
	for row := range w.written {
		if w.teams[row] == of && w.charges[row] > 0 {
			return true
		}
	}
	return w.lost > 0
}

// receiveRequest models the arrival of an order's request at the catalog. The catalog charges the order unless it already has a
// generation for the idempotency key under the same API key. rotated is true if the API key has changed since the first
// attempt.
func (w *world) receiveRequest(row uint8, rotated bool) {
	if !w.hasGeneration(w.teams[row]) || w.forgot || rotated {
		w.charges[row]++
		w.forgot = false
	}
}

// sendAnswer sends an answer to the replica's caller, if it has one, and makes the replica idle.
func (w *world) sendAnswer(r *replica, answer Answer) {
	switch {
	case !r.called:
	case answer == Replay:
		w.toldPlaced[r.row] = true
	case answer == NotPlaced:
		w.toldNot[r.row], w.toldFree = true, w.toldFree || w.isLive()
	}
	*r = replica{}
}

// visitNext calls the function visit with every state that can directly follow w. The methods below pass changes to
// visitChanged, which applies each change to a separate copy of w.
func (w world) visitNext(visit func(*world)) {
	var changed world
	visitChanged := func(change func(*world)) {
		changed = w
		change(&changed)
		changed.normalize()
		visit(&changed)
	}
	for n := range w.replicas {
		w.stepReplica(n, visitChanged)
	}
	w.visitOutsideEvents(visitChanged)
}

// normalize normalizes the world, so that worlds are equal if they differ only in the order of their replicas or in irrelevant
// values.
func (w *world) normalize() {
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
		w.calls = mostCalls // a removed caller can make no further calls
	}
	if a, b := w.replicas[0], w.replicas[1]; a.ordinal() > b.ordinal() {
		w.replicas[0], w.replicas[1] = b, a
	}
}

// ordinal returns a number that is different for each state of a replica.
func (r replica) ordinal() (n int) {
	for _, part := range []uint8{uint8(r.at), r.row, r.lease, r.tries, r.team} {
		n = n<<4 | int(part)
	}
	for _, part := range []bool{r.uncertain, r.refused, r.named, r.called, r.rotated} {
		if n <<= 1; part {
			n++
		}
	}
	return n
}

// stepReplica models each possible next step of replica n.
func (w world) stepReplica(n int, visitChanged func(func(*world))) {
	r := w.replicas[n]
	if r.at != idle {
		visitChanged(func(w *world) { w.replicas[n] = replica{} }) // the replica crashes, or it stops without sending a response
	}
	if r.called && (r.at == checking || r.at == armed || r.at == settled) { // the caller disconnects while the attempts continue
		visitChanged(func(w *world) {
			left := w.replicas[n] // a copy, because only the caller leaves and the replica continues
			w.sendAnswer(&left, w.rows[r.row].Left().Answer)
		})
	}
	switch r.at {
	case idle:
		w.beginCall(n, visitChanged)
	case writing:
		w.writeOrder(n, visitChanged)
	case checking:
		w.checkAttempt(n, visitChanged)
	case armed:
		w.sendAttempt(n, visitChanged)
	case settled:
		w.recordOutcome(n, visitChanged)
	case returning:
		w.answerRejection(n, visitChanged)
	case asking:
		w.rejectOrder(n, visitChanged)
	}
}

// beginCall models a call to replica n, and the start of a recovery by replica n.
func (w world) beginCall(n int, visitChanged func(func(*world))) {
	if w.calls < mostCalls && !w.removed {
		row, at := w.latestOrder(w.team)
		elsewhere, _ := w.latestOrder(1 - w.team)
		switch step := row.Call(true); {
		case elsewhere.State == Open || elsewhere.State == Placed: // the key is in use by an order of the caller's other team
		case step.Action == Write && w.written < mostRows:
			visitChanged(func(w *world) { w.calls++; w.replicas[n] = replica{at: writing, called: true, team: w.team} })
		case step.Action == Submit && step.Order.Leases <= maxLeases:
			visitChanged(func(w *world) { w.calls++; w.repeatOrder(at); w.acquireLease(n, at, step.Order, true) })
		case step.Answer == Replay:
			visitChanged(func(w *world) { w.calls++; w.toldPlaced[at] = true })
		}
	}
	for row := range w.written {
		if step := w.rows[row].Resume(); step.Action == Submit && step.Order.Leases <= maxLeases {
			visitChanged(func(w *world) { w.acquireLease(n, row, step.Order, false) })
			visitChanged(func(w *world) { w.rows[row] = step.Order }) // the lease is recorded, but its holder does not receive the response
		}
	}
}

// repeatOrder models that a caller sends its order again. If a restore has put the order on hold, an earlier check of the
// account by the operator no longer counts.
func (w *world) repeatOrder(row uint8) {
	w.gaveUp[row] = false
	if w.rows[row].Held {
		w.looked = unseen
	}
}

// acquireLease records that replica n has acquired an order's lease.
func (w *world) acquireLease(n int, row uint8, order Order, called bool) {
	w.rows[row] = order
	w.replicas[n] = replica{at: checking, row: row, lease: uint8(order.Leases), called: called}
}

// writeOrder models the commit of an order by replica n. The commit can fail, or it can succeed although its response is lost.
// The order is not written if any of the teams of the caller has an open or placed order under the same key.
func (w world) writeOrder(n int, visitChanged func(func(*world))) {
	of := w.replicas[n].team
	visitChanged(func(w *world) { w.replicas[n] = replica{} }) // nothing is committed
	visitChanged(func(w *world) { w.replicas[n].at = asking }) // the order is rejected, because its price is too high or its caller was removed
	order, free := Order{State: Refused}.Written()             // a new order
	if w.restored && w.forgot {                                // after a restore, the runbook forbids new orders if the catalog has forgotten the idempotency key
		return
	}
	if w.isLive() || !free || w.written == mostRows || w.removed { // the order is not written, because the key is in use, the caller was removed, or the key already has the maximum number of orders
		return
	}
	visitChanged(func(w *world) { w.addOrder(order, of); w.acquireLease(n, w.written-1, order, true) })
	visitChanged(func(w *world) { w.addOrder(order, of); w.replicas[n] = replica{} }) // the commit succeeded, but the replica does not receive the response
}

// addOrder writes an order. The operator's earlier check of the account no longer counts, unless it has already led to a
// decision.
func (w *world) addOrder(order Order, of team) {
	w.rows[w.written], w.teams[w.written] = order, of
	w.written++
	if w.looked != resolved {
		w.looked = unseen
	}
}

// rejectOrder models that replica n rejects an order before writing it. The caller receives not_placed only if no order uses
// the key.
func (w world) rejectOrder(n int, visitChanged func(func(*world))) {
	visitChanged(func(w *world) {
		r := &w.replicas[n]
		if !w.isLive() && !w.restored { // after a restore, callers never receive not_placed
			w.toldFree = w.toldFree || w.charges != [mostRows]uint8{}
		}
		*r = replica{}
	})
}

// checkAttempt models the check of whether replica n may send an attempt. If it may not, its attempts are finished.
func (w world) checkAttempt(n int, visitChanged func(func(*world))) {
	r := w.replicas[n]
	if !w.rows[r.row].May(int(r.lease)) {
		visitChanged(func(w *world) { w.replicas[n].at = settled })
		return
	}
	visitChanged(func(w *world) { w.replicas[n].at, w.replicas[n].rotated = armed, w.rows[r.row].Rotated })
}

// sendAttempt models each possible result when replica n tries to send a POST. The POST may not be sent, because there is no
// connection, or because the resend window or the lease has ended since the last check.
func (w world) sendAttempt(n int, visitChanged func(func(*world))) {
	row, rotated := w.replicas[n].row, w.replicas[n].rotated
	after := func(w *world) *replica {
		r := &w.replicas[n]
		r.tries, r.rotated, r.refused = r.tries+1, false, false
		if r.at = settled; r.tries < maxTries && !w.restores {
			r.at = checking
		}
		return r
	}
	visitChanged(func(w *world) { after(w) }) // the POST is not sent: there is no connection, or the resend window or the lease has ended
	if order := w.rows[row]; order.Expired || !order.Leased || order.Leases != int(w.replicas[n].lease) {
		return
	}
	left := func(change func(*world, *replica)) {
		visitChanged(func(w *world) {
			w.sent[row], w.unasked = true, w.unasked || w.gaveUp[row]
			change(w, after(w))
		})
	}
	left(func(w *world, r *replica) { w.receiveRequest(row, rotated); r.named, r.at = true, settled })
	left(func(w *world, r *replica) { w.receiveRequest(row, rotated); r.uncertain = true }) // the response is lost
	left(func(w *world, r *replica) { w.late[row] = true; r.uncertain = true })             // the catalog may accept the request later
	left(func(w *world, r *replica) { r.uncertain = true })                                 // the catalog never receives the request
	if !w.keyFirst || !w.hasGeneration(w.teams[row]) && !w.late[row] {
		left(func(w *world, r *replica) { r.refused, r.at = true, settled }) // the catalog rejects the request, even if an order exists
	}
}

// outcome returns the outcome that follows from a replica's attempts.
func (w world) outcome(r replica) Outcome {
	switch {
	case r.named:
		return Named
	case r.uncertain && r.refused && w.keyFirst, r.refused && r.lease > 1 && w.keyFirst:
		return KeyRefused
	case r.uncertain:
		return Uncertain
	}
	return TurnedAway // the order was rejected or never sent
}

// recordOutcome models each possible result of committing the outcome: the commit fails, it succeeds, or it succeeds but its
// response is lost. After a lost response, the replica may record the outcome again.
func (w world) recordOutcome(n int, visitChanged func(func(*world))) {
	r := w.replicas[n]
	visitChanged(func(w *world) { w.sendAnswer(&w.replicas[n], Unknown) }) // the outcome is not committed
	step := w.rows[r.row].Concluded(int(r.lease), w.outcome(r), id)
	landed := func(w *world) { w.rows[r.row], w.fault = step.Order, w.fault || step.Action == Report }
	visitChanged(func(w *world) { landed(w); w.sendAnswer(&w.replicas[n], Unknown) }) // only the response was lost, and the replica reports Unknown
	visitChanged(landed)                                                              // only the response was lost, and the replica records the outcome again
	visitChanged(func(w *world) {
		if landed(w); r.called && step.Answer == NotPlaced {
			w.replicas[n].at = returning
			return
		}
		w.sendAnswer(&w.replicas[n], step.Answer)
	})
}

// answerRejection models the response to the caller of a rejected order. The response is NotPlaced, or Unknown if another order
// already uses the key.
func (w world) answerRejection(n int, visitChanged func(func(*world))) {
	visitChanged(func(w *world) {
		answer := NotPlaced
		if w.isLive() {
			answer = Unknown
		}
		w.sendAnswer(&w.replicas[n], answer)
	})
}

// visitOutsideEvents models each possible event outside the replicas, such as the expiry of a lease or the late arrival of a
// request.
func (w world) visitOutsideEvents(visitChanged func(func(*world))) {
	for row := range w.written {
		if w.late[row] {
			visitChanged(func(w *world) { w.late[row] = false; w.receiveRequest(row, false) })
			visitChanged(func(w *world) { w.late[row] = false })
		}
		if w.rows[row].Leased {
			visitChanged(func(w *world) { w.rows[row].Leased = false }) // the lease expires, possibly unnoticed by its holder
		}
	}
	w.waitLong(visitChanged)
	w.decideOrder(visitChanged)
	if w.restores {
		w.restoreBackup(visitChanged)
		return
	}
	if w.keyFirst { // a catalog that checks the idempotency key first is not affected by a change of the API key or the team
		return
	}
	if !w.rotated {
		visitChanged(func(w *world) {
			w.rotated = true
			for row := range w.written {
				w.rows[row].Rotated = true
			}
		})
	}
	if w.team == 0 && !w.removed && w.isQuoting() { // a change of the team or a removal matters only while an order is quoted
		visitChanged(func(w *world) { w.team = 1 })
		visitChanged(func(w *world) { w.removed = true })
	}
}

// restoreBackup models the creation of a backup of the ledger, and the restore of this backup. Before the restore, all
// processes stop, and no request is in flight.
func (w world) restoreBackup(visitChanged func(func(*world))) {
	if !w.restored && w.backup == (backup{}) && w.written == 1 && w.rows[0].State == Open {
		visitChanged(func(w *world) { w.backup = backup{w.rows, w.written} })
	}
	if w.backup == (backup{}) || !w.isCalm() {
		return
	}
	visitChanged(func(w *world) {
		expired := false // whether the resend window of this row or a later row has expired; the orders of earlier rows are older, so their windows have expired too
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

// isQuoting reports whether an order is being quoted.
func (w *world) isQuoting() bool { return w.replicas[0].at == writing || w.replicas[1].at == writing }

// isCalm reports whether no request is in flight.
func (w *world) isCalm() bool { return w.late == [mostRows]bool{} }

// waitLong models events after a long wait. The resend window can end, even while a replica is paused. Afterwards, the catalog
// can forget the idempotency key if no request is in flight. An operator can check the account, and decide in a later step.
func (w world) waitLong(visitChanged func(func(*world))) {
	if w.written == 0 {
		return
	}
	row := w.written - 1
	order := w.rows[row]
	if !order.Expired {
		visitChanged(func(w *world) { w.rows[row].Expired = true })
	} else if w.isCalm() && !w.forgot {
		visitChanged(func(w *world) { w.forgot = true })
	}
	for _, r := range w.replicas {
		if r.at == armed && !order.Expired {
			return
		}
	}
	generation := ""
	if w.hasGeneration(w.teams[row]) {
		generation = id
	}
	if _, possible := order.Resolve(generation); w.isCalm() && possible && w.looked == unseen {
		visitChanged(func(w *world) {
			if w.looked = seenNone; generation != "" {
				w.looked = seenOne
			}
		})
	}
}

// decideOrder models the operator's decision after the latest check of the account.
func (w world) decideOrder(visitChanged func(func(*world))) {
	if w.written == 0 || w.looked != seenOne && w.looked != seenNone {
		return
	}
	row, generation := w.written-1, ""
	if w.looked == seenOne {
		generation = id
	}
	if order, possible := w.rows[row].Resolve(generation); possible {
		visitChanged(func(w *world) { w.looked, w.rows[row] = resolved, order })
	}
}
