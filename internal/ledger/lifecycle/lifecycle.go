// Package lifecycle has the rules for the life of an order and of its generation. From the recorded state and an event it
// derives the next state and action, the answer for the caller, and the cost of the order. It uses no clock and no
// database, so that tests can walk every sequence of events.
package lifecycle

// State is the recorded state of an order.
type State int

const (
	// None means that the ledger has no order under the idempotency key.
	None State = iota
	// Open means that the order is written and has no outcome. A POST may have been sent.
	Open
	// Placed means that the catalog has returned the generation.
	Placed
	// Refused means that the order certainly does not exist. Its idempotency key is free again.
	Refused
)

func (s State) String() string { return [...]string{"none", "unknown", "placed", "refused"}[s] }

// Order is the recorded state of an order that its lifecycle depends on.
type Order struct {
	State State
	// Generation is the catalog's id of the generation of a placed order.
	Generation string
	// Claims is the number of claims so far, and the number of the latest one. A claim is a lease of the right to send
	// the order to the catalog, by the database's clock.
	Claims int
	// Claimed means that the latest claim has not ended.
	Claimed bool
	// Expired means that the resend window of the order is over.
	Expired bool
	// Rotated means that the API key of the first attempt is no longer the current one.
	Rotated bool
	// Resolved means that an operator has decided the outcome of the order.
	Resolved bool
	// Held means that the order was open when the ledger was copied or restored. The order may have been rejected since and
	// placed again under another key, so only its caller or an operator continues it.
	Held bool
}

// Outcome is the result of all attempts under one claim.
type Outcome int

const (
	// Named is a response with the generation.
	Named Outcome = iota
	// TurnedAway is a rejection, if no attempt under the claim can have been accepted.
	TurnedAway
	// KeyRefused is a rejection by a catalog that checks the idempotency key first. It has no order under the key.
	KeyRefused
	// Uncertain is everything else. An attempt may have been accepted, or a later repeat may be.
	Uncertain
)

// Action is the next action of the process.
type Action int

const (
	// Nothing means that there is nothing to do.
	Nothing Action = iota
	// Write means to check limits, models and budgets, and to write the order with its first claim.
	Write
	// Submit means to send or resend the order under the claim that was acquired.
	Submit
	// Wait means to wait until the claim of another process ends or the order has an outcome.
	Wait
	// Report means to log and to count a contradiction in the ledger.
	Report
)

// Answer is the answer for a caller. No answer is sent before the ledger has recorded the order of the same step.
type Answer int

const (
	// Silence means that there is no answer yet.
	Silence Answer = iota
	// Replay means to return the generation that the order has placed.
	Replay
	// NotPlaced means that there is no order, and that this call does not create one.
	NotPlaced
	// Unknown means that the order may exist. The caller should resend the same idempotency key.
	Unknown
	// Unresolved means that the order may exist and is not resent. An operator has to decide.
	Unresolved
	// Reused means that the idempotency key belongs to another request.
	Reused
)

// Step is the reaction to an event.
type Step struct {
	Order  Order // order to record
	Action Action
	Answer Answer
}

// stay returns a step that does not change the order.
func (o Order) stay(action Action, answer Answer) Step { return Step{o, action, answer} }

// sendable reports whether another attempt may be sent.
func (o Order) sendable() bool { return o.State == Open && !o.Expired && !o.Rotated }

// claim returns the order with its next claim.
func (o Order) claim() Order {
	o.Claims++
	o.Claimed, o.Held = true, false
	return o
}

// Call returns the step for a caller that sends the idempotency key of the order. same means that the request matches the
// recorded one.
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

// Written returns the order after [Write], and whether its idempotency key is still free in the transaction that writes
// it. Otherwise the caller starts again with [Order.Call].
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

// resend returns the step of a process that would resend an order of unknown outcome.
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

// May reports whether an attempt may be sent under a claim. The holder calls it before each attempt, and renews the claim
// in the same transaction.
func (o Order) May(claim int) bool { return o.sendable() && o.Claimed && o.Claims == claim }

// Left returns the step of a caller that disconnects before the outcome of the attempts under a claim is recorded. The
// outcome is unknown, even if the sending process knows it: if that process dies, the next process sends the order.
func (o Order) Left() Step { return o.stay(Nothing, Unknown) }

// Concluded returns the step after the attempts under a claim, which may have ended. generation is the id of an outcome
// that is [Named].
func (o Order) Concluded(claim int, outcome Outcome, generation string) Step {
	switch {
	case outcome == Named:
		return o.named(generation)
	case o.State == Placed:
		return o.stay(Nothing, Replay)
	case o.State == Refused:
		return o.stay(Nothing, NotPlaced)
	case o.Claims != claim:
		return o.stay(Nothing, Unknown) // the holder of the later claim records the outcome
	}
	o.Claimed = false
	if outcome == KeyRefused || outcome == TurnedAway && claim == 1 && !o.Held { // no other attempt can have been sent
		o.State, o.Held = Refused, false
		return Step{o, Nothing, NotPlaced}
	}
	return Step{o, Nothing, Unknown}
}

// named records the generation of an order. A generation from the catalog is never replaced. If an operator has decided
// otherwise, the catalog is right, and the contradiction is reported.
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

// Resolve applies an operator's decision about an order whose outcome stays unknown: the generation that it has placed,
// or "" if the catalog has none. It is not possible while the order may be sent without its caller. An outcome can be
// changed only if an operator has decided it.
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
