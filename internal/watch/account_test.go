package watch_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/easel-grpc/easel/internal/catalog"
	"github.com/easel-grpc/easel/internal/watch"
)

// accountSeen is what a watcher of the account got.
type accountSeen struct {
	seen
	accounts []watch.AccountUpdate
}

func (s *accountSeen) add(event watch.Event) error {
	s.mu.Lock()
	if event.Account != nil {
		s.accounts = append(s.accounts, *event.Account)
	}
	s.mu.Unlock()
	return s.seen.add(event)
}

func (s *accountSeen) balances() (all []int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, u := range s.accounts {
		all = append(all, *u.Account.BalanceCents)
	}
	return all
}

func (s *accountSeen) budgets() (all []any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, u := range s.accounts {
		all = append(all, u.Budgets)
	}
	return all
}

func (b *bench) watchAccount(ctx context.Context, req watch.AccountRequest) *accountSeen {
	if req.Credential.Tenant == "" {
		req.Credential = tenant
	}
	s := &accountSeen{}
	go func() { s.end(b.hub.WatchAccount(ctx, req, s.add)) }()
	return s
}

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

// wantApart wants two reads of the account to be at least 10 s and at most a minute apart.
func (b *bench) wantApart() {
	b.t.Helper()
	reads := b.accountReads()
	for n := 1; n < len(reads); n++ {
		if gap := reads[n].Sub(reads[n-1]); gap < 10*time.Second || gap > time.Minute {
			b.t.Errorf("the account was read %v after the last time", gap)
		}
	}
}

func (b *bench) wantBalances(s *accountSeen, want ...int64) {
	b.t.Helper()
	if got := s.balances(); !slices.Equal(got, want) {
		b.t.Errorf("balances delivered: %v, want %v", got, want)
	}
}

// ledger is what budgets are read from.
type ledger struct {
	mu    sync.Mutex
	spent int
	err   error
	reads []time.Time
}

func (l *ledger) read(context.Context) (any, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.reads = append(l.reads, time.Now())
	return []int{l.spent}, l.err
}

func (l *ledger) set(spent int, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.spent, l.err = spent, err
}

func (l *ledger) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.reads)
}

func TestAWatchOfTheAccountGetsTheBalanceAtOnceAndEachChange(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		b.setBalance(500)
		pass(time.Minute)
		if n := len(b.accountReads()); n != 0 {
			b.t.Errorf("nobody watches, and the account was read %d times", n)
		}
		s := b.watchAccount(b.ctx, watch.AccountRequest{Balance: true})
		pass(0)
		b.wantBalances(s, 500)
		b.setBalance(400) // in the catalog's own studio
		pass(time.Minute)
		b.wantBalances(s, 500, 400)
		if s.accounts[1].Initial || !s.accounts[0].Initial {
			b.t.Error("the first update alone is initial")
		}
		if n := len(s.look().heartbeats); n < 3 {
			b.t.Errorf("%d heartbeats in a minute", n)
		}
		pass(10 * time.Minute)
		b.wantBalances(s, 500, 400)
		if n := len(b.accountReads()); n < 11 || n > 14 {
			b.t.Errorf("%d reads in eleven minutes", n)
		}
		b.wantApart()
	})
}

func TestTheBalanceIsReadSoonAfterAnOrderAndARefund(t *testing.T) {
	inBubble(t, map[string]catalog.State{"a": failed}, func(b *bench) {
		s := b.watchAccount(b.ctx, watch.AccountRequest{Balance: true})
		render := b.watchWith(b.ctx, watch.Request{IDs: []string{"a"}, Goal: watch.Settled})
		pass(30 * time.Second)
		b.setBalance(-7)
		b.hub.Ordered(tenant)
		pass(0)
		b.wantBalances(s, 0, -7) // the last read is more than 10 s ago
		for n := range 30 {
			b.setBalance(int64(n))
			b.hub.Ordered(tenant)
			pass(time.Second)
		}
		pass(10 * time.Second)
		if got := s.balances(); len(got) > 6 || got[len(got)-1] != 29 {
			b.t.Errorf("balances delivered: %v", got)
		}
		reads := len(b.accountReads())
		b.up.set("a", refunded)
		pass(20 * time.Second)
		b.wantStates(render, "failed", "refunded")
		if len(b.accountReads()) == reads {
			b.t.Error("the account was not read after a refund")
		}
		b.wantApart()
	})
}

func TestAnOrderDuringAReadOfTheBalanceHasItReadAgain(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		b.up.delay = 3 * time.Second
		s := b.watchAccount(b.ctx, watch.AccountRequest{Balance: true})
		pass(time.Second)
		b.hub.Ordered(tenant)
		pass(2 * time.Second)
		b.setBalance(-5)
		pass(11 * time.Second)
		b.wantBalances(s, 0, -5)
		b.wantApart()
	})
}

func TestWatchersOfAnAccountCostTheReadsOfOne(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		owners := map[string]*ledger{"red": {}, "blue": {}}
		for range 50 {
			for owner, book := range owners {
				cred := tenant
				cred.Owner = owner
				b.watchAccount(b.ctx, watch.AccountRequest{Credential: cred, Balance: true, Budgets: book.read})
				pass(100 * time.Millisecond)
			}
		}
		pass(50 * time.Second)
		if n := len(b.accountReads()); n > 3 {
			b.t.Errorf("the account was read %d times in a minute", n)
		}
		for owner, book := range owners {
			if n := book.count(); n < 11 || n > 13 {
				b.t.Errorf("the budgets of %s were read %d times in a minute", owner, n)
			}
		}
	})
}

