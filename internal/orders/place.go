package orders

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"github.com/easel-grpc/easel/internal/catalog"
	"github.com/easel-grpc/easel/internal/ledger"
	"github.com/easel-grpc/easel/internal/ledger/lifecycle"
)

// Request is an order of a caller.
type Request struct {
	Caller         string // "" where the caller forwards its own API key
	ModelID        string
	Inputs         json.RawMessage
	IdempotencyKey string // the caller's
	UpstreamKey    string // what the catalog gets
	MaxCostCents   *int64
	Labels         map[string]string
	// Terms says under which terms the caller may order now, or that it may not any more. It is asked before the order is
	// quoted, and again in the transaction that writes it. It must not wait. Nil allows everything.
	Terms func() (Terms, error)
	// OrderID takes what the ledger calls the order, where the call meets one. Nil takes nothing.
	OrderID *string
}

// Terms are what an owner may order.
type Terms struct {
	Limits  ledger.Limits
	Total   ledger.Limits // of all owners together
	Refused bool          // the model
}

// equal reports whether two terms are the same.
func (t Terms) equal(other Terms) bool {
	same := func(a, b *int64) bool { return a == b || a != nil && b != nil && *a == *b }
	return t.Refused == other.Refused && same(t.Limits.DailyCents, other.Limits.DailyCents) && same(t.Limits.MonthlyCents, other.Limits.MonthlyCents) &&
		same(t.Total.DailyCents, other.Total.DailyCents) && same(t.Total.MonthlyCents, other.Total.MonthlyCents)
}

// terms are those of now.
func (r Request) terms() (Terms, error) {
	if r.Terms == nil {
		return Terms{}, nil
	}
	return r.Terms()
}

// rowPause is the time before the row of an order is read again that another process sends.
const rowPause = 200 * time.Millisecond

// Receipt is an order that was placed.
type Receipt struct {
	Generation catalog.Generation
	Placed     time.Time // when the order was written down, by the clock of this process
	Replayed   bool      // an earlier call has used the idempotency key
	// Attribution is nil if another call has written the order, because the labels of that call may have been erased.
	Attribution *ledger.Attribution
}

// Place places a paid order, or gives the generation that its idempotency key has placed before. One idempotency key is
// one charge: nothing is sent that the ledger has not, and nothing is answered that it does not hold.
//
//   - The idempotency key is looked up first. A new order is priced where a limit asks for it, and written down with the
//     claim to send it. Then the call waits on the row of the order, and answers from it, whoever sends the order.
//   - Every attempt sends the same idempotency key and the same bytes under the same API key.
//   - An order that may have left is finished, even if the caller goes away: the attempts go on for the time that the
//     caller had, and at most for a minute after it has gone. Behind a held API key [Orders.Recover] goes on after that.
//   - A refusal belongs to the call that met it. It counts only where no attempt before it had an unknown outcome.
func (o *Orders) Place(ctx context.Context, cred catalog.Credential, r Request) (Receipt, error) {
	if err := ctx.Err(); err != nil {
		return Receipt{}, err
	}
	digest, err := digestOf(r.ModelID, r.Inputs)
	if err != nil {
		return Receipt{}, &Error{NotPlacedByThisCall, &catalog.Error{Kind: catalog.KindInvalidInput, Op: catalog.OpCreate, Violations: []catalog.Violation{{Field: "inputs", Description: "must be one JSON object"}}}}
	}
	ctx, cancel := context.WithDeadline(ctx, answerBy(ctx))
	defer cancel()
	if cred.IsShared() && !o.awaitAccount(ctx) {
		return Receipt{}, &Error{NotPlacedByThisCall, ErrAccountUnknown}
	}
	p := &placing{orders: o, cred: cred.Pinned(), asked: r}
	p.request = o.ledgerRequest(p.cred, r, digest)
	receipt, err := p.place(ctx)
	if err != nil {
		return Receipt{}, p.withheld(err)
	}
	switch {
	case receipt.Replayed:
		receipt.Generation = o.newest(ctx, cred, receipt)
	case cred.IsShared():
		o.follow(cred, cred.Owner, receipt.Generation.ID) //nolint:contextcheck // it outlives the call
	}
	return receipt, nil
}

// awaitAccount waits until the account of the shared API key is known to be that of the ledger. It reports whether it is known
// before ctx is done.
func (o *Orders) awaitAccount(ctx context.Context) bool {
	for o.Ledger.AccountUnknown.Load() {
		if !sleep(ctx, rowPause) {
			return false
		}
	}
	return true
}

// answerBy is when a caller stops to wait for the outcome of an order: shortly before its deadline, so that the answer
// still reaches it.
func answerBy(ctx context.Context) time.Time {
	deadline, ok := ctx.Deadline()
	if !ok {
		return time.Now().Add(submitTime)
	}
	return deadline.Add(-min(time.Until(deadline)/10, 100*time.Millisecond))
}

