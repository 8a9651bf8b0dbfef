package content_test

import (
	"context"
	"testing"
	"time"

	"github.com/easel-grpc/easel/internal/ledger/lifecycle"
)

func TestAProcessWithoutAStoreTellsWhichCopiesAreLeft(t *testing.T) {
	inTowns(t, func(s *studio) {
		s.finish("g1", picture(1000))
		stop := s.run(s.results)
		s.waitForCopy("g1")
		stop()
		left := func(within time.Duration) int64 {
			ctx, cancel := context.WithTimeout(s.Context(), within)
			defer cancel()
			left, err := s.results.Forget(ctx)
			if err != nil {
				s.Error(err)
			}
			return left
		}
		s.restart(false)
		s.observe("g1", lifecycle.Observation{Deleted: true})
		s.finish("g2", picture(1000))
		if n := left(10 * time.Millisecond); n != 1 {
			s.Errorf("%d copies are left to others", n)
		}
		s.restart(true)
		if n := left(time.Minute); n != 0 || len(s.objects()) != 0 {
			s.Errorf("%d copies are left in %q", n, s.objects())
		}
		if _, found, err := s.book.Content(s.Context(), "g2"); found || err != nil {
			s.Errorf("a copy is wanted where there is no store: %v", err)
		}
	})
}
