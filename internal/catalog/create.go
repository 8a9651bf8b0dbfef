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
	refusedPause   = 10 * time.Second       // before a key of unknown outcome is sent again that was refused

	orderMemory   = 24 * time.Hour // how long this process knows what an idempotency key stands for
	orderCapacity = 100_000        // and of how many idempotency keys
	resendWindow  = 12 * time.Hour // the default of Config.ResendWindow
)

// Create places a paid order. It is the only place that does, and it keeps one promise:
// one idempotency key is one charge.
//
//   - Every attempt sends the same idempotency key and the same bytes under the same API key,
//     also where a held API key is rotated meanwhile, and every attempt is ours: the transport
//     repeats nothing by itself.
//   - An order that may have left is finished, even if the caller goes away: the attempts go
//     on for the time that the caller had.
//   - Calls with the same key at the same time share one submission. A key that stands
//     for another order, as far as this process knows, is refused (KindKeyReused).
//   - While the outcome is unknown it tries again until the caller's deadline is near,
//     then says so (KindOutcomeUnknown): the caller sends the same key again. After
//     [Config.ResendWindow] nothing more is sent.
//   - A refusal is believed only of a key that has no attempt of unknown outcome: some catalogs
//     look at money, models or inputs before they look at the key. It is returned at once and
//     forgotten, so that the same key may be sent again, for instance after a top-up.
//
// A key that this process has seen succeed posts nothing: it answers with the newest state
// of the generation, or, where that can't be read, with the one that the order was answered
// with. Create never says that a paid order is not there: [Error.Unsent] tells only that this
// call has sent nothing, and even a refusal leaves open what others have sent under the key.
func (c *Client) Create(ctx context.Context, cred Credential, order Order) (Receipt, error) {
	if err := ctx.Err(); err != nil {
		return Receipt{}, err
	}
	receipt, sub, run, err := c.orders.open(cred.Tenant, order, until(ctx))
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

// until is how long a caller waits for the outcome of an order: until shortly before its
// deadline, so that the answer still reaches it.
func until(ctx context.Context) time.Time {
	deadline, ok := ctx.Deadline()
	if !ok {
		return time.Now().Add(submitPatience)
	}
	return deadline.Add(-min(time.Until(deadline)/10, 100*time.Millisecond))
}

// Receipt is an order that was placed.
type Receipt struct {
	Generation Generation
	Placed     time.Time // when this process heard first that the order was taken
}

// Close waits for the orders that are on their way. When ctx ends before, it says so and
// lets no further attempt begin: their callers have to send their keys again.
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
		c.orders.end()
		return fmt.Errorf("catalog: orders are still on their way: %w", ctx.Err())
	}
}

