package simulation

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/easel-grpc/easel/internal/promises"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/catalog"
	"github.com/easel-grpc/easel/internal/sandbox"
)

// outcome is the result of a run, with observations that are possible only in a simulation.
type outcome struct {
	promises.Run
	plan     plan
	requests []request
	leaks    []string
	problems []string
	faults   []span
	posts    int           // number of orders that reached the catalog
	settled  time.Duration // time at which the last caller finished, or at which [world.run] stopped waiting for it
	late     []string      // callers that had not finished when [world.run] stopped waiting for them
	alone    time.Duration // time at which all callers and watches had ended
	digest   string
	left     []string // stacks of the goroutines that are still running at the end

	homeKey  string // SHA-256 of the API key that is active at the end of the run
	journeys map[string][]promises.Version
}

// simulate runs a plan in its own synctest bubble.
func simulate(t *testing.T, p plan) (o *outcome) {
	t.Helper()
	defer func() {
		// synctest panics if goroutines remain at the end of the bubble. If o.left already lists them, the panic is
		// ignored, because a later check reports them.
		if why := recover(); why != nil && (o == nil || len(o.left) == 0) {
			panic(why)
		}
	}()
	synctest.Test(t, func(t *testing.T) {
		dir := ""
		if p.Ledger {
			dir = t.TempDir()
		}
		w, err := newWorld(p, dir)
		if err != nil {
			t.Error(err)
			return
		}
		o = w.run()
	})
	return o
}

// run runs the world for the time in the plan. Then it waits, up to a limit, until all faults have ended and all
// callers have finished.
func (w *world) run() *outcome {
	o := &outcome{plan: w.plan, Run: w.newRun()}
	w.start()
	for _, t := range w.tenants[:w.plan.Tenants] {
		for i := range w.plan.Workers {
			w.caller(t, fmt.Sprint("w", i)).start((*caller).runWorker)
		}
	}
	if w.plan.Ledger {
		w.caller(w.tenants[w.plan.Tenants], "s").start((*caller).spendBudget)
		w.caller(w.operator, "o").start((*caller).operate)
	}
	time.Sleep(w.plan.Length)
	healing := waitWithin(&w.trouble, 15*time.Minute)
	o.Healed = w.history.Since()
	if !healing || !waitWithin(&w.callers, 20*time.Minute+time.Duration(100/w.plan.Speed)*time.Second) {
		o.late = w.unfinishedCallers()
	}
	o.settled = w.history.Since()
	w.cancel()
	w.trouble.Wait()
	w.callers.Wait()
	o.alone = w.history.Since()
	time.Sleep(5 * time.Minute)
	o.End = w.history.Since()
	o.Events = w.history.Sorted()
	w.learnTruth(o)
	if w.plan.Ledger {
		w.readJournal(o)
		o.Differences = w.verifyLedger()
		o.Arrivals = w.receivers.all
	}
	w.stop()
	time.Sleep(time.Minute) // waits for lingering connections to close, which takes up to a minute
	synctest.Wait()
	o.left = leftoverStacks()
	o.Events, o.faults, o.problems = w.history.Sorted(), w.faults, w.problems
	o.requests, o.leaks, o.posts = w.traffic.list, w.traffic.leaks, int(w.posts.Load())
	o.digest = promises.Digest(o.Events)
	return o
}

// leftoverStacks returns the stacks of all other goroutines that are still running in the current synctest bubble.
func leftoverStacks() (left []string) {
	stacks := make([]byte, 4<<20)
	stacks = stacks[:runtime.Stack(stacks, true)]
	own, others, _ := strings.Cut(string(stacks), "\n\n")
	_, bubble, ok := strings.Cut(own, "synctest bubble ")
	if !ok {
		return []string{"the bubble can't be told from the stack of " + own}
	}
	bubble, _, _ = strings.Cut(bubble, "]")
	for _, one := range strings.Split(others, "\n\n") {
		head, _, _ := strings.Cut(one, "\n")
		root := strings.Contains(one, "synctest.Run(") || strings.Contains(one, "synctest.testingSynctestTest(") // this goroutine waits for the end of the synctest bubble
		if strings.Contains(head, "synctest bubble "+bubble+"]") && !root {
			left = append(left, one)
		}
	}
	return left
}

