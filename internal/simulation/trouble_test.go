package simulation

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/easel-grpc/easel/internal/promises"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/sandbox"
)

// Routes of the catalog, in the form that faults and recorded requests use.
const (
	routePlace = "POST /generations"
	routeQuote = "POST /quote"
	routeRead  = "GET /generations/{id}"
	routeList  = "GET /generations"
	routeFile  = "GET /generations/{id}/content"
)

const page = "<html><body><h1>Bad Gateway</h1></body></html>"

// runningFault is a planned fault while it is active.
type runningFault struct {
	world *world
	trouble
	c     *caller      // caller for which the fault was planned
	count atomic.Int64 // number of times that the fault took effect; some faults use another counter
	names int
}

// nextName returns a unique name for a helper: the given name and a number.
func (s *runningFault) nextName(name string) string {
	s.names++
	return fmt.Sprint(name, s.names)
}

// apiKey returns the API key to which an injected fault applies. This is the shared API key if there is a ledger, and
// otherwise the tenant's own API key. If API keys are rotated, apiKey returns "", which means every API key.
func (s *runningFault) apiKey() string {
	switch {
	case s.world.plan.Rotates:
		return ""
	case s.world.plan.Ledger:
		return s.world.account.key
	}
	return s.c.tenant.key
}

func (s *runningFault) done(ok bool) {
	if ok {
		s.count.Add(1)
	}
}

// faultAction describes a kind of planned fault.
type faultAction struct {
	reach reach
	// begin starts the fault; may be nil. endFault ends the fault, and firedCount returns the number of operations that
	// the fault has affected.
	begin  func(s *runningFault) (endFault func(), firedCount func() int)
	victim func(s *runningFault) // creates the load that the fault affects; may be nil
}

// start starts each planned fault at its time in the plan.
func (w *world) start() {
	for _, t := range w.plan.Troubles {
		owner := w.tenants[int(w.seed(t.String())>>10)%w.plan.Tenants]
		s := &runningFault{world: w, trouble: t, c: w.caller(owner, fmt.Sprintf("%s.%d", t.ID, t.At/time.Millisecond))}
		s.c.at = t.Replica
		w.countHelper(s.c.name, 1)
		w.trouble.Go(func() {
			defer w.countHelper(s.c.name, -1)
			s.c.sleep(t.At)
			s.run(acts[t.ID])
		})
	}
}

// run starts a planned fault, and ends it at the planned time. A fault without an effect lasts longer, until it has an
// effect or [runningFault.callVictim] has returned.
func (s *runningFault) run(a faultAction) {
	w := s.world
	note := span{id: s.ID, from: w.history.Since(), reach: a.reach}
	switch a.reach {
	case reachReplica:
		note.replica = w.replicas[s.Replica].name
	case reachCallers:
		note.replica, note.tenant = w.replicas[s.Replica].name, s.c.tenant.name
	}
	s.c.note(promises.Event{Kind: promises.Fault, Text: s.String() + " begins"})
	end, fired := func() {}, func() int { return int(s.count.Load()) }
	if a.begin != nil {
		end, fired = a.begin(s)
	}
	until := time.Now().Add(s.For)
	met := make(chan struct{})
	w.trouble.Go(func() {
		defer close(met)
		s.callVictim(a, fired)
	})
	s.c.sleep(time.Until(until))
	for waiting := true; waiting && fired() == 0; {
		select {
		case <-met:
			waiting = false
		case <-time.After(time.Second):
		}
	}
	end()
	note.to = w.history.Since()
	s.c.note(promises.Event{Kind: promises.Fault, Text: s.String() + " is over"})
	<-met
	note.fired = fired()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.faults = append(w.faults, note)
}

// callVictim creates the load for a fault by calling [faultAction.victim] up to six times. It stops as soon as the
// fault has fired.
func (s *runningFault) callVictim(a faultAction, firedCount func() int) {
	for try := 0; a.victim != nil && try < 6 && (try == 0 || firedCount() == 0); try++ {
		s.c.pause(500 * time.Millisecond)
		a.victim(s)
	}
}

