// Package lifecycle contains the rules for orders and their generations. From the recorded state and an event it derives the
// next state, the next action, the answer for the caller, and the cost. It uses no clock and no database, so that tests can
// check every sequence of events.
package lifecycle

// State is the recorded state of an order.
type State int

const (
	// None means that the ledger has no order with the idempotency key.
	None State = iota
	// Open means that the order is written but has no outcome. A POST may have been sent.
	Open
	// Placed means that the catalog has returned the generation.
	Placed
	// Refused means that the order certainly does not exist in the catalog. Its idempotency key is free again.
	Refused
)

func (s State) String() string { return [...]string{"none", "unknown", "placed", "refused"}[s] }

// Order contains the recorded values that the lifecycle of an order depends on.
type Order struct {
	State State
	// Generation is the ID of a placed order's generation in the catalog.
	Generation string
	// Leases is the number of leases so far, and therefore the number of the latest lease. A lease is the right of one process
	// to send the order until a deadline, by the database's clock.
	Leases int
	// Leased means that the latest lease has not ended.
	Leased bool
	// Expired means that the order is no longer sent, because its resend window has ended or its expire time has passed.
	Expired bool
	// Rotated means that the first attempt used an API key that is no longer the current one.
	Rotated bool
	// Resolved means that an operator has decided the outcome of the order.
	Resolved bool
	// Held means that the order was open when the ledger was copied or restored. Since then, the original ledger may have
	// recorded it as rejected, and its caller may have placed it again with another idempotency key. It is therefore
	// continued only if its caller or an operator requests this.
	Held bool
}

// Outcome is the result of all attempts during one lease.
type Outcome int

const (
	// Named means that the catalog returned the order's generation.
	Named Outcome = iota
	// TurnedAway means that no attempt during the lease can have been accepted: the catalog rejected every attempt, or none was
	// sent.
	TurnedAway
	// KeyRefused means that the catalog rejected the order after it had checked the idempotency key. This proves that the
	// catalog has no order with the key.
	KeyRefused
	// Uncertain means that the catalog may have accepted an attempt, or may still accept a resend.
	Uncertain
)

// Action is the action that a process takes next for an order.
type Action int

const (
	// Nothing means that there is nothing to do.
	Nothing Action = iota
	// Write means that the process checks limits, models and budgets, and writes the order with its first lease.
	Write
	// Submit means that the process sends or resends the order during the new lease.
	Submit
	// Wait means that the process waits until another process's lease ends or the order has an outcome.
	Wait
	// Report means that the process logs and counts a contradiction between the catalog and the ledger.
	Report
)

// Answer is the result for a caller. The caller receives it only after the ledger has recorded [Step.Order].
type Answer int

const (
	// Silence means that there is no result yet.
	Silence Answer = iota
	// Replay means that the order is placed. The caller receives the order's generation.
	Replay
	// NotPlaced means that no order exists, and that this call places none.
	NotPlaced
	// Unknown means that the order may exist. The caller should send the order again with the same idempotency key.
	Unknown
	// Unresolved means that the order may exist and is not resent. An operator must decide.
	Unresolved
	// Reused means that the idempotency key belongs to another request.
	Reused
)

// Step is the reaction to an event: the order to record, the next action, and the answer for the caller.
type Step struct {
	Order  Order // order to record
	Action Action
	Answer Answer
}

// unchangedStep returns a step that does not change the order.
func (o Order) unchangedStep(action Action, answer Answer) Step { return Step{o, action, answer} }

// isSendable reports whether another attempt may be sent.
func (o Order) isSendable() bool { return o.State == Open && !o.Expired && !o.Rotated }

// withNewLease returns the order with a new lease.
func (o Order) withNewLease() Order {
	o.Leases++
	o.Leased, o.Held = true, false
	return o
}

// Call returns the step for a call with the order's idempotency key. isSame reports whether the caller's request equals the
// recorded one.
func (o Order) Call(isSame bool) Step {
	switch {
	case o.State == None || o.State == Refused:
		return Step{Order{}, Write, Silence}
	case !isSame:
		return o.unchangedStep(Nothing, Reused)
	case o.State == Placed:
		return o.unchangedStep(Nothing, Replay)
	case o.Leased:
		return o.unchangedStep(Wait, Silence)
	}
	return o.resendStep()
}

