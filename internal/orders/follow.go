package orders

import (
	"context"
	"crypto/rand"
	"sync"
	"time"

	"github.com/easel-grpc/easel/internal/catalog"
	"github.com/easel-grpc/easel/internal/ledger"
	"github.com/easel-grpc/easel/internal/watch"
)

const (
	followEvery  = 2 * time.Second
	followAtMost = 10_000 // generations
	followDuty   = "follow"
)

// Follow watches the generations of those who are told of events, as anybody watches who has a stream, until ctx ends.
// One process does it for all, whose API key the catalog does not reject.
func (o *Orders) Follow(ctx context.Context, held catalog.Credential) {
	f := &followed{orders: o, held: held, holder: rand.Text(), watched: map[string]bool{}}
	defer f.end()
	for sleep(ctx, followEvery) {
		switch owners := o.Ledger.Subscribers(); {
		case o.Catalog.Rejected(held.Tenant):
			f.end()
			f.giveBack(ctx)
		case len(owners) == 0 || !f.onDuty(ctx):
			f.end()
		default:
			f.begin(ctx, owners)
		}
	}
}

// followed are the generations that this process watches for those who are told.
type followed struct {
	orders *Orders
	held   catalog.Credential
	holder string
	until  time.Time // the duty is this process's until then
	work   sync.WaitGroup
	stop   context.CancelFunc // of all watches; nil before the first

	ctx     context.Context //nolint:containedctx // of all watches
	mu      sync.Mutex
	watched map[string]bool
}

// onDuty reports whether this process follows for all. While the ledger is away it goes on with what it has.
func (f *followed) onDuty(ctx context.Context) bool {
	now := time.Now()
	if now.Before(f.until.Add(-ledger.ClaimTime / 2)) {
		return true
	}
	taken, err := f.orders.takeDuty(ctx, followDuty, f.holder, ledger.ClaimTime)
	if taken {
		f.until = now.Add(ledger.ClaimTime)
	}
	return err != nil || taken
}

// giveBack leaves the duty to others, where this process has it.
func (f *followed) giveBack(ctx context.Context) {
	if !f.until.IsZero() {
		f.until = time.Time{}
		_ = f.orders.Ledger.GiveBackDuty(ctx, followDuty, f.holder)
	}
}

// begin watches what is not watched yet.
func (f *followed) begin(ctx context.Context, owners []string) {
	all, err := f.orders.Ledger.Followed(ctx, owners, followAtMost)
	if err != nil {
		return
	}
	if f.stop == nil {
		f.ctx, f.stop = context.WithCancel(ctx)
	}
	for _, id := range all {
		if f.mark(id) {
			f.work.Go(func() { f.watch(id) })
		}
	}
}

// mark notes that a generation is watched, unless it is.
func (f *followed) mark(id string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.watched[id] {
		return false
	}
	f.watched[id] = true
	return true
}

// watch watches a generation until no money can move any more.
func (f *followed) watch(id string) {
	request := watch.Request{Credential: f.held, IDs: []string{id}, Ordered: map[string]bool{id: true}, Goal: watch.Settled}
	_ = f.orders.Hub.Watch(f.ctx, &request, func(watch.Event) error { return nil })
	sleep(f.ctx, settleEvery) // then it is watched again, if the ledger still has it unsettled
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.watched, id)
}

// end ends all watches.
func (f *followed) end() {
	if f.stop != nil {
		f.stop()
		f.work.Wait()
		f.stop = nil
	}
}