// inject injects the fault f into the sandbox, once for each route. endFault removes the faults. firedCount returns the
// number of requests that they have affected.
func inject(s *runningFault, f sandbox.Fault, routes ...string) (endFault func(), firedCount func() int) {
	var handles []*sandbox.Injected
	for _, route := range routes {
		f.Route = route
		handles = append(handles, s.world.box.Inject(f))
	}
	return func() {
			for _, h := range handles {
				h.Remove()
			}
		}, func() (sum int) {
			for _, h := range handles {
				sum += h.Fired()
			}
			return sum
		}
}

// breakRoutes returns an action that injects a fault into the given routes of the catalog. The variant number in the
// plan selects one of the faults in variants.
func breakRoutes(r reach, victim func(*runningFault), routes []string, variants ...sandbox.Fault) faultAction {
	return faultAction{reach: r, victim: victim, begin: func(s *runningFault) (func(), func() int) {
		return inject(s, variants[s.Variant%len(variants)], routes...)
	}}
}

// breakUplinks returns an action that disturbs the network between the catalog and one replica, or all replicas.
func breakUplinks(r reach, state condition, affectsAll bool) faultAction {
	return faultAction{reach: r, victim: watchOne, begin: func(s *runningFault) (func(), func() int) {
		var links []*link
		for i, replica := range s.world.replicas {
			if affectsAll || i == s.Replica {
				links = append(links, replica.currentProcess().uplink)
			}
		}
		for _, l := range links {
			l.setCondition(state)
			if state == refused {
				l.cutConnections()
			}
		}
		return func() {
				for _, l := range links {
					l.setCondition(up)
				}
			}, func() (sum int) {
				for _, l := range links {
					sum += l.firedCount()
				}
				return sum
			}
	}}
}

// breakEndpoints returns an action that disturbs the network between one tenant and one replica. state is the condition of the
// network during the fault. resetsOpen reports whether the open connections are reset when the fault begins.
func breakEndpoints(state condition, resetsOpen bool) faultAction {
	return faultAction{reach: reachCallers, begin: func(s *runningFault) (func(), func() int) {
		l := s.c.tenant.endpoints[s.Replica].link
		before := l.firedCount()
		s.startHelper("watch", func(h *caller) { h.orderAndFollow(h.essay(false), viewing{}) })
		s.c.pause(2 * time.Second)
		l.setCondition(state)
		if resetsOpen {
			l.cutConnections()
		}
		return func() { l.setCondition(up) }, func() int { return l.firedCount() - before }
	}}
}

// startHelper calls fn with a new helper caller, and does not wait until fn returns.
func (s *runningFault) startHelper(name string, fn func(h *caller)) {
	s.c.helper(name).start(fn)
}

var reads = []string{routeRead, routeList}

var html = map[string]string{"Content-Type": "text/html"}

func waitFor(after string) map[string]string { return map[string]string{"Retry-After": after} }

const tooMany = `{"code":"RATE_LIMITED","message":"Too many requests."}`

