package orders

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"net/http"
	"reflect"
	"time"

	"github.com/easel-grpc/easel/internal/catalog"
	"github.com/easel-grpc/easel/internal/ledger"
	"github.com/easel-grpc/easel/internal/ledger/lifecycle"
)

// Request is an order from a caller.
type Request struct {
	Caller         string // name of the caller; empty if the caller's own API key is forwarded
	ModelID        string
	Inputs         json.RawMessage
	IdempotencyKey string // idempotency key that the caller sent
	UpstreamKey    string // idempotency key that is sent to the catalog
	MaxCostCents   *int64
	Labels         map[string]string
	// ExpireTime is the time after which the order is no longer sent, by the ledger's clock. Zero means that the order does not
	// expire. A repeated request with another ExpireTime is still for the same order, and the first request's ExpireTime applies.
	ExpireTime time.Time
	// Terms returns the limits that currently apply to the order, or an error if the caller may no longer place orders. It is
	// called before the order is quoted, and again in the transaction that writes the order. It must not block. If Terms is nil,
	// every order is allowed.
	Terms func() (Terms, error)
	// If OrderID is not nil and the ledger has the order, Place stores the order's ID in *OrderID.
	OrderID *string
}

// Terms contains the limits for an owner's orders.
type Terms struct {
	Limits  ledger.Limits
	Total   ledger.Limits            // limits for all owners together
	Labels  map[string]ledger.Limits // limits for the values of the order's labels, keyed by label name; nil if no label has a limit
	Refused bool                     // whether the order must be refused because the owner may not use the order's model
}

// terms returns the current terms. If r.Terms is nil, it returns empty terms, which allow every order.
func (r Request) terms() (Terms, error) {
	if r.Terms == nil {
		return Terms{}, nil
	}
	return r.Terms()
}

// rowPause is the interval at which a call reads the row of an order while another process sends the order.
const rowPause = 200 * time.Millisecond

// Receipt describes an order that was placed.
type Receipt struct {
	Generation catalog.Generation
	Placed     time.Time // time when the order was written, by the clock of this process
	Replayed   bool      // whether another call sent the order, and this call only returned its generation
	// Attribution is nil if another call wrote the order, because the labels from that call may have been erased.
	Attribution *ledger.Attribution
}

// Place places a paid order. If an earlier call placed an order with the same idempotency key, Place returns the generation of
// that order. An order is recorded in the ledger before it is sent, and its outcome before it is returned. So each idempotency
// key causes at most one charge.
//
//   - Place first looks up the idempotency key. If no order has this key yet, Place writes the order, together with the lease to
//     send it. Before that, it requests a quote if a limit requires one. Finally, Place waits for the order's result, no matter
//     which process sends the order.
//   - Every attempt sends the same idempotency key and the same bytes under the same API key. After the expire time, no attempt
//     is sent. If no attempt can have been accepted, the order is withdrawn. Otherwise, its outcome stays unknown.
//   - Once an order may have been sent, it is finished even if the caller disconnects. The attempts continue until the
//     caller's deadline, but at most for a minute after the disconnect. After that, [Orders.ResendAbandoned] resends the order
//     if its API key is shared.
//   - A rejection is returned only to the call that started the attempts. It is definite only if no earlier attempt had an
//     unknown outcome.
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
	receipt, err := p.placeOrder(ctx)
	if err != nil {
		return Receipt{}, p.withholdError(err)
	}
	if receipt.Replayed {
		receipt.Generation = o.newestState(ctx, cred, receipt)
	}
	return receipt, nil
}

// awaitAccount waits until Easel has verified that the shared API key belongs to the ledger's account. It returns false if ctx
// is done first.
func (o *Orders) awaitAccount(ctx context.Context) bool {
	for o.Ledger.AccountUnknown.Load() {
		if !sleep(ctx, rowPause) {
			return false
		}
	}
	return true
}

// placing is the state of one call to [Orders.Place].
type placing struct {
	orders  *Orders
	cred    catalog.Credential
	asked   Request
	request ledger.Request
	// uncertain is set if the order may exist in the catalog. Either this call has waited for an attempt that may have been
	// accepted, or another process may still send an attempt. The order's row in the ledger may not show this, because an
	// operator may have declared the order rejected since then.
	uncertain bool
}

