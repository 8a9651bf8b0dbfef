package orders

import (
	"context"
	"errors"
	"time"

	"github.com/easel-grpc/easel/internal/catalog"
	"github.com/easel-grpc/easel/internal/ledger"
	"github.com/easel-grpc/easel/internal/ledger/lifecycle"
)

const (
	opCreate = "POST /generations"

	rowPause     = 200 * time.Millisecond // before the row of an order is read again that another sends
	termsPause   = time.Millisecond       // before an order is quoted again whose terms have changed
	recordPause  = 50 * time.Millisecond  // before an outcome is recorded again that the ledger has refused; doubles
	recordWithin = ledger.ClaimTime - ledgerTimeout
)

// entry is an order in the ledger, as whoever sends it sees it. It is the [catalog.Journal] of one submission.
type entry struct {
	orders  *Orders
	asked   Request
	request ledger.Request
	order   ledger.Order
	claim   int       // the claim that this submission holds; 0 is none
	leaveBy time.Time // an attempt under it leaves by then
	wrote   bool      // this submission has written the order down, with its labels
}

// Next says what to do before an attempt. The ledger is asked each time, so that one who was stopped for long
// finds out what others have done meanwhile.
func (e *entry) Next(ctx context.Context, cred catalog.Credential) (catalog.Turn, error) {
	e.request.APIKey = cred.APIKeySum()
	asked := time.Now() // before the claim begins
	if e.claim > 0 {
		may, left, err := e.renew(ctx)
		if e.leaveBy = asked.Add(left); err != nil || may {
			return e.send(), err
		}
		e.claim = 0 // somebody else has it
	}
	order, step, err := e.call(ctx)
	if turn, known := e.orders.remembered(e.request); err != nil && known {
		return turn, nil
	}
	if err != nil {
		return catalog.Turn{}, err
	}
	switch step.Action {
	case lifecycle.Write:
		return e.write(ctx, cred)
	case lifecycle.Submit:
		e.order, e.claim, e.leaveBy = order, step.Order.Claims, asked.Add(e.orders.Ledger.Sendable(order))
		return e.send(), nil
	case lifecycle.Wait:
		return catalog.Turn{MayExist: true, Pause: rowPause}, nil
	}
	return e.answer(order, step.Answer)
}

func (e *entry) renew(ctx context.Context) (may bool, left time.Duration, err error) {
	err = ask(ctx, func(ctx context.Context) error {
		may, left, err = e.orders.Ledger.Renew(ctx, e.order.ID, e.claim, e.request.APIKey)
		return err
	})
	return may, left, inDoubt(err)
}

func (e *entry) call(ctx context.Context) (order ledger.Order, step lifecycle.Step, err error) {
	err = ask(ctx, func(ctx context.Context) error {
		order, step, err = e.orders.Ledger.Call(ctx, e.request)
		return err
	})
	return order, step, inDoubt(err)
}

// send is the turn of an order whose claim this submission holds. It is sent as it was written down.
func (e *entry) send() catalog.Turn {
	inputs := []byte(e.order.Inputs)
	if e.order.Inputs == "" {
		inputs = e.asked.Inputs
	}
	return catalog.Turn{Inputs: inputs, LeaveBy: e.leaveBy, MayExist: e.claim > 1}
}

// write writes a new order down, when it fits the terms of its caller. The idempotency key is free: an order that this
// submission has waited for was refused.
func (e *entry) write(ctx context.Context, cred catalog.Credential) (catalog.Turn, error) {
	terms, err := e.asked.terms()
	if err == nil && terms.Refused {
		err = ErrModelNotAllowed
	}
	if err != nil {
		return e.refuse(ctx, err)
	}
	e.request.Limits = terms.Limits
	if e.request.PriceCents, err = e.price(ctx, cred); err != nil {
		return e.refuse(ctx, err)
	}
	e.request.Agreed = func() error {
		if now, err := e.asked.terms(); err != nil || now.equal(terms) {
			return err
		}
		return errTermsChanged
	}
	order, free, err := ledger.Order{}, false, error(nil)
	asked := time.Now()
	err = ask(ctx, func(ctx context.Context) error {
		order, free, err = e.orders.Ledger.Write(ctx, e.request)
		return err
	})
	var budget *ledger.BudgetError
	var disagreed *ledger.Disagreed
	switch {
	case errors.Is(err, errTermsChanged):
		return catalog.Turn{Free: true, Pause: termsPause}, nil
	case errors.As(err, &disagreed):
		return e.refuse(ctx, disagreed.Err)
	case errors.As(err, &budget):
		return e.refuse(ctx, err)
	case err != nil:
		return catalog.Turn{}, inDoubt(err)
	case !free: // another replica was quicker
		return catalog.Turn{MayExist: true, Pause: rowPause}, nil
	}
	e.order, e.claim, e.leaveBy, e.wrote = order, order.Claims, asked.Add(e.orders.Ledger.Sendable(order)), true
	turn := e.send()
	turn.Free = true
	return turn, nil
}

