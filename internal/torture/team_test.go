//go:build unix

package torture

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/service"
)

const callersOfLedger = 48

// teamOrder is an order as its team calls it. All teams choose the same idempotency keys.
type teamOrder struct{ team, idempotencyKey string }

// memory has the responses that callers received.
type memory struct {
	mu      sync.Mutex
	last    map[string]int // order, by team
	ids     map[teamOrder]string
	refused map[teamOrder]bool // because the budget was too small
	maybe   map[teamOrder]bool // orders with a call that may have placed them
	dropped int                // orders that no caller repeats
	seen    map[string]string  // team that received the generation
	faults  []error
	calls   map[teamOrder][]string // results of all calls, for failure messages
}

func newMemory() *memory {
	return &memory{last: map[string]int{}, ids: map[teamOrder]string{}, refused: map[teamOrder]bool{}, maybe: map[teamOrder]bool{}, seen: map[string]string{}, calls: map[teamOrder][]string{}}
}

// answered keeps how a call has ended.
func (m *memory) answered(o teamOrder, began time.Time, id string, err error, why *errdetails.ErrorInfo) {
	m.mu.Lock()
	defer m.mu.Unlock()
	outcome := why.GetMetadata()["order_outcome"]
	m.maybe[o] = m.maybe[o] || outcome != "not_placed" && outcome != "not_placed_by_this_call"
	m.calls[o] = append(m.calls[o], fmt.Sprintf("from %s to %s: %s %v %s %s", began.Format(time.StampMilli), time.Now().Format(time.StampMilli), id, err, why.GetReason(), outcome))
}

// next numbers the orders of a team.
func (m *memory) next(team string) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.last[team]++
	return m.last[team]
}

// recordOrder stores the generation ID returned for an order. It must always be the same.
func (m *memory) recordOrder(o teamOrder, id string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if before := m.ids[o]; before != "" && before != id || id == "" {
		m.faults = append(m.faults, fmt.Errorf("%v is the generation %q, and it was reported as %q", o, before, id))
	}
	m.ids[o] = id
	m.see(o.team, id)
}

// shown records that a team has received a generation.
func (m *memory) shown(team string, g *easelv1.Generation) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if g.GetOwner() != team && g.GetOwner() != "" { // empty in a watch of many while the database is unavailable
		m.faults = append(m.faults, fmt.Errorf("%s was shown %s of %q", team, g.GetGenerationId(), g.GetOwner()))
	}
	m.see(team, g.GetGenerationId())
}

func (m *memory) see(team, id string) {
	if other := m.seen[id]; other != "" && other != team {
		m.faults = append(m.faults, fmt.Errorf("%s and %s were both shown %s", team, other, id))
	}
	m.seen[id] = team
}

// outOfBudget records that an order was rejected. It must not exist.
func (m *memory) outOfBudget(o teamOrder) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.ids[o] != "" {
		m.faults = append(m.faults, fmt.Errorf("%v is the generation %s, and was refused for want of budget:\n%s", o, m.ids[o], strings.Join(m.calls[o], "\n")))
	}
	m.refused[o] = true
}

func (m *memory) drop() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.dropped++
}

// count returns the number of orders with a generation that their callers know.
func (m *memory) count() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.ids)
}

// anyOf returns a generation of a team, or "".
func (m *memory) anyOf(team string) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	for id, of := range m.seen {
		if of == team {
			return id
		}
	}
	return ""
}

// member is a caller of a team. If it does not know the outcome of an order, it repeats the order later, or gives up.
type member struct {
	*caller
	world *ledgerWorld
	team  string
	later []*easelv1.CreateGenerationRequest
}

