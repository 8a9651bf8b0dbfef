package simulation

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/easel-grpc/easel/internal/promises"

	"github.com/easel-grpc/easel/internal/auth"
	"github.com/easel-grpc/easel/internal/catalog"
	"github.com/easel-grpc/easel/internal/jobs"
	"github.com/easel-grpc/easel/internal/ledger"
	"github.com/easel-grpc/easel/internal/orders"
	"github.com/easel-grpc/easel/internal/sandbox"
	"github.com/easel-grpc/easel/internal/service"
)

// If the simulated world has a ledger, callers authenticate with service tokens, and the replicas use one shared API
// key for all tenants. All tenants except the first are teams.

// monthlyBudget returns the thrifty team's monthly budget for a given daily budget, both in cents. It exceeds the
// daily budget by only an eighth. The team therefore reaches the threshold of its monthly budget on the first day, and
// less than a daily budget is left afterwards.
func monthlyBudget(daily int64) int64 { return daily * 9 / 8 }

// thrifty is the name of the team with a small budget.
const thrifty = "thrift"

// openLedger opens the database that the replicas share. It also creates the callers file and the webhook receivers.
func (w *world) openLedger(dir string) error {
	if err := w.openDatabase(); err != nil {
		return err
	}
	w.callersFile = filepath.Join(dir, "callers.yaml")
	w.receivers = &receivers{world: w}
	return errors.Join(w.writeSecret(dir), w.writeCallers())
}

// writeCallers writes the callers file. It lists the operator and one caller for each tenant. Each caller belongs to
// its own team, except for the caller of the first tenant, which has no team.
func (w *world) writeCallers() error {
	teams, list := "", ""
	add := func(name, more string) {
		list += fmt.Sprintf("  - {name: %s, %stokens: [\"sha256:%x\"]}\n", callerOf(name), more, sha256.Sum256([]byte(w.token(name))))
	}
	for i, name := range w.plan.tenantNames() {
		switch {
		case i == 0: // a caller without a team
			add(name, "")
			continue
		case name == thrifty:
			teams += fmt.Sprintf("  %s: {budget: {daily_cents: %d, monthly_cents: %d}}\n", name, w.plan.Budget, monthlyBudget(w.plan.Budget))
		case i%2 == 1:
			teams += fmt.Sprintf("  %s: {budget: {monthly_cents: 1000000}, labels: {required: [who], budgets: {who: {monthly_cents: 1000000}}}}\n", name)
		default:
			teams += fmt.Sprintf("  %s: {budget: {}}\n", name)
		}
		add(name, "team: "+name+", ")
	}
	add(promises.Operator, "operator: true, ")
	return os.WriteFile(w.callersFile, []byte("teams:\n"+teams+"callers:\n"+list), 0o600)
}

// callerOf returns the name of the only caller of a tenant.
func callerOf(tenant string) string {
	if tenant == "t1" || tenant == promises.Operator {
		return tenant
	}
	return tenant + "-service"
}

// token returns a tenant's service token, which is a secret.
func (w *world) token(tenant string) string {
	return fmt.Sprintf("simulated_token_%s_%x", tenant, w.seed("token "+tenant))
}

// tenantNames returns the names of the tenants. In some plans, the last name is an additional tenant, which the field
// Tenants does not count.
func (p plan) tenantNames() []string {
	names := []string{"t1", "t2", "t3", "t4", "t5", "t6"}[:p.Tenants:p.Tenants]
	switch {
	case p.Ledger:
		return append(names, thrifty)
	case !p.Held:
		return append(names, "spy")
	}
	return names
}

// holder returns the tenant that owns the account of the shared API key.
func (w *world) holder() *tenant {
	if w.account != nil {
		return w.account
	}
	return w.tenants[0]
}

// accounts returns the tenants that have an account in the catalog.
func (w *world) accounts() []*tenant {
	if w.account != nil {
		return []*tenant{w.account}
	}
	return w.tenants
}

// enlist creates a tenant that has a service token but no account in the catalog.
func (w *world) enlist(name string) *tenant {
	t := &tenant{name: name, key: w.token(name)}
	w.keys[t.key] = name
	return t
}

// openLedger opens the ledger of a process. The ledger is in memory or shared by all replicas.
func (p *process) openLedger(w *world) (led *ledger.Ledger, err error) {
	at := ledger.Config{URL: ledger.InMemory, Catalog: "http://catalog" + sandbox.BasePath, ResendWindow: w.plan.Window, RefundWindow: refundWindow}
	if w.plan.Ledger {
		p.gateway = w.database.gateway(p.name)
		at.URL, at.Connector, at.Events = "sqlite:simulated", p.gateway, p.eventConfig(w)
	}
	if led, err = ledger.Open(context.Background(), at); err == nil && p.gateway != nil {
		p.gateway.open = true
	}
	return led, err
}

// divideRate starts to divide the poll rate among the processes that share a ledger.
func (p *process) divideRate(w *world) {
	var ctx context.Context
	ctx, p.unshare = context.WithCancel(context.Background())
	if w.plan.Ledger {
		p.sharing.Go(func() { p.hub.DivideRate(ctx) })
	}
}