// errTermsChanged means that the terms of the caller have changed while its order was quoted.
var errTermsChanged = errors.New("the terms of the caller have changed")

// refuse ends an order that this call has not written down. Another call may have meanwhile, under the same idempotency
// key: then the order is what that call has made it.
func (e *entry) refuse(ctx context.Context, why error) (catalog.Turn, error) {
	free, err := e.isFree(ctx)
	switch {
	case err != nil: // nobody knows; this call has sent nothing
		return catalog.Turn{}, catalog.Unsent(why)
	case !free:
		return catalog.Turn{MayExist: true, Pause: rowPause}, nil
	}
	return catalog.Turn{Free: true}, &NotPlacedError{why}
}

// isFree asks in a transaction whether no order stands under the idempotency key.
func (e *entry) isFree(ctx context.Context) (free bool, err error) {
	err = ask(ctx, func(ctx context.Context) error {
		free, err = e.orders.Ledger.IsFree(ctx, e.request)
		return err
	})
	return free, err
}

// price is what the order reserves. It is quoted where a limit or budget asks for it.
func (e *entry) price(ctx context.Context, cred catalog.Credential) (int64, error) {
	most := e.asked.MaxCostCents
	if most == nil && e.request.Limits == (ledger.Limits{}) {
		return 0, nil
	}
	quote, err := e.orders.Catalog.Quote(ctx, cred, e.request.ModelID, e.asked.Inputs)
	if err == nil && most != nil && quote.PriceCents > *most {
		err = &catalog.Error{Kind: catalog.KindPriceAboveLimit, Op: opCreate, PriceCents: quote.PriceCents}
	}
	return quote.PriceCents, catalog.Unsent(err)
}

// errRotated is why an order of unknown outcome is not sent again for now.
var errRotated = errors.New("it was sent under another API key, and only under that it can be sent again")

// answer is what a caller is told of an order that is not sent now.
func (e *entry) answer(order ledger.Order, answer lifecycle.Answer) (catalog.Turn, error) {
	switch answer {
	case lifecycle.Replay:
		g := recordedVersion(order).Generation
		placed := placedTime(order)
		e.orders.remember(e.request, g, placed)
		return catalog.Turn{Placed: &catalog.Receipt{Generation: g, Placed: placed}}, nil
	case lifecycle.Reused:
		return catalog.Turn{}, &catalog.Error{Kind: catalog.KindKeyReused, Op: opCreate, Unsent: true}
	case lifecycle.Unresolved:
		return catalog.Turn{}, unknown(catalog.ErrResendWindow)
	}
	return catalog.Turn{}, unknown(errRotated)
}

func unknown(err error) error {
	return &catalog.Error{Kind: catalog.KindOutcomeUnknown, Op: opCreate, Err: err}
}

// inDoubt turns a commit that may have been carried out into an unknown outcome. Any other error of the ledger
// stays: nothing was recorded.
func inDoubt(err error) error {
	var doubt *ledger.Doubt
	if errors.As(err, &doubt) {
		return unknown(err)
	}
	return err
}

// Conclude records the outcome, and gives what may be told then.
func (e *entry) Conclude(ctx context.Context, g catalog.Generation, err error, certain bool) (catalog.Generation, error) {
	if e.claim == 0 {
		return g, err
	}
	outcome := lifecycle.Uncertain
	switch refusal := e.keyRefused(err); {
	case err == nil:
		outcome = lifecycle.Named
	case certain:
		outcome = lifecycle.TurnedAway
	case refusal != nil:
		outcome, err = lifecycle.KeyRefused, refusal
	}
	step, failed := e.record(ctx, outcome, g)
	if failed != nil {
		return catalog.Generation{}, unknown(failed)
	}
	switch step.Answer {
	case lifecycle.Replay:
		return e.named(g, step), nil
	case lifecycle.NotPlaced:
		if free, failed := e.isFree(ctx); failed == nil && free {
			return catalog.Generation{}, &NotPlacedError{err}
		}
	}
	if !leavesOpen[catalog.KindOf(err)] {
		err = unknown(err)
	}
	return catalog.Generation{}, err
}

