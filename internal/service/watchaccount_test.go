package service

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/callers"
	"github.com/easel-grpc/easel/internal/catalog"
	"github.com/easel-grpc/easel/internal/ledger"
	"github.com/easel-grpc/easel/internal/orders"
	"github.com/easel-grpc/easel/internal/watch"
)

// till is a catalog that has an account and nothing else.
type till struct {
	mu      sync.Mutex
	balance int64
	fail    error
	delay   time.Duration
	reads   []time.Time
}

func (c *till) Account(ctx context.Context, _ catalog.Credential) (catalog.Account, error) {
	c.mu.Lock()
	c.reads = append(c.reads, time.Now())
	delay := c.delay
	c.mu.Unlock()
	select {
	case <-time.After(delay):
	case <-ctx.Done():
		return catalog.Account{}, ctx.Err()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	balance := c.balance
	return catalog.Account{BalanceCents: &balance, ObserveTime: time.Now()}, c.fail
}

func (c *till) Generation(context.Context, catalog.Credential, string) (catalog.Version, error) {
	return catalog.Version{}, errors.New("nobody watches one")
}

func (c *till) List(context.Context, catalog.Credential, time.Time) (*catalog.List, error) {
	return nil, errors.New("nobody watches one")
}

func (c *till) with(f func(c *till)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f(c)
}

func (c *till) setBalance(cents int64) { c.with(func(c *till) { c.balance = cents }) }

func (c *till) setFailure(err error) { c.with(func(c *till) { c.fail = err }) }

func (c *till) asked() (reads []time.Time) {
	c.with(func(c *till) { reads = slices.Clone(c.reads) })
	return reads
}

// purse is what budgets are read from.
type purse struct {
	mu    sync.Mutex
	spent int64
	err   error
	reads int
}

func (p *purse) read(context.Context) ([]ledger.Budget, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.reads++
	if p.err != nil {
		return nil, p.err
	}
	return []ledger.Budget{{Period: "day", SpentCents: p.spent}}, nil
}

func (p *purse) set(spent int64, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.spent, p.err = spent, err
}

func (p *purse) count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.reads
}

// told is a stream that keeps what is sent.
type told struct {
	grpc.ServerStream

	mu    sync.Mutex
	all   []*easelv1.WatchAccountResponse
	ended bool
	err   error
}

func (s *told) SendMsg(m any) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = append(s.all, m.(*easelv1.WatchAccountResponse))
	return nil
}

func (s *told) end(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended, s.err = true, err
}

func (s *told) updates() (all []*easelv1.AccountUpdate) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range s.all {
		if m.GetUpdate() != nil {
			all = append(all, m.GetUpdate())
		}
	}
	return all
}

// balances are those that were told; -1: none.
func (s *told) balances() (all []int64) {
	for _, u := range s.updates() {
		balance := int64(-1)
		if u.GetAccount().BalanceCents != nil {
			balance = u.GetAccount().GetBalanceCents()
		}
		all = append(all, balance)
	}
	return all
}

func (s *told) spent() (all []int64) {
	for _, u := range s.updates() {
		for _, b := range u.GetAccount().GetBudgets() {
			all = append(all, b.GetSpentCents())
		}
	}
	return all
}

func (s *told) heartbeats() (all []*easelv1.Heartbeat) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range s.all {
		if m.GetHeartbeat() != nil {
			all = append(all, m.GetHeartbeat())
		}
	}
	return all
}

func (s *told) lastHeartbeat(t *testing.T) *easelv1.Heartbeat {
	t.Helper()
	all := s.heartbeats()
	if len(all) == 0 {
		t.Fatal("there was no heartbeat")
	}
	return all[len(all)-1]
}

// counter serves watches of the account in virtual time.
type counter struct {
	*testing.T
	service  *Service
	till     *till
	notifier orders.Notifier[catalog.Tenant]
	ctx      context.Context //nolint:containedctx // of all watches
}

func atCounter(t *testing.T, test func(c *counter)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c := &counter{T: t, till: &till{}}
		hub, err := watch.New(watch.Config{Upstream: c.till, Seed: 1})
		if err != nil {
			t.Fatal(err)
		}
		s := &Service{cfg: Config{Hub: hub, SendTimeout: DefaultSendTimeout}, random: rand.New(rand.NewPCG(1, 0))}
		s.balances = newSharing(sameBalance, balanceLeast, balanceMost, &c.notifier, s.below)
		s.budgets = newSharing[string](sameBudgets, budgetsEvery, budgetsEvery, nil, s.below)
		ctx, cancel := context.WithCancel(t.Context())
		c.service, c.ctx = s, ctx
		test(c)
		cancel()
		synctest.Wait()
		s.balances.close()
		s.budgets.close()
		hub.Close()
	})
}

