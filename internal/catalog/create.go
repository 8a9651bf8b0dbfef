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
	opCreate = "POST /generations"

	submitPatience = time.Minute            // for callers without a deadline
	submitBackoff  = 200 * time.Millisecond // before the first repeat; doubles
	submitPause    = 5 * time.Second        // longest pause between two attempts of our own choice

	orderMemory   = 24 * time.Hour // how long this process knows what a key stands for
	orderCapacity = 100_000        // and of how many keys
)

// Create places a paid order. It is the only place that does, and it keeps one promise:
// one idempotency key is one charge.
//
//   - Every attempt sends the same key and the same bytes, and every attempt is ours:
//     the transport repeats nothing by itself.
//   - An attempt that may have left is finished, even if the caller goes away.
//   - Calls with the same key at the same time share one submission. A key that stands
//     for another order, as far as this process knows, is refused (KindKeyReused).
//   - While the outcome is unknown it tries again until the caller's deadline is near,
//     then says so (KindOutcomeUnknown): the caller sends the same key again.
//   - A refusal that is certain is returned at once and forgotten, so that the same key
//     may be sent again, for instance after a top-up.
//
// A key that this process has seen succeed posts nothing: it answers with the newest state
// of the generation, or, where that can't be read, with the one that the order was answered
// with. It never says that a paid order is not there.
func (c *Client) Create(ctx context.Context, cred Credential, order Order) (Receipt, error) {
	if err := ctx.Err(); err != nil {
		return Receipt{}, err
	}
	receipt, sub, run, err := c.orders.open(cred.Tenant, order)
	if err != nil {
		return Receipt{}, err
	}
	if run == nil {
		if g, err := c.Generation(ctx, cred, receipt.Generation.ID); err == nil {
			receipt.Generation = g
		}
		return receipt, nil
	}
	if run.lead() {
		c.orders.work.Go(func() { c.submit(context.WithoutCancel(ctx), cred, order, sub, run) })
	}
	return run.wait(ctx)
}

// Receipt is an order that was placed.
type Receipt struct {
	Generation Generation
	Placed     time.Time // when this process heard first that the order was taken
}

// Close waits for the orders that are on their way, or until ctx ends: then it says so,
// and their callers have to send their keys again. It does not end the client.
func (c *Client) Close(ctx context.Context) error {
	finished := make(chan struct{})
	go func() {
		defer close(finished)
		c.orders.work.Wait()
	}()
	select {
	case <-finished:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("catalog: orders are still on their way: %w", ctx.Err())
	}
}

// submit makes attempts until the outcome is certain or nobody waits for it.
func (c *Client) submit(ctx context.Context, cred Credential, order Order, sub *submission, run *submitRun) {
	g, err := Generation{}, error(nil)
	unknown := sub.mayExist
	if order.MaxCostCents != nil && !unknown {
		err = c.withinLimit(ctx, cred, order)
	}
	for attempt := 0; err == nil; attempt++ {
		if !c.orders.begin(sub, run, unknown) {
			c.ordered(ctx, order, g, &Error{Kind: KindOutcomeUnknown, Op: opCreate})
			return
		}
		if g, err = c.post(numbered(ctx, attempt+1), cred, order); err == nil {
			break
		}
		if refused(err) && attempt == 0 {
			unknown = false // a key of unknown outcome was sent again, and this is the answer
		}
		unknown = unknown || KindOf(err) == KindOutcomeUnknown && !neverLeft(err)
		run.report(certain(err, unknown))
		if !tryAgain(err, unknown) {
			break
		}
		run.pause(c.rest(attempt, err))
		err = nil
	}
	err = certain(err, unknown)
	c.ordered(ctx, order, g, err)
	c.orders.finish(sub, run, g, err, unknown)
}

// withinLimit prices the order first.
func (c *Client) withinLimit(ctx context.Context, cred Credential, order Order) error {
	quote, err := c.Quote(ctx, cred, order.ModelID, order.Inputs)
	if err != nil {
		return err
	}
	if quote.PriceCents > *order.MaxCostCents {
		return &Error{Kind: KindPriceAboveLimit, Op: opCreate, PriceCents: quote.PriceCents}
	}
	return nil
}

