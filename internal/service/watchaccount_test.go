package service

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/catalog"
	"github.com/easel-grpc/easel/internal/watch"
)

func TestAWatchOfTheAccountGetsTheBalanceAtOnceAndEachChange(t *testing.T) {
	testAccount(t, func(c *accountTest) {
		c.catalog.setBalance(500)
		pass(time.Minute)
		if n := len(c.catalog.asked()); n != 0 {
			c.Errorf("nobody watches, and the account was read %d times", n)
		}
		s := c.watch(c.ctx, manager, time.Time{}, nil)
		pass(0)
		c.wantBalances(s, 500)
		c.catalog.setBalance(400) // in the catalog's own studio
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
		if n := len(c.catalog.asked()); n < 11 || n > 14 {
			c.Errorf("%d reads in eleven minutes", n)
		}
		c.wantApart()
	})
}

func TestTheBalanceIsReadSoonAfterMoneyHasMoved(t *testing.T) {
	testAccount(t, func(c *accountTest) {
		s := c.watch(c.ctx, manager, time.Time{}, nil)
		pass(30 * time.Second)
		c.catalog.setBalance(-7)
		c.notifier.Notify(oneKey.Tenant)
		pass(0)
		c.wantBalances(s, 0, -7) // the last read is more than 10 s ago
		for n := range 30 {
			c.catalog.setBalance(int64(n))
			c.notifier.Notify(oneKey.Tenant)
			pass(time.Second)
		}
		pass(10 * time.Second)
		if got := s.balances(); len(got) > 6 || got[len(got)-1] != 29 {
			c.Errorf("balances delivered: %v", got)
		}
		c.wantApart()
	})
}

func TestAnOrderDuringAReadOfTheBalanceHasItReadAgain(t *testing.T) {
	testAccount(t, func(c *accountTest) {
		c.catalog.with(func(t *accountCatalog) { t.delay = 3 * time.Second })
		s := c.watch(c.ctx, manager, time.Time{}, nil)
		pass(time.Second)
		c.notifier.Notify(oneKey.Tenant)
		pass(2 * time.Second)
		c.catalog.setBalance(-5)
		pass(14 * time.Second) // 10 s after the end of the first, and its own 3
		c.wantBalances(s, -1, 0, -5)
		c.wantApart()
	})
}

func TestWatchersOfAnAccountCostTheReadsOfOne(t *testing.T) {
	testAccount(t, func(c *accountTest) {
		owners := map[string]*budgetReader{"red": {}, "blue": {}}
		for range 50 {
			for owner, budgets := range owners {
				who := call{credential: heldKey}
				who.credential.Owner = owner
				c.watch(c.ctx, who, time.Time{}, budgets)
				pass(100 * time.Millisecond)
			}
		}
		pass(50 * time.Second)
		if n := len(c.catalog.asked()); n > 3 {
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
	testAccount(t, func(c *accountTest) {
		budgets := &budgetReader{}
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
		reads := len(c.catalog.asked())
		pass(10 * time.Minute)
		if c.service.cfg.Hub.Stats().Pollers != 0 || len(c.catalog.asked()) != reads || len(c.service.balances.all) != 0 {
			c.Error("nobody watches, and there still is a poller")
		}
	})
}

func TestATeamGetsChangesOfBudgetsAlone(t *testing.T) {
	testAccount(t, func(c *accountTest) {
		budgets := &budgetReader{spent: 1}
		s := c.watch(c.ctx, aTeam, time.Time{}, budgets)
		pass(time.Second)
		c.catalog.setBalance(900)
		pass(2 * time.Minute)
		budgets.set(2, nil)
		pass(6 * time.Second)
		budgets.set(3, errors.New("away"))
		pass(time.Minute)
		if got := s.spent(); !slices.Equal(got, []int64{1, 2}) {
			c.Errorf("budgets delivered: %v", got)
		}
		last := s.lastHeartbeat(c.T)
		if last.GetLastError() != errBudgets || last.GetUpstreamCondition() != easelv1.UpstreamCondition_UPSTREAM_CONDITION_HEALTHY {
			c.Errorf("while the ledger is away a heartbeat says %v", last)
		}
		budgets.set(3, nil)
		pass(6 * time.Second)
		if got := s.spent(); !slices.Equal(got, []int64{1, 2, 3}) {
			c.Errorf("budgets delivered: %v", got)
		}
		for _, balance := range s.balances() {
			if balance != -1 {
				c.Errorf("a balance of %d was delivered", balance)
			}
		}
	})
}

func TestTheBudgetsOfATeamHangOnNothingUpstream(t *testing.T) {
	testAccount(t, func(c *accountTest) {
		c.catalog.with(func(t *accountCatalog) { t.delay = time.Hour })
		budgets := &budgetReader{spent: 1}
		s := c.watch(c.ctx, aTeam, time.Time{}, budgets)
		pass(0)
		budgets.set(2, nil)
		pass(6 * time.Second)
		if got := s.spent(); !slices.Equal(got, []int64{1, 2}) || len(c.catalog.asked()) == 0 {
			c.Errorf("while the catalog says nothing the budgets delivered are %v, after %d reads", got, len(c.catalog.asked()))
		}
	})
}

func TestTheFirstUpdateWaitsForBudgetsAndNotLongForTheBalance(t *testing.T) {
	testAccount(t, func(c *accountTest) {
		budgets := &budgetReader{err: errors.New("away")}
		c.catalog.setFailure(&catalog.Error{Kind: catalog.KindUnavailable, Op: "GET /account"})
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
		c.catalog.setFailure(nil)
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
	testAccount(t, func(c *accountTest) {
		forwarded, other := c.watch(c.ctx, manager, time.Time{}, nil), c.watch(c.ctx, call{credential: heldKey}, time.Time{}, nil)
		pass(time.Second)
		rejected := &catalog.Error{Kind: catalog.KindCredentialRejected, Op: "GET /account", Status: 401}
		c.catalog.setFailure(rejected)
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
	testAccount(t, func(c *accountTest) {
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
	testAccount(t, func(c *accountTest) {
		c.catalog.setFailure(&catalog.Error{Kind: catalog.KindRateLimited, Op: "x", Status: 429, RetryAfter: 90 * time.Second})
		budgets := &budgetReader{spent: 1}
		s := c.watch(c.ctx, manager, time.Time{}, budgets)
		pass(time.Second)
		c.catalog.setFailure(nil)
		asked := len(c.catalog.asked())
		c.notifier.Notify(oneKey.Tenant)
		pass(80 * time.Second)
		if n := len(c.catalog.asked()); n != asked || budgets.count() < 10 {
			c.Errorf("%d reads of the account in a pause, %d of the budgets", n-asked, budgets.count())
		}
		pass(30 * time.Second)
		c.wantBalances(s, -1, 0)
	})
}