// waitWithin waits until the wait group is done or the time limit has passed. It reports whether the wait group is
// done.
func waitWithin(all *sync.WaitGroup, limit time.Duration) bool {
	done := make(chan struct{})
	go func() {
		all.Wait()
		close(done)
	}()
	select {
	case <-done:
		return true
	case <-time.After(limit):
		return false
	}
}

// unfinishedCallers returns the names of callers that have not finished.
func (w *world) unfinishedCallers() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Sorted(maps.Keys(w.busy))
}

// runWorker runs a worker, which repeatedly orders a generation and follows it in a randomly chosen way until the
// generation has ended.
func (c *caller) runWorker() {
	end := c.world.history.Begin.Add(c.world.plan.Length)
	c.pause(time.Duration(c.random.Int64N(int64(c.world.plan.Pause))))
	for time.Now().Before(end) && !c.over() {
		c.oneGeneration()
		if rest := c.about(c.world.plan.Pause); time.Until(end) > rest {
			c.sleep(rest)
			continue
		}
		return
	}
}

func (c *caller) oneGeneration() {
	if c.world.plan.Ledger && c.randomly(0.2) {
		c.listLatest()
	}
	if c.world.plan.Everywhere && c.randomly(0.6) {
		c.watchEverywhere(c.essay(c.randomly(0.1)))
		return
	}
	switch n := c.random.IntN(100); {
	case n < 30:
		c.orderAndFollow(c.haiku(false), viewing{every: time.Duration(1+c.random.IntN(20)) * time.Second})
	case n < 45:
		c.orderAndFollow(c.essay(false), viewing{rest: true})
	case n < 52:
		c.orderAndFollow(c.haiku(true), viewing{until: easelv1.WatchUntil_WATCH_UNTIL_SETTLED})
	case n < 62:
		c.then(c.essay(false), c.waitForEnd)
	case n < 72:
		c.then(c.haiku(false), c.readUntilEnd)
	case n < 82:
		c.watchBatch()
	case n < 90:
		c.watchTogether()
	case n < 94:
		c.then(c.picture(), func(id string) {
			if c.followGeneration(viewing{id: id}) {
				c.download(id)
			}
		})
	case n < 97:
		c.then(c.essay(false), c.removeWatched)
	default:
		c.helperWatchesAll()
	}
}

func (c *caller) then(o order, f func(id string)) {
	if id, ok := c.buy(o, 20*time.Second); ok {
		f(id)
	}
}

// watchBatch creates several generations and watches them over a single stream.
func (c *caller) watchBatch() {
	var ids []string
	for range 2 + c.random.IntN(5) {
		if id, ok := c.buy(c.haiku(c.randomly(0.1)), 20*time.Second); ok {
			ids = append(ids, id)
		}
		c.pause(200 * time.Millisecond)
	}
	c.followAll(ids)
}

// watchTogether creates a generation and starts several callers that watch it.
func (c *caller) watchTogether() {
	id, ok := c.buy(c.essay(c.randomly(0.2)), 20*time.Second)
	if !ok {
		return
	}
	for i := range 3 {
		h := c.helper(fmt.Sprint("x", i, "-", c.seq))
		h.at = c.random.IntN(len(c.tenant.endpoints))
		h.start(func(h *caller) {
			h.pause(time.Duration(i) * time.Second)
			h.followGeneration(viewing{id: id, rest: i == 2})
		})
	}
	c.followGeneration(viewing{id: id})
}

// watchEverywhere creates a generation and watches it through every replica.
func (c *caller) watchEverywhere(o order) {
	id, ok := c.buy(o, 20*time.Second)
	if !ok {
		return
	}
	for i := range c.tenant.endpoints {
		h := c.helper(fmt.Sprint("e", i, "-", c.seq))
		h.at = i
		h.start(func(h *caller) { h.followGeneration(viewing{id: id}) })
	}
	c.followGeneration(viewing{id: id})
}

