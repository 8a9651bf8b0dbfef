package simulation

import (
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/easel-grpc/easel/internal/promises"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
)

// guest is a caller without a team. One fault removes its token for a while.
const guest = "guest"

// limitChange is a change of the thrifty team's daily budget in the callers file.
type limitChange struct {
	at    time.Duration
	cents int64
}

// callersText returns the contents of a callers file. budget is the daily budget of the thrifty team. The guest has the
// given token and, if guestTeam is not empty, a team.
func (w *world) callersText(budget int64, guestToken, guestTeam string) string {
	teams, list := "", ""
	add := func(name, more, token string) {
		list += fmt.Sprintf("  - {name: %s, %stokens: [\"sha256:%x\"]}\n", callerOf(name), more, sha256.Sum256([]byte(token)))
	}
	for i, name := range w.plan.tenantNames() {
		switch {
		case i == 0: // a caller without a team
			add(name, "", w.token(name))
			continue
		case name == thrifty:
			teams += fmt.Sprintf("  %s: {budget: {daily_cents: %d, monthly_cents: %d}}\n", name, budget, monthlyBudget(budget))
		case i%2 == 1:
			teams += fmt.Sprintf("  %s: {budget: {monthly_cents: 1000000}, labels: {required: [who], budgets: {who: {monthly_cents: 1000000}}}}\n", name)
		default:
			teams += fmt.Sprintf("  %s: {budget: {}}\n", name)
		}
		add(name, "team: "+name+", ", w.token(name))
	}
	add(promises.Operator, "operator: true, ", w.token(promises.Operator))
	add(guest, guestTeam, guestToken)
	return "teams:\n" + teams + "callers:\n" + list
}

// writeCallers writes the usual callers file with the given daily budget.
func (w *world) writeCallers(budget int64) error {
	w.mu.Lock()
	w.limits = append(w.limits, limitChange{w.history.Since(), budget})
	w.mu.Unlock()
	return os.WriteFile(w.callersFile, []byte(w.callersText(budget, w.token(guest), "")), 0o600)
}

// changeCallers writes a different callers file, calls do, and then restores the usual file.
func (s *runningFault) changeCallers(write func() error, do func()) {
	for _, f := range []func() error{write, func() error { do(); return s.world.writeCallers(s.world.plan.Budget) }} {
		if err := f(); err != nil {
			s.world.problem("the callers file was not written: %v", err)
		}
	}
}

// callersFileChanges writes an invalid callers file, removes a token or lowers a budget. The variant selects the
// change.
func callersFileChanges(s *runningFault) {
	switch s.Variant % 3 {
	case 0:
		s.changeCallers(func() error { return os.WriteFile(s.world.callersFile, []byte("teams: {t2: ["), 0o600) }, func() {
			s.c.sleep(2 * time.Second)
			s.done(s.c.orderAndFollow(s.c.haiku(false), viewing{}))
		})
	case 1:
		s.loseToken()
	default:
		s.changeCallers(func() error { return s.world.writeCallers(s.world.plan.Budget / 3) }, func() {
			s.c.sleep(2 * time.Second)
			for n := range 8 {
				h := s.world.caller(s.world.tenants[s.world.plan.Tenants], fmt.Sprint(s.next("low"), n, s.c.name))
				h.buy(h.haiku(false), 20*time.Second)
				s.done(h.refused == "BUDGET_EXCEEDED")
			}
		})
	}
	s.c.sleep(2 * time.Second)
}

// loseToken removes the guest's token while the guest watches everything.
func (s *runningFault) loseToken() {
	h := s.world.caller(s.world.guest, s.next("g")+s.c.name)
	h.at = s.Replica
	id, ok := h.buy(h.haiku(false), 20*time.Second)
	if !ok {
		return
	}
	ctx, leave := context.WithCancel(s.world.ctx)
	defer leave()
	d := h.endpoint()
	stream, err := d.grpc.WatchGenerations(d.signed(ctx), &easelv1.WatchGenerationsRequest{HeartbeatInterval: durationpb.New(h.heartbeat(time.Second))})
	if err == nil {
		_, err = stream.Recv()
	}
	if err != nil {
		return
	}
	ended := make(chan error, 1)
	go func() {
		for err == nil {
			_, err = stream.Recv()
		}
		ended <- err
	}()
	read := func() error {
		_, err := d.grpc.GetGeneration(d.signed(ctx), &easelv1.GetGenerationRequest{GenerationId: id})
		return err
	}
	s.changeCallers(func() error {
		return os.WriteFile(s.world.callersFile, []byte(s.world.callersText(s.world.plan.Budget, "another", "")), 0o600)
	}, func() {
		h.sleep(5 * time.Second)
		if err := read(); err == nil || status.Code(err) == codes.NotFound {
			h.note(promises.Event{Kind: promises.Leaked, Generation: id, Text: fmt.Sprintf("a caller without a token is answered: %v", err)})
		}
		select {
		case err := <-ended:
			s.done(status.Code(err) == codes.Unauthenticated)
		default:
			h.note(promises.Event{Kind: promises.Leaked, Generation: id, Text: "the watch of a caller without a token continues"})
		}
	})
	h.sleep(2 * time.Second)
	if err := read(); status.Code(err) == codes.Unauthenticated {
		h.note(promises.Event{Kind: promises.Exceeded, Generation: id, Text: "its token is in the callers file again, and it is refused"})
	}
}

// callersInTheFile checks that the server does not reject a caller that is in the callers file.
func callersInTheFile(o *outcome, say promises.Say) {
	for _, e := range o.Events {
		if e.Kind == promises.Failed && o.plan.Ledger && e.Owner() != guest && strings.HasPrefix(e.Text, codes.Unauthenticated.String()) {
			say(e, "the caller is in the callers file, but was rejected")
		}
	}
}

// newOrdersFit checks that each new order of the thrifty team fits into the budget in the callers file. A change to
// the file may take a second to become effective.
func newOrdersFit(o *outcome, say promises.Say) {
	sent := map[string]time.Duration{}
	for _, e := range o.Events {
		if key := ""; e.Kind == promises.Ordered && e.Owner() == thrifty {
			key = o.UpstreamKey(e, e.Text)
			if _, again := sent[key]; !again {
				sent[key] = e.At
			}
		}
	}
	seen := map[string]bool{}
	for _, c := range o.Versions {
		if first := !seen[c.ID]; c.Owner != thrifty || !first {
			continue
		}
		seen[c.ID] = true
		limit := o.limitIn(sent[c.Key]-time.Second, c.At)
		for _, at := range c.Budgets() {
			most := limit
			if at.Period == "month" {
				most = monthlyBudget(limit)
			}
			if used := o.usedAt(at, c.At); used > most {
				say(promises.Event{At: c.At, Actor: c.Owner, Generation: c.Key}, "with the order, %d cents of the %s's budget are used, but the limit is %d", used, at.Period, most)
			}
		}
	}
}

// limitIn returns the highest daily budget that the callers file contained during a period, in cents.
func (o *outcome) limitIn(from, to time.Duration) (most int64) {
	for n, l := range o.limits {
		if l.at <= to && (n+1 == len(o.limits) || o.limits[n+1].at >= from) {
			most = max(most, l.cents)
		}
	}
	return most
}

// usedAt returns the used amount of a budget at a given time, in cents.
func (o *outcome) usedAt(w promises.Budget, at time.Duration) (used int64) {
	for _, b := range o.Budgets {
		if b.Budget() == w && b.At <= at {
			used = b.Spent + b.Reserved
		}
	}
	return used
}
