package server

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/codes"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/gate"
	"github.com/easel-grpc/easel/internal/service"
)

const (
	// proofWait is how long a call waits for the proof of its API key, and proofTime how long a proof may take.
	proofWait, proofTime = 2 * time.Second, 5 * time.Second
	// rejectedFor is how long a rejected API key is remembered.
	rejectedFor = 5 * time.Second
	// So many proofs are made at a time, and for one address.
	proofsAtOnce, proofsOfAddress = 8, 4
)

// proofs prove API keys that callers forward and that the catalog has not accepted lately: by one read for all calls that
// wait for an API key. The addresses that API keys come from take turns.
type proofs struct {
	prove func(context.Context) error
	vouch func(ctx context.Context, failed error) bool // see [Service]
	turns *gate.Gate
	work  sync.WaitGroup
	ctx   context.Context //nolint:containedctx // of all proofs: none runs on a caller's context
	stop  context.CancelFunc

	mu  sync.Mutex
	all map[string]*proof // by API key: under way, or lately rejected
}

// proof is that of one API key.
type proof struct {
	asked   atomic.Bool // the catalog was
	waiting int         // calls
	cancel  context.CancelFunc
	done    chan struct{}
	err     error // once it is done
}

func newProofs(prove func(context.Context) error, vouch func(context.Context, error) bool) *proofs {
	p := &proofs{prove: prove, vouch: vouch, turns: gate.New(gate.Config{Places: [gate.Classes]int{proofsAtOnce}, OwnerPlaces: proofsOfAddress}), all: map[string]*proof{}}
	p.ctx, p.stop = context.WithCancel(context.Background()) //nolint:gosec // close calls it
	return p
}

// close ends all proofs, and waits for them.
func (p *proofs) close() {
	p.stop()
	p.work.Wait()
}

// rejected is why an API key was rejected lately; nil where it was not.
func (p *proofs) rejected(apiKey string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if one := p.all[apiKey]; one != nil {
		select {
		case <-one.done:
			return one.err
		default:
		}
	}
	return nil
}

// wait waits for the proof of the API key of a call, or for half the time where somebody vouches for it: that it may get no
// turn among API keys that are made up, and no answer in an outage, is no reason to refuse it.
func (p *proofs) wait(ctx context.Context, apiKey, address string) error {
	soon, late := time.NewTimer(proofWait/2), time.NewTimer(proofWait)
	defer soon.Stop()
	defer late.Stop()
	one := p.join(ctx, apiKey, address)
	defer p.leave(one, apiKey)
	for {
		select {
		case <-one.done:
			if one.err != nil && p.vouch(ctx, one.err) {
				return nil
			}
			return one.err
		case <-ctx.Done():
			return ctx.Err()
		case <-soon.C:
			if p.vouch(ctx, nil) {
				return nil
			}
		case <-late.C:
			return one.missed()
		}
	}
}

// missed is the error of a call that has waited in vain: for an answer of the catalog, or for a turn to ask it.
func (p *proof) missed() error {
	if p.asked.Load() {
		return service.Fail(easelv1.ErrorReason_UPSTREAM_UNAVAILABLE, "the catalog has not answered whether it accepts this API key, which is new here", retryInfo(time.Second))
	}
	return overload("too many API keys are new here", time.Second)
}

// join gives the proof of an API key that is under way, or begins one.
func (p *proofs) join(ctx context.Context, apiKey, address string) *proof {
	p.mu.Lock()
	defer p.mu.Unlock()
	one := p.all[apiKey]
	if one == nil {
		one = &proof{done: make(chan struct{})}
		ctx, one.cancel = context.WithTimeout(context.WithoutCancel(ctx), proofTime)
		p.all[apiKey] = one
		p.work.Go(func() { p.run(ctx, one, apiKey, address) })
	}
	one.waiting++
	return one
}

// leave gives up a proof that nobody waits for any more, unless the catalog was asked.
func (p *proofs) leave(one *proof, apiKey string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if one.waiting--; one.waiting > 0 || one.asked.Load() {
		return
	}
	one.cancel()
	if p.all[apiKey] == one {
		delete(p.all, apiKey)
	}
}

// run makes a proof when its turn has come.
func (p *proofs) run(ctx context.Context, one *proof, apiKey, address string) {
	defer one.cancel()
	defer context.AfterFunc(p.ctx, one.cancel)() //nolint:contextcheck // no caller ends a proof that others wait for
	turn, err := p.turns.Enter(ctx, gate.Request{Owner: address})
	if err == nil {
		one.asked.Store(true)
		err = p.prove(ctx)
		turn.End(gate.Answer{})
	}
	if err != nil && (turn == nil || ctx.Err() != nil) {
		err = one.missed() // the time of a proof is no caller's
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	one.err = err
	close(one.done)
	switch {
	case p.all[apiKey] != one: // it was given up
	case service.Status(err).Code() == codes.Unauthenticated:
		time.AfterFunc(rejectedFor, func() {
			p.mu.Lock()
			defer p.mu.Unlock()
			delete(p.all, apiKey)
		})
	default:
		delete(p.all, apiKey)
	}
}
