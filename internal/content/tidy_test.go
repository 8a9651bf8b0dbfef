package content_test

import (
	"context"
	"crypto/rand"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/easel-grpc/easel/internal/ledger"
	"github.com/easel-grpc/easel/internal/ledger/lifecycle"
)

func TestAnOwnerDiscardsItsCopyUnlessItsTeamKeepsIt(t *testing.T) {
	own, other := "studio", "shop"
	for name, row := range map[string]struct {
		owner *string
		keeps bool
		want  ledger.ContentState
	}{
		"its owner": {&own, false, ledger.ContentDoomed}, "anybody": {nil, false, ledger.ContentDoomed},
		"another owner": {&other, false, ledger.ContentCopied}, "kept": {&own, true, ledger.ContentCopied}, "kept from anybody": {nil, true, ledger.ContentCopied},
	} {
		t.Run(name, func(t *testing.T) {
			inStudio(t, func(s *studio) {
				s.team.KeepDeleted = row.keeps
				s.finish("g1", picture(1000))
				stop := s.run(s.results)
				s.waitForCopy("g1")
				stop()
				for _, id := range []string{"g1", "unknown"} {
					if err := s.book.DiscardContent(s.Context(), row.owner, id); err != nil {
						s.Error(err)
					}
				}
				if got := s.row("g1").State; got != row.want {
					s.Errorf("the copy is %v", got)
				}
			})
		})
	}
}

// A process that is killed while it copies leaves a file with bytes of the result.
func TestAnErasureLeavesNoByteOfACopyThatWasKilled(t *testing.T) {
	inStudio(t, func(s *studio) {
		o, other := s.finish("g1", picture(1000)), "g2"
		s.finish(other, picture(1000))
		stop := s.run(s.results)
		for _, id := range []string{"g1", other} {
			row := s.waitForCopy(id)
			if err := os.WriteFile(filepath.Join(s.dir, row.Object+"."+rand.Text()+".part"), picture(1000), 0o600); err != nil {
				s.Fatal(err)
			}
		}
		stop()
		found, err := s.book.Find(s.Context(), o.ID, 1)
		if err != nil {
			s.Fatal(err)
		}
		if _, err := s.book.Erase(s.Context(), found...); err != nil {
			s.Fatal(err)
		}
		if left, err := s.results.Forget(s.Context()); left != 0 || err != nil {
			s.Fatal(left, err)
		}
		if left := s.objects(); len(left) != 2 || !strings.Contains(left[0], s.row(other).Object) || !strings.Contains(left[1], s.row(other).Object) {
			s.Errorf("after the erasure of g1 the store has %q", left)
		}
	})
}

func TestAProcessWithoutAStoreTellsWhichCopiesAreLeft(t *testing.T) {
	onEach(t, func(s *studio) {
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
