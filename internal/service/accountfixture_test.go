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
	"github.com/easel-grpc/easel/internal/watch"
)

// accountCatalog is a catalog that has an account and nothing else.
type accountCatalog struct {
	mu      sync.Mutex
	balance int64
	fail    error
	delay   time.Duration
	reads   []time.Time
}

func (c *accountCatalog) Account(ctx context.Context, _ catalog.Credential) (catalog.Account, error) {
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

func (c *accountCatalog) Generation(context.Context, catalog.Credential, string) (catalog.Version, error) {
	return catalog.Version{}, errors.New("nobody watches one")
}

func (c *accountCatalog) List(context.Context, catalog.Credential, time.Time) (*catalog.List, error) {
	return nil, errors.New("nobody watches one")
}

func (c *accountCatalog) with(f func(c *accountCatalog)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f(c)
}

func (c *accountCatalog) setBalance(cents int64) {
	c.with(func(c *accountCatalog) { c.balance = cents })
}

func (c *accountCatalog) setFailure(err error) { c.with(func(c *accountCatalog) { c.fail = err }) }

func (c *accountCatalog) asked() (reads []time.Time) {
	c.with(func(c *accountCatalog) { reads = slices.Clone(c.reads) })
	return reads
}

// budgetReader is what budgets are read from.
type budgetReader struct {
	mu    sync.Mutex
	spent int64
	err   error
	reads int
}

func (p *budgetReader) read(context.Context) ([]ledger.Budget, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.reads++
	if p.err != nil {
		return nil, p.err
	}
	return []ledger.Budget{{Period: "day", SpentCents: p.spent}}, nil
}

func (p *budgetReader) set(spent int64, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.spent, p.err = spent, err
}

func (p *budgetReader) count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.reads
}

// accountStream is a stream that keeps what is sent.
type accountStream struct {
	grpc.ServerStream

	mu    sync.Mutex
	all   []*easelv1.WatchAccountResponse
	ended bool
	err   error
}

func (s *accountStream) SendMsg(m any) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = append(s.all, m.(*easelv1.WatchAccountResponse))
	return nil
}

func (s *accountStream) end(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended, s.err = true, err
}

func (s *accountStream) updates() (all []*easelv1.AccountUpdate) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range s.all {
		if m.GetUpdate() != nil {
			all = append(all, m.GetUpdate())
		}
	}
	return all
}

// balances are those that were delivered; -1: none.
func (s *accountStream) balances() (all []int64) {
	for _, u := range s.updates() {
		balance := int64(-1)
		if u.GetAccount().BalanceCents != nil {
			balance = u.GetAccount().GetBalanceCents()
		}
		all = append(all, balance)
	}
	return all
}

func (s *accountStream) spent() (all []int64) {
	for _, u := range s.updates() {
		for _, b := range u.GetAccount().GetBudgets() {
			all = append(all, b.GetSpentCents())
		}
	}
	return all
}

func (s *accountStream) heartbeats() (all []*easelv1.Heartbeat) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range s.all {
		if m.GetHeartbeat() != nil {
			all = append(all, m.GetHeartbeat())
		}
	}
	return all
}

func (s *accountStream) lastHeartbeat(t *testing.T) *easelv1.Heartbeat {
	t.Helper()
	all := s.heartbeats()
	if len(all) == 0 {
		t.Fatal("there was no heartbeat")
	}
	return all[len(all)-1]
}

// accountTest serves watches of the account in virtual time.
type accountTest struct {
	*testing.T
	service  *Service
	catalog  *accountCatalog
	notifier ledger.Notifier[catalog.Tenant]
	ctx      context.Context //nolint:containedctx // of all watches
}

func testAccount(t *testing.T, test func(c *accountTest)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c := &accountTest{T: t, catalog: &accountCatalog{}}
		hub, err := watch.New(watch.Config{Upstream: c.catalog, Seed: 1})
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
func (c *accountTest) watch(ctx context.Context, who call, until time.Time, budgets *budgetReader) *accountStream {
	stream := &accountStream{}
	go func() { stream.end(c.serve(ctx, stream, who, until, budgets)) }()
	return stream
}

func (c *accountTest) serve(ctx context.Context, stream grpc.ServerStream, who call, until time.Time, budgets *budgetReader) error {
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

func (c *accountTest) wantBalances(s *accountStream, want ...int64) {
	c.Helper()
	if got := s.balances(); !slices.Equal(got, want) {
		c.Errorf("balances delivered: %v, want %v", got, want)
	}
}

// wantApart wants two reads of the account to be at least 10 s and at most a minute apart.
func (c *accountTest) wantApart() {
	c.Helper()
	reads := c.catalog.asked()
	for n := 1; n < len(reads); n++ {
		if gap := reads[n].Sub(reads[n-1]); gap < 10*time.Second || gap > time.Minute {
			c.Errorf("the account was read %v after the last time", gap)
		}
	}
}

func (c *accountTest) wantEnd(s *accountStream, want error) {
	c.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.ended || !errors.Is(s.err, want) {
		c.Errorf("the watch has ended: %v, with %v, want %v", s.ended, s.err, want)
	}
}
