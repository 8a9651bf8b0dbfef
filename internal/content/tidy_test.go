package content_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/easel-grpc/easel/internal/content"
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

func TestResultsFromBeforeTheStoreAreCopied(t *testing.T) {
	onEach(t, func(s *studio) {
		s.restart(false)
		const old = 20 // more than are copied at once
		for n := range old {
			s.finish(fmt.Sprint("old", n), picture(100+n))
		}
		s.finish("lost", nil)
		s.upstream.set(func() { delete(s.upstream.files, "lost") })
		s.finish("deleted", picture(10))
		s.observe("deleted", lifecycle.Observation{Deleted: true})
		s.order("running")
		s.restart(true)
		if _, found, err := s.book.Content(s.Context(), "old0"); found || err != nil {
			s.Fatalf("it is wanted before the store is used: %v", err)
		}
		_, more, err := s.book.WantOldContents(s.Context(), ledger.Position{}, 3)
		if rows, failed := s.book.ContentsAfter(s.Context(), "", 100); len(rows) != 3 || !more || err != nil || failed != nil {
			s.Fatalf("%d are wanted at once: %v, %v", len(rows), err, failed)
		}
		if at, more, err := s.book.WantOldContents(s.Context(), ledger.Position{}, 3); at.ID != "" || !more || err != nil {
			s.Errorf("while some are to be copied the walk goes on to %v: %v", at, err)
		}
		defer s.run(s.results)()
		for n := range old {
			s.waitForCopy(fmt.Sprint("old", n))
			s.wantBytes(fmt.Sprint("old", n), picture(100+n), content.FromCopy)
		}
		s.finish("new", picture(10))
		s.waitForCopy("new")
		for end := time.Now().Add(time.Minute); s.row("lost").State != ledger.ContentFailed && time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		}
		if row := s.row("lost"); row.State != ledger.ContentFailed {
			s.Errorf("what the catalog has no more is %+v", row)
		}
		if summary, err := s.book.Summary(s.Context(), false); err != nil || summary.Contents.Failed != 0 || s.results.Counts.Failures.Load() != 0 {
			s.Errorf("that counts as a failure: %+v, %v", summary.Contents, err)
		}
		for _, id := range []string{"deleted", "running"} {
			if _, found, err := s.book.Content(s.Context(), id); found || err != nil {
				s.Errorf("a copy of what is %s is wanted: %v", id, err)
			}
		}
	})
}
