package orders

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"math"
	"sync"
	"time"

	"github.com/easel-grpc/easel/internal/catalog"
	"github.com/easel-grpc/easel/internal/gate"
	"github.com/easel-grpc/easel/internal/ledger"
	"github.com/easel-grpc/easel/internal/ledger/lifecycle"
)

const (
	submitTime    = time.Minute            // for callers without a deadline, and at most for callers that have gone
	submitBackoff = 200 * time.Millisecond // before the second attempt; doubles
	submitPause   = 5 * time.Second        // longest back-off of our own
	refusalPause  = 10 * time.Second       // before an order of unknown outcome is sent again after a refusal
	recordPause   = 50 * time.Millisecond  // before an outcome is recorded again that the ledger has refused; doubles
	lookAgain     = 100 * time.Millisecond // before a caller that wants to hear of a failed attempt looks for one again
	recordWithin  = ledger.ClaimTime - ledger.AnswerTime
)

// submission sends an order under a claim: of a call, or of the recovery. It outlives the call that began it, and calls
// with the same idempotency key wait for it too.
type submission struct {
	orders  *Orders
	cred    catalog.Credential // of every attempt
	order   ledger.Order       // with its inputs; with its labels only where it was written for this submission
	placed  time.Time          // when the order was written down
	leaveBy time.Time          // an attempt under the claim leaves by then

	mayExist bool // an attempt may have been taken, of this submission or before it
	sent     bool // one of this submission has reached the catalog

	came time.Time // to the gate, for the first time

	mu      sync.Mutex
	atGate  context.CancelCauseFunc // ends the wait at the gate; nil: it does not wait there
	waiting int                     // callers
	until   time.Time               // the latest deadline of its callers, whether they still wait or not
	last    error                   // of the last attempt; nil while one is in flight

	// Set before ended is closed:
	ended      chan struct{}
	generation catalog.Generation
	refused    bool // for certain: the idempotency key is free again
	lost       bool // somebody else has the claim
	err        error
}

// submission is one of an order whose claim was taken after a time, for a caller that waits until ctx ends.
func (o *Orders) submission(ctx context.Context, cred catalog.Credential, order ledger.Order, claimed time.Time) *submission {
	return &submission{
		orders: o, cred: cred, order: order, placed: claimed.Add(-order.Age), leaveBy: claimed.Add(o.Ledger.Sendable(order)), mayExist: order.Claims > 1,
		waiting: 1, until: answerBy(ctx), ended: make(chan struct{}),
	}
}

// start sends an order beside its callers.
func (o *Orders) start(ctx context.Context, s *submission, release func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	ctx = ledger.WithOwner(ctx, s.order.Owner)
	o.submissions[s.order.ID] = s
	o.work.Go(func() {
		defer release()
		o.submit(ctx, s)
		o.mu.Lock()
		defer o.mu.Unlock()
		if o.submissions[s.order.ID] == s { // else a later claim has another
			delete(o.submissions, s.order.ID)
		}
		close(s.ended)
	})
}

// joined is the submission of an order in this process, for which one more caller waits; nil where there is none.
func (o *Orders) joined(orderID string, until time.Time) *submission {
	o.mu.Lock()
	defer o.mu.Unlock()
	s := o.submissions[orderID]
	if s != nil {
		s.join(until)
	}
	return s
}

// submit sends an order again and again: wait for a turn, renew the claim, post once, write down what has happened, until
// the order has an outcome, the claim is lost, or the time of all who wait is over.
func (o *Orders) submit(ctx context.Context, s *submission) {
	for attempt := 0; ; attempt++ {
		turn, err := s.enter(ctx)
		if err == nil && attempt > 0 {
			err = s.renew(ctx)
		}
		if err == nil && !turn.Holds() { // a pause has begun while the claim was renewed
			s.came = turn.Came // it keeps its place in line
			turn.End(gate.Answer{Outcome: gate.Unused})
			attempt--
			continue
		}
		if err == nil {
			err = s.begin()
		}
		if err != nil {
			turn.End(gate.Answer{Outcome: gate.Unused})
			if !s.lost {
				s.conclude(ctx, catalog.Generation{}, err)
			}
			return
		}
		s.came = turn.Came
		g, posted, err := o.Catalog.Post(ctx, s.cred, catalog.Order{
			ModelID: s.order.ModelID, Inputs: json.RawMessage(s.order.Inputs), IdempotencyKey: s.order.UpstreamKey, LeaveBy: s.leaveBy, Attempt: attempt + 1, Turn: turn,
		})
		if again := s.note(posted, err); !again {
			s.conclude(ctx, g, err)
			return
		}
		if catalog.KindOf(err) != catalog.KindRateLimited { // else the gate makes it wait
			s.pause(o.backoff(attempt, err))
		}
	}
}

