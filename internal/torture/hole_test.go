//go:build unix

package torture

import (
	"context"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
)

// N1
func TestABlackHoleEndsCallsInTimeAndItsConnectionsAreGivenUp(t *testing.T) {
	t.Parallel()
	var way *tunnel
	s := startStack(t, func(catalog string) string {
		way = dig(t, catalog)
		return way.listener.Addr().String()
	}, "0.5")
	watched := s.order(t, 1)
	w := s.watch(t, watched.GetGenerationId())
	eventually(t, "the first state", func() bool { return w.seen(func(m seenMessage) bool { return m.GetUpdate().GetInitial() }) })
	eventually(t, "a few connections", func() bool {
		s.readAtOnce(t, 16)
		return way.open() >= 4
	})
	way.darken()

	within := func(what string, code codes.Code, call func(context.Context) error) {
		t.Helper()
		ctx, cancel := context.WithTimeout(s.ctx, time.Second)
		defer cancel()
		began := time.Now()
		err := call(ctx)
		// The 50 ms that it may be late are held in simulated time; this machine may be busy.
		if took := time.Since(began); took > 1500*time.Millisecond || status.Code(err) != code {
			t.Errorf("%s ended after %v with %v", what, took, err)
		}
	}
	within("a read", codes.DeadlineExceeded, func(ctx context.Context) error {
		_, err := s.accounts.GetAccount(ctx, &easelv1.GetAccountRequest{})
		return err
	})
	within("an order", codes.Unavailable, func(ctx context.Context) error {
		_, err := s.generations.CreateGeneration(ctx, orderOf(2))
		return err
	})
	eventually(t, "a heartbeat that says so", func() bool {
		return w.seen(func(m seenMessage) bool {
			return m.GetHeartbeat().GetUpstreamCondition() == easelv1.UpstreamCondition_UPSTREAM_CONDITION_UNREACHABLE
		})
	})

	way.light()
	within("the order that is sent again", codes.OK, func(ctx context.Context) error {
		_, err := s.generations.CreateGeneration(ctx, orderOf(2))
		return err
	})
	eventually(t, "the end of the watch", w.isOver)
	if err := w.goal(); err != nil {
		t.Errorf("the watch: %v", err)
	}
	if dead := way.dead(); dead > 0 {
		t.Errorf("%d dark connections are kept", dead)
	}
	a, err := settledAudit(s.ctx, s.catalog.found[0])
	if err != nil || len(a.Generations) != 2 || a.ChargesByIdempotencyKey["order-2"] != 1 {
		t.Errorf("the accounts have %d generations, %v", len(a.Generations), err)
	}
}

// readAtOnce sends concurrent calls, each on its own connection.
func (s *stack) readAtOnce(t *testing.T, calls int) {
	t.Helper()
	var all errgroup.Group
	for range calls {
		all.Go(func() error {
			_, err := s.accounts.GetAccount(s.ctx, &easelv1.GetAccountRequest{})
			return err
		})
	}
	if err := all.Wait(); err != nil {
		t.Fatal(err)
	}
}