// work orders while nothing is calm.
func (m *member) work(ctx context.Context, colleague *member) error {
	for m.world.calmIfDone(); !m.world.isCalm() && ctx.Err() == nil; m.world.calmIfDone() {
		request := m.next()
		if rand.IntN(20) == 0 { // concurrent orders of two callers with the same idempotency key
			var twin sync.WaitGroup
			twin.Go(func() { _, _ = colleague.ask(ctx, request) })
			err := m.try(ctx, request)
			if twin.Wait(); err != nil {
				return err
			}
			continue
		}
		if err := m.try(ctx, request); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// next returns an earlier order, or a new one.
func (m *member) next() *easelv1.CreateGenerationRequest {
	if n := len(m.later); n > 20 || n > 0 && rand.IntN(3) == 0 {
		request := m.later[0]
		m.later = m.later[1:]
		return request
	}
	return orderOf(m.world.memory.next(m.team))
}

// try sends an order once. If its outcome is unknown, it selects whether the order is repeated later.
func (m *member) try(ctx context.Context, request *easelv1.CreateGenerationRequest) error {
	known, err := m.ask(ctx, request)
	switch {
	case err != nil:
		return err
	case known:
		if m.line.beforeDelivery() || rand.IntN(8) == 0 {
			_, err = m.ask(ctx, request)
		}
		return err
	case rand.IntN(4) == 0:
		m.world.memory.drop()
	default:
		m.later = append(m.later, request)
	}
	if rand.IntN(2) == 0 { // while this facade may still be at it
		m.line.disconnect()
	}
	pauseFor(ctx, rand.N(20*time.Millisecond))
	return nil
}

// ask sends an order, and reports whether its outcome is known.
func (m *member) ask(ctx context.Context, request *easelv1.CreateGenerationRequest) (known bool, err error) {
	m.world.tally.call()
	o := teamOrder{m.team, request.GetIdempotencyKey()}
	began := time.Now()
	id, err := m.send(ctx, request)
	why := service.Detail[*errdetails.ErrorInfo](status.Convert(err))
	m.world.memory.answered(o, began, id, err, why)
	switch {
	case err == nil:
		m.world.memory.recordOrder(o, id)
		return true, nil
	case why.GetReason() == "BUDGET_EXCEEDED" && m.world.limits[m.team] > 0:
		m.world.memory.outOfBudget(o)
		return true, nil
	case !retryable(err):
		return false, fmt.Errorf("%v was answered with %w", o, err)
	}
	return false, nil
}

// comeBack repeats all orders of unknown outcome that the member has not given up.
func (m *member) comeBack(ctx context.Context) error {
	for _, request := range m.later {
		for known := false; !known; {
			var err error
			if known, err = m.ask(ctx, request); err != nil {
				return err
			}
			if ctx.Err() != nil {
				return fmt.Errorf("%s was never heard of", request.GetIdempotencyKey())
			}
		}
	}
	return nil
}

// look checks the access of a team during the faults: its list, its watch of everything, and the
// responses about another team's generations.
func (l *ledgerWorld) look(team, other string) error {
	ctx, client := bearing(l.ctx, l.tokens[team]), l.clients[team]
	l.work.Go(func() { l.watch(ctx, client, team) })
	for !l.isCalm() && ctx.Err() == nil {
		if err := errors.Join(l.list(ctx, client, team), l.peek(ctx, client, other)); err != nil {
			return err
		}
		pauseFor(ctx, 50*time.Millisecond)
	}
	return nil
}

// watch watches everything of a team until the test ends, and reconnects each time.
func (l *ledgerWorld) watch(ctx context.Context, client easelv1.GenerationServiceClient, team string) {
	for ctx.Err() == nil {
		_ = l.watchOnce(ctx, client, team) // it fails, or a new stream is needed for newer generations
		pauseFor(ctx, 20*time.Millisecond)
	}
}

func (l *ledgerWorld) watchOnce(ctx context.Context, client easelv1.GenerationServiceClient, team string) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	stream, err := client.WatchGenerations(ctx, &easelv1.WatchGenerationsRequest{})
	for err == nil {
		var m *easelv1.WatchGenerationsResponse
		if m, err = stream.Recv(); m.GetUpdate() != nil {
			l.memory.shown(team, m.GetUpdate().GetGeneration())
		}
	}
	return err
}

func (l *ledgerWorld) list(ctx context.Context, client easelv1.GenerationServiceClient, team string) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	answer, err := client.ListGenerations(ctx, &easelv1.ListGenerationsRequest{PageSize: 50})
	if err != nil && !retryable(err) && status.Code(err) != codes.Canceled {
		return fmt.Errorf("a list of %s: %w", team, err)
	}
	for _, g := range answer.GetGenerations() {
		l.memory.shown(team, g)
	}
	return nil
}

// peek reads a generation of another team.
func (l *ledgerWorld) peek(ctx context.Context, client easelv1.GenerationServiceClient, other string) error {
	id := l.memory.anyOf(other)
	if id == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	_, err := client.GetGeneration(ctx, &easelv1.GetGenerationRequest{GenerationId: id})
	if status.Code(err) != codes.NotFound && !retryable(err) && status.Code(err) != codes.Canceled {
		return fmt.Errorf("%s, which is %s's, was answered with %w", id, other, err)
	}
	return nil
}
