package orders

import (
	"context"
	"crypto/rand"
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
	if err != nil {
		return nil, err
	}
	listed := make(map[string]catalog.Version, len(list))
	for _, v := range list {
		listed[v.ID] = v
	}
	for _, one := range due {
		v, ok := listed[one.Generation]
		if !ok || one.Last || v.State.Terminal() && v.CostCents == nil {
			rest = append(rest, one)
			continue
		}
		if err := o.observe(ctx, v.ID, observation(held, v, false)); err != nil {
			return nil, err
		}
	}
	return rest, nil
}

// settleRead looks at one generation, and lets its watchers have what it reads.
func (o *Orders) settleRead(ctx context.Context, held catalog.Credential, one ledger.Due) error {
	ctx, cancel := context.WithTimeout(ctx, settleTime)
	defer cancel()
	held.Owner = one.Owner
	read, err := o.Catalog.Once().Generation(ctx, held, one.Generation)
	o.Called(held, err)
	switch {
	case catalog.KindOf(err) == catalog.KindNotFound:
		return o.observe(ctx, one.Generation, observation(held, catalog.Generation{State: catalog.StateDeleted}.Version(), true))
	case isOutage(err), catalog.KindOf(err) == catalog.KindCredentialRejected:
		return err
	case err != nil: // an answer that can't be read, now or ever: others may be
		return o.observe(ctx, one.Generation, ledger.Observation{})
	}
	o.Share(ctx, held, read)
	return o.observe(ctx, one.Generation, observation(held, read, false))
}
