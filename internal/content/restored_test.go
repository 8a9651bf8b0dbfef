package content_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/easel-grpc/easel/internal/content"
	"github.com/easel-grpc/easel/internal/ledger"
	"github.com/easel-grpc/easel/internal/ledger/lifecycle"
	"github.com/easel-grpc/easel/internal/proctest"
)

// inRestoredStudio runs a test with each kind of database, in simulated time. The test can call restoreBackup,
// which backs up the ledger, calls makeChanges, and restarts the process with the backup. So the backup lacks the
// changes that makeChanges makes. All files in the store are then three hours old.
func inRestoredStudio(t *testing.T, test func(s *studio, restoreBackup func(makeChanges func()))) {
	proctest.OnEach(t, func(t *testing.T, url string) {
		restored := "sqlite:" + filepath.Join(t.TempDir(), "backup.db")
		if strings.HasPrefix(url, "postgres:") {
			restored = proctest.Database(t)
		}
		synctest.Test(t, func(t *testing.T) {
			s := newStudio(t, url)
			test(s, func(lost func()) {
				s.backUp(restored)
				lost()
				s.setAge(3 * time.Hour)
				s.url = restored
				s.restart(true)
			})
		})
	})
}

// backUp backs up the ledger while it is in use.
func (s *studio) backUp(to string) {
	s.Helper()
	if file, ok := strings.CutPrefix(to, "sqlite:"); ok {
		if _, err := ledger.Backup(s.Context(), s.url, file, func(d ledger.Difference) { s.Error(d) }); err != nil {
			s.Fatal(err)
		}
		return
	}
	file := filepath.Join(s.TempDir(), "ledger.dump")
	for _, command := range [][]string{{"pg_dump", "--format=custom", "--file=" + file, s.url}, {"pg_restore", "--no-owner", "--dbname=" + to, file}} {
		proctest.Run(s, exec.CommandContext(s.Context(), command[0], command[1:]...))
	}
}

// setAge sets the age of all files in the store.
func (s *studio) setAge(age time.Duration) {
	s.Helper()
	for _, name := range s.objects() {
		old := time.Now().Add(-age)
		if err := os.Chtimes(name, old, old); err != nil {
			s.Fatal(err)
		}
	}
}

// makeCopies creates generations with the given IDs, lets them succeed, and waits until their results are copied.
func (s *studio) makeCopies(ids ...string) {
	s.Helper()
	defer s.runJobs(s.replica())()
	for _, id := range ids {
		s.finishOrder(id, picture(2000))
		s.waitForCopy(id)
	}
}

// forgetFiles removes the result files of the given generations from the catalog.
func (s *studio) forgetFiles(ids ...string) {
	s.upstream.set(func() {
		for _, id := range ids {
			delete(s.upstream.files, id)
		}
	})
}

func TestRestoredLedgerDeletesNoUnknownCopies(t *testing.T) {
	inRestoredStudio(t, func(s *studio, restore func(lost func())) {
		s.makeCopies("g0")
		restore(func() { s.makeCopies("g1") })
		s.forgetFiles("g0", "g1")
		defer s.runJobs(s.results)()
		time.Sleep(10 * time.Minute)
		if left := s.objects(); len(left) != 2 {
			s.Fatalf("the store has %q", left)
		}
		s.wantBytes("g0", picture(2000), content.FromCopy)
	})
}

// A clone of a ledger shares the store of the original ledger. Deletions in the clone must not delete copies of the
// original.
func TestLedgerCloneDeletesNoCopyOfOriginal(t *testing.T) {
	inRestoredStudio(t, func(s *studio, restore func(lost func())) {
		s.makeCopies("g0")
		s.finishOrder("g1", picture(2000)) // this result is not copied yet when the ledger is backed up
		restore(func() { s.makeCopies("g2") })
		before := s.objects()
		defer s.runJobs(s.results)()
		s.waitForCopy("g1")
		for _, id := range []string{"g0", "g1"} {
			s.observe(id, lifecycle.Observation{Deleted: true})
		}
		time.Sleep(10 * time.Minute)
		if left := s.objects(); !slices.Equal(left, before) {
			s.Errorf("the store had %q before, and has %q now", before, left)
		}
		if left, err := s.results.Forget(s.Context()); left != 1 || err != nil {
			s.Errorf("%d copies are left to be deleted, %v", left, err)
		}
	})
}

// After a restore, older copies must not be deleted until an operator has adopted them. A delete job that is running at
// that time may already have skipped a copy, so the job must run again.
func TestAllowingDeletionOfCopiesRestartsRunningDeleteJob(t *testing.T) {
	inRestoredStudio(t, func(s *studio, restore func(lost func())) {
		s.makeCopies("g0")
		restore(func() {})
		s.observe("g0", lifecycle.Observation{Deleted: true})
		job := s.takeJob(ledger.DeleteJob)
		if may, err := s.ledger.MayDelete(s.Context(), "g0"); may || err != nil {
			s.Errorf("the copy may be deleted: %v, %v", may, err)
		}
		if wasCopied, err := s.ledger.AdoptContents(s.Context(), ledger.By{Actor: "ops"}); !wasCopied || err != nil {
			s.Errorf("the ledger adopted no copies: %v", err)
		}
		if err := s.ledger.FinishJob(s.Context(), job, ledger.Outcome{}); !errors.Is(err, ledger.ErrLeaseLost) {
			s.Errorf("finishing the deletion returns %v", err)
		}
		defer s.runJobs(s.results)()
		if left := s.awaitDeletions(time.Minute); left != 0 || len(s.objects()) != 0 {
			s.Errorf("%d copies are left to be deleted: %q", left, s.objects())
		}
	})
}

func TestOperatorCanAllowDeletionOfCopiesAfterRestore(t *testing.T) {
	inRestoredStudio(t, func(s *studio, restore func(lost func())) {
		s.makeCopies("g0", "g1")
		if wasCopied, err := s.ledger.AdoptContents(s.Context(), ledger.By{Actor: "ops"}); wasCopied || err != nil {
			s.Errorf("the ledger adopted copies before the restore: %v", err)
		}
		restore(func() { s.makeCopies("g2") })
		s.observe("g0", lifecycle.Observation{Deleted: true})
		if wasCopied, err := s.ledger.AdoptContents(s.Context(), ledger.By{Actor: "ops"}); !wasCopied || err != nil {
			s.Errorf("the ledger adopted no copies: %v", err)
		}
		defer s.runJobs(s.results)()
		if left := s.awaitDeletions(time.Minute); left != 0 || len(s.objects()) != 2 {
			s.Errorf("%d copies are left to be deleted: %q", left, s.objects())
		}
		s.wantBytes("g1", picture(2000), content.FromCopy)
		var reported []string
		if _, err := s.results.Verify(s.Context(), true, func(line string) { reported = append(reported, line) }, func(int64) {}); err != nil || len(reported) != 1 || !strings.HasSuffix(reported[0], "not found in the ledger") {
			s.Errorf("for the copy that the ledger lacks, Verify reports %q, %v", reported, err)
		}
	})
}
