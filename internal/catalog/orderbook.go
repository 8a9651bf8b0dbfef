package catalog

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"
)

const (
	submitTimeout = time.Minute // for callers without a deadline, and at most for callers that have gone

	refusalPause = 10 * time.Second // before an order of unknown outcome is sent again after a refusal

	maxPendingOrders = 10_000         // of one owner: in flight, or of unknown outcome
	resendWindow     = 12 * time.Hour // the default of Config.ResendWindow
)

// orderBook keeps the recent orders by idempotency key. It forgets no order of unknown outcome, whose
// idempotency key would be sent again when the catalog has forgotten it.
type orderBook struct {
	work         sync.WaitGroup
	window       time.Duration
	attempts     context.Context // ends when no further attempt may begin
	stopAttempts context.CancelFunc

	mu       sync.Mutex
	orders   map[orderKey]*submission
	receipts receipts      // of the orders that succeeded
	pending  map[owner]int // number of the others
}

func newOrderBook(window time.Duration) *orderBook {
	attempts, stop := context.WithCancel(context.Background())
	return &orderBook{window: window, attempts: attempts, stopAttempts: stop, orders: map[orderKey]*submission{}, receipts: receipts{byOwner: map[owner][]*submission{}}, pending: map[owner]int{}}
}

type orderKey struct {
	tenant         Tenant
	idempotencyKey string
}

// submission is the order of one idempotency key. The goroutine of its run alone writes cred, mayExist,
// uncertain and unknownSince, under the book's mutex, and so may read them without it.
type submission struct {
	key          orderKey
	owner        owner
	digest       [sha256.Size]byte
	run          *submitRun // its present run; nil when there is none
	receipt      *Receipt   // set once the order has succeeded
	written      bool       // a journal remembers the order
	cred         Credential // of every attempt: its API key is the one of the first
	mayExist     bool       // an attempt of unknown outcome was made, here or by another submission
	uncertain    bool       // such an attempt was made here, which no journal takes back
	unknownSince time.Time  // when the first such attempt began
}

// submitRun is one series of attempts. All calls with its idempotency key share it.
type submitRun struct {
	book    *orderBook
	done    chan struct{}
	written bool // a journal holds the order

	// Guarded by the book's mutex:
	waiting   int
	until     time.Time // the latest deadline of its callers, whether they still wait or not
	sent      bool      // an attempt of this run may have reached the catalog
	attemptAt time.Time // beginning of the last attempt
	lastErr   error     // of the last attempt; nil while one is in flight

	receipt Receipt // set before done is closed
	err     error
}

// join joins the run of an idempotency key, which it starts where there is none, for a caller that waits as
// long as ctx allows. The run is nil where the order has succeeded before, and then the receipt counts.
// Beside a run, it says only whether an earlier call has begun it.
func (b *orderBook) join(ctx context.Context, cred Credential, order Order, start func(*submission, *submitRun)) (Receipt, *submitRun, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.forget(b.receipts.expired(time.Now()))
	sub, err := b.find(cred, order)
	if err != nil {
		return Receipt{}, nil, err
	}
	if sub.receipt != nil {
		return *sub.receipt, nil, nil
	}
	joined := sub.run != nil
	if sub.run == nil {
		run, release := &submitRun{book: b, done: make(chan struct{}), written: sub.written}, order.hold()
		sub.run = run
		b.work.Go(func() {
			defer release()
			start(sub, run)
		})
	}
	sub.run.waiting++
	if until := answerBy(ctx); until.After(sub.run.until) {
		sub.run.until = until
	}
	return Receipt{Replayed: joined}, sub.run, nil
}

// alone makes a submission and a run of it that nobody joins.
func (b *orderBook) alone(ctx context.Context, cred Credential, order Order) (*submission, *submitRun) {
	b.mu.Lock()
	defer b.mu.Unlock()
	sub := &submission{key: orderKey{cred.Tenant, order.IdempotencyKey}, owner: owner{cred.Tenant, cred.Owner}, digest: digestOf(order), written: true}
	sub.run = &submitRun{book: b, done: make(chan struct{}), written: true, waiting: 1, until: answerBy(ctx)}
	b.pending[sub.owner]++
	return sub, sub.run
}

// find finds or makes the submission of an idempotency key; mu is held.
func (b *orderBook) find(cred Credential, order Order) (*submission, error) {
	key, by, digest := orderKey{cred.Tenant, order.IdempotencyKey}, owner{cred.Tenant, cred.Owner}, digestOf(order)
	sub := b.orders[key]
	switch {
	case sub == nil && b.pending[by] >= maxPendingOrders:
		return nil, &Error{Kind: KindBusy, Op: opCreate, Unsent: true, Message: "too many orders of this caller are on their way or of unknown outcome"}
	case sub == nil:
		sub = &submission{key: key, owner: by, digest: digest, written: order.Journal != nil}
		b.orders[key] = sub
		b.pending[by]++
	case sub.digest != digest:
		return nil, &Error{Kind: KindKeyReused, Op: opCreate, Unsent: true}
	}
	return sub, nil
}