// acts contains the actions of the planned faults, keyed by the faults' IDs. Faults of sockets, disks, signals, call limits
// and the callers file are omitted, because other packages test them.
var acts = map[string]faultAction{
	"U1": breakUplinks(reachCatalog, refused, false),
	"U2": breakRoutes(reachCatalog, watchOne, reads, sandbox.Fault{Hang: true}),
	"U3": breakRoutes(reachCatalog, watchOne, reads, sandbox.Fault{Drip: 1}),
	"U4": breakRoutes(reachCatalog, watchOne, reads,
		sandbox.Fault{Status: 500, Body: page, Header: html}, sandbox.Fault{Status: 502, Body: page, Header: html},
		sandbox.Fault{Status: 503, Body: page, Header: html}),
	"U5": breakRoutes(reachCatalog, watchOne, reads,
		sandbox.Fault{Status: 429, Header: waitFor("7"), Body: tooMany}, sandbox.Fault{Status: 429, Header: waitFor("30"), Body: tooMany},
		sandbox.Fault{Status: 429, Header: waitFor("1"), Body: tooMany, Count: 4}),
	"U6": breakRoutes(reachCatalog, watchOne, reads,
		sandbox.Fault{Status: 429, Header: waitFor("0"), Body: tooMany}, sandbox.Fault{Status: 429, Header: waitFor("-1"), Body: tooMany},
		sandbox.Fault{Status: 429, Header: waitFor("315360000"), Body: tooMany, Count: 1},
		sandbox.Fault{Status: 429, Header: waitFor("Wed, 21 Oct 2065 07:28:00 GMT"), Body: tooMany, Count: 1},
		sandbox.Fault{Status: 503, Header: waitFor("Wed, 21 Oct 1995 07:28:00 GMT"), Body: tooMany},
		sandbox.Fault{Status: 429, Header: waitFor("soon"), Body: tooMany}),
	"U7": breakRoutes(reachRejected, watchOne, reads, sandbox.Fault{Status: 401, Body: `{"code":"UNAUTHORIZED","message":"no"}`}),
	"U11": breakRoutes(reachCatalog, watchOne, reads,
		sandbox.Fault{Set: map[string]any{"status": "warming-up"}}, sandbox.Fault{Set: map[string]any{"surprise": []any{1, "x", nil}, "costCents": "a lot"}},
		sandbox.Fault{Set: map[string]any{"createdAt": map[string]any{"day": 1}, "inputs": 7}}, sandbox.Fault{Set: map[string]any{"status": 12}},
		sandbox.Fault{Set: map[string]any{"finishedAt": nil, "createdAt": nil, "modelId": nil}}),
	"U13": breakRoutes(reachCatalog, seeEndGoBack, reads, sandbox.Fault{Set: map[string]any{"status": "queued"}, Probability: 0.5}),
	"U16": breakRoutes(reachNobody, fetchOne, []string{routeFile},
		sandbox.Fault{Cut: true, CutAfter: 700, Count: 3}, sandbox.Fault{ContentLengthDelta: 100, Count: 2}, sandbox.Fault{Cut: true, Count: 2}),
	"U17": breakRoutes(reachCatalog, watchOne, reads,
		sandbox.Fault{Redirect: "http://elsewhere/"}, sandbox.Fault{Redirect: "http://catalog:81/", Status: 307},
		sandbox.Fault{Redirect: "https://catalog/", Status: 308}, sandbox.Fault{Status: 304}),
	"U18": breakRoutes(reachCatalog, watchOne, reads, sandbox.Fault{Oversize: 9 << 20, Count: 2}),
	"U19": breakUplinks(reachOutage, refused, true),
	"U22": {reach: reachCatalog, victim: watchOne, begin: func(s *runningFault) (func(), func() int) {
		key := s.c.tenant.key
		if s.world.account != nil { // all tenants share this account
			key = s.world.account.key
		}
		return inject(s, sandbox.Fault{
			Status: []int{500, 403, 400}[s.Variant%3], Key: s.apiKey(),
			Body: `{"code":"BROKEN","message":"the key ` + key + ` is not welcome"}`,
		}, reads...)
	}},
	"N1": breakUplinks(reachCatalog, silent, false),
	"P5": {reach: reachReads, victim: watchMuch, begin: func(s *runningFault) (func(), func() int) {
		return inject(s, sandbox.Fault{Status: 503, Body: page, Header: html, Key: s.apiKey()}, routeList)
	}},

	"U2p": breakRoutes(reachOrders, buyOne, []string{routePlace}, sandbox.Fault{Hang: true, Count: 2}),
	"U4p": breakRoutes(reachOrders, buyOne, []string{routePlace},
		sandbox.Fault{Status: 500, Body: page, Header: html}, sandbox.Fault{Status: 502, Body: page, Header: html, AfterCommit: true}),
	"U5p": breakRoutes(reachOrders, buyOne, []string{routePlace}, sandbox.Fault{Status: 429, Header: waitFor("3"), Body: tooMany, Count: 3}),
	"U8": breakRoutes(reachOrders, buyOne, []string{routePlace},
		sandbox.Fault{Status: 402, Body: `{"code":"INSUFFICIENT_BALANCE","message":"no money"}`, Count: 2}),
	"U9": breakRoutes(reachOrders, buyOne, []string{routePlace}, sandbox.Fault{Status: 409, Body: `{"code":"API_KEY_DAILY_CAP","message":"enough for today"}`, Count: 2}),
	"U12": breakRoutes(reachOrders, buyOne, []string{routePlace},
		sandbox.Fault{AfterCommit: true, Body: `{}`, Count: 2}, sandbox.Fault{AfterCommit: true, Body: `{"id": "gen_`, Count: 2},
		sandbox.Fault{AfterCommit: true, Status: 201, Body: page, Header: html, Count: 2}, sandbox.Fault{Cut: true, CutAfter: 20, Count: 2}),
	"U14": breakRoutes(reachOrders, buyOne, []string{routePlace}, sandbox.Fault{AfterCommit: true, Reset: true, Count: 2}, sandbox.Fault{AfterCommit: true, Hang: true, Count: 1}),
	"U15": {reach: reachOrders, victim: buyOne, begin: func(s *runningFault) (func(), func() int) {
		// The response to the first attempt is delayed by 22 s. In half of the variants, the catalog rejects the next
		// attempt in the meantime.
		late, fired := inject(s, sandbox.Fault{Delay: sandbox.Delay(22 * time.Second), Count: 1, Key: s.apiKey()}, routePlace)
		refusal := sandbox.Fault{Status: 402, Body: `{"code":"INSUFFICIENT_BALANCE","message":"no money"}`, Count: 1, Key: s.apiKey()}
		if s.Variant%2 == 0 {
			return late, fired
		}
		more, _ := inject(s, refusal, routePlace)
		return func() { late(); more() }, fired
	}},
	"U20": {reach: reachOrders, victim: func(s *runningFault) {
		o := s.c.essay(false)
		low := int64(0)
		o.limit = &low
		if _, ok := s.c.buy(o, 30*time.Second); ok {
			s.c.note(promises.Event{Kind: promises.Exceeded, Text: "an order above the most that it may cost was placed"})
		} else if s.c.refused == "PRICE_ABOVE_LIMIT" {
			s.count.Add(1)
		}
	}},
	"A10": {reach: reachOrders, victim: buyOne, begin: func(s *runningFault) (func(), func() int) { return s.refuseRepeats() }},
	"A10k": {reach: reachReplica, begin: func(s *runningFault) (func(), func() int) {
		// The response to an order is lost. The caller then repeats the order to a new process. This process does not
		// know the order, and gets a quote that exceeds the order's limit.
		healed, fired := s.refuseRepeats()
		risen, _ := inject(s, sandbox.Fault{Status: 200, Body: `{"priceCents":99999}`, Key: s.apiKey()}, routeQuote)
		s.startHelper("limited", func(h *caller) {
			o := h.haiku(false)
			limit := int64(1000)
			h.at, o.limit = s.Replica, &limit
			h.buy(o, 20*time.Second)
		})
		s.c.pause(time.Second)
		s.restart((*replica).kill)
		return func() { healed(); risen() }, fired
	}},
	"A11": {reach: reachOrders, victim: buyOne, begin: func(s *runningFault) (func(), func() int) {
		ended := make(chan struct{})
		s.world.trouble.Go(func() { s.rotateKeys(ended) })
		lost, fired := inject(s, []sandbox.Fault{
			{AfterCommit: true, Reset: true, Count: 3}, {Status: 503, Count: 3}, {AfterCommit: true, Body: `{}`, Count: 3},
		}[s.Variant%3], routePlace)
		return func() { close(ended); lost() }, fired
	}},
	"G3": {reach: reachCatalog, victim: orderIntoAPause, begin: func(s *runningFault) (func(), func() int) {
		return inject(s, sandbox.Fault{Status: []int{429, 503}[s.Variant%2], Header: waitFor("12"), Body: tooMany, Count: 1, Key: s.apiKey()}, []string{routePlace, routeRead, routeList}[s.Variant%3])
	}},
	"K7": {reach: reachNobody, victim: leaveAnOrder},
	"K8": {reach: reachNobody, victim: orderTwice},

	"K3": {reach: reachReplica, begin: func(s *runningFault) (func(), func() int) { return s.restart((*replica).kill) }},
	"N4": {reach: reachReplica, begin: func(s *runningFault) (func(), func() int) { return s.restart((*replica).drain) }},
	"C2": {reach: reachReplica, begin: func(s *runningFault) (func(), func() int) {
		watchTwo(s)
		r := s.world.replicas[s.Replica]
		p := r.currentProcess()
		r.freeze()
		return func() { r.thaw(p) }, func() (sum int) {
			for _, l := range r.linksOf(p) {
				sum += l.firedCount()
			}
			return sum
		}
	}},
	"N2": breakEndpoints(silent, false),
	"N3": breakEndpoints(up, true),

	"L2": {reach: reachNobody, victim: func(s *runningFault) {
		s.done(s.c.orderAndFollow(s.c.essay(false), viewing{slow: 10 * time.Second}))
	}},
	"L4": {reach: reachNobody, victim: startHerd},
	"L7": {reach: reachNobody, victim: readForeign},
	"S3": {reach: reachNobody, victim: func(s *runningFault) {
		s.done(s.c.orderAndFollow(s.c.haiku(true), viewing{until: easelv1.WatchUntil_WATCH_UNTIL_SETTLED}))
	}},
}