// placeOrder finds the order by its idempotency key, and takes the next step: it writes or sends the order, waits for it, or
// returns its recorded result. It repeats this until it has a result for the call.
func (p *placing) placeOrder(ctx context.Context) (Receipt, error) {
	for {
		asked := time.Now() // the time is read before the query, because the query may acquire a lease, which starts during the query
		order, step, err := p.orders.Ledger.Call(ctx, p.request)
		p.storeOrderID(order)
		var s *submission // nil if this process is not sending the order
		isFirst := false
		switch {
		case err != nil:
			return Receipt{}, p.unaskedError(err)
		case step.Action == lifecycle.Write:
			if s, err = p.writeOrder(ctx); err != nil {
				return Receipt{}, err
			}
			isFirst = s != nil
		case step.Action == lifecycle.Submit:
			s, isFirst = p.beginSubmission(ctx, order, asked), true
		case step.Action == lifecycle.Wait:
			s = p.orders.joinSubmission(ctx, order.ID)
		default:
			return p.recordedResult(order, step.Answer)
		}
		if receipt, isFinal, err := p.awaitOutcome(ctx, s, isFirst); isFinal {
			return receipt, err
		}
	}
}

// storeOrderID stores the order's ID in *p.asked.OrderID. It does nothing if the pointer is nil or the order has no ID.
func (p *placing) storeOrderID(order ledger.Order) {
	if p.asked.OrderID != nil && order.ID != "" {
		*p.asked.OrderID = order.ID
	}
}

// withholdError converts err to an error with an unknown outcome if p.uncertain is set.
func (p *placing) withholdError(err error) error {
	e, ok := errors.AsType[*Error](err)
	switch {
	case !p.uncertain || ok && e.Outcome == Unknown:
		return err
	case ok && leavesOpen[catalog.KindOf(err)]:
		return &Error{Unknown, e.Err}
	}
	return &Error{Unknown, unknown(err)}
}

// awaitOutcome waits for the outcome of the submission s. If s is nil, this process is not sending the order, and awaitOutcome
// returns after rowPause. isFirst is true if this call started the submission. If isFinal is false, the caller must look up the
// idempotency key again.
func (p *placing) awaitOutcome(ctx context.Context, s *submission, isFirst bool) (receipt Receipt, isFinal bool, err error) {
	if s == nil {
		if !sleep(ctx, rowPause) {
			return receipt, true, &Error{Unknown, unknown(context.Cause(ctx))}
		}
		return receipt, false, nil
	}
	switch ended, err := s.awaitEnd(ctx); {
	case !ended:
		return receipt, true, err
	case s.lost, s.refused && !isFirst:
		// If s.lost is set, another process has the lease, and may send the order.
		// If s.refused is set, only the call that started the submission may return the rejection.
		p.uncertain = p.uncertain || s.mayExist || s.lost
		return receipt, false, nil
	case s.err != nil:
		return receipt, true, s.err
	}
	receipt = Receipt{Generation: s.generation, Placed: s.placed, Replayed: !isFirst}
	if isFirst && s.order.Leases == 1 {
		receipt.Attribution = new(s.order.Attribution())
	}
	return receipt, true, nil
}

// unaskedError returns the [Error] for a ledger error that occurred before this call sent anything to the catalog. If it is
// uncertain whether a commit succeeded, the order's outcome is unknown, because another process may find the order in the
// ledger and send it.
func (p *placing) unaskedError(err error) error {
	_, doubt := errors.AsType[*ledger.Doubt](err)
	switch {
	case errors.Is(err, ledger.ErrTooManyOpen), errors.Is(err, ledger.ErrTooManyRefused):
		return &Error{NotPlacedByThisCall, &catalog.Error{Kind: catalog.KindBusy, Op: catalog.OpCreate, Message: err.Error(), Err: err}}
	case doubt:
		return &Error{Unknown, unknown(err)}
	}
	return &Error{NotPlacedByThisCall, err}
}