// tryAgain reports whether another attempt may make the outcome certain.
func tryAgain(err error, unknown bool) bool {
	switch KindOf(err) {
	case KindOutcomeUnknown, KindInProgress:
		return true
	case KindRateLimited:
		return unknown
	}
	return false
}

// certain keeps a refusal from looking final while an earlier attempt may still have
// been taken: a caller that believed it would order again under a new key.
func certain(err error, unknown bool) error {
	if err == nil || !unknown || KindOf(err) == KindOutcomeUnknown {
		return err
	}
	var last *Error
	if !errors.As(err, &last) {
		return &Error{Kind: KindOutcomeUnknown, Op: opCreate, Err: err}
	}
	return &Error{
		Kind: KindOutcomeUnknown, Op: opCreate, Status: last.Status, Code: last.Code,
		Message: cmp.Or(last.Message, last.Kind.String()), RetryAfter: last.RetryAfter, Err: err,
	}
}

// refused reports whether the catalog, or this process, has decided against the order
// itself. A caller who sends a key of unknown outcome again may believe it: a catalog that
// had taken the order would have answered with it.
func refused(err error) bool {
	switch KindOf(err) {
	case KindInvalidInput, KindInsufficientFunds, KindForbidden, KindDailyCap, KindInputsTooLarge:
		return true
	}
	return false
}

// neverLeft reports whether the attempt failed before a connection was there.
func neverLeft(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}

// orderBook knows what the keys of recent orders stand for.
type orderBook struct {
	work sync.WaitGroup

	mu       sync.Mutex
	orders   map[orderKey]*submission
	finished []*submission // those that succeeded or may have, oldest first
}

type orderKey struct {
	tenant Tenant
	key    string
}

// submission is what is known of one key.
type submission struct {
	id       orderKey
	digest   [sha256.Size]byte
	run      *submitRun // the one under way; nil when there is none
	receipt  *Receipt   // what the key stands for, once that is known
	mayExist bool       // an attempt of unknown outcome was made
	kept     time.Time  // since when it stands in finished; zero when it does not
}

// submitRun is one series of attempts, shared by all who sent the key meanwhile.
type submitRun struct {
	book *orderBook
	done chan struct{}

	// Guarded by the book's mutex:
	waiting int
	idle    chan struct{} // closed while nobody waits
	led     bool
	last    error // what the last attempt said, while no other is on its way

	receipt Receipt // set before done is closed
	err     error
}

// digest tells two orders under one key apart. The limit of the cost is no part of it: it may
// be raised to send a refused order again. While a submission is under way, the limit of
// the call that began it counts.
func (o Order) digest() [sha256.Size]byte {
	return sha256.Sum256([]byte(o.ModelID + "\x00" + string(o.Inputs)))
}

// open finds or makes the submission of a key and joins its run; the run is nil where
// the key is known to have succeeded, and then the receipt counts.
func (b *orderBook) open(tenant Tenant, order Order) (Receipt, *submission, *submitRun, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	id, digest := orderKey{tenant, order.IdempotencyKey}, order.digest()
	b.forget(time.Now())
	sub := b.orders[id]
	if sub == nil {
		sub = &submission{id: id, digest: digest}
		if b.orders == nil {
			b.orders = map[orderKey]*submission{}
		}
		b.orders[id] = sub
	}
	if sub.digest != digest {
		return Receipt{}, nil, nil, &Error{Kind: KindKeyReused, Op: opCreate}
	}
	if sub.receipt != nil {
		return *sub.receipt, sub, nil, nil
	}
	if sub.run == nil {
		sub.run = &submitRun{book: b, done: make(chan struct{})}
	}
	if sub.run.waiting++; sub.run.waiting == 1 {
		sub.run.idle = make(chan struct{})
	}
	return Receipt{}, sub, sub.run, nil
}