// errClaimAges ends a wait at the gate for a moment, in which the claim is renewed.
var errClaimAges = errors.New("the claim has to be renewed")

// enter waits for a turn of the order at the gate, as long as an attempt may begin, and keeps the claim meanwhile.
func (s *submission) enter(ctx context.Context) (*gate.Turn, error) {
	for {
		if err := s.over(); err != nil {
			return nil, err
		}
		waiting, cancel := s.waitAtGate(ctx)
		turn, err := s.orders.Catalog.Enter(waiting, s.cred, s.came)
		ages := errors.Is(context.Cause(waiting), errClaimAges)
		cancel(nil)
		switch {
		case err == nil || !ages && !s.lasts(waiting):
			return turn, err
		case ages:
			if err := s.renew(ctx); err != nil {
				return nil, err
			}
		}
	}
}

// lasts reports whether a caller has come since a wait began that waits longer.
func (s *submission) lasts(waiting context.Context) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	deadline, _ := waiting.Deadline()
	return s.until.After(deadline)
}

// waitAtGate is the context of a wait at the gate: until the callers' time is over, the last of them leaves an order that
// was never sent, no attempt may begin any more, or the claim has to be renewed.
func (s *submission) waitAtGate(ctx context.Context) (context.Context, context.CancelCauseFunc) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.came.IsZero() {
		s.came = time.Now()
	}
	timed, done := context.WithDeadline(ctx, s.until)
	waiting, cancel := context.WithCancelCause(timed)
	s.atGate = cancel
	stopped := context.AfterFunc(s.orders.stopping, func() { cancel(context.Canceled) })
	ages := time.AfterFunc(ledger.ClaimTime/2, func() { cancel(errClaimAges) })
	return waiting, func(cause error) {
		cancel(cause)
		done()
		stopped()
		ages.Stop()
	}
}

// over says why no further attempt may begin: the time of all callers is over, or nobody waits for an order that was
// never sent.
func (s *submission) over() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case time.Now().Before(s.until) && (s.waiting > 0 || s.mayExist) && s.orders.stopping.Err() == nil:
		return nil
	case s.last != nil:
		return s.last
	}
	return unknown(nil)
}

// begin begins an attempt, unless none may begin.
func (s *submission) begin() error {
	err := s.over()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.waiting == 0 && !s.mayExist && err == nil { // the last has left just now
		err = unknown(nil)
	}
	if s.atGate = nil; err == nil {
		s.last = nil
	}
	return err
}

// renew renews the claim, unless it is lost.
func (s *submission) renew(ctx context.Context) error {
	asked := time.Now() // before the claim begins
	may, left, err := s.orders.Ledger.Renew(ctx, s.order.ID, s.order.Claims, s.order.APIKey)
	if err != nil {
		return inDoubt(err)
	}
	s.leaveBy = asked.Add(left)
	if s.lost = !may; s.lost {
		return errClaimLost
	}
	return nil
}

// errClaimLost means that somebody else has the claim.
var errClaimLost = errors.New("somebody else has the claim")

// note notes what has become of an attempt, and reports whether another one may make the outcome certain.
func (s *submission) note(posted catalog.Posted, err error) (again bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sent = s.sent || posted != catalog.NotSent
	s.mayExist = s.mayExist || posted == catalog.Unknown
	s.last = s.withheld(err)
	switch catalog.KindOf(err) {
	case catalog.KindOutcomeUnknown, catalog.KindInProgress, catalog.KindBusy, catalog.KindRateLimited:
		return true
	}
	return false
}

// withheld turns a refusal into an unknown outcome while an attempt may have been taken: a caller that believed it would
// order again under a new idempotency key.
func (s *submission) withheld(err error) error {
	if err == nil || !s.mayExist || leavesOpen[catalog.KindOf(err)] {
		return err
	}
	said, ok := errors.AsType[*catalog.Error](err)
	if !ok {
		return unknown(err)
	}
	open := outcomeUnknown(said, err)
	open.RetryAfter = max(said.RetryAfter, refusalPause)
	return open
}

// backoff is the wait before the next attempt: as long as the catalog asks, or a doubling time of our own.
func (o *Orders) backoff(attempt int, err error) time.Duration {
	d := min(submitBackoff<<min(attempt, 10), submitPause)
	d = d/2 + o.Catalog.Jitter(d/2)
	if e, ok := errors.AsType[*catalog.Error](err); ok {
		d = max(d, e.RetryAfter)
	}
	return d
}