// writeOrder writes a new order if its caller's limits and allowed models permit it, and starts to send it. If another call has
// written an order, or the caller's limits or models have changed, writeOrder returns nil without an error. The idempotency key
// must then be looked up again.
func (p *placing) writeOrder(ctx context.Context) (s *submission, err error) {
	terms, err := p.asked.terms()
	if err == nil && terms.Refused {
		err = ErrModelNotAllowed
	}
	if err != nil {
		return nil, p.refuseOrder(ctx, err)
	}
	p.request.Limits, p.request.Total, p.request.LabelLimits = terms.Limits, terms.Total, terms.Labels
	if p.request.PriceCents, err = p.timelyPrice(ctx); err != nil {
		return nil, p.refuseOrder(ctx, err)
	}
	p.request.Agreed = func() error {
		if now, err := p.asked.terms(); err != nil || reflect.DeepEqual(now, terms) {
			return err
		}
		return errTermsChanged
	}
	asked := time.Now()
	order, free, err := p.orders.Ledger.Write(ctx, p.request)
	_, budget := errors.AsType[*ledger.BudgetError](err)
	disagreed, _ := errors.AsType[*ledger.Disagreed](err)
	switch {
	case errors.Is(err, errTermsChanged), err == nil && !free: // the limits have changed, or another call has written the order
		return nil, nil
	case disagreed != nil:
		return nil, p.refuseOrder(ctx, disagreed.Err)
	case budget, errors.Is(err, ledger.ErrOrderExpired):
		return nil, p.refuseOrder(ctx, err)
	case err != nil:
		return nil, p.unaskedError(err)
	}
	p.storeOrderID(order)
	order.Labels = p.request.Labels
	return p.beginSubmission(ctx, order, asked), nil
}

// timelyPrice is like [placing.orderPrice], but returns [ledger.ErrOrderExpired] if the order expires before the price is
// known.
func (p *placing) timelyPrice(ctx context.Context) (int64, error) {
	left, limited, err := p.orders.Ledger.TimeToExpire(ctx, p.request)
	switch {
	case err != nil:
		return 0, err
	case !limited:
		return p.orderPrice(ctx)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, left, ledger.ErrOrderExpired)
	defer cancel()
	cents, err := p.orderPrice(ctx)
	if errors.Is(context.Cause(ctx), ledger.ErrOrderExpired) {
		err = ledger.ErrOrderExpired
	}
	return cents, err
}

// orderPrice returns the price to reserve, in cents. It requests a quote only if the request has a maximum cost or a budget
// applies. Otherwise it returns 0. If the price exceeds the maximum cost, orderPrice returns an error.
func (p *placing) orderPrice(ctx context.Context) (int64, error) {
	limit := p.asked.MaxCostCents
	if limit == nil && p.request.Limits == (ledger.Limits{}) && p.request.Total == (ledger.Limits{}) && len(p.request.LabelLimits) == 0 {
		return 0, nil
	}
	quote, err := p.requestQuote(ctx)
	if err == nil && limit != nil && quote.PriceCents > *limit {
		err = &catalog.Error{Kind: catalog.KindPriceAboveLimit, Op: catalog.OpCreate, PriceCents: quote.PriceCents, MaxCents: *limit}
	}
	if ctx.Err() != nil && catalog.KindOf(err) != catalog.KindRateLimited {
		err = ctx.Err()
	}
	return quote.PriceCents, err
}

// requestQuote requests the price from the catalog, and repeats the request after each 429. The limiter pauses after a 429. It
// delays the repeated request until the pause ends, or rejects the request if the caller's deadline is before the end of the
// pause.
func (p *placing) requestQuote(ctx context.Context) (quote catalog.Quote, err error) {
	for {
		quote, err = p.orders.Catalog.Quote(ctx, p.cred, p.request.ModelID, p.asked.Inputs)
		if e, ok := errors.AsType[*catalog.Error](err); !ok || e.Kind != catalog.KindRateLimited || e.Status != http.StatusTooManyRequests {
			return quote, err
		}
	}
}