// placing is one call that places an order.
type placing struct {
	orders  *Orders
	cred    catalog.Credential
	asked   Request
	request ledger.Request
	// uncertain means that an attempt which this call has waited for may have been taken, or may be by another process,
	// whatever the row says: an operator may have called the order refused since then.
	uncertain bool
}

// place looks the key up, until the order has an outcome for this call.
func (p *placing) place(ctx context.Context) (Receipt, error) {
	for {
		asked := time.Now() // before a claim begins
		order, step, err := p.orders.Ledger.Call(ctx, p.request)
		p.name(order)
		var s *submission // of this process
		began := false
		switch {
		case err != nil:
			return Receipt{}, p.unasked(err)
		case step.Action == lifecycle.Write:
			if s, err = p.write(ctx); err != nil {
				return Receipt{}, err
			}
			began = s != nil
		case step.Action == lifecycle.Submit:
			s, began = p.begin(ctx, order, asked), true
		case step.Action == lifecycle.Wait:
			s = p.orders.joined(ctx, order.ID)
		default:
			return p.answer(order, step.Answer)
		}
		if receipt, done, err := p.await(ctx, s, began); done {
			return receipt, err
		}
	}
}

// name tells the caller what the ledger calls its order.
func (p *placing) name(order ledger.Order) {
	if p.asked.OrderID != nil && order.ID != "" {
		*p.asked.OrderID = order.ID
	}
}

// withheld turns an error into an unknown outcome, where an attempt that this call has waited for may have been taken.
func (p *placing) withheld(err error) error {
	if e, ok := errors.AsType[*Error](err); !p.uncertain || ok && e.Outcome == Unknown {
		return err
	}
	return &Error{Unknown, unknown(err)}
}

// await waits for the outcome of a submission, or where another process sends the order or writes it down for a moment.
// It is not done where the key has to be looked up again.
func (p *placing) await(ctx context.Context, s *submission, began bool) (receipt Receipt, done bool, err error) {
	if s == nil {
		if !sleep(ctx, rowPause) {
			return receipt, true, &Error{Unknown, unknown(context.Cause(ctx))}
		}
		return receipt, false, nil
	}
	switch ended, err := s.wait(ctx); {
	case !ended:
		return receipt, true, err
	case s.lost, s.refused && !began: // by the limits of another call, or before this one came
		p.uncertain = p.uncertain || s.mayExist || s.lost // another process sends it
		return receipt, false, nil
	case s.err != nil:
		return receipt, true, s.err
	}
	receipt = Receipt{Generation: s.generation, Placed: s.placed, Replayed: !began}
	if began && s.order.Claims == 1 {
		receipt.Attribution = new(s.order.Attribution())
	}
	return receipt, true, nil
}

// unasked is the error of a call that the ledger has not answered: it has sent nothing, and unless the ledger is in doubt
// there is nothing of it that another would send.
func (p *placing) unasked(err error) error {
	_, doubt := errors.AsType[*ledger.Doubt](err)
	switch {
	case errors.Is(err, ledger.ErrTooManyOpen), errors.Is(err, ledger.ErrTooManyRefused):
		return &Error{NotPlacedByThisCall, &catalog.Error{Kind: catalog.KindBusy, Op: catalog.OpCreate, Message: err.Error(), Err: err}}
	case doubt:
		return &Error{Unknown, unknown(err)}
	}
	return &Error{NotPlacedByThisCall, err}
}

// write writes a new order down, when it fits the terms of its caller, and begins to send it. There is none to wait for
// where another has written one meanwhile, or the terms have changed.
func (p *placing) write(ctx context.Context) (s *submission, err error) {
	terms, err := p.asked.terms()
	if err == nil && terms.Refused {
		err = ErrModelNotAllowed
	}
	if err != nil {
		return nil, p.refuse(ctx, err)
	}
	p.request.Limits, p.request.Total = terms.Limits, terms.Total
	if p.request.PriceCents, err = p.price(ctx); err != nil {
		return nil, p.refuse(ctx, err)
	}
	p.request.Agreed = func() error {
		if now, err := p.asked.terms(); err != nil || now.equal(terms) {
			return err
		}
		return errTermsChanged
	}
	asked := time.Now()
	order, free, err := p.orders.Ledger.Write(ctx, p.request)
	_, budget := errors.AsType[*ledger.BudgetError](err)
	disagreed, _ := errors.AsType[*ledger.Disagreed](err)
	switch {
	case errors.Is(err, errTermsChanged), err == nil && !free: // or another replica was quicker
		return nil, nil
	case disagreed != nil:
		return nil, p.refuse(ctx, disagreed.Err)
	case budget:
		return nil, p.refuse(ctx, err)
	case err != nil:
		return nil, p.unasked(err)
	}
	p.name(order)
	order.Labels = p.request.Labels
	return p.begin(ctx, order, asked), nil
}