var (
	oneKey  = catalog.Forwarded(catalog.NewSecret("key"))
	heldKey = catalog.Held(func() catalog.Secret { return catalog.NewSecret("held") })
	// aTeam is a caller that sees no balance, and manager one that does.
	aTeam   = call{credential: oneKey, listed: &callers.List{}}
	manager = call{credential: oneKey}
)

// watch begins a watch of the account; budgets may be nil.
func (c *counter) watch(ctx context.Context, who call, until time.Time, budgets *purse) *told {
	stream := &told{}
	go func() { stream.end(c.serve(ctx, stream, who, until, budgets)) }()
	return stream
}

func (c *counter) serve(ctx context.Context, stream grpc.ServerStream, who call, until time.Time, budgets *purse) error {
	var read func(context.Context) ([]ledger.Budget, error)
	if budgets != nil {
		read = budgets.read
	}
	out := deadlineSender{stream: stream, timeout: DefaultSendTimeout}
	w := c.service.watchOfAccount(with(ctx, who), out, read)
	w.known = func() error { return nil }
	defer w.leave()
	return w.run(ctx, defaultHeartbeat, until)
}

func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func (c *counter) wantBalances(s *told, want ...int64) {
	c.Helper()
	if got := s.balances(); !slices.Equal(got, want) {
		c.Errorf("balances told: %v, want %v", got, want)
	}
}

// wantApart wants two reads of the account to be at least 10 s and at most a minute apart.
func (c *counter) wantApart() {
	c.Helper()
	reads := c.till.asked()
	for n := 1; n < len(reads); n++ {
		if gap := reads[n].Sub(reads[n-1]); gap < 10*time.Second || gap > time.Minute {
			c.Errorf("the account was read %v after the last time", gap)
		}
	}
}

func (c *counter) wantEnd(s *told, want error) {
	c.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.ended || !errors.Is(s.err, want) {
		c.Errorf("the watch has ended: %v, with %v, want %v", s.ended, s.err, want)
	}
}

func TestAWatchOfTheAccountGetsTheBalanceAtOnceAndEachChange(t *testing.T) {
	atCounter(t, func(c *counter) {
		c.till.setBalance(500)
		pass(time.Minute)
		if n := len(c.till.asked()); n != 0 {
			c.Errorf("nobody watches, and the account was read %d times", n)
		}
		s := c.watch(c.ctx, manager, time.Time{}, nil)
		pass(0)
		c.wantBalances(s, 500)
		c.till.setBalance(400) // in the catalog's own studio
		pass(time.Minute)
		c.wantBalances(s, 500, 400)
		if all := s.updates(); all[1].GetInitial() || !all[0].GetInitial() {
			c.Error("the first update alone is initial")
		}
		if n := len(s.heartbeats()); n < 3 {
			c.Errorf("%d heartbeats in a minute", n)
		}
		pass(10 * time.Minute)
		c.wantBalances(s, 500, 400)
		if n := len(c.till.asked()); n < 11 || n > 14 {
			c.Errorf("%d reads in eleven minutes", n)
		}
		c.wantApart()
	})
}

func TestTheBalanceIsReadSoonAfterMoneyHasMoved(t *testing.T) {
	atCounter(t, func(c *counter) {
		s := c.watch(c.ctx, manager, time.Time{}, nil)
		pass(30 * time.Second)
		c.till.setBalance(-7)
		c.notifier.Notify(oneKey.Tenant)
		pass(0)
		c.wantBalances(s, 0, -7) // the last read is more than 10 s ago
		for n := range 30 {
			c.till.setBalance(int64(n))
			c.notifier.Notify(oneKey.Tenant)
			pass(time.Second)
		}
		pass(10 * time.Second)
		if got := s.balances(); len(got) > 6 || got[len(got)-1] != 29 {
			c.Errorf("balances told: %v", got)
		}
		c.wantApart()
	})
}