// startOrders creates the [orders.Orders] of the process, and starts its background work, which runs until ctx is done.
func (p *process) startOrders(ctx context.Context, w *world, recorder *orders.Recorder) {
	p.orders = orders.New(orders.Config{Recorder: recorder, Catalog: p.client, Hub: p.hub})
	kinds := p.kinds(w)
	p.followers.Go(func() { p.orders.ReadChanges(ctx) })
	if w.plan.Held {
		held := catalog.Shared(w.currentSharedKey)
		kinds = append(kinds, p.orders.Settle(held))
		p.followers.Go(func() { p.orders.ResendAbandoned(ctx, held) })
	}
	p.followers.Go(func() { jobs.New(p.ledger, w.logger(), kinds...).Run(ctx) })
}

// recordContradictions records a problem if the ledger of p has counted contradictions between the catalog and the
// ledger.
func (w *world) recordContradictions(p *process) {
	if n := p.ledger.Counts.Faults.Load(); n > 0 {
		w.recordProblem("%s found %d faults of the ledger", p.name, n)
	}
}

// withCallers adds the callers file to the configuration of a service, and disables calls without a token.
func (w *world) withCallers(cfg *service.Config) (err error) {
	cfg.Auth.Callers, err = auth.LoadCallers(w.callersFile, w.logger(), nil)
	cfg.Auth.AllowAnonymous = false
	return err
}

// spendBudget simulates the caller of thrifty, the team with a small budget. It sends bursts of concurrent orders
// through all replicas, so that the budget is exhausted.
func (c *caller) spendBudget() {
	for round := 0; !c.over() && time.Since(c.world.history.Begin) < c.world.plan.Length; round++ {
		c.sleep(c.about(c.world.plan.Length / 8))
		var burst sync.WaitGroup
		for n := range 2 + c.random.IntN(6) {
			h := c.helper(fmt.Sprintf("b%d.%d", round, n))
			h.at = n % len(c.tenant.endpoints)
			burst.Go(func() {
				h.pause(3 * time.Millisecond)
				if h.randomly(0.5) {
					h.buy(h.haiku(false), 20*time.Second)
					return
				}
				h.buy(h.essay(h.randomly(0.2)), 20*time.Second)
			})
		}
		burst.Wait()
	}
}

// step is a point in the submission of an order at which a process may crash or freeze.
type step int

const (
	noStep step = iota
	stepBeforeWrite
	stepAfterWrite
	stepBeforePost
	stepAfterPost
	stepBeforeConclude
	stepAfterConclude
	steps = stepAfterConclude
)

// trap is set for a replica and a step of an order. When the replica's process reaches this step, spring is called once.
type trap struct {
	replica *replica
	step    step
	spring  func(*replica)
	hit     chan struct{}
}

func (w *world) setTrap(r *replica, at step, spring func(*replica)) *trap {
	t := &trap{replica: r, step: at, spring: spring, hit: make(chan struct{})}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.traps = append(w.traps, t)
	return t
}

// springTrap removes the trap for the given process and step, and calls [trap.spring]. A fault sets a trap to intervene
// at a step of an order. springTrap returns false if there is no such trap.
func (w *world) springTrap(process string, at step) bool {
	if at == noStep {
		return false
	}
	var found *trap
	w.mu.Lock()
	for i, t := range w.traps {
		if t.step == at && t.replica.currentProcess().name == process {
			found = t
			w.traps = append(w.traps[:i:i], w.traps[i+1:]...)
			break
		}
	}
	w.mu.Unlock()
	if found == nil {
		return false
	}
	found.spring(found.replica)
	close(found.hit)
	return true
}

func (g *gateway) springTrap(at step) bool { return g.database.world.springTrap(g.process, at) }

// freeze stops the replica's process until thaw is called, as SIGSTOP does.
func (r *replica) freeze() {
	if g := r.currentProcess().gateway; g != nil {
		g.freeze()
	}
	for _, l := range r.links() {
		l.setCondition(frozen)
	}
}

// thaw resumes p, the process of the replica that was running when freeze was called.
func (r *replica) thaw(p *process) {
	for _, l := range r.linksOf(p) {
		l.setCondition(up)
	}
	if p.gateway != nil {
		p.gateway.resume()
	}
}

func (r *replica) links() []*link { return r.linksOf(r.currentProcess()) }

func (r *replica) linksOf(p *process) []*link {
	all := []*link{p.uplink}
	for _, t := range r.world.allTenants() {
		all = append(all, t.endpoints[r.index()].link)
	}
	return all
}

// hasTrap reports whether any trap is set. A trap is a function that is called when a process reaches a step of an order.
func (w *world) hasTrap() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.traps) > 0
}

// dropTrap removes a trap and reports whether the trap was still set.
func (w *world) dropTrap(t *trap) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	before := len(w.traps)
	w.traps = slices.DeleteFunc(w.traps, func(one *trap) bool { return one == t })
	return len(w.traps) < before
}