// credential gives the credential of every attempt of a submission: with the API key of its first attempt.
func (b *orderBook) credential(sub *submission, cred Credential) Credential {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !sub.mayExist {
		sub.cred = cred.pinned()
	}
	return sub.cred
}

// ErrResendWindow is the reason why an order of unknown outcome is not sent again. The account alone
// shows whether the order was placed.
var ErrResendWindow = errors.New("its first attempt is too long ago to send it again: the catalog may have forgotten its idempotency key")

// begin notes that an attempt begins, or says why none may: the time of all callers is over, or nobody
// waits for an order that was never sent.
func (b *orderBook) begin(sub *submission, run *submitRun) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	over := run.waiting == 0 && !sub.mayExist || !time.Now().Before(run.until) || b.attempts.Err() != nil
	switch {
	case over && KindOf(run.lastErr) == KindBusy:
		return run.lastErr
	case over:
		return &Error{Kind: KindOutcomeUnknown, Op: opCreate, Unsent: !sub.mayExist && !run.sent}
	case sub.mayExist && age(sub.unknownSince) >= b.window:
		return &Error{Kind: KindOutcomeUnknown, Op: opCreate, Err: ErrResendWindow}
	}
	run.lastErr, run.attemptAt = nil, time.Now()
	return nil
}

// age is how long ago a time was. It takes the longer of two clocks, as one of them stands still while the
// machine sleeps.
func age(t time.Time) time.Duration {
	return max(time.Since(t), time.Now().Round(0).Sub(t))
}

// failed notes the error of an attempt, and gives the error of the order.
func (b *orderBook) failed(sub *submission, run *submitRun, err error) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	arrived := mayHaveArrived(err)
	run.sent = run.sent || arrived
	if arrived && (KindOf(err) == KindOutcomeUnknown || KindOf(err) == KindInProgress) {
		if !sub.mayExist {
			sub.unknownSince = run.attemptAt
		}
		sub.mayExist, sub.uncertain = true, true
	}
	if !run.sent && !sub.mayExist {
		err = Unsent(err)
	}
	run.lastErr = sub.withholdRefusal(err)
	return err
}

// resume notes what the journal knows of attempts of other submissions: that one may have been taken, or none.
func (b *orderBook) resume(sub *submission, turn Turn) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case turn.Free:
		sub.mayExist = sub.uncertain
	case turn.MayExist && !sub.mayExist:
		sub.mayExist, sub.unknownSince = true, time.Now() // the journal knows since when
	}
}

// finish ends a run: it keeps the outcome for later calls, and gives it to the waiting ones.
func (b *orderBook) finish(sub *submission, run *submitRun, receipt Receipt, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	run.err = err
	sub.run = nil
	if err == nil {
		run.receipt = receipt
		if receipt.Placed.IsZero() {
			run.receipt.Placed = time.Now()
		}
	}
	switch {
	case sub.written || err != nil && !sub.mayExist:
		if b.orders[sub.key] == sub {
			delete(b.orders, sub.key)
		}
		b.resolved(sub)
	case err == nil:
		sub.receipt, sub.mayExist, sub.cred = receiptOf(receipt.Generation, run.receipt.Placed), false, Credential{}
		b.forget(b.receipts.add(sub))
		b.resolved(sub)
	}
	close(run.done)
}

// resolved notes that the outcome of an order is certain; mu is held.
func (b *orderBook) resolved(sub *submission) {
	if b.pending[sub.owner]--; b.pending[sub.owner] == 0 {
		delete(b.pending, sub.owner)
	}
}

// forget removes placed orders; mu is held.
func (b *orderBook) forget(placed []*submission) {
	for _, sub := range placed {
		delete(b.orders, sub.key)
	}
}

// close waits for the orders in flight. When ctx ends before, no further attempt begins.
func (b *orderBook) close(ctx context.Context) error {
	finished := make(chan struct{})
	go func() {
		defer close(finished)
		b.work.Wait()
	}()
	select {
	case <-finished:
		return nil
	case <-ctx.Done():
		b.stopAttempts()
		return fmt.Errorf("catalog: orders are still on their way: %w", ctx.Err())
	}
}

// digestOf tells two orders under one idempotency key apart. The cost limit is no part of it, so that a
// caller may raise it to send a refused order again. During a run the limit of its first call counts. A
// journal tells orders apart by value, the memory of this process by their bytes, which it does not keep.
func digestOf(o Order) [sha256.Size]byte {
	if o.Digest != [sha256.Size]byte{} {
		return o.Digest
	}
	return sha256.Sum256([]byte(o.ModelID + "\x00" + string(o.Inputs)))
}

// withholdRefusal turns a refusal into an unknown outcome while an earlier attempt may have been taken: a
// caller that believed the refusal would order again under a new idempotency key.
func (s *submission) withholdRefusal(err error) error {
	if err == nil || !s.mayExist || KindOf(err) == KindOutcomeUnknown || KindOf(err) == KindInProgress {
		return err
	}
	last, ok := errors.AsType[*Error](err)
	if !ok {
		return &Error{Kind: KindOutcomeUnknown, Op: opCreate, Err: err}
	}
	unknown := outcomeUnknown(last, err)
	unknown.RetryAfter = max(last.RetryAfter, refusalPause)
	return unknown
}