// begin reports whether anybody still waits for the outcome, and notes that an attempt is on
// its way then. Where nobody does, the run is over, and whoever comes next begins anew.
func (b *orderBook) begin(sub *submission, run *submitRun, unknown bool) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if run.waiting == 0 {
		b.conclude(sub, nil, &Error{Kind: KindOutcomeUnknown, Op: opCreate}, unknown)
		return false
	}
	run.last = nil
	return true
}

// finish notes the outcome of a run and tells all who wait.
func (b *orderBook) finish(sub *submission, run *submitRun, g Generation, err error, unknown bool) {
	b.mu.Lock()
	var receipt *Receipt
	if err == nil {
		receipt = &Receipt{Generation: g, Placed: time.Now()}
		run.receipt = *receipt
	}
	b.conclude(sub, receipt, err, unknown)
	b.mu.Unlock()
	run.err = err
	close(run.done)
}

// conclude keeps of a run that is over what later calls must know; mu is held.
func (b *orderBook) conclude(sub *submission, receipt *Receipt, err error, unknown bool) {
	sub.run, sub.receipt = nil, receipt
	sub.mayExist = err != nil && (unknown || sub.mayExist && !refused(err))
	switch {
	case err != nil && !sub.mayExist:
		delete(b.orders, sub.id)
	case sub.kept.IsZero():
		sub.kept = time.Now()
		b.finished = append(b.finished, sub)
	}
}

// forget drops what is too old or too much; mu is held.
func (b *orderBook) forget(now time.Time) {
	for len(b.finished) > 0 {
		oldest := b.finished[0]
		if len(b.finished) <= orderCapacity && now.Sub(oldest.kept) < orderMemory {
			return
		}
		b.finished = b.finished[1:]
		oldest.kept = time.Time{}
		// A key that was refused meanwhile may stand for a younger submission.
		if oldest.run == nil && b.orders[oldest.id] == oldest {
			delete(b.orders, oldest.id)
		}
	}
}

// lead reports whether the caller is the one to start the attempts.
func (r *submitRun) lead() bool {
	r.book.mu.Lock()
	defer r.book.mu.Unlock()
	first := !r.led
	r.led = true
	return first
}

// report notes what an attempt has said.
func (r *submitRun) report(err error) {
	r.book.mu.Lock()
	defer r.book.mu.Unlock()
	r.last = err
}

// unattended is closed while nobody waits for the outcome.
func (r *submitRun) unattended() <-chan struct{} {
	r.book.mu.Lock()
	defer r.book.mu.Unlock()
	return r.idle
}

// leave takes one waiter out. The last one out ends the pauses between attempts.
// It gives what the last attempt said.
func (r *submitRun) leave() (last error) {
	r.book.mu.Lock()
	defer r.book.mu.Unlock()
	if r.waiting--; r.waiting == 0 {
		close(r.idle)
	}
	return r.last
}

// rest is how long to wait before the next attempt: as long as the catalog asks, or
// doubling times of our own.
func (c *Client) rest(attempt int, err error) time.Duration {
	d := min(submitBackoff<<min(attempt, 10), submitPause)
	d = d/2 + c.jitter.below(d/2)
	var detail *Error
	if errors.As(err, &detail) {
		d = max(d, detail.RetryAfter)
	}
	return d
}

// pause waits, but no longer than anybody waits for the outcome.
func (r *submitRun) pause(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-r.unattended():
	}
}

// wait gives the outcome, or says shortly before ctx ends that it is not known.
func (r *submitRun) wait(ctx context.Context) (Receipt, error) {
	patience := submitPatience
	if deadline, ok := ctx.Deadline(); ok {
		left := time.Until(deadline)
		patience = left - min(left/10, 100*time.Millisecond)
	}
	timer := time.NewTimer(patience)
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

// giveUp leaves before the outcome is there. Nothing else is certain then: others may wait
// for the same submission, so that it is posted later.
func (r *submitRun) giveUp(cause error) error {
	if last := r.leave(); last != nil {
		return last
	}
	return &Error{Kind: KindOutcomeUnknown, Op: opCreate, Err: cause}
}