// Written returns the order to record for the action [Write]. If another order with the same idempotency key was written in the
// meantime, isFree is false, and [Order.Call] must be called again.
func (o Order) Written() (next Order, isFree bool) {
	if o.State == Open || o.State == Placed {
		return o, false
	}
	return Order{State: Open}.withNewLease(), true
}

// Resume returns the step for the background recovery of orders. It does not resend a held order, whose outcome has been
// unknown since the ledger was copied or restored.
func (o Order) Resume() Step {
	if o.Held {
		return o.unchangedStep(Nothing, Silence)
	}
	return o.resendStep()
}

// resendStep returns the step that resends an order whose outcome is unknown. If the order may not be resent now, the step
// changes nothing. [Order.Call] and [Order.Resume] use this step.
func (o Order) resendStep() Step {
	switch {
	case o.State != Open || o.Leased:
		return o.unchangedStep(Nothing, Silence)
	case o.Expired:
		return o.unchangedStep(Nothing, Unresolved)
	case o.Rotated:
		return o.unchangedStep(Nothing, Unknown)
	}
	return Step{o.withNewLease(), Submit, Silence}
}

// May reports whether the holder of the given lease may send an attempt. The holder calls May before each attempt, and renews
// the lease in the same transaction.
func (o Order) May(lease int) bool { return o.isSendable() && o.Leased && o.Leases == lease }

// Left returns the step for a caller that disconnects before an outcome is recorded. The step's answer is [Unknown], even if
// the process that sends the order has already received the outcome. If that process dies before it records the outcome,
// another process resends the order.
func (o Order) Left() Step { return o.unchangedStep(Nothing, Unknown) }

// Concluded returns the step for the outcome of all attempts during a lease. The lease may already have ended. If the outcome
// is [Named], generation is the ID of the generation.
func (o Order) Concluded(lease int, outcome Outcome, generation string) Step {
	switch {
	case outcome == Named:
		return o.recordGeneration(generation)
	case o.State == Placed:
		return o.unchangedStep(Nothing, Replay)
	case o.State == Refused:
		return o.unchangedStep(Nothing, NotPlaced)
	case o.Leases != lease:
		return o.unchangedStep(Nothing, Unknown) // the holder of the later lease records the outcome
	}
	o.Leased = false
	if outcome == KeyRefused || outcome == TurnedAway && lease == 1 && !o.Held { // no attempt under this lease or an earlier one can have been accepted
		o.State, o.Held = Refused, false
		return Step{o, Nothing, NotPlaced}
	}
	return Step{o, Nothing, Unknown}
}

// recordGeneration returns the step for a generation that the catalog returned. The step records the generation, unless the
// catalog returned another generation earlier. If the recorded outcome is different, the step reports the contradiction.
func (o Order) recordGeneration(generation string) Step {
	action := Nothing
	switch {
	case o.State == Placed && o.Generation == generation:
		o.Resolved = false
		return o.unchangedStep(Nothing, Replay)
	case o.State == Placed && !o.Resolved:
		return o.unchangedStep(Report, Replay)
	case o.State != Open:
		action = Report
	}
	o.State, o.Generation, o.Leased, o.Resolved, o.Held = Placed, generation, false, false, false
	return Step{o, action, Replay}
}

// Resolve applies an operator's decision about an order. generation is the generation that the order started, or "" if it
// started none. possible is false if the outcome is known and was not decided by an operator. It is also false while an attempt
// may be in progress, or while the background recovery may still resend the order.
func (o Order) Resolve(generation string) (next Order, possible bool) {
	if !o.Resolved && (o.State != Open || o.Leased || o.isSendable() && !o.Held) {
		return o, false
	}
	o.State, o.Generation, o.Resolved, o.Held = Refused, generation, true, false
	if generation != "" {
		o.State = Placed
	}
	return o, true
}