// refuseOrder returns an error with the given reason for a call that did not write its order. If another call has written an
// order under the same idempotency key, refuseOrder returns nil, so that this call returns the result of that order.
func (p *placing) refuseOrder(ctx context.Context, why error) error {
	if errors.Is(why, ledger.ErrOrderExpired) {
		why = orderExpired()
	}
	free, err := p.orders.Ledger.IsFree(ctx, p.request)
	switch {
	case err == nil && !free:
		return nil
	case err == nil && p.orders.knowsAllOrders(p.cred):
		return &Error{NotPlaced, why}
	}
	return &Error{NotPlacedByThisCall, why}
}

// beginSubmission starts to send an order whose lease this call has acquired. queryStart is the start time of the query that
// acquired the lease.
func (p *placing) beginSubmission(ctx context.Context, order ledger.Order, queryStart time.Time) *submission {
	if order.Inputs == "" {
		order.Inputs = string(p.asked.Inputs)
	}
	s := p.orders.newSubmission(ctx, p.cred, order, queryStart)
	s.mayExist = s.mayExist || p.uncertain
	p.orders.startSubmission(context.WithoutCancel(ctx), s)
	return s
}

// recordedResult returns the result that the ledger contains for an order, so the call neither sends the order nor waits for
// it.
func (p *placing) recordedResult(order ledger.Order, answer lifecycle.Answer) (Receipt, error) {
	switch answer {
	case lifecycle.Replay:
		return Receipt{Generation: recordedVersion(order).Generation, Placed: placedTime(order), Replayed: true}, nil
	case lifecycle.Reused:
		return Receipt{}, &Error{NotPlacedByThisCall, &catalog.Error{Kind: catalog.KindKeyReused, Op: catalog.OpCreate}}
	case lifecycle.Unresolved:
		if order.IsPastExpireTime() {
			return Receipt{}, &Error{Unknown, orderExpired()}
		}
		return Receipt{}, &Error{Unknown, unknown(ErrResendWindow)}
	}
	return Receipt{}, &Error{Unknown, unknown(errRotated)}
}

// ledgerRequest converts a request to a [ledger.Request]. For an order under a forwarded API key, it omits the inputs if the
// ledger is durable, so that they are not stored on disk. Only the caller can then resend the order, by sending the same bytes
// again.
func (o *Orders) ledgerRequest(cred catalog.Credential, r Request, digest [sha256.Size]byte) ledger.Request {
	sum := sha256.Sum256(r.Inputs)
	request := ledger.Request{
		Namespace: cred.OrderOwner(), Owner: cred.OrderOwner(), Caller: r.Caller, IdempotencyKey: r.IdempotencyKey, UpstreamKey: r.UpstreamKey,
		APIKey: cred.APIKeySum(), ModelID: r.ModelID, Digest: hex.EncodeToString(digest[:]), InputsDigest: hex.EncodeToString(sum[:]), Labels: r.Labels,
		ExpireTime: r.ExpireTime,
	}
	if cred.IsShared() || !o.Ledger.IsDurable() {
		request.Inputs = string(r.Inputs)
	}
	return request
}

// newestState reads and returns the latest state of a generation that an earlier call ordered. If the read shows that the
// generation is deleted, the state is [catalog.StateDeleted]. If the read fails for another reason, newestState returns the
// recorded state.
func (o *Orders) newestState(ctx context.Context, cred catalog.Credential, receipt Receipt) catalog.Generation {
	recorded := receipt.Generation
	if recorded.State == catalog.StateDeleted {
		return recorded
	}
	read, err := o.Catalog.Generation(ctx, cred, recorded.ID)
	if err == nil {
		return read.Generation
	}
	if catalog.IsAbsent(err) && o.recordWitnessed(ctx, cred, recorded.ID) {
		recorded.State = catalog.StateDeleted
	}
	return recorded
}

// digestOf returns a digest of the model and the inputs. It does not depend on the order of JSON members. Numbers count as
// equal only if they are written with the same digits.
func digestOf(modelID string, inputs json.RawMessage) (digest [sha256.Size]byte, err error) {
	if !json.Valid(inputs) {
		return digest, errors.New("inputs are not valid JSON") // cannot happen, because such inputs are rejected when the call is validated
	}
	canonical, err := json.Marshal([]any{modelID, catalog.Canonical(inputs)})
	return sha256.Sum256(canonical), err
}