// leavesOpen are the errors of an order of unknown outcome that say so themselves. A catalog that has another order
// under the idempotency key has it from elsewhere, or from an attempt that nobody knows of.
var leavesOpen = map[catalog.Kind]bool{catalog.KindOutcomeUnknown: true, catalog.KindInProgress: true, catalog.KindKeyReused: true}

// keyRefused is the refusal of an order that may have been taken before, where it says that it was not: by a catalog
// that looks at the idempotency key before all else. Nil where there is none.
func (e *entry) keyRefused(err error) error {
	withheld, ok := errors.AsType[*catalog.Error](err)
	if !ok || !e.orders.KeyFirst || !afterTheKey[withheld.Withheld] {
		return nil
	}
	if refusal, ok := errors.AsType[*catalog.Error](withheld.Err); !ok || !refusal.Own || refusal.AboutKey { // a proxy has answered, or there is an order under the key
		return nil
	}
	return withheld.Err
}

// afterTheKey are the refusals of a catalog that looks at the idempotency key first: those of the order itself.
// Credentials, sizes and rates come before the key everywhere.
var afterTheKey = map[catalog.Kind]bool{
	catalog.KindInvalidInput: true, catalog.KindInsufficientFunds: true, catalog.KindNotFound: true, catalog.KindDailyCap: true,
}

// record records an outcome. While the ledger fails it tries again, for as long as the claim may last.
func (e *entry) record(ctx context.Context, outcome lifecycle.Outcome, g catalog.Generation) (lifecycle.Step, error) {
	end := time.Now().Add(recordWithin)
	for pause := recordPause; ; pause *= 2 {
		step, err := e.conclude(ctx, outcome, g)
		if errors.Is(err, ledger.ErrGenerationTaken) {
			e.fault("the catalog has given two orders one generation", g.ID)
			return step, err
		}
		if err == nil || time.Now().Add(pause).After(end) {
			return step, err
		}
		time.Sleep(pause)
	}
}

func (e *entry) conclude(ctx context.Context, outcome lifecycle.Outcome, g catalog.Generation) (step lifecycle.Step, err error) {
	err = ask(ctx, func(ctx context.Context) error {
		step, err = e.orders.Ledger.Conclude(ctx, e.order.ID, e.claim, outcome, g.ID, g.CostCents)
		return err
	})
	return step, err
}

// named is the generation of the order: the first that was recorded.
func (e *entry) named(g catalog.Generation, step lifecycle.Step) catalog.Generation {
	if step.Action == lifecycle.Report {
		e.fault("the catalog has given one order two generations, or one that an operator has called refused", g.ID)
	}
	if g.ID != step.Order.Generation {
		g = catalog.Generation{ID: step.Order.Generation, ModelID: e.request.ModelID, State: catalog.StateQueued, ObserveTime: time.Now()}
	}
	if g.CostCents != nil && *g.CostCents > e.order.ReservedCents && e.order.ReservedCents > 0 {
		e.orders.dearer(g.ID, e.order.ReservedCents, *g.CostCents)
	}
	e.orders.remember(e.request, g, placedTime(e.order))
	if e.wrote {
		e.orders.owned.put(keyOfOwned(&e.request.Owner, g.ID), attributed{Attribution{e.request.Owner, e.request.Caller, e.request.ModelID, e.request.Labels}, time.Now()})
	}
	return g
}

// dearer tells of a charge above the quote.
func (o *Orders) dearer(generation string, quoted, cost int64) {
	o.Logger.Warn("the catalog has charged more than it quoted", "generation", generation, "quoted_cents", quoted, "cost_cents", cost)
	o.Dearer()
}

// placedTime is when an order was written down, by the clock of this process.
func placedTime(order ledger.Order) time.Time { return time.Now().Add(-order.Age) }

// fault tells of two truths that meet.
func (e *entry) fault(what, generation string) {
	e.orders.Logger.Error("a fault of the book: "+what, "order", e.order.ID, "generation", generation)
	e.orders.Fault()
}
