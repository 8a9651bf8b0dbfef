package content_test

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/easel-grpc/easel/internal/content"
	"github.com/easel-grpc/easel/internal/ledger"
	"github.com/easel-grpc/easel/internal/proctest"
)

// A process that is killed while it copies a result leaves a partial file behind. The next copy of the result deletes
// this file.
func TestIncompleteCopyIsDeletedByNextAttempt(t *testing.T) {
	inStudio(t, func(s *studio) {
		s.finishOrder("g1", picture(1000))
		dead, sum := s.takeJob(ledger.CopyJob), sha256.Sum256([]byte("g1"))
		name := hex.EncodeToString(sum[:])
		remains := filepath.Join(s.dir, "here", name[:2], fmt.Sprintf("%s-%d-%d-X.part", name, dead.ID, dead.Fence))
		if err := os.MkdirAll(filepath.Dir(remains), 0o700); err != nil {
			s.Fatal(err)
		}
		proctest.Write(s, remains, string(picture(500)))
		stop := s.runJobs(s.results)
		s.waitForCopy("g1")
		stop()
		if all := s.objects(); len(all) != 1 || all[0] != s.dir+"/"+s.row("g1").Object {
			s.Errorf("the store has %q", all)
		}
	})
}

func TestNoResultsAreCopiedWhileAPIKeyIsRejected(t *testing.T) {
	inStudio(t, func(s *studio) {
		s.upstream.set(func() { s.upstream.rejects = true })
		s.finishOrder("g1", picture(1000))
		defer s.runJobs(s.results)()
		time.Sleep(110 * time.Second)
		s.finishOrder("g2", picture(1000))
		time.Sleep(5 * time.Second)
		if first, second := s.upstream.reads("g1"), s.upstream.reads("g2"); first != 1 || second != 0 {
			s.Errorf("after the API key was rejected, the results were read %d and %d times", first, second)
		}
		s.upstream.set(func() { s.upstream.rejects = false })
		s.waitForCopy("g1")
		s.waitForCopy("g2")
	})
}

func TestCopyIsDiscardedAfterJobLeaseIsLost(t *testing.T) {
	for name, locked := range map[string]string{"removed by the old holder": "", "removed by the new holder": "here/"} {
		t.Run(name, func(t *testing.T) {
			inStudio(t, func(s *studio) {
				s.finishOrder("g1", picture(1000))
				next := ledger.Job{}
				s.store.put = func() {
					s.store.put = nil
					time.Sleep(ledger.JobLease + time.Second)
					next = s.takeJob(ledger.CopyJob)
				}
				s.store.locked = locked
				if err := s.runCopyJob(s.takeJob(ledger.CopyJob)); !errors.Is(err, ledger.ErrLeaseLost) {
					s.Errorf("the previous holder of the job gets %v", err)
				}
				s.store.locked = ""
				if row, all := s.row("g1"), s.objects(); row.State != ledger.ContentWaiting || (len(all) == 1) != (locked != "") {
					s.Errorf("the copy is %v, and the store has %q", row.State, all)
				}
				if err := s.runCopyJob(next); err != nil {
					s.Errorf("the new holder of the job gets %v", err)
				}
				if all := s.objects(); len(all) != 1 || all[0] != s.dir+"/"+s.row("g1").Object {
					s.Errorf("the store has %q", all)
				}
				s.wantBytes("g1", picture(1000), content.FromCopy)
			})
		})
	}
}
