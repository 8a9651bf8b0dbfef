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
	submitTimeout = time.Minute // for callers without a deadline, and at most for those that have gone

	refusedPause = 10 * time.Second // before an idempotency key of unknown outcome is sent again that was refused

	openOrders   = 10_000         // of one owner, that are on their way or of unknown outcome
	resendWindow = 12 * time.Hour // the default of Config.ResendWindow
)

// orderBook knows what the idempotency keys of recent orders stand for. It forgets no order of
// unknown outcome: its key would be sent again when the catalog has forgotten it.
type orderBook struct {
	work   sync.WaitGroup
	window time.Duration
	open   context.Context // over when no further attempt may begin
	end    context.CancelFunc

	mu       sync.Mutex
	orders   map[orderKey]*submission
	receipts receipts      // those of them that succeeded
	running  map[owner]int // the others
}

func newOrderBook(window time.Duration) *orderBook {
	open, end := context.WithCancel(context.Background())
	return &orderBook{window: window, open: open, end: end, orders: map[orderKey]*submission{}, receipts: receipts{of: map[owner][]*submission{}}, running: map[owner]int{}}
}

type orderKey struct {
	tenant Tenant
	key    string
}

// submission is what is known of one key. The goroutine of its run alone writes cred, mayExist
// and begun, under the book's mutex, and so may read them without.
type submission struct {
	id       orderKey
	owner    owner
	digest   [sha256.Size]byte
	run      *submitRun // the one under way; nil when there is none
	receipt  *Receipt   // what the key stands for, once that is known
	cred     Credential // of every attempt: its API key is the one of the first
	mayExist bool       // an attempt of unknown outcome was made
	begun    time.Time  // when the first of those began
}

// submitRun is one series of attempts, shared by all who sent the key meanwhile.
type submitRun struct {
	book *orderBook
	done chan struct{}

	// Guarded by the book's mutex:
	waiting int
	until   time.Time // when the time of the last caller is over, whether it still waits or not
	sent    bool      // an attempt of this run may have reached the catalog
	began   time.Time // the attempt on its way
	last    error     // what the last attempt said, while no other is on its way

	receipt Receipt // set before done is closed
	err     error
}

// join finds or makes the submission of an idempotency key and joins its run, which it starts where there is
// none, for a caller that waits as long as ctx allows. The run is nil where the key is known to have succeeded,
// and then the receipt counts.
func (b *orderBook) join(ctx context.Context, cred Credential, order Order, start func(*submission, *submitRun)) (Receipt, *submitRun, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.forget(b.receipts.old(time.Now()))
	sub, err := b.find(cred, order)
	if err != nil {
		return Receipt{}, nil, err
	}
	if sub.receipt != nil {
		return *sub.receipt, nil, nil
	}
	if sub.run == nil {
		run, release := &submitRun{book: b, done: make(chan struct{})}, order.hold()
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
	return Receipt{}, sub.run, nil
}

// find finds or makes the submission of an idempotency key; mu is held.
func (b *orderBook) find(cred Credential, order Order) (*submission, error) {
	id, whose, digest := orderKey{cred.Tenant, order.IdempotencyKey}, owner{cred.Tenant, cred.Owner}, digestOf(order)
	sub := b.orders[id]
	switch {
	case sub == nil && b.running[whose] >= openOrders:
		return nil, &Error{Kind: KindBusy, Op: opCreate, Unsent: true, Message: "too many orders of this caller are on their way or of unknown outcome"}
	case sub == nil:
		sub = &submission{id: id, owner: whose, digest: digest}
		b.orders[id] = sub
		b.running[whose]++
	case sub.digest != digest:
		return nil, &Error{Kind: KindKeyReused, Op: opCreate, Unsent: true}
	}
	return sub, nil
}

// credential gives what every attempt of a submission runs under: the credential with the API
// key of its first attempt.
func (b *orderBook) credential(sub *submission, cred Credential) Credential {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !sub.mayExist {
		sub.cred = cred.pinned()
	}
	return sub.cred
}

// ErrResendWindow is why an order of unknown outcome is not sent again: only a look at the account
// tells what became of it.
var ErrResendWindow = errors.New("its first attempt is too long ago to send it again: the catalog may have forgotten its idempotency key")

// begin notes that an attempt is on its way, or says why there is none: the time of all callers
// is over, or nobody waits for an order that has not left yet.
func (b *orderBook) begin(sub *submission, run *submitRun) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	over := run.waiting == 0 && !sub.mayExist || !time.Now().Before(run.until) || b.open.Err() != nil
	switch {
	case over && KindOf(run.last) == KindBusy:
		return run.last
	case over:
		return &Error{Kind: KindOutcomeUnknown, Op: opCreate, Unsent: !sub.mayExist && !run.sent}
	case sub.mayExist && age(sub.begun) >= b.window:
		return &Error{Kind: KindOutcomeUnknown, Op: opCreate, Err: ErrResendWindow}
	}
	run.last, run.began = nil, time.Now()
	return nil
}

// age is how long ago a time was, also where the machine slept meanwhile: only one of its clocks may
// have gone on.
func age(t time.Time) time.Duration {
	return max(time.Since(t), time.Now().Round(0).Sub(t))
}

// failed notes what an attempt has said, and gives what can be said of the order now.
func (b *orderBook) failed(sub *submission, run *submitRun, err error) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	arrived := mayHaveArrived(err)
	run.sent = run.sent || arrived
	if arrived && !sub.mayExist && (KindOf(err) == KindOutcomeUnknown || KindOf(err) == KindInProgress) {
		sub.mayExist, sub.begun = true, run.began
	}
	if !run.sent && !sub.mayExist {
		err = unsent(err)
	}
	run.last = sub.certain(err)
	return err
}