func TestCallersThatComeAndGoCostNoMoreThanOneThatStays(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		book := &ledger{}
		for range 60 {
			ctx, cancel := context.WithCancel(b.ctx)
			s := b.watchAccount(ctx, watch.AccountRequest{Balance: true, Budgets: book.read})
			pass(500 * time.Millisecond)
			b.wantBalances(s, 0)
			cancel()
			pass(500 * time.Millisecond)
		}
		if n := book.count(); n > 13 {
			b.t.Errorf("the budgets were read %d times in a minute", n)
		}
		b.wantApart()
		pass(time.Minute)
		reads := len(b.accountReads())
		pass(10 * time.Minute)
		if b.hub.Stats().Pollers != 0 || len(b.accountReads()) != reads {
			b.t.Error("nobody watches, and there still is a poller")
		}
	})
}

func TestAWatcherWithoutTheBalanceGetsChangesOfBudgetsAlone(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		book := &ledger{spent: 1}
		s := b.watchAccount(b.ctx, watch.AccountRequest{Budgets: book.read})
		pass(time.Second)
		b.setBalance(900)
		pass(2 * time.Minute)
		book.set(2, nil)
		pass(6 * time.Second)
		book.set(3, errors.New("away"))
		pass(time.Minute)
		if got := s.budgets(); len(got) != 2 {
			b.t.Errorf("budgets delivered: %v", got)
		}
		beats := s.look().heartbeats
		if last := beats[len(beats)-1]; last.LastError == "" || !last.Own || last.Condition != watch.ConditionHealthy {
			b.t.Errorf("while the ledger is away a heartbeat says %+v", last)
		}
		book.set(3, nil)
		pass(6 * time.Second)
		if got := s.budgets(); len(got) != 3 {
			b.t.Errorf("budgets delivered: %v", got)
		}
	})
}

func TestTheFirstUpdateWaitsForBalanceAndBudgets(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		book := &ledger{err: errors.New("away")}
		b.setFailure(&catalog.Error{Kind: catalog.KindUnavailable, Op: "GET /account"})
		s := b.watchAccount(b.ctx, watch.AccountRequest{Balance: true, Budgets: book.read})
		pass(40 * time.Second)
		b.wantBalances(s)
		beats := s.look().heartbeats
		if last := beats[len(beats)-1]; last.Condition != watch.ConditionUnreachable || last.Failures < 2 || last.LastError == "" {
			b.t.Errorf("in an outage a heartbeat says %+v", last)
		}
		b.setFailure(nil)
		pass(time.Minute)
		b.wantBalances(s)
		book.set(4, nil)
		pass(6 * time.Second)
		b.wantBalances(s, 0)
		b.wantApart()
	})
}

func TestARejectedAPIKeyEndsAWatchOfTheAccountUnlessItIsHeld(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		held := catalog.Held(func() catalog.Secret { return catalog.NewSecret("held") })
		forwarded := b.watchAccount(b.ctx, watch.AccountRequest{})
		other := b.watchAccount(b.ctx, watch.AccountRequest{Credential: held})
		pass(time.Second)
		rejected := &catalog.Error{Kind: catalog.KindCredentialRejected, Op: "GET /account", Status: 401}
		b.setFailure(rejected)
		pass(time.Minute)
		b.wantEnd(&forwarded.seen, rejected)
		if ended, _ := other.done(); ended {
			b.t.Error("the watch under the held API key has ended")
		}
		beats := other.look().heartbeats
		if last := beats[len(beats)-1]; last.Condition != watch.ConditionCredentialRejected {
			b.t.Errorf("a heartbeat says %+v", last)
		}
	})
}

func TestAWatchOfTheAccountEndsByDrainAgeStallAndItsCaller(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		aged := b.watchAccount(b.ctx, watch.AccountRequest{Until: time.Now().Add(20 * time.Second)})
		ctx, leave := context.WithCancel(b.ctx)
		left := b.watchAccount(ctx, watch.AccountRequest{})
		free, stalled := make(chan struct{}), &accountSeen{}
		go func() {
			stalled.end(b.hub.WatchAccount(b.ctx, watch.AccountRequest{Credential: tenant}, func(watch.Event) error {
				<-free
				return nil
			}))
		}()
		pass(19 * time.Second)
		leave()
		pass(0)
		b.wantEnd(&left.seen, context.Canceled)
		pass(12 * time.Second)
		b.wantEnd(&aged.seen, watch.ErrExpired)
		b.wantEnd(&stalled.seen, watch.ErrStalled)
		close(free)
		open := b.watchAccount(b.ctx, watch.AccountRequest{})
		pass(time.Second)
		b.hub.Drain()
		pass(0)
		late := b.watchAccount(b.ctx, watch.AccountRequest{})
		pass(0)
		b.wantEnd(&open.seen, watch.ErrDraining)
		b.wantEnd(&late.seen, watch.ErrDraining)
	})
}

func TestReadsOfTheAccountStayWithinTheBudgetOfRequests(t *testing.T) {
	inBubble(t, map[string]catalog.State{"a": queued}, func(b *bench) {
		b.setFailure(&catalog.Error{Kind: catalog.KindRateLimited, Op: "x", Status: 429, RetryAfter: 90 * time.Second})
		book := &ledger{spent: 1}
		s := b.watchAccount(b.ctx, watch.AccountRequest{Balance: true, Budgets: book.read})
		pass(time.Second)
		b.setFailure(nil)
		asked := len(b.accountReads())
		b.hub.Ordered(tenant)
		pass(80 * time.Second)
		if n := len(b.accountReads()); n != asked || book.count() < 10 {
			b.t.Errorf("%d reads of the account in a pause, %d of the budgets", n-asked, book.count())
		}
		pass(30 * time.Second)
		b.wantBalances(s, 0)
	})
}
