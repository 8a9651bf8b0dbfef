package orders

import (
	"context"
	"crypto/rand"
	"slices"
	"time"

	"go.opentelemetry.io/otel/attribute"

	"github.com/easel-grpc/easel/internal/catalog"
	"github.com/easel-grpc/easel/internal/ledger"
)

const (
	settleEvery  = time.Minute
	settleClaim  = settleEvery + ledger.ClaimTime // how long a replica settles for all that says nothing more
	settleReads  = 10                             // single reads each time, beside one list
	settleQuiet  = settleEvery / 2                // what was seen later is not looked at
	settleAtMost = 1000                           // orders that one list may serve
	settleTime   = 30 * time.Second               // of one request
	settleRests  = 2                              // times that a replica leaves it to others which has failed
	settleFails  = 3                              // orders in a row that the ledger does not take, before it is left alone
	settleAvoid  = 10 * time.Minute               // how long an order is left alone that can't be looked at
	settleDuty   = "settle"
)

// Settle follows orders until no money of theirs can move any more, also where nobody watches, until ctx ends. One
// replica does it for all at a time: with at most one list and ten single reads a minute, those first that nobody has
// looked at for longest. One that can't, as its API key is rejected, leaves it to the others.
func (o *Orders) Settle(ctx context.Context, held catalog.Credential) {
	rest := 0 // times that it is left to others
	for holder := rand.Text(); sleep(ctx, settleEvery); {
		if rest > 0 {
			rest--
			continue
		}
		if o.Ledger.AccountUnknown.Load() { // another account has none of the generations
			continue
		}
		taken, err := o.takeDuty(ctx, settleDuty, holder, settleClaim)
		if err == nil && taken && o.settle(ctx, held) != nil {
			rest = settleRests
			_ = o.Ledger.GiveBackDuty(ctx, settleDuty, holder)
		}
	}
}

// takeDuty takes work on that one replica does for all.
func (o *Orders) takeDuty(ctx context.Context, name, holder string, d time.Duration) (taken bool, err error) {
	taken, err = o.Ledger.TakeDuty(ctx, name, holder, d)
	o.Logger.DebugContext(ctx, "a duty is claimed", "duty", name, "granted", taken, "error", err)
	return taken, err
}

// settle looks once at what is due. A catalog or ledger that fails is left alone until the next time.
func (o *Orders) settle(ctx context.Context, held catalog.Credential) error {
	due, err := o.Ledger.Due(ctx, settleQuiet, settleAtMost)
	if err != nil {
		return err
	}
	due = slices.DeleteFunc(due, func(one ledger.Due) bool {
		until, avoided := o.avoided.get(one.Generation)
		return avoided && time.Now().Before(until)
	})
	if len(due) == 0 {
		return nil
	}
	ctx, span := traced(ctx, "settle", attribute.Int("easel.settle.size", len(due)))
	defer span.End()
	look := &look{orders: o, held: held}
	if len(due) > settleReads {
		if due, err = look.list(ctx, due); err != nil {
			return err
		}
	}
	for _, one := range due[:min(len(due), settleReads)] {
		if err := look.read(ctx, one); err != nil {
			return err
		}
	}
	return nil
}

// look is one look at what is due.
type look struct {
	orders    *Orders
	held      catalog.Credential
	witnessed bool // the catalog has answered under the API key in this look
	failures  int  // orders in a row that the ledger has not taken
}

// list looks at generations by one list, and gives those that have to be read singly: the list need not have
// them, may leave out what they cost, and may lag behind at the end of a refund window.
func (l *look) list(ctx context.Context, due []ledger.Due) (rest []ledger.Due, err error) {
	o := l.orders
	ctx, cancel := context.WithTimeout(ctx, settleTime)
	defer cancel()
	listed, err := o.Catalog.Polls().List(ctx, l.held, time.Time{})
	switch {
	case leaveAlone(err):
		return nil, err
	case err != nil: // a list that can't be had, now or ever: single reads may be
		return due, nil
	}
	l.witnessed = true
	for _, one := range due {
		v, ok := listed.Find(one.Generation)
		if !ok || one.Last || leavesOut(v, o.Ledger.IsSubscriber(one.Owner)) {
			rest = append(rest, one)
			continue
		}
		if err := l.observe(ctx, v.ID, o.observation(l.held, v, false)); err != nil {
			return nil, err
		}
	}
	return rest, nil
}

// leavesOut reports whether the record of a list leaves out what a generation that has ended has cost or, where its
// owner is told, how it has ended.
func leavesOut(v catalog.Version, told bool) bool {
	return v.State.Terminal() && (v.CostCents == nil || told && isShort(v))
}

// isShort reports whether the record of a list leaves out how a generation has ended.
func isShort(v catalog.Version) bool {
	return v.State == catalog.StateSucceeded && v.File == nil && v.Text == nil || v.State == catalog.StateFailed && v.FailureMessage == ""
}

// read looks at one generation, and lets its watchers have what it reads.
func (l *look) read(ctx context.Context, one ledger.Due) error {
	o := l.orders
	ctx, cancel := context.WithTimeout(ctx, settleTime)
	defer cancel()
	cred := l.held
	cred.Owner = one.Owner
	read, err := o.Catalog.Polls().Generation(ctx, cred, one.Generation)
	switch {
	case catalog.IsAbsent(err):
		_, err := o.absent(ctx, cred, one.Generation, l.witness(ctx))
		return l.goOn(one.Generation, err)
	case err != nil && !l.witness(ctx):
		return err
	case err != nil: // of this one alone: others may be read
		o.avoid(one.Generation)
		return nil
	}
	l.witnessed = true
	o.Hub.Observe(ctx, cred, read)
	seen := o.observation(cred, read, false)
	seen.Whole = true
	return l.observe(ctx, one.Generation, seen)
}

func (l *look) observe(ctx context.Context, id string, seen ledger.Observation) error {
	seen.AtOnce = true
	_, err := l.orders.observe(ctx, id, seen)
	return l.goOn(id, err)
}

// goOn goes on after an order that the ledger has not taken, as one that somebody has locked, unless it takes none.
func (l *look) goOn(id string, err error) error {
	if err == nil {
		l.failures = 0
		return nil
	}
	l.orders.avoid(id)
	if l.failures++; l.failures < settleFails {
		return nil
	}
	return err
}

// avoid leaves a generation alone for a while that can't be looked at, so that it keeps no others waiting.
func (o *Orders) avoid(id string) { o.avoided.put(id, time.Now().Add(settleAvoid)) }

// witness reports whether the catalog answers another read under the API key, which it makes where none was made yet.
func (l *look) witness(ctx context.Context) bool {
	if !l.witnessed {
		_, err := l.orders.Catalog.Polls().Account(ctx, l.held)
		l.witnessed = err == nil
	}
	return l.witnessed
}

// leaveAlone reports whether an error of one read says that the others would fail too.
func leaveAlone(err error) bool {
	return isOutage(err) || catalog.KindOf(err) == catalog.KindCredentialRejected
}