func TestAnOrderDuringAReadOfTheBalanceHasItReadAgain(t *testing.T) {
	atCounter(t, func(c *counter) {
		c.till.with(func(t *till) { t.delay = 3 * time.Second })
		s := c.watch(c.ctx, manager, time.Time{}, nil)
		pass(time.Second)
		c.notifier.Notify(oneKey.Tenant)
		pass(2 * time.Second)
		c.till.setBalance(-5)
		pass(14 * time.Second) // 10 s after the end of the first, and its own 3
		c.wantBalances(s, -1, 0, -5)
		c.wantApart()
	})
}

func TestWatchersOfAnAccountCostTheReadsOfOne(t *testing.T) {
	atCounter(t, func(c *counter) {
		owners := map[string]*purse{"red": {}, "blue": {}}
		for range 50 {
			for owner, budgets := range owners {
				who := call{credential: heldKey}
				who.credential.Owner = owner
				c.watch(c.ctx, who, time.Time{}, budgets)
				pass(100 * time.Millisecond)
			}
		}
		pass(50 * time.Second)
		if n := len(c.till.asked()); n > 3 {
			c.Errorf("the account was read %d times in a minute", n)
		}
		for owner, budgets := range owners {
			if n := budgets.count(); n < 11 || n > 13 {
				c.Errorf("the budgets of %s were read %d times in a minute", owner, n)
			}
		}
	})
}

func TestCallersThatComeAndGoCostNoMoreThanOneThatStays(t *testing.T) {
	atCounter(t, func(c *counter) {
		budgets := &purse{}
		for range 60 {
			ctx, cancel := context.WithCancel(c.ctx)
			s := c.watch(ctx, manager, time.Time{}, budgets)
			pass(500 * time.Millisecond)
			c.wantBalances(s, 0)
			cancel()
			pass(500 * time.Millisecond)
		}
		if n := budgets.count(); n > 13 {
			c.Errorf("the budgets were read %d times in a minute", n)
		}
		c.wantApart()
		pass(time.Minute)
		reads := len(c.till.asked())
		pass(10 * time.Minute)
		if c.service.cfg.Hub.Stats().Pollers != 0 || len(c.till.asked()) != reads || len(c.service.balances.all) != 0 {
			c.Error("nobody watches, and there still is a poller")
		}
	})
}

func TestATeamGetsChangesOfBudgetsAlone(t *testing.T) {
	atCounter(t, func(c *counter) {
		budgets := &purse{spent: 1}
		s := c.watch(c.ctx, aTeam, time.Time{}, budgets)
		pass(time.Second)
		c.till.setBalance(900)
		pass(2 * time.Minute)
		budgets.set(2, nil)
		pass(6 * time.Second)
		budgets.set(3, errors.New("away"))
		pass(time.Minute)
		if got := s.spent(); !slices.Equal(got, []int64{1, 2}) {
			c.Errorf("budgets told: %v", got)
		}
		last := s.lastHeartbeat(c.T)
		if last.GetLastError() != errBudgets || last.GetUpstreamCondition() != easelv1.UpstreamCondition_UPSTREAM_CONDITION_HEALTHY {
			c.Errorf("while the ledger is away a heartbeat says %v", last)
		}
		budgets.set(3, nil)
		pass(6 * time.Second)
		if got := s.spent(); !slices.Equal(got, []int64{1, 2, 3}) {
			c.Errorf("budgets told: %v", got)
		}
		for _, balance := range s.balances() {
			if balance != -1 {
				c.Errorf("a balance of %d is told", balance)
			}
		}
	})
}

func TestTheBudgetsOfATeamHangOnNothingUpstream(t *testing.T) {
	atCounter(t, func(c *counter) {
		c.till.with(func(t *till) { t.delay = time.Hour })
		budgets := &purse{spent: 1}
		s := c.watch(c.ctx, aTeam, time.Time{}, budgets)
		pass(0)
		budgets.set(2, nil)
		pass(6 * time.Second)
		if got := s.spent(); !slices.Equal(got, []int64{1, 2}) || len(c.till.asked()) == 0 {
			c.Errorf("while the catalog says nothing the budgets told are %v, after %d reads", got, len(c.till.asked()))
		}
	})
}

