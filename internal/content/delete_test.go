package content_test

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/easel-grpc/easel/internal/content"
	"github.com/easel-grpc/easel/internal/ledger"
	"github.com/easel-grpc/easel/internal/ledger/lifecycle"
	"github.com/easel-grpc/easel/internal/proctest"
)

func TestCopyCannotBeDiscardedByAnotherOwner(t *testing.T) {
	own, other := "studio", "shop"
	for name, row := range map[string]struct {
		owner *string
		keeps bool
		want  ledger.ContentState
	}{
		"the owner": {&own, false, ledger.ContentDoomed}, "any owner": {nil, false, ledger.ContentDoomed},
		"another owner": {&other, false, ledger.ContentCopied}, "the owner, kept by the team": {&own, true, ledger.ContentCopied}, "any owner, kept by the team": {nil, true, ledger.ContentCopied},
	} {
		t.Run(name, func(t *testing.T) {
			inStudio(t, func(s *studio) {
				s.team.KeepDeleted = row.keeps
				s.finishOrder("g1", picture(1000))
				stop := s.runJobs(s.results)
				s.waitForCopy("g1")
				stop()
				for _, id := range []string{"g1", "unknown"} {
					if err := s.ledger.DiscardContent(s.Context(), row.owner, id); err != nil {
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

func TestErasedResultsAreDeletedInTheStore(t *testing.T) {
	onEach(t, func(s *studio) {
		copied := s.finishOrder("g1", picture(1000))
		s.finishOrder("g2", picture(2000))
		defer s.runJobs(s.results)()
		s.waitForCopy("g1")
		s.waitForCopy("g2")
		s.erase(copied)
		if left := s.awaitDeletions(time.Minute); left != 0 || len(s.objects()) != 1 {
			s.Errorf("%d copies are left in %q", left, s.objects())
		}
		if _, found, err := s.ledger.Content(s.Context(), "g1"); found || err != nil {
			s.Errorf("the ledger still has the copy: %v", err)
		}
		s.wantBytes("g2", picture(2000), content.FromCopy)
	})
}

// If an order is erased while a process is copying its result, the copy is deleted after the process has finished or
// died.
func TestErasedResultIsDeletedAfterRunningCopyEnds(t *testing.T) {
	for name, locked := range map[string]string{"the process dies": "here/", "the process continues": ""} {
		t.Run(name, func(t *testing.T) {
			inStudio(t, func(s *studio) {
				o := s.finishOrder("g1", picture(1000))
				s.store.put = func() {
					s.store.put = nil
					s.erase(o)
				}
				s.store.locked = locked
				if err := s.runCopyJob(s.takeJob(ledger.CopyJob)); !errors.Is(err, ledger.ErrLeaseLost) {
					s.Errorf("recording an erased copy returns %v", err)
				}
				s.store.locked = ""
				if all := s.objects(); (len(all) == 1) != (locked != "") {
					s.Errorf("the store has %q", all)
				}
				defer s.runJobs(s.results)()
				if left := s.awaitDeletions(ledger.JobLease - time.Second); left != 1 {
					s.Error("the copy counts as deleted while it may be written")
				}
				if left := s.awaitDeletions(3 * time.Second); left != 0 || len(s.objects()) != 0 {
					s.Errorf("%d copies are left in %q", left, s.objects())
				}
			})
		})
	}
}

func TestLockedCopyDelaysNoOtherDeletion(t *testing.T) {
	inStudio(t, func(s *studio) {
		defer s.runJobs(s.results)()
		locked, other := s.finishOrder("g1", picture(10)), s.finishOrder("g2", picture(10))
		s.waitForCopy("g2")
		object := s.waitForCopy("g1").Object
		s.store.set(func() { s.store.locked = object })
		s.erase(locked, other)
		if left := s.awaitDeletions(3 * time.Second); left != 1 || len(s.objects()) != 1 {
			s.Errorf("%d copies are left in %q", left, s.objects())
		}
		s.store.set(func() { s.store.locked = "" })
		if left := s.awaitDeletions(time.Minute); left != 0 || len(s.objects()) != 0 {
			s.Errorf("in the end %d copies are left in %q", left, s.objects())
		}
	})
}

// A process that is killed while it copies a result leaves a partial file behind. Erasure deletes this file too.
func TestErasureDeletesIncompleteCopies(t *testing.T) {
	inStudio(t, func(s *studio) {
		o, other := s.finishOrder("g1", picture(1000)), "g2"
		s.finishOrder(other, picture(1000))
		stop := s.runJobs(s.results)
		for _, id := range []string{"g1", other} {
			proctest.Write(s, filepath.Join(s.dir, s.waitForCopy(id).Object+".part"), string(picture(1000)))
		}
		stop()
		s.erase(o)
		defer s.runJobs(s.results)()
		if left := s.awaitDeletions(time.Minute); left != 0 {
			s.Fatal(left)
		}
		if left := s.objects(); len(left) != 2 || !strings.Contains(left[0], s.row(other).Object) || !strings.Contains(left[1], s.row(other).Object) {
			s.Errorf("after the erasure of g1 the store has %q", left)
		}
	})
}

func TestOnlyProcessWithContentStoreDeletesCopies(t *testing.T) {
	onEach(t, func(s *studio) {
		s.finishOrder("g1", picture(1000))
		stop := s.runJobs(s.results)
		s.waitForCopy("g1")
		stop()
		s.restart(false)
		s.observe("g1", lifecycle.Observation{Deleted: true})
		s.finishOrder("g2", picture(1000))
		if n := s.awaitDeletions(10 * time.Millisecond); n != 1 {
			s.Errorf("%d copies are left for other replicas", n)
		}
		s.restart(true)
		defer s.runJobs(s.results)()
		if n := s.awaitDeletions(time.Minute); n != 0 || len(s.objects()) != 0 {
			s.Errorf("%d copies are left in %q", n, s.objects())
		}
		if _, found, err := s.ledger.Content(s.Context(), "g2"); found || err != nil {
			s.Errorf("a copy is requested without a store: %v", err)
		}
	})
}
