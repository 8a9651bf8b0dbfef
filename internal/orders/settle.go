package orders

import (
	"context"
	"crypto/rand"
	"slices"
	"time"

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
)

// Settle follows orders until no money of theirs can move any more, also where nobody watches, until ctx ends. One
// replica does it for all: with at most one list and ten single reads a minute, those first that nobody has looked at
// for longest.
func (o *Orders) Settle(ctx context.Context, held catalog.Credential) {
	for holder := rand.Text(); sleep(ctx, settleEvery); {
		taken := false
		err := ask(ctx, func(ctx context.Context) (err error) {
			taken, err = o.Ledger.TakeDuty(ctx, "settle", holder, settleClaim)
			return err
		})
		if err == nil && taken {
			o.settle(ctx, held)
		}
	}
}

// settle looks once at what is due. A catalog or ledger that fails is left alone until the next time.
func (o *Orders) settle(ctx context.Context, held catalog.Credential) {
	var due []ledger.Due
	err := ask(ctx, func(ctx context.Context) (err error) {
		due, err = o.Ledger.Due(ctx, settleQuiet, settleAtMost)
		return err
	})
	if err != nil {
		return
	}
	if len(due) > settleReads {
		if due, err = o.settleListed(ctx, held, due); err != nil {
			return
		}
	}
	for _, one := range due[:min(len(due), settleReads)] {
		if err := o.settleRead(ctx, held, one); err != nil {
			return
		}
	}
}

// settleListed looks at generations by one list, and gives those that have to be read singly: the list need not have
// them, may leave out what they cost, and may lag behind at the end of a refund window.
func (o *Orders) settleListed(ctx context.Context, held catalog.Credential, due []ledger.Due) (rest []ledger.Due, err error) {
	ctx, cancel := context.WithTimeout(ctx, settleTime)
	defer cancel()
	list, err := o.Catalog.Once().Generations(ctx, held)
	o.Called(held, err)
	switch {
	case leaveAlone(err):
		return nil, err
	case err != nil: // a list that can't be had, now or ever: single reads may be
		return due, nil
	}
	listed, told := make(map[string]catalog.Version, len(list)), o.Told()
	for _, v := range list {
		listed[v.ID] = v
	}
	for _, one := range due {
		v, ok := listed[one.Generation]
		if !ok || one.Last || leavesOut(v, slices.Contains(told, one.Owner)) {
			rest = append(rest, one)
			continue
		}
		if err := o.observe(ctx, v.ID, o.observation(held, v, false)); err != nil {
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

// settleRead looks at one generation, and lets its watchers have what it reads.
func (o *Orders) settleRead(ctx context.Context, held catalog.Credential, one ledger.Due) error {
	ctx, cancel := context.WithTimeout(ctx, settleTime)
	defer cancel()
	held.Owner = one.Owner
	read, err := o.Catalog.Once().Generation(ctx, held, one.Generation)
	o.Called(held, err)
	switch {
	case catalog.KindOf(err) == catalog.KindNotFound: // for long enough, else it would not be due
		o.Gone(ctx, held, one.Generation)
		return o.observe(ctx, one.Generation, o.observation(held, catalog.Generation{State: catalog.StateDeleted}.Version(), true))
	case leaveAlone(err):
		return err
	case err != nil: // an answer that can't be read, now or ever: others may be
		return o.observe(ctx, one.Generation, ledger.Observation{})
	}
	o.Share(ctx, held, read)
	return o.observe(ctx, one.Generation, o.observation(held, read, false))
}

// leaveAlone reports whether an error of one read says that the others would fail too.
func leaveAlone(err error) bool {
	return isOutage(err) || catalog.KindOf(err) == catalog.KindCredentialRejected
}