// refuseRepeats simulates a catalog that loses the response to an order and then rejects all repeats. This happens if
// the catalog checks the balance, the cap, the model or the inputs before the idempotency key. The first attempt itself
// may have used up the balance or the cap.
func (s *runningFault) refuseRepeats() (endFault func(), firedCount func() int) {
	refusals := []sandbox.Fault{
		{Status: 402, Body: `{"code":"INSUFFICIENT_BALANCE","message":"no money"}`},
		{Status: 409, Body: `{"code":"API_KEY_DAILY_CAP","message":"enough for today"}`},
		{Status: 400, Body: `{"code":"INVALID","message":"no such input any more"}`},
		{Status: 404, Body: `{"code":"MODEL_NOT_FOUND","message":"no such model any more"}`},
		{Status: 403, Body: `{"code":"FORBIDDEN","message":"no"}`},
		{Status: 409, Body: `{"code":"BUSY","message":"the prompt API_KEY_DAILY_CAP is under way"}`},
	}
	lost, firedCount := inject(s, sandbox.Fault{AfterCommit: true, Reset: true, Count: 1, Key: s.apiKey()}, routePlace)
	refusal := refusals[s.Variant%len(refusals)]
	refusal.Key = s.apiKey()
	refuse, _ := inject(s, refusal, routePlace)
	return func() { lost(); refuse() }, firedCount
}

