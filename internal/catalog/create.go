package catalog

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"math/rand/v2"
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
// A key that this process has seen succeed answers with the newest state of the
// generation, and nothing is posted.
func (c *Client) Create(ctx context.Context, cred Credential, order Order) (Generation, error) {
	sub, run, err := c.orders.open(cred.Tenant, order)
	if err != nil {
		return Generation{}, err
	}
	if run == nil {
		return c.Generation(ctx, cred, sub.generationID)
	}
	if run.lead() {
		c.orders.work.Go(func() { c.submit(context.WithoutCancel(ctx), cred, order, sub, run) })
	}
	return run.wait(ctx)
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
	if order.MaxCostCents != nil && !sub.mayExist {
		err = c.withinLimit(ctx, cred, order)
	}
	unknown := false
	for attempt := 0; err == nil; attempt++ {
		if !run.awaited() {
			err = &Error{Kind: KindUnavailable, Op: opCreate, Err: context.Canceled}
			break
		}
		run.report(nil)
		if g, err = c.post(ctx, cred, order); err == nil {
			break
		}
		unknown = unknown || KindOf(err) == KindOutcomeUnknown && !neverLeft(err)
		run.report(certain(err, unknown))
		if !tryAgain(err, unknown) || !run.pause(attempt, err) {
			break
		}
		err = nil
	}
	c.orders.finish(sub, run, g, certain(err, unknown), unknown)
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
		Message: last.Message, RetryAfter: last.RetryAfter, Err: err,
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
	id           orderKey
	digest       [sha256.Size]byte
	run          *submitRun // the one under way; nil when there is none
	generationID string     // what the key stands for, once that is known
	mayExist     bool       // an attempt of unknown outcome was made
	kept         bool       // it stands in finished
	ended        time.Time
}

// submitRun is one series of attempts, shared by all who sent the key meanwhile.
type submitRun struct {
	book *orderBook
	done chan struct{}

	// Guarded by the book's mutex:
	waiting int
	idle    chan struct{} // closed while nobody waits
	led     bool
	posting bool  // an attempt is on its way
	last    error // what the attempt before said

	generation Generation // set before done is closed
	err        error
}

// digest tells two orders under one key apart.
func (o Order) digest() [sha256.Size]byte {
	return sha256.Sum256([]byte(o.ModelID + "\x00" + string(o.Inputs)))
}

// open finds or makes the submission of a key and joins its run; the run is nil where
// the key is known to have succeeded.
func (b *orderBook) open(tenant Tenant, order Order) (*submission, *submitRun, error) {
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
		return nil, nil, &Error{Kind: KindKeyReused, Op: opCreate}
	}
	if sub.generationID != "" {
		return sub, nil, nil
	}
	if sub.run == nil {
		sub.run = &submitRun{book: b, done: make(chan struct{})}
	}
	if sub.run.waiting++; sub.run.waiting == 1 {
		sub.run.idle = make(chan struct{})
	}
	return sub, sub.run, nil
}

// finish notes the outcome of a run and tells all who wait.
func (b *orderBook) finish(sub *submission, run *submitRun, g Generation, err error, unknown bool) {
	b.mu.Lock()
	sub.run = nil
	sub.mayExist = err != nil && (unknown || sub.mayExist && !refused(err))
	sub.ended = time.Now()
	if err == nil {
		sub.generationID = g.ID
	}
	switch {
	case err != nil && !sub.mayExist:
		delete(b.orders, sub.id)
	case !sub.kept:
		sub.kept = true
		b.finished = append(b.finished, sub)
	}
	b.mu.Unlock()
	run.generation, run.err = g, err
	close(run.done)
}

// forget drops what is too old or too much; mu is held.
func (b *orderBook) forget(now time.Time) {
	for len(b.finished) > 0 {
		oldest := b.finished[0]
		if len(b.finished) <= orderCapacity && now.Sub(oldest.ended) < orderMemory {
			return
		}
		b.finished = b.finished[1:]
		oldest.kept = false
		if oldest.run == nil {
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

// report notes what the last attempt said; nil means that the next is on its way.
func (r *submitRun) report(err error) {
	r.book.mu.Lock()
	defer r.book.mu.Unlock()
	r.posting, r.last = err == nil, err
}

// unattended is closed while nobody waits for the outcome.
func (r *submitRun) unattended() <-chan struct{} {
	r.book.mu.Lock()
	defer r.book.mu.Unlock()
	return r.idle
}

// awaited reports whether anybody still waits for the outcome.
func (r *submitRun) awaited() bool {
	r.book.mu.Lock()
	defer r.book.mu.Unlock()
	return r.waiting > 0
}

// leave takes one waiter out. The last one out ends the pauses between attempts.
// It gives how things stand.
func (r *submitRun) leave() (posting bool, last error) {
	r.book.mu.Lock()
	defer r.book.mu.Unlock()
	if r.waiting--; r.waiting == 0 {
		close(r.idle)
	}
	return r.posting, r.last
}

// pause waits before the next attempt, as long as the catalog asks or with doubling
// pauses of our own. It is false when nobody waits any more.
func (r *submitRun) pause(attempt int, err error) bool {
	d := min(submitBackoff<<min(attempt, 10), submitPause)
	d = d/2 + rand.N(d/2)
	var detail *Error
	if errors.As(err, &detail) {
		d = max(d, detail.RetryAfter)
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-r.unattended():
		return r.awaited()
	}
}

// wait gives the outcome, or says shortly before ctx ends that it is not known.
func (r *submitRun) wait(ctx context.Context) (Generation, error) {
	patience := submitPatience
	if deadline, ok := ctx.Deadline(); ok {
		left := time.Until(deadline)
		patience = left - min(left/10, 100*time.Millisecond)
	}
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-r.done:
		return r.generation, r.err
	case <-timer.C:
		return Generation{}, r.giveUp(context.DeadlineExceeded)
	case <-ctx.Done():
		return Generation{}, r.giveUp(ctx.Err())
	}
}

// giveUp leaves before the outcome is there.
func (r *submitRun) giveUp(cause error) error {
	posting, last := r.leave()
	switch {
	case posting:
		return &Error{Kind: KindOutcomeUnknown, Op: opCreate, Err: cause}
	case last != nil:
		return last
	}
	return &Error{Kind: KindUnavailable, Op: opCreate, Err: cause}
}
