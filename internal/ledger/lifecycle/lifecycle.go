// Package lifecycle says what may follow what in the life of an order and of its generation: from what the ledger has
// recorded and what happens, what the ledger records next, what is to be done, what a caller may be
// told, and what the order costs. It reads no clock and no database, so that every sequence of events can be walked.
package lifecycle

// State is what the ledger has recorded of an order.
type State int

const (
	// None means that the ledger has no order under the idempotency key.
	None State = iota
	// Open means that the order is written down and has no outcome: a POST may have left.
	Open
	// Placed means that the catalog has named the generation.
	Placed
	// Refused means that the order certainly does not exist. Its idempotency key is free again.
	Refused
)

func (s State) String() string { return [...]string{"none", "unknown", "placed", "refused"}[s] }

// Order is what the ledger has recorded of an order, as far as its life goes.
type Order struct {
	State State
	// Generation is the catalog's id of a placed order.
	Generation string
	// Claims is how many claims there have been. A claim is the right to send the order to the catalog;
	// it lasts a while by the database's clock, and its number is the value of Claims when it was taken.
	Claims int
	// Claimed means that the newest claim is in force.
	Claimed bool
	// Expired means that the window is over in which the order may be sent again.
	Expired bool
	// Rotated means that the API key of the first attempt is no longer in force.
	Rotated bool
	// Resolved means that an operator has said what became of the order.
	Resolved bool
	// Held means that the order was open when the ledger was copied or restored. The order may have been rejected since and
	// placed again under another key, so only its caller or an operator continues it.
	Held bool
}

// Outcome is what all attempts under one claim have said.
type Outcome int

const (
	// Named is an answer that names the generation.
	Named Outcome = iota
	// TurnedAway is a refusal where no attempt under the claim can have been taken.
	TurnedAway
	// KeyRefused is a refusal by a catalog that looks at the idempotency key before all else: it has no order under it.
	KeyRefused
	// Uncertain is everything else: an attempt may have been taken, or may be by a later repeat.
	Uncertain
)

// Action is what is to be done next.
type Action int

const (
	// Nothing is to be done.
	Nothing Action = iota
	// Write means to check limits, models and budgets, and to write the order down with its first claim.
	Write
	// Submit means to send the order, or to send it again, under the claim that was taken.
	Submit
	// Wait means to wait until the claim of another ends or the order has an outcome.
	Wait
	// Report means to log and to count a fault of the book: two truths meet.
	Report
)

// Answer is what a caller may be told. Nobody is told anything before the ledger holds the order that
// comes with it.
type Answer int

const (
	// Silence means that there is nothing to say yet.
	Silence Answer = iota
	// Replay is the generation that the order has placed.
	Replay
	// NotPlaced means that there is no order, and none comes of this call.
	NotPlaced
	// Unknown means that the order may exist: send the same idempotency key again.
	Unknown
	// Unresolved means that the order may exist and nobody sends it again: an operator has to look.
	Unresolved
	// Reused means that the idempotency key belongs to another request.
	Reused
)

// Step is what follows an event.
type Step struct {
	Order  Order // what the ledger records
	Action Action
	Answer Answer
}

// stay changes nothing.
func (o Order) stay(action Action, answer Answer) Step { return Step{o, action, answer} }

// sendable means that another attempt may leave.
func (o Order) sendable() bool { return o.State == Open && !o.Expired && !o.Rotated }

// claim takes the next claim.
func (o Order) claim() Order {
	o.Claims++
	o.Claimed, o.Held = true, false
	return o
}

// Call is a caller that sends the idempotency key of the order; same means the request that was
// written down.
func (o Order) Call(same bool) Step {
	switch {
	case o.State == None || o.State == Refused:
		return Step{Order{}, Write, Silence}
	case !same:
		return o.stay(Nothing, Reused)
	case o.State == Placed:
		return o.stay(Nothing, Replay)
	case o.Claimed:
		return o.stay(Wait, Silence)
	}
	return o.resend()
}

// Written is the order of [Write], when the transaction that writes it down has found its idempotency
// key still free; else the caller begins again with [Order.Call].
func (o Order) Written() (next Order, free bool) {
	if o.State == Open || o.State == Placed {
		return o, false
	}
	return Order{State: Open}.claim(), true
}

// Resume returns the step of the recovery, which resends orders whose callers do not return. It resends no held order.
func (o Order) Resume() Step {
	if o.Held {
		return o.stay(Nothing, Silence)
	}
	return o.resend()
}

// resend returns the step of a process that would send an order of unknown outcome again.
func (o Order) resend() Step {
	switch {
	case o.State != Open || o.Claimed:
		return o.stay(Nothing, Silence)
	case o.Expired:
		return o.stay(Nothing, Unresolved)
	case o.Rotated:
		return o.stay(Nothing, Unknown)
	}
	return Step{o.claim(), Submit, Silence}
}

// May reports whether an attempt may leave under a claim. Who holds the claim asks before each
// attempt, and renews the claim with the answer.
func (o Order) May(claim int) bool { return o.sendable() && o.Claimed && o.Claims == claim }

// Left returns the step of a caller that leaves before the outcome of the attempts under a claim is recorded. The outcome is
// unknown then, whatever the sending process knows: if that process dies, the next one sends the order.
func (o Order) Left() Step { return o.stay(Nothing, Unknown) }

// Concluded is the outcome of the attempts under a claim, which need not be in force any more.
// Generation is the id of an outcome that is [Named].
func (o Order) Concluded(claim int, outcome Outcome, generation string) Step {
	switch {
	case outcome == Named:
		return o.named(generation)
	case o.State == Placed:
		return o.stay(Nothing, Replay)
	case o.State == Refused:
		return o.stay(Nothing, NotPlaced)
	case o.Claims != claim:
		return o.stay(Nothing, Unknown) // whoever has the order now finds out
	}
	o.Claimed = false
	if outcome == KeyRefused || outcome == TurnedAway && claim == 1 && !o.Held { // nobody else can have sent it
		o.State, o.Held = Refused, false
		return Step{o, Nothing, NotPlaced}
	}
	return Step{o, Nothing, Unknown}
}

// named records the generation of an order. An id stays that the catalog has named, whatever comes after it. One that
// comes after an operator has said something else is the truth, and a fault of the book.
func (o Order) named(generation string) Step {
	action := Nothing
	switch {
	case o.State == Placed && o.Generation == generation:
		o.Resolved = false
		return o.stay(Nothing, Replay)
	case o.State == Placed && !o.Resolved:
		return o.stay(Report, Replay)
	case o.State != Open:
		action = Report
	}
	o.State, o.Generation, o.Claimed, o.Resolved, o.Held = Placed, generation, false, false, false
	return Step{o, action, Replay}
}

// Resolve is an operator who says what became of an order that stays unknown: the generation that
// it has placed, or "" where the catalog has none. It is not possible while the order may be
// sent without its caller. It changes no outcome but one that an operator has given.
func (o Order) Resolve(generation string) (next Order, possible bool) {
	if !o.Resolved && (o.State != Open || o.Claimed || o.sendable() && !o.Held) {
		return o, false
	}
	o.State, o.Generation, o.Resolved, o.Held = Refused, generation, true, false
	if generation != "" {
		o.State = Placed
	}
	return o, true
}
