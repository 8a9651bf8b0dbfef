package watch_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/easel-grpc/easel/internal/catalog"
	"github.com/easel-grpc/easel/internal/watch"
)

func (b *bench) setBalance(cents int64) {
	b.up.mu.Lock()
	defer b.up.mu.Unlock()
	b.up.balance = cents
}

func (b *bench) setFailure(err error) {
	b.up.mu.Lock()
	defer b.up.mu.Unlock()
	b.up.fail = err
}

// accountReads gives when the account was read.
func (b *bench) accountReads() []time.Time {
	b.up.mu.Lock()
	defer b.up.mu.Unlock()
	return slices.Clone(b.up.accounts)
}

// attend attends until ctx ends, as a stream about the account does.
func (b *bench) attend(ctx context.Context, cred catalog.Credential) *seen {
	s := &seen{}
	a := b.hub.Attend(ctx, cred)
	go func() {
		defer a.Leave()
		select {
		case err := <-a.Ended():
			s.end(err)
		case <-ctx.Done():
			s.end(ctx.Err())
		}
	}()
	return s
}

func TestAReadOfTheAccountStaysWithinTheBudgetOfRequests(t *testing.T) {
	inBubble(t, map[string]catalog.State{"a": queued}, func(b *bench) {
		throttled := &catalog.Error{Kind: catalog.KindRateLimited, Op: "x", Status: 429, RetryAfter: 90 * time.Second}
		b.setFailure(throttled)
		if _, err := b.hub.ReadAccount(b.ctx, tenant); !errors.Is(err, throttled) {
			b.t.Errorf("while the catalog asks to slow down the answer is %v", err)
		}
		b.setFailure(nil)
		b.setBalance(7)
		began := time.Now()
		account, err := b.hub.ReadAccount(b.ctx, tenant)
		if took := time.Since(began); err != nil || *account.BalanceCents != 7 || took < 90*time.Second || took > 100*time.Second {
			b.t.Errorf("after the pause, and %v, the answer is %v, %v", took, account, err)
		}
		if n := len(b.accountReads()); n != 2 {
			b.t.Errorf("the account was read %d times", n)
		}
	})
}

func TestWhoeverAsksForTheAccountMeanwhileSharesTheNextRead(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		b.up.delay = 3 * time.Second
		answers := make(chan int64, 21)
		ask := func() {
			account, err := b.hub.ReadAccount(b.ctx, tenant)
			if err != nil {
				b.t.Errorf("the answer is %v", err)
				return
			}
			answers <- *account.BalanceCents
		}
		go ask()
		pass(time.Second)
		for range 20 {
			go ask()
		}
		pass(2 * time.Second)
		b.setBalance(5)
		pass(10 * time.Second)
		if n := len(b.accountReads()); n != 2 || len(answers) != 21 {
			b.t.Errorf("%d reads, and %d answers", n, len(answers))
		}
		<-answers
		for len(answers) > 0 {
			if got := <-answers; got != 5 {
				b.t.Errorf("a read that began later gives %d", got)
			}
		}
	})
}

func TestAReadOfTheAccountThatNobodyWaitsForEndsAlone(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		b.up.delay = 3 * time.Second
		gone := errors.New("gone")
		ctx, cancel := context.WithCancelCause(b.ctx)
		time.AfterFunc(time.Second, func() { cancel(gone) })
		if _, err := b.hub.ReadAccount(ctx, tenant); !errors.Is(err, gone) {
			b.t.Errorf("the answer is %v", err)
		}
		pass(time.Minute)
		if n := b.hub.Stats().Pollers; n != 0 || len(b.accountReads()) != 1 {
			b.t.Errorf("%d pollers, and %d reads", n, len(b.accountReads()))
		}
	})
}

func TestAnAttendanceKeepsThePollerAndCountsAsAWatch(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		ctx, leave := context.WithCancel(b.ctx)
		left := b.attend(ctx, tenant)
		if _, err := b.hub.ReadAccount(b.ctx, tenant); err != nil {
			b.t.Fatal(err)
		}
		pass(time.Hour)
		if s := b.hub.Stats(); s.Pollers != 1 || s.Watches != 1 || len(b.accountReads()) != 1 {
			b.t.Errorf("%+v, and %d reads", s, len(b.accountReads()))
		}
		a := b.hub.Attend(b.ctx, tenant)
		if beat := a.Standing(); beat.Condition != watch.ConditionHealthy || beat.ObserveTime.IsZero() {
			b.t.Errorf("an hour after the read the standing is %+v", beat)
		}
		a.Leave()
		leave()
		pass(time.Minute)
		b.wantEnd(left, context.Canceled)
		if s := b.hub.Stats(); s.Pollers != 0 || s.Watches != 0 {
			b.t.Errorf("nobody attends: %+v", s)
		}
	})
}

func TestAnAttendanceEndsWithTheWatches(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		held := catalog.Held(func() catalog.Secret { return catalog.NewSecret("held") })
		forwarded, other := b.attend(b.ctx, tenant), b.attend(b.ctx, held)
		rejected := &catalog.Error{Kind: catalog.KindCredentialRejected, Op: "GET /account", Status: 401}
		b.setFailure(rejected)
		for _, cred := range []catalog.Credential{tenant, held} {
			if _, err := b.hub.ReadAccount(b.ctx, cred); !errors.Is(err, rejected) {
				b.t.Errorf("the answer is %v", err)
			}
		}
		pass(time.Second)
		b.wantEnd(forwarded, rejected)
		if ended, _ := other.done(); ended {
			b.t.Error("what attends under the held API key has ended")
		}
		a := b.hub.Attend(b.ctx, held)
		if beat := a.Standing(); beat.Condition != watch.ConditionCredentialRejected || beat.NextPoll.IsZero() {
			b.t.Errorf("the standing is %+v", beat)
		}
		a.Leave()
		b.hub.Drain()
		pass(0)
		late := b.attend(b.ctx, held)
		pass(0)
		b.wantEnd(other, watch.ErrDraining)
		b.wantEnd(late, watch.ErrDraining)
	})
}