func TestTheFirstUpdateWaitsForBudgetsAndNotLongForTheBalance(t *testing.T) {
	atCounter(t, func(c *counter) {
		budgets := &purse{err: errors.New("away")}
		c.till.setFailure(&catalog.Error{Kind: catalog.KindUnavailable, Op: "GET /account"})
		s, free := c.watch(c.ctx, manager, time.Time{}, budgets), c.watch(c.ctx, manager, time.Time{}, nil)
		pass(balanceWait - time.Millisecond)
		c.wantBalances(free)
		pass(time.Millisecond)
		c.wantBalances(free, -1)
		pass(38 * time.Second)
		c.wantBalances(s)
		last := s.lastHeartbeat(c.T)
		if last.GetUpstreamCondition() != easelv1.UpstreamCondition_UPSTREAM_CONDITION_UNREACHABLE || last.GetConsecutivePollFailures() < 2 || last.GetLastError() == "" {
			c.Errorf("in an outage a heartbeat says %v", last)
		}
		budgets.set(4, nil)
		pass(6 * time.Second)
		c.wantBalances(s, -1)
		c.till.setFailure(nil)
		pass(time.Minute)
		c.wantBalances(s, -1, 0)
		c.wantBalances(free, -1, 0)
		if all := s.updates(); !all[0].GetInitial() || all[1].GetInitial() {
			c.Error("the first update alone is initial")
		}
		c.wantApart()
	})
}

func TestARejectedAPIKeyEndsAWatchOfTheAccountUnlessItIsHeld(t *testing.T) {
	atCounter(t, func(c *counter) {
		forwarded, other := c.watch(c.ctx, manager, time.Time{}, nil), c.watch(c.ctx, call{credential: heldKey}, time.Time{}, nil)
		pass(time.Second)
		rejected := &catalog.Error{Kind: catalog.KindCredentialRejected, Op: "GET /account", Status: 401}
		c.till.setFailure(rejected)
		pass(time.Minute)
		c.wantEnd(forwarded, rejected)
		if other.ended {
			c.Error("the watch under the held API key has ended")
		}
		if last := other.lastHeartbeat(c.T); last.GetUpstreamCondition() != easelv1.UpstreamCondition_UPSTREAM_CONDITION_CREDENTIAL_REJECTED {
			c.Errorf("a heartbeat says %v", last)
		}
	})
}

func TestAWatchOfTheAccountEndsByDrainAgeStallAndItsCaller(t *testing.T) {
	atCounter(t, func(c *counter) {
		aged := c.watch(c.ctx, manager, time.Now().Add(20*time.Second), nil)
		ctx, leave := context.WithCancel(c.ctx)
		left := c.watch(ctx, manager, time.Time{}, nil)
		stuck := &slowReader{takes: func(int) time.Duration { return time.Hour }, ended: make(chan struct{})}
		stalled := make(chan error, 1)
		go func() { stalled <- c.serve(c.ctx, stuck, manager, time.Time{}, nil) }()
		pass(19 * time.Second)
		leave()
		pass(0)
		c.wantEnd(left, context.Canceled)
		pass(12 * time.Second)
		c.wantEnd(aged, watch.ErrExpired)
		if err := <-stalled; err == nil || err.Error() != tooSlow(DefaultSendTimeout).Error() {
			c.Errorf("the watch of a caller that takes nothing ends with %v", err)
		}
		close(stuck.ended)
		open := c.watch(c.ctx, manager, time.Time{}, nil)
		pass(time.Second)
		c.service.Drain()
		pass(0)
		late := c.watch(c.ctx, manager, time.Time{}, nil)
		pass(0)
		c.wantEnd(open, watch.ErrDraining)
		c.wantEnd(late, watch.ErrDraining)
	})
}

func TestReadsOfTheAccountStayWithinTheBudgetOfRequests(t *testing.T) {
	atCounter(t, func(c *counter) {
		c.till.setFailure(&catalog.Error{Kind: catalog.KindRateLimited, Op: "x", Status: 429, RetryAfter: 90 * time.Second})
		budgets := &purse{spent: 1}
		s := c.watch(c.ctx, manager, time.Time{}, budgets)
		pass(time.Second)
		c.till.setFailure(nil)
		asked := len(c.till.asked())
		c.notifier.Notify(oneKey.Tenant)
		pass(80 * time.Second)
		if n := len(c.till.asked()); n != asked || budgets.count() < 10 {
			c.Errorf("%d reads of the account in a pause, %d of the budgets", n-asked, budgets.count())
		}
		pass(30 * time.Second)
		c.wantBalances(s, -1, 0)
	})
}