// removeWatched deletes a generation, whether it is finished or not, while another caller watches it.
func (c *caller) removeWatched(id string) {
	h := c.helper(fmt.Sprint("d", c.seq))
	h.at = c.at
	h.start(func(h *caller) { h.followGeneration(viewing{id: id}) })
	c.pause(time.Second)
	for tries := 0; !c.over() && tries < 100; tries++ {
		ctx, cancel := context.WithTimeout(c.world.ctx, 30*time.Second)
		request := &easelv1.DeleteGenerationRequest{GenerationId: id, Force: true, AllowMissing: true}
		_, err := c.endpoint().grpc.DeleteGeneration(c.endpoint().signedContext(ctx), request)
		cancel()
		if err == nil {
			c.note(promises.Event{Kind: promises.Deleted, Generation: id})
			return
		}
		if code, reason := c.noteFailure(promises.Event{Generation: id}, err); code.String() == "Unavailable" && reason == "" {
			c.switchEndpoint()
		}
		c.pause(2 * time.Second)
	}
}

// helperWatchesAll orders a generation while another caller watches all of the tenant's generations.
func (c *caller) helperWatchesAll() {
	h := c.helper(fmt.Sprint("all", c.seq))
	h.at = c.at
	h.start(func(h *caller) { h.watchEverything(time.Minute) })
	c.pause(2 * time.Second)
	c.orderAndFollow(c.haiku(false), viewing{})
}

// newRun returns the record of a run that has not started.
func (w *world) newRun() promises.Run {
	return promises.Run{
		IsShared: w.plan.Held, HasLedger: w.plan.Ledger, HasEvents: w.plan.Events, Begin: w.history.Begin,
		Limits: w.limitsOfTeams(), Receivers: w.receivingTeams(),
		IsCaller: func(owner, caller string) bool { return caller == callerOf(owner) },
	}
}

// withFaults adds two functions to the run, and returns the run. MayLie reports whether the catalog's responses may be
// wrong at a given time. HidesRefund reports whether the refund of a given generation may be missing.
func (o *outcome) withFaults() *promises.Run {
	o.MayLie = func(at time.Duration) bool {
		return o.wasActive("U11", at, time.Minute) || o.wasActive("U13", at, time.Minute)
	}
	o.HidesRefund = func(generation string) bool {
		return dialect(o.plan.Dialect).Refund == sandbox.RefundSilent || o.isLeftAlone(generation)
	}
	return &o.Run
}

// learnTruth reads the true states, accounts and charges from the sandbox. The catalog client is the only code under
// test that it uses.
func (w *world) learnTruth(o *outcome) {
	client, err := catalog.New(catalog.Config{BaseURL: "http://catalog" + sandbox.BasePath, AllowInsecure: true, Transport: handlerTransport{w.box}})
	if err != nil {
		w.recordProblem("no client for the truth: %v", err)
		return
	}
	w.box.ClearFaults()
	for _, t := range w.accounts() {
		account, err := w.box.Audit(context.Background(), t.key)
		if err != nil {
			w.recordProblem("no accounts of %s: %v", t.name, err)
		}
		o.AddAccount(t.name, account)
		for _, g := range account.Generations {
			if one := o.Truth[g.ID]; !g.Deleted {
				w.readTruth(client, t, g.ID, &one)
				o.Truth[g.ID] = one
			}
		}
	}
}

func (w *world) readTruth(client *catalog.Client, t *tenant, id string, one *promises.Truth) {
	cred := catalog.Forwarded(catalog.NewSecret(t.key))
	g, err := client.Generation(context.Background(), cred, id)
	if err != nil {
		w.recordProblem("no truth of %s: %v", id, err)
		return
	}
	one.State, one.Ended = g.State, w.sinceStart(g.TerminalTime)
	one.HasFailed = one.HasFailed || g.State == catalog.StateFailed
	if g.File == nil {
		return
	}
	content, err := client.Content(context.Background(), cred, id, 0, "")
	if err != nil {
		w.recordProblem("no file of %s: %v", id, err)
		return
	}
	defer content.Body.Close()
	data, _ := io.ReadAll(content.Body)
	one.Digest = fmt.Sprintf("%x", sha256.Sum256(data))
}

// handlerTransport is a transport that passes requests to a handler without a network.
type handlerTransport struct{ handler http.Handler }

func (d handlerTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	d.handler.ServeHTTP(w, r)
	resp := w.Result()
	resp.Request = r
	return resp, nil
}