// outcomeUnknown is an unknown outcome with what the catalog has said in an answer of another kind.
func outcomeUnknown(said *Error, err error) *Error {
	return &Error{
		Kind: KindOutcomeUnknown, Op: opCreate, Status: said.Status, Code: said.Code,
		Message: cmp.Or(said.Message, said.Kind.String()), Withheld: said.Kind, RetryAfter: said.RetryAfter, Err: err,
	}
}

// Unsent marks the error of a call that has sent no order.
func Unsent(err error) error {
	e, ok := errors.AsType[*Error](err)
	if !ok {
		return err
	}
	marked := *e
	marked.Unsent = true
	return &marked
}

// mayHaveArrived reports whether a failed attempt may have reached the catalog: it was answered, or had a
// connection.
func mayHaveArrived(err error) bool {
	e, ok := errors.AsType[*Error](err)
	if !ok || e.Status != 0 {
		return true
	}
	var op *net.OpError
	dial := errors.As(err, &op) && (op.Op == "dial" || op.Op == "proxyconnect")
	return e.Kind == KindOutcomeUnknown && !dial
}

// pause waits, but not beyond the deadlines of the callers. A new caller may extend them meanwhile.
func (r *submitRun) pause(d time.Duration) {
	for due := time.Now().Add(d); ; {
		now, end := time.Now(), r.deadline()
		if !now.Before(due) || !now.Before(end) {
			return
		}
		timer := time.NewTimer(min(due.Sub(now), end.Sub(now)))
		select {
		case <-timer.C:
		case <-r.book.attempts.Done():
			timer.Stop()
			return
		}
	}
}

// deadline is the latest deadline of the callers.
func (r *submitRun) deadline() time.Time {
	r.book.mu.Lock()
	defer r.book.mu.Unlock()
	return r.until
}

// wait gives the outcome. Shortly before ctx ends it says that the outcome is not known, and earlier where the
// caller wants to hear of a failed attempt.
func (r *submitRun) wait(ctx context.Context) (Receipt, error) {
	timer := time.NewTimer(time.Until(answerBy(ctx)))
	defer timer.Stop()
	failed := time.NewTimer(failureTimeout(ctx))
	defer failed.Stop()
	for {
		select {
		case <-r.done:
			return r.receipt, r.err
		case <-timer.C:
			return Receipt{}, r.giveUp(context.DeadlineExceeded)
		case <-ctx.Done():
			return Receipt{}, r.giveUp(ctx.Err())
		case <-failed.C:
			if err := r.giveUpIfFailed(); err != nil {
				return Receipt{}, err
			}
			failed.Reset(lookAgain)
		}
	}
}

// refused reports whether the run has ended with what another call with its idempotency key need not meet.
func (r *submitRun) refused() bool {
	select {
	case <-r.done:
		kind := KindOf(r.err)
		return r.err != nil && kind != KindOutcomeUnknown && kind != KindInProgress && kind != KindKeyReused
	default:
		return false // the caller has given up
	}
}

// giveUpIfFailed stops to wait where the last attempt has failed and the next has not begun.
func (r *submitRun) giveUpIfFailed() error {
	r.book.mu.Lock()
	defer r.book.mu.Unlock()
	if r.lastErr == nil {
		return nil
	}
	return r.leave(r.lastErr)
}

// giveUp stops to wait, and gives the error of the last attempt. While other calls wait for the same
// submission, a later attempt may be sent.
func (r *submitRun) giveUp(cause error) error {
	r.book.mu.Lock()
	defer r.book.mu.Unlock()
	return r.leave(cause)
}

// leave is giveUp; mu is held.
func (r *submitRun) leave(cause error) error {
	if r.waiting--; r.waiting == 0 { // attempts go on, but not for so long that they pile up
		if end := time.Now().Add(submitTimeout); end.Before(r.until) {
			r.until = end
		}
	}
	e, ok := errors.AsType[*Error](r.lastErr)
	if !ok {
		return &Error{Kind: KindOutcomeUnknown, Op: opCreate, Err: cause}
	}
	last := *e
	if r.written && last.Kind != KindOutcomeUnknown && last.Kind != KindInProgress { // the journal does not hold it yet
		last = *outcomeUnknown(e, cause)
	}
	last.Unsent = last.Unsent && r.waiting == 0 && !r.written
	return &last
}

// answerBy is when a caller stops to wait for the outcome of an order: shortly before its deadline, so that
// the answer still reaches it.
func answerBy(ctx context.Context) time.Time {
	deadline, ok := ctx.Deadline()
	if !ok {
		return time.Now().Add(submitTimeout)
	}
	return deadline.Add(-min(time.Until(deadline)/10, 100*time.Millisecond))
}