// pause waits, but not beyond the deadlines of the callers. A new caller may extend them meanwhile.
func (s *submission) pause(d time.Duration) {
	for due := time.Now().Add(d); ; {
		s.mu.Lock()
		end := s.until
		s.mu.Unlock()
		now := time.Now()
		if !now.Before(due) || !now.Before(end) || !sleep(s.orders.stopping, min(due.Sub(now), end.Sub(now))) {
			return
		}
	}
}

// conclude records the outcome, and sets what the callers are told then.
func (s *submission) conclude(ctx context.Context, g catalog.Generation, err error) {
	outcome := lifecycle.Uncertain
	err = s.withheld(err)
	switch refusal := s.keyRefused(err); {
	case err == nil:
		outcome = lifecycle.Named
	case !s.mayExist:
		outcome = lifecycle.TurnedAway
	case refusal != nil:
		outcome, err = lifecycle.KeyRefused, refusal
	}
	conclusion := ledger.Conclusion{Outcome: outcome, Generation: g.ID, CostCents: g.CostCents, Problem: problem(err)}
	step, failed := s.writeConclusion(ctx, conclusion)
	switch {
	case failed != nil:
		err = unknown(failed)
	case step.Answer == lifecycle.Replay:
		s.generation, s.err = s.named(g, step), nil
		s.orders.ordered(ctx, s, nil)
		return
	case step.Answer == lifecycle.NotPlaced:
		s.refused = s.orders.isFree(ctx, s.order)
	}
	if !s.refused && !leavesOpen[catalog.KindOf(err)] {
		err = unknown(err)
	}
	s.logRefusal(ctx, err)
	s.err = &Error{s.outcome(err), err}
	s.orders.ordered(ctx, s, err)
}

// logRefusal tells of an order that may exist and whose repeat is refused: once for each thing that refuses it.
func (s *submission) logRefusal(ctx context.Context, err error) {
	refusal, ok := errors.AsType[*catalog.Error](err)
	if why := problem(err); ok && refusal.Withheld != 0 && why != s.order.Problem {
		s.orders.Logger.WarnContext(ctx, "the catalog refuses a repeat of an order that may exist", "order", s.order.ID, "owner", s.order.Owner, "refusal", why)
	}
}

// outcome is what is known of an order that was not placed. Where nothing has left, or the ledger does not know of every
// order, nothing is said of other calls.
func (s *submission) outcome(err error) Outcome {
	switch {
	case s.refused && s.orders.knowsAll(s.cred) && catalog.KindOf(err) != catalog.KindOutcomeUnknown:
		return NotPlaced
	case s.refused && !s.sent:
		return NotPlacedByThisCall
	}
	return Unknown
}

// knowsAll reports whether the ledger knows of every order of an owner.
func (o *Orders) knowsAll(cred catalog.Credential) bool { return cred.Held && o.Ledger.IsDurable() }

