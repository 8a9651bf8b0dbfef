package orders

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/easel-grpc/easel/internal/catalog"
	"github.com/easel-grpc/easel/internal/ledger"
	"github.com/easel-grpc/easel/internal/ledger/lifecycle"
)

// Outcome is the outcome of an order for which [Orders.Place] returns an error.
type Outcome string

// The outcomes.
const (
	// Unknown means that the order may exist. To find out, send the order again with the same idempotency key.
	Unknown Outcome = "unknown"
	// NotPlacedByThisCall means that this call did not place an order. Either it sent nothing to the catalog, or the catalog
	// definitely rejected its first attempt. Another process may have placed an order under the same idempotency key.
	NotPlacedByThisCall Outcome = "not_placed_by_this_call"
	// NotPlaced means that no order exists under the idempotency key, which only a durable ledger can prove. It is never returned
	// to callers that forward their own API keys, because they may also use their API keys without Easel.
	NotPlaced Outcome = "not_placed"
)

// outcomes maps the ledger's answers that contain no generation to the outcomes that callers receive.
var outcomes = map[lifecycle.Answer]Outcome{lifecycle.NotPlaced: NotPlaced, lifecycle.Unknown: Unknown}

// concludeOrder records the order's outcome in the ledger, and sets the result that waiting callers receive. g and err are the
// result of the last attempt.
func (s *submission) concludeOrder(ctx context.Context, g catalog.Generation, err error) {
	outcome := lifecycle.Uncertain
	err = s.withholdRejection(err)
	switch refusal := s.keyRefusal(err); {
	case err == nil:
		outcome = lifecycle.Named
	case !s.mayExist && s.progress != doubtful:
		outcome = lifecycle.TurnedAway
	case refusal != nil:
		outcome, err = lifecycle.KeyRefused, refusal
	}
	conclusion := ledger.Conclusion{Outcome: outcome, Generation: g.ID, CostCents: g.CostCents, Problem: cmp.Or(problemText(err), s.problem, s.order.Problem), Written: &s.order}
	step, failed := s.writeConclusion(ctx, conclusion)
	switch {
	case ledger.IsFault(failed):
		err = failed
	case failed != nil:
		err = unknown(failed)
	case step.Answer == lifecycle.Replay:
		s.generation, s.err = s.placedGeneration(ctx, g, step), nil
		s.orders.reportOrdered(ctx, s, nil)
		return
	case step.Answer == lifecycle.NotPlaced:
		s.refused = s.orders.isFree(ctx, s.order)
	}
	switch {
	case s.refused:
		err = asNotSent(err)
	case s.progress != doubtful && !leavesOpen[catalog.KindOf(err)] && !ledger.IsFault(err):
		err = unknown(err)
	}
	s.logRefusal(ctx, err)
	s.err = &Error{s.outcome(), err}
	s.orders.reportOrdered(ctx, s, err)
}

// recordProblem stores the error of a failed attempt for operators. It ignores a ledger error, because the next renewal of the
// lease then fails too.
func (s *submission) recordProblem(ctx context.Context, err error) {
	if next := problemText(err); next != s.problem && s.orders.Ledger.RecordProblem(ctx, s.order.ID, s.order.Leases, next) == nil {
		s.problem = next
	}
}

// logRefusal logs that the catalog has rejected a resend although an earlier attempt may have been accepted. It logs nothing if
// the order's row already contains the reason for the rejection.
func (s *submission) logRefusal(ctx context.Context, err error) {
	refusal, ok := errors.AsType[*catalog.Error](err)
	if why := problemText(err); ok && refusal.Withheld != 0 && why != s.order.Problem {
		s.orders.Logger.WarnContext(ctx, "resend rejected; order may exist", s.logAttributes("refusal", why)...)
	}
}

// outcome returns the outcome that callers receive with the order's error.
func (s *submission) outcome() Outcome {
	switch {
	case !s.refused || s.progress == doubtful:
		return Unknown
	case s.orders.knowsAllOrders(s.cred):
		return NotPlaced
	case s.progress == unsent || s.progress == rejected:
		return NotPlacedByThisCall
	}
	return Unknown
}

// knowsAllOrders reports whether the ledger has every order that was placed with the credential. It returns false for a ledger
// in memory, which loses its orders when the process exits, and for a copied ledger, which lacks the orders that were placed
// after it was copied. It also returns false for a forwarded API key, with which orders may be placed without Easel.
func (o *Orders) knowsAllOrders(cred catalog.Credential) bool {
	return cred.IsShared() && o.Ledger.IsDurable() && !o.Ledger.IsCopy()
}