// rotateKeys changes the shared API key several times per second. In half of the variants, the catalog rejects orders under
// the earlier keys until the fault ends.
func (s *runningFault) rotateKeys(ended chan struct{}) {
	var rejected []*sandbox.Injected
	for {
		select {
		case <-ended:
			for _, old := range rejected {
				old.Remove()
			}
			return
		case <-time.After(time.Duration(100+s.c.random.IntN(200)) * time.Millisecond):
		}
		w := s.world
		next := w.holder().next[w.rotated.Add(1)%rotations]
		if last := w.sharedKey.Swap(&next); last != nil && s.Variant >= 3 && len(rejected) < rotations/2 {
			rejected = append(rejected, w.box.Inject(sandbox.Fault{Status: 401, Body: `{}`, Key: *last, Route: routePlace}))
		}
	}
}

// restart stops the process of a replica and starts a new process in its place.
func (s *runningFault) restart(stopReplica func(*replica)) (endFault func(), firedCount func() int) {
	r := s.world.replicas[s.Replica]
	watchTwo(s)
	if !r.setAbsent(true) {
		return func() {}, func() int { return 0 } // another fault is restarting the replica
	}
	defer r.setAbsent(false)
	s.c.note(promises.Event{Kind: promises.Fault, Process: r.currentProcess().name, Text: s.ID + " stops"})
	stopReplica(r)
	// The new process starts after a fixed time, even if the old process has not exited yet. The time of the exit is not
	// reproducible, because Shutdown in net/http polls with random jitter, which the seed does not determine. If the old
	// process drains slowly, both processes run at the same time, as in a rolling update.
	away := time.Duration(s.Variant) * 3 * time.Second
	s.For = away + drainTimeout + 5*time.Second
	s.c.sleep(away + time.Millisecond)
	if err := r.boot(); err != nil {
		s.world.recordProblem("a replica did not come back: %v", err)
	}
	return func() {}, func() int { return 1 }
}