// keyRefused is the refusal of an order that may have been taken before, where it says that it was not: by a catalog
// that looks at the idempotency key before all else. Nil where there is none.
func (s *submission) keyRefused(err error) error {
	withheld, ok := errors.AsType[*catalog.Error](err)
	if !ok || !s.orders.KeyFirst || !afterTheKey[withheld.Withheld] {
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

// writeConclusion records an outcome. While the ledger fails it tries again, for as long as the claim may last.
func (s *submission) writeConclusion(ctx context.Context, c ledger.Conclusion) (step lifecycle.Step, err error) {
	end := time.Now().Add(recordWithin)
	for pause := recordPause; ; pause *= 2 {
		step, err = s.orders.Ledger.Conclude(ctx, s.order.ID, s.order.Claims, c)
		if errors.Is(err, ledger.ErrGenerationTaken) {
			s.fault("the catalog has given two orders one generation", c.Generation)
			return step, err
		}
		if err == nil || time.Now().Add(pause).After(end) || !sleep(s.orders.stopping, pause) { //nolint:contextcheck // it outlives its call
			return step, err
		}
	}
}

// named is the generation of the order: the first that was recorded.
func (s *submission) named(g catalog.Generation, step lifecycle.Step) catalog.Generation {
	if step.Action == lifecycle.Report {
		s.fault("the catalog has given one order two generations, or one that an operator has called refused", g.ID)
	}
	if g.ID != step.Order.Generation {
		g = catalog.Generation{ID: step.Order.Generation, ModelID: s.order.ModelID, State: catalog.StateQueued, ObserveTime: time.Now()}
	}
	if g.CostCents != nil && *g.CostCents > s.order.ReservedCents && s.order.ReservedCents > 0 {
		s.orders.dearer(g.ID, s.order.ReservedCents, *g.CostCents)
	}
	s.orders.remember(s.order, g.ID, s.placed)
	if s.order.Claims == 1 { // the claim of whoever wrote the order, with its labels
		s.orders.owned.put(keyOfOwned(&s.order.Owner, g.ID), attributed{Attribution: Attribution{s.order.Owner, s.order.Caller, s.order.ModelID, s.order.Labels}, at: time.Now()})
	}
	return g
}

// ordered lets the configuration know of the end of a series of attempts, and those who watch the balance: whatever became of
// the order, it may have changed.
func (o *Orders) ordered(ctx context.Context, s *submission, err error) {
	o.Moved.Notify(s.cred.Tenant)
	if err == nil {
		o.Placed.Notify(Viewer{Owner: s.order.Owner})
		o.Placed.Notify(Viewer{Everybody: true})
	}
	if o.Ordered != nil {
		o.Ordered(ctx, s.cred, s.order.ModelID, s.generation, err)
	}
}

// fault tells of two truths that meet.
func (s *submission) fault(what, generation string) {
	s.orders.Logger.Error("a fault of the book: "+what, "order", s.order.ID, "generation", generation)
	s.orders.Ledger.Counts.Faults.Add(1)
}

// join lets a caller wait.
func (s *submission) join(until time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waiting++
	if until.After(s.until) {
		s.until = until
	}
}

// wait waits for the outcome until ctx ends, or where the caller wants to hear of a failed attempt after a time. It
// reports whether there is one; else err is what the caller is told.
func (s *submission) wait(ctx context.Context, failAfter time.Duration) (ended bool, err error) {
	failed := time.NewTimer(cmp.Or(failAfter, math.MaxInt64))
	defer failed.Stop()
	for {
		select {
		case <-s.ended:
			return true, nil
		case <-ctx.Done():
			return false, s.leave(context.Cause(ctx))
		case <-failed.C:
			if s.hasFailed() {
				return false, s.leave(nil)
			}
			failed.Reset(lookAgain)
		}
	}
}

// hasFailed reports whether the last attempt has failed and the next has not begun.
func (s *submission) hasFailed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.last != nil
}

// leave stops to wait, and gives the error of the last attempt: the attempts go on, but not for so long that they pile
// up. Where none has reached the catalog, and nobody else waits, none begins any more.
func (s *submission) leave(cause error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.waiting--; s.waiting == 0 {
		if end := time.Now().Add(submitTime); end.Before(s.until) {
			s.until = end
		}
	}
	last, ok := errors.AsType[*catalog.Error](s.last)
	if s.waiting == 0 && !s.sent && !s.mayExist && s.atGate != nil {
		s.atGate(context.Canceled)
		return &Error{NotPlacedByThisCall, s.orders.Catalog.NoTurn(s.cred)}
	}
	switch {
	case !ok:
		last = unknown(cause)
	case !leavesOpen[last.Kind]: // the ledger does not hold it yet
		last = outcomeUnknown(last, cause)
	}
	if ok && s.waiting == 0 && !s.sent && !s.mayExist {
		return &Error{NotPlacedByThisCall, last}
	}
	return &Error{Unknown, last}
}

// isFree asks in a transaction whether no order stands under the idempotency key of one that was refused.
func (o *Orders) isFree(ctx context.Context, order ledger.Order) bool {
	free, err := o.Ledger.IsFree(ctx, ledger.Request{
		Namespace: order.Namespace, Owner: order.Owner, Caller: order.Caller, IdempotencyKey: order.IdempotencyKey, UpstreamKey: order.UpstreamKey,
		APIKey: order.APIKey, ModelID: order.ModelID, Digest: order.Digest,
	})
	return err == nil && free
}

// maxPlaced is how many placed orders are known in memory, for when the ledger is away.
const maxPlaced = 10_000

type placedKey struct{ namespace, idempotencyKey, digest string }

// placedOrder is what a repeat of an order is answered with.
type placedOrder struct {
	generationID string
	placed       time.Time
}

// remember keeps that an order was placed.
func (o *Orders) remember(order ledger.Order, generationID string, placed time.Time) {
	o.placed.put(placedKey{order.Namespace, order.IdempotencyKey, order.Digest}, placedOrder{generationID, placed})
}

// remembered answers a repeat of an order while the ledger is away.
func (o *Orders) remembered(r ledger.Request) (Receipt, bool) {
	p, ok := o.placed.get(placedKey{r.Namespace, r.IdempotencyKey, r.Digest})
	return Receipt{catalog.Generation{ID: p.generationID, ModelID: r.ModelID, State: catalog.StateQueued, ObserveTime: p.placed}, p.placed, true}, ok
}
