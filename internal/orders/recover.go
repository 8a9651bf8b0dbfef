package orders

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/easel-grpc/easel/internal/catalog"
	"github.com/easel-grpc/easel/internal/ledger"
)

const (
	recoverEvery   = 2 * time.Second  // how often the ledger is asked for orders that nobody comes back for
	recoverAtMost  = 8                // of them at once
	resendTime     = 15 * time.Second // for the attempts of one
	outagePauseMax = 15 * time.Second // between two of them while the catalog does not answer
)

// Recover sends the orders of unknown outcome again that nobody comes back for, until ctx ends: each by
// one replica at a time, with its stored idempotency key and bytes, under the API key of its first attempt. While
// the catalog does not answer, one order at a time asks for all.
func (o *Orders) Recover(ctx context.Context, held catalog.Credential) {
	var resends sync.WaitGroup
	defer resends.Wait()
	places, outage := make(chan struct{}, recoverAtMost), &outage{}
	for sleep(ctx, outage.pause(recoverEvery)) {
		for o.resumeNext(ctx, held, places, outage, &resends) {
		}
	}
}

// resumeNext begins to send one order again. It reports whether another may follow at once.
func (o *Orders) resumeNext(ctx context.Context, held catalog.Credential, places chan struct{}, outage *outage, resends *sync.WaitGroup) bool {
	select {
	case places <- struct{}{}:
	case <-ctx.Done():
		return false
	}
	order, found, err := o.resume(ctx, held.APIKeySum())
	if err != nil || !found {
		<-places
		return false // where the ledger is away, its callers say so
	}
	resend := func() {
		defer func() { <-places }()
		outage.note(o.resend(ctx, held, order))
	}
	if outage.lasts() {
		resend()
		return !outage.lasts()
	}
	resends.Go(resend)
	return true
}

func (o *Orders) resume(ctx context.Context, apiKey string) (order ledger.Order, found bool, err error) {
	err = ask(ctx, func(ctx context.Context) error {
		order, found, err = o.Ledger.Resume(ctx, apiKey)
		return err
	})
	return order, found, err
}

// resend sends an order again whose claim was taken.
func (o *Orders) resend(ctx context.Context, held catalog.Credential, order ledger.Order) error {
	held.Owner = order.Owner
	ctx, cancel := context.WithTimeout(ctx, resendTime)
	defer cancel()
	digest, err := hex.DecodeString(order.Digest)
	if err != nil || len(digest) != len(catalog.Order{}.Digest) {
		return nil // the book has another kind of digest, and its caller alone can send the order
	}
	e := &entry{
		orders: o, order: order, claim: order.Claims,
		asked: Request{ModelID: order.ModelID, Inputs: json.RawMessage(order.Inputs)},
		request: ledger.Request{
			Namespace: order.Namespace, Owner: order.Owner, Caller: order.Caller, IdempotencyKey: order.IdempotencyKey,
			UpstreamKey: order.UpstreamKey, ModelID: order.ModelID, Inputs: order.Inputs, Digest: order.Digest,
		},
	}
	_, err = o.create(ctx, held, e, nil, [32]byte(digest))
	return err
}

// outage tells whether the catalog answers.
type outage struct {
	mu       sync.Mutex
	failures int // of orders in a row that were not answered
}

// note learns from the end of an order.
func (o *outage) note(err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if isOutage(err) {
		o.failures++
		return
	}
	o.failures = 0
}

// isOutage reports whether an error says that the catalog does not answer, or wants to be left alone.
func isOutage(err error) bool {
	var upstream *catalog.Error
	return errors.As(err, &upstream) && (upstream.Status == 0 || upstream.Status == http.StatusTooManyRequests || upstream.Status >= 500)
}

func (o *outage) lasts() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.failures > 0
}

// pause is how long to wait for the next order.
func (o *outage) pause(least time.Duration) time.Duration {
	o.mu.Lock()
	defer o.mu.Unlock()
	return min(least<<min(o.failures, 10), outagePauseMax)
}

// sleep waits, and reports whether ctx goes on.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