// price is what the order reserves. It is quoted where a limit or budget asks for it.
func (p *placing) price(ctx context.Context) (int64, error) {
	most := p.asked.MaxCostCents
	if most == nil && p.request.Limits == (ledger.Limits{}) && p.request.Total == (ledger.Limits{}) {
		return 0, nil
	}
	quote, err := p.quote(ctx)
	if err == nil && most != nil && quote.PriceCents > *most {
		err = &catalog.Error{Kind: catalog.KindPriceAboveLimit, Op: catalog.OpCreate, PriceCents: quote.PriceCents, MaxCents: *most}
	}
	if ctx.Err() != nil && catalog.KindOf(err) != catalog.KindRateLimited {
		err = ctx.Err()
	}
	return quote.PriceCents, err
}

// quote requests the price. After a 429 it repeats the request. The limiter delays the request until the pause is over, or rejects
// it if the deadline of the caller is earlier.
func (p *placing) quote(ctx context.Context) (quote catalog.Quote, err error) {
	for {
		quote, err = p.orders.Catalog.Quote(ctx, p.cred, p.request.ModelID, p.asked.Inputs)
		if e, ok := errors.AsType[*catalog.Error](err); !ok || e.Kind != catalog.KindRateLimited || e.Status != http.StatusTooManyRequests {
			return quote, err
		}
	}
}

// refuse is the error of an order that this call has not written down. Another call may have meanwhile, under the same
// idempotency key: then there is none, as the order is what that call has made it.
func (p *placing) refuse(ctx context.Context, why error) error {
	free, err := p.orders.Ledger.IsFree(ctx, p.request)
	switch {
	case err == nil && !free:
		return nil
	case err == nil && p.orders.knowsAll(p.cred):
		return &Error{NotPlaced, why}
	}
	return &Error{NotPlacedByThisCall, why}
}

// begin begins to send an order whose claim this call has.
func (p *placing) begin(ctx context.Context, order ledger.Order, asked time.Time) *submission {
	if order.Inputs == "" {
		order.Inputs = string(p.asked.Inputs)
	}
	s := p.orders.submission(ctx, p.cred, order, asked)
	s.mayExist = s.mayExist || p.uncertain
	p.orders.start(context.WithoutCancel(ctx), s)
	return s
}

// answer is what a caller is told of an order that is not sent now.
func (p *placing) answer(order ledger.Order, answer lifecycle.Answer) (Receipt, error) {
	switch answer {
	case lifecycle.Replay:
		return Receipt{Generation: recordedVersion(order).Generation, Placed: placedTime(order), Replayed: true}, nil
	case lifecycle.Reused:
		return Receipt{}, &Error{NotPlacedByThisCall, &catalog.Error{Kind: catalog.KindKeyReused, Op: catalog.OpCreate}}
	case lifecycle.Unresolved:
		return Receipt{}, &Error{Unknown, unknown(ErrResendWindow)}
	}
	return Receipt{}, &Error{Unknown, unknown(errRotated)}
}

// ledgerRequest is an order as the ledger has it. The bytes of a forwarded API key's order are not kept on disk: nobody
// but its caller could send them, and only the same bytes.
func (o *Orders) ledgerRequest(cred catalog.Credential, r Request, digest [sha256.Size]byte) ledger.Request {
	sum := sha256.Sum256(r.Inputs)
	request := ledger.Request{
		Namespace: cred.OrderOwner(), Owner: cred.OrderOwner(), Caller: r.Caller, IdempotencyKey: r.IdempotencyKey, UpstreamKey: r.UpstreamKey,
		APIKey: cred.APIKeySum(), ModelID: r.ModelID, Digest: hex.EncodeToString(digest[:]), InputsDigest: hex.EncodeToString(sum[:]), Labels: r.Labels,
	}
	if cred.IsShared() || !o.Ledger.IsDurable() {
		request.Inputs = string(r.Inputs)
	}
	return request
}

// newest is the state of a generation that was placed before: what the catalog says, or what the ledger has. One read
// that does not find it says nothing.
func (o *Orders) newest(ctx context.Context, cred catalog.Credential, receipt Receipt) catalog.Generation {
	recorded := receipt.Generation
	if recorded.State == catalog.StateDeleted {
		return recorded
	}
	read, err := o.Catalog.Generation(ctx, cred, recorded.ID)
	if err == nil {
		return read.Generation
	}
	if catalog.IsAbsent(err) && o.witnessed(ctx, cred, recorded.ID) {
		recorded.State = catalog.StateDeleted
	}
	return recorded
}

// digestOf is the digest of model and inputs by value: members in any order, numbers by their digits.
func digestOf(modelID string, inputs json.RawMessage) (digest [sha256.Size]byte, err error) {
	if !json.Valid(inputs) {
		return digest, errors.New("inputs that are no JSON") // the contract's rules have refused it before
	}
	canonical, err := json.Marshal([]any{modelID, catalog.Canonical(inputs)})
	return sha256.Sum256(canonical), err
}