// submit makes attempts until the outcome is certain or the time of all callers is over.
func (c *Client) submit(ctx context.Context, cred Credential, order Order, sub *submission, run *submitRun) {
	cred = c.orders.credential(sub, cred)
	g, err := Generation{}, error(nil)
	if order.MaxCostCents != nil && !sub.mayExist {
		err = unsent(c.withinLimit(ctx, cred, order))
	}
	for attempt := 0; err == nil; attempt++ {
		if err = c.orders.begin(sub, run); err != nil {
			break
		}
		if g, err = c.post(numbered(ctx, attempt+1), cred, order); err == nil {
			break
		}
		if err = c.orders.failed(sub, run, err); !tryAgain(err, sub.mayExist) {
			break
		}
		run.pause(c.rest(attempt, err))
		err = nil
	}
	err = sub.certain(err)
	c.ordered(ctx, order, g, err)
	c.orders.finish(sub, run, g, err)
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

// left reports whether an attempt that failed may have reached the catalog: the catalog has
// answered it, or a connection was there.
func left(err error) bool {
	e, ok := errors.AsType[*Error](err)
	if !ok || e.Status != 0 {
		return true
	}
	var op *net.OpError
	dial := errors.As(err, &op) && op.Op == "dial"
	return e.Kind == KindOutcomeUnknown && !dial
}

// orderBook knows what the idempotency keys of recent orders stand for.
type orderBook struct {
	work   sync.WaitGroup
	window time.Duration
	ended  chan struct{} // closed when no further attempt may begin
	ending sync.Once

	mu       sync.Mutex
	orders   map[orderKey]*submission
	finished []*submission // those that succeeded or may have, oldest first
}

func newOrderBook(window time.Duration) *orderBook {
	return &orderBook{window: window, ended: make(chan struct{}), orders: map[orderKey]*submission{}}
}

type orderKey struct {
	tenant Tenant
	key    string
}

// submission is what is known of one key. The goroutine of its run alone writes cred, mayExist
// and begun, under the book's mutex, and so may read them without.
type submission struct {
	id       orderKey
	digest   [sha256.Size]byte
	run      *submitRun // the one under way; nil when there is none
	receipt  *Receipt   // what the key stands for, once that is known
	kept     time.Time  // since when it stands in finished; zero when it does not
	cred     Credential // of every attempt: its API key is the one of the first
	mayExist bool       // an attempt of unknown outcome was made
	begun    time.Time  // when the first of those was
}

// submitRun is one series of attempts, shared by all who sent the key meanwhile.
type submitRun struct {
	book *orderBook
	done chan struct{}

	// Guarded by the book's mutex:
	waiting int
	until   time.Time // when the time of the last caller is over, whether it still waits or not
	led     bool
	sent    bool  // an attempt of this run may have reached the catalog
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

// open finds or makes the submission of a key and joins its run for a caller that waits until
// a time; the run is nil where the key is known to have succeeded, and then the receipt counts.
func (b *orderBook) open(tenant Tenant, order Order, until time.Time) (Receipt, *submission, *submitRun, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	id, digest := orderKey{tenant, order.IdempotencyKey}, order.digest()
	b.forget(time.Now())
	sub := b.orders[id]
	if sub == nil {
		sub = &submission{id: id, digest: digest}
		b.orders[id] = sub
	}
	if sub.digest != digest {
		return Receipt{}, nil, nil, &Error{Kind: KindKeyReused, Op: opCreate, Unsent: true}
	}
	if sub.receipt != nil {
		return *sub.receipt, sub, nil, nil
	}
	if sub.run == nil {
		sub.run = &submitRun{book: b, done: make(chan struct{})}
	}
	sub.run.waiting++
	if until.After(sub.run.until) {
		sub.run.until = until
	}
	return Receipt{}, sub, sub.run, nil
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

// errWindowOver is why an order is not sent again.
var errWindowOver = errors.New("its first attempt is too long ago to send it again: the catalog may have forgotten its idempotency key")

// begin notes that an attempt is on its way, or says why there is none: the time of all callers
// is over, or nobody waits for an order that has not left yet.
func (b *orderBook) begin(sub *submission, run *submitRun) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if run.waiting == 0 && !sub.mayExist || !time.Now().Before(run.until) || b.isEnded() {
		return &Error{Kind: KindOutcomeUnknown, Op: opCreate, Unsent: !sub.mayExist && !run.sent}
	}
	if sub.mayExist && time.Since(sub.begun) >= b.window {
		return &Error{Kind: KindOutcomeUnknown, Op: opCreate, Err: errWindowOver}
	}
	run.last = nil
	return nil
}

// failed notes what an attempt has said, and gives what can be said of the order now.
func (b *orderBook) failed(sub *submission, run *submitRun, err error) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	arrived := left(err)
	run.sent = run.sent || arrived
	if arrived && !sub.mayExist && (KindOf(err) == KindOutcomeUnknown || KindOf(err) == KindInProgress) {
		sub.mayExist, sub.begun = true, time.Now()
	}
	if !run.sent && !sub.mayExist {
		err = unsent(err)
	}
	run.last = sub.certain(err)
	return err
}

// certain keeps a refusal from looking final while an attempt may have been taken: a caller
// that believed it would order again under a new key.
func (s *submission) certain(err error) error {
	if err == nil || !s.mayExist || KindOf(err) == KindOutcomeUnknown || KindOf(err) == KindInProgress {
		return err
	}
	var last *Error
	if !errors.As(err, &last) {
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

// isEnded reports whether no further attempt may begin.
func (b *orderBook) isEnded() bool {
	select {
	case <-b.ended:
		return true
	default:
		return false
	}
}

// end lets no further attempt begin.
func (b *orderBook) end() { b.ending.Do(func() { close(b.ended) }) }

// finish notes the outcome of a run and tells all who wait.
func (b *orderBook) finish(sub *submission, run *submitRun, g Generation, err error) {
	b.mu.Lock()
	if err == nil {
		run.receipt = Receipt{Generation: g, Placed: time.Now()}
		sub.receipt, sub.mayExist, sub.cred = &run.receipt, false, Credential{}
	}
	b.conclude(sub, err)
	b.mu.Unlock()
	run.err = err
	close(run.done)
}

// conclude keeps of a run that is over what later calls must know; mu is held.
func (b *orderBook) conclude(sub *submission, err error) {
	sub.run = nil
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
		if len(b.finished) <= orderCapacity && now.Sub(oldest.kept) < max(orderMemory, 2*b.window) {
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

// pause waits, but no longer than the callers have time: who comes meanwhile may have more.
func (r *submitRun) pause(d time.Duration) {
	for due := time.Now().Add(d); ; {
		now, end := time.Now(), r.end()
		if !now.Before(due) || !now.Before(end) {
			return
		}
		timer := time.NewTimer(min(due.Sub(now), end.Sub(now)))
		select {
		case <-timer.C:
		case <-r.book.ended:
			timer.Stop()
			return
		}
	}
}

// end is when the time of all callers is over.
func (r *submitRun) end() time.Time {
	r.book.mu.Lock()
	defer r.book.mu.Unlock()
	return r.until
}

// wait gives the outcome, or says shortly before ctx ends that it is not known.
func (r *submitRun) wait(ctx context.Context) (Receipt, error) {
	timer := time.NewTimer(time.Until(until(ctx)))
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
	r.waiting--
	e, ok := errors.AsType[*Error](r.last)
	if !ok {
		return &Error{Kind: KindOutcomeUnknown, Op: opCreate, Err: cause}
	}
	last := *e
	last.Unsent = last.Unsent && r.waiting == 0
	return &last
}