// keyRefusal returns the catalog's rejection of a resend if the rejection proves that no earlier attempt was accepted.
// Otherwise it returns nil. Such a proof is possible only if the catalog checks the idempotency key first: see
// [Config.KeyFirst].
func (s *submission) keyRefusal(err error) error {
	withheld, ok := errors.AsType[*catalog.Error](err)
	if !ok || !s.orders.KeyFirst || !afterTheKey[withheld.Withheld] {
		return nil
	}
	if refusal, ok := errors.AsType[*catalog.Error](withheld.Err); !ok || !refusal.Own || refusal.AboutKey { // such a rejection comes from a proxy or is about the idempotency key, so an earlier attempt may have been accepted
		return nil
	}
	return withheld.Err
}

// afterTheKey contains the kinds of rejections that a catalog with [Config.KeyFirst] sends only after it has checked the
// idempotency key. Every catalog checks credentials, sizes and rates before the key.
var afterTheKey = map[catalog.Kind]bool{
	catalog.KindInvalidInput: true, catalog.KindInsufficientFunds: true, catalog.KindNotFound: true, catalog.KindDailyCap: true,
}

// writeConclusion records an outcome. If the ledger fails, it retries for at most recordWithin, because the lease expires soon
// after that.
func (s *submission) writeConclusion(ctx context.Context, c ledger.Conclusion) (step lifecycle.Step, err error) {
	end := time.Now().Add(recordWithin)
	for pause := recordPause; ; pause *= 2 {
		step, err = s.orders.Ledger.Conclude(ctx, s.order.ID, s.order.Leases, c)
		if err == nil || errors.Is(err, ledger.ErrGenerationTaken) || time.Now().Add(pause).After(end) || !sleep(s.orders.stopping, pause) { //nolint:contextcheck // ctx is not used, because retries may continue after the call has ended
			break
		}
	}
	if ledger.IsFault(err) {
		s.logFault(ctx, err.Error(), c.Generation)
	}
	return step, err
}

// placedGeneration returns the generation to report for the order: g if the ledger has recorded it, and otherwise a queued
// generation with the recorded ID. It logs contradictions between the catalog and the ledger, and a charge that exceeds the
// quote.
func (s *submission) placedGeneration(ctx context.Context, g catalog.Generation, step lifecycle.Step) catalog.Generation {
	if step.Action == lifecycle.Report {
		s.logFault(ctx, "second generation for an order, or a generation for an order that an operator declared rejected", g.ID)
	}
	if g.ID != step.Order.Generation {
		g = catalog.Generation{ID: step.Order.Generation, ModelID: s.order.ModelID, State: catalog.StateQueued, ObserveTime: time.Now()}
	}
	if g.CostCents != nil && *g.CostCents > s.order.ReservedCents && s.order.ReservedCents > 0 {
		s.orders.reportExcess(ctx, s.order.ReservedCents, *g.CostCents, s.logAttributes("generation", g.ID)...)
	}
	return g
}

// reportOrdered calls [Config.Ordered] with the result of the attempts. Before that, it wakes [Orders.ReadChanges] if the
// order was placed.
func (o *Orders) reportOrdered(ctx context.Context, s *submission, err error) {
	if err == nil {
		select {
		case o.placed <- struct{}{}:
		default:
		}
	}
	if o.Ordered != nil {
		o.Ordered(ctx, s.cred, s.order.ModelID, s.generation, err)
	}
}

// logFault logs a contradiction between the catalog and the ledger, and increments a counter.
func (s *submission) logFault(ctx context.Context, what, generation string) {
	s.orders.Logger.ErrorContext(ctx, "order contradiction found", s.logAttributes("contradiction", what, "generation", generation)...)
	s.orders.Ledger.Counts.Faults.Add(1)
}

// isFree reports whether the idempotency key of a rejected order can be used for a new order. If the ledger fails, it returns
// false.
func (o *Orders) isFree(ctx context.Context, order ledger.Order) bool {
	free, err := o.Ledger.IsFree(ctx, ledger.Request{
		Namespace: order.Namespace, Owner: order.Owner, Caller: order.Caller, IdempotencyKey: order.IdempotencyKey, UpstreamKey: order.UpstreamKey,
		APIKey: order.APIKey, ModelID: order.ModelID, Digest: order.Digest,
	})
	return err == nil && free
}