// finish keeps of a run that is over what later calls must know, and tells the outcome to all who wait.
func (b *orderBook) finish(sub *submission, run *submitRun, g Generation, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	run.err = err
	sub.run = nil
	switch {
	case err == nil:
		run.receipt = Receipt{Generation: g, Placed: time.Now()}
		sub.receipt, sub.mayExist, sub.cred = receiptOf(g, run.receipt.Placed), false, Credential{}
		b.forget(b.receipts.keep(sub))
		b.ended(sub)
	case !sub.mayExist:
		delete(b.orders, sub.id)
		b.ended(sub)
	}
	close(run.done)
}

// ended notes that the outcome of an order is certain; mu is held.
func (b *orderBook) ended(sub *submission) {
	if b.running[sub.owner]--; b.running[sub.owner] == 0 {
		delete(b.running, sub.owner)
	}
}

// forget drops orders that were placed; mu is held.
func (b *orderBook) forget(gone []*submission) {
	for _, sub := range gone {
		delete(b.orders, sub.id)
	}
}

// close waits for the orders that are on their way. When ctx ends before, no further attempt begins.
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
		b.end()
		return fmt.Errorf("catalog: orders are still on their way: %w", ctx.Err())
	}
}

// digestOf tells two orders under one key apart. The limit of the cost is no part of it: it may
// be raised to send a refused order again. While a submission is under way, the limit of
// the call that began it counts.
func digestOf(o Order) [sha256.Size]byte {
	return sha256.Sum256([]byte(o.ModelID + "\x00" + string(o.Inputs)))
}

// certain keeps a refusal from looking final while an attempt may have been taken: a caller
// that believed it would order again under a new key.
func (s *submission) certain(err error) error {
	if err == nil || !s.mayExist || KindOf(err) == KindOutcomeUnknown || KindOf(err) == KindInProgress {
		return err
	}
	last, ok := errors.AsType[*Error](err)
	if !ok {
		return &Error{Kind: KindOutcomeUnknown, Op: opCreate, Err: err}
	}
	return &Error{
		Kind: KindOutcomeUnknown, Op: opCreate, Status: last.Status, Code: last.Code,
		Message: cmp.Or(last.Message, last.Kind.String()), RetryAfter: max(last.RetryAfter, refusedPause), Err: err,
	}
}

// unsent marks an error of a call that has sent nothing.
func unsent(err error) error {
	e, ok := errors.AsType[*Error](err)
	if !ok {
		return err
	}
	marked := *e
	marked.Unsent = true
	return &marked
}

// mayHaveArrived reports whether an attempt that failed may have reached the catalog: the catalog has
// answered it, or a connection was there.
func mayHaveArrived(err error) bool {
	e, ok := errors.AsType[*Error](err)
	if !ok || e.Status != 0 {
		return true
	}
	var op *net.OpError
	dial := errors.As(err, &op) && (op.Op == "dial" || op.Op == "proxyconnect")
	return e.Kind == KindOutcomeUnknown && !dial
}

// pause waits, but no longer than the callers have time: who comes meanwhile may have more.
func (r *submitRun) pause(d time.Duration) {
	for due := time.Now().Add(d); ; {
		now, end := time.Now(), r.deadline()
		if !now.Before(due) || !now.Before(end) {
			return
		}
		timer := time.NewTimer(min(due.Sub(now), end.Sub(now)))
		select {
		case <-timer.C:
		case <-r.book.open.Done():
			timer.Stop()
			return
		}
	}
}

// deadline is when the time of all callers is over.
func (r *submitRun) deadline() time.Time {
	r.book.mu.Lock()
	defer r.book.mu.Unlock()
	return r.until
}

// wait gives the outcome, or says shortly before ctx ends that it is not known.
func (r *submitRun) wait(ctx context.Context) (Receipt, error) {
	timer := time.NewTimer(time.Until(answerBy(ctx)))
	defer timer.Stop()
	select {
	case <-r.done:
		return r.receipt, r.err
	case <-timer.C:
		return Receipt{}, r.giveUp(context.DeadlineExceeded)
	case <-ctx.Done():
		return Receipt{}, r.giveUp(ctx.Err())
	}
}

// giveUp leaves before the outcome is there, with what the last attempt said. Where others wait
// for the same submission it may be sent later, so that nothing is certain then.
func (r *submitRun) giveUp(cause error) error {
	r.book.mu.Lock()
	defer r.book.mu.Unlock()
	if r.waiting--; r.waiting == 0 { // attempts go on, for a time that does not pile them up
		if end := time.Now().Add(submitTimeout); end.Before(r.until) {
			r.until = end
		}
	}
	e, ok := errors.AsType[*Error](r.last)
	if !ok {
		return &Error{Kind: KindOutcomeUnknown, Op: opCreate, Err: cause}
	}
	last := *e
	last.Unsent = last.Unsent && r.waiting == 0
	return &last
}

// answerBy is how long a caller waits for the outcome of an order: until shortly before its
// deadline, so that the answer still reaches it.
func answerBy(ctx context.Context) time.Time {
	deadline, ok := ctx.Deadline()
	if !ok {
		return time.Now().Add(submitTimeout)
	}
	return deadline.Add(-min(time.Until(deadline)/10, 100*time.Millisecond))
}
