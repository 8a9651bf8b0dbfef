package ledger_test

import (
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/easel-grpc/easel/internal/ledger"
	"github.com/easel-grpc/easel/internal/ledger/lifecycle"
)

// If the callers file of a process lacks a team, the process cannot know whether the team keeps copies. It must
// not delete the team's copies, because a deletion is final. A process without a callers file may delete them.
func TestResultCopyOfUnknownTeamIsNotDeleted(t *testing.T) {
	for name, row := range map[string]struct {
		owner string
		teams map[string]ledger.Team
		want  ledger.ContentState
	}{
		"team not in the callers file": {"studio", map[string]ledger.Team{"shop": {}}, ledger.ContentWaiting},
		"team without a callers file":  {"studio", nil, ledger.ContentDoomed},
		"team that keeps no copies":    {"studio", map[string]ledger.Team{"studio": {}}, ledger.ContentDoomed},
		"team that keeps copies":       {"studio", map[string]ledger.Team{"studio": {KeepDeleted: true}}, ledger.ContentWaiting},
		"no team and no callers file":  {"", nil, ledger.ContentDoomed},
		"no team, with a callers file": {"", map[string]ledger.Team{"studio": {}}, ledger.ContentDoomed},
	} {
		t.Run(name, func(t *testing.T) {
			onEach(t, func(t *testing.T, url string) {
				l := openWith(t, ledger.Config{URL: url, Contents: true, Events: &ledger.EventConfig{
					Teams:      func() map[string]ledger.Team { return row.teams },
					Generation: func(ledger.Order, *string) string { return "{}" }, Budget: func(ledger.Budget) string { return "{}" },
				}})
				for _, id := range []string{"deleted", "discarded"} {
					r := request(id)
					r.Namespace, r.Owner = row.owner, row.owner
					conclude(t, l, write(t, l, r), lifecycle.Named, id)
					observe(t, l, id, lifecycle.Observation{Status: lifecycle.Succeeded, Whole: true})
				}
				observe(t, l, "deleted", lifecycle.Observation{Deleted: true})
				if err := l.DiscardContent(t.Context(), nil, "discarded"); err != nil {
					t.Fatal(err)
				}
				for _, id := range []string{"deleted", "discarded"} {
					if c, found, err := l.Content(t.Context(), id); err != nil || !found || c.State != row.want {
						t.Errorf("the copy of the %s generation is %v, found %v, %v", id, c.State, found, err)
					}
				}
			})
		})
	}
}

// openUncopied opens a ledger that contains the given generations. They have succeeded, so their results must be
// copied.
func openUncopied(t *testing.T, url string, generations ...string) *ledger.Ledger {
	t.Helper()
	l := openWith(t, ledger.Config{URL: url, Events: retentionConfig(0), Contents: true})
	for _, id := range generations {
		conclude(t, l, write(t, l, request(id)), lifecycle.Named, id)
		observe(t, l, id, lifecycle.Observation{Status: lifecycle.Succeeded, CostCents: cents(9), Whole: true})
	}
	return l
}

// takeOne leases a job of the given kind, which must be the only one that is due.
func takeOne(t *testing.T, l *ledger.Ledger, kind string) ledger.Job {
	t.Helper()
	taken, err := l.TakeJobs(t.Context(), kind, "studio", 10)
	if err != nil || len(taken) != 1 {
		t.Fatalf("TakeJobs returns %d jobs, want 1, and the error %v", len(taken), err)
	}
	return taken[0]
}

// finishJob records the outcome of a job whose lease is still held.
func finishJob(t *testing.T, l *ledger.Ledger, job ledger.Job, outcome ledger.Outcome) {
	t.Helper()
	if err := l.FinishJob(t.Context(), job, outcome); err != nil {
		t.Fatal(err)
	}
}

func TestOnlyLatestLeaseHolderRecordsResultCopy(t *testing.T) {
	onEach(t, func(t *testing.T, url string) {
		l := openUncopied(t, url, "g1")
		old := takeOne(t, l, ledger.CopyJob)
		l.Exec(t, "UPDATE jobs SET run_time = run_time - 21000000")
		latest := takeOne(t, l, ledger.CopyJob)
		made := ledger.StoredCopy{Object: "here/1", Size: 3, SHA256: "ab"}
		for n, row := range []struct {
			job  ledger.Job
			want error
		}{{old, ledger.ErrLeaseLost}, {latest, nil}, {latest, ledger.ErrLeaseLost}} {
			if err := l.ContentCopied(t.Context(), row.job, made); !errors.Is(err, row.want) {
				t.Errorf("attempt %d: %v", n, err)
			}
			if c, _, err := l.Content(t.Context(), "g1"); err != nil || (c.State == ledger.ContentCopied) != (n > 0) || (c.Size == 3) != (n > 0) {
				t.Errorf("after attempt %d the ledger has %+v, %v", n, c, err)
			}
		}
	})
}

func TestResultCopyRequestedAgainGetsNewJob(t *testing.T) {
	onEach(t, func(t *testing.T, url string) {
		l := openUncopied(t, url, "g1")
		for _, request := range []func() error{
			func() error {
				_, err := l.FetchContent(t.Context(), ledger.By{Actor: "ops", Origin: "here"}, "g1")
				return err
			},
			func() error {
				c, _, err := l.Content(t.Context(), "g1")
				return errors.Join(err, l.ContentIsLost(t.Context(), c))
			},
		} {
			if err := l.ContentCopied(t.Context(), takeOne(t, l, ledger.CopyJob), ledger.StoredCopy{Object: "here/1", Size: 3, SHA256: "ab"}); err != nil {
				t.Fatal(err)
			}
			if err := request(); err != nil {
				t.Fatal(err)
			}
		}
		takeOne(t, l, ledger.CopyJob)
	})
}

func TestResultCopyRequestedDuringLastAttemptIsRetried(t *testing.T) {
	onEach(t, func(t *testing.T, url string) {
		l := openUncopied(t, url, "g1")
		finishJob(t, l, takeOne(t, l, ledger.CopyJob), ledger.Outcome{Again: true, Problem: "not found"})
		last := takeOne(t, l, ledger.CopyJob)
		if has, err := l.FetchContent(t.Context(), ledger.By{Actor: "ops", Origin: "here"}, "g1"); !has || err != nil {
			t.Fatal(has, err)
		}
		if err := l.FinishJob(t.Context(), last, ledger.Outcome{Change: ledger.CopyAbandoned(last, "not found")}); !errors.Is(err, ledger.ErrLeaseLost) {
			t.Errorf("an attempt that began before the request can abandon the copy: %v", err)
		}
		if c, _, err := l.Content(t.Context(), "g1"); err != nil || c.State != ledger.ContentWaiting {
			t.Errorf("the copy is %v, %v", c.State, err)
		}
		takeOne(t, l, ledger.CopyJob)
	})
}

func TestErasureCancelsResultCopyAndSchedulesDeletion(t *testing.T) {
	onEach(t, func(t *testing.T, url string) {
		l := openUncopied(t, url, "g1", "g2")
		l.Exec(t, "UPDATE jobs SET run_time = run_time + 60000000 WHERE ref = 'g2'") // postpones the job of g2 by a minute
		job := takeOne(t, l, ledger.CopyJob)
		if _, err := l.Erase(t.Context(), orderOfGeneration(t, l, "g1"), orderOfGeneration(t, l, "g2")); err != nil {
			t.Fatal(err)
		}
		if err := l.ContentCopied(t.Context(), job, ledger.StoredCopy{Object: "here/1", SHA256: "ab"}); !errors.Is(err, ledger.ErrLeaseLost) {
			t.Errorf("recording a copy of an erased result returns %v", err)
		}
		if job := takeOne(t, l, ledger.DeleteJob); job.Ref != "g2" {
			t.Errorf("%s is deleted while it may be copied", job.Ref)
		}
		l.Exec(t, "UPDATE jobs SET run_time = run_time - 21000000 WHERE ref = 'g1'")
		if job := takeOne(t, l, ledger.DeleteJob); job.Ref != "g1" {
			t.Errorf("the deletion of %s is due, want g1", job.Ref)
		}
	})
}

func TestCopiedLedgerHasJobsForResultCopies(t *testing.T) {
	onEach(t, func(t *testing.T, from string) {
		l := openUncopied(t, from, "g1", "g2")
		if _, err := l.Erase(t.Context(), orderOfGeneration(t, l, "g2")); err != nil {
			t.Fatal(err)
		}
		closeLedger(t, l)
		to := "sqlite:" + filepath.Join(t.TempDir(), "copy.db")
		mustCopy(t, from, to)
		l = openUncopied(t, to)
		if copying, deleting := takeOne(t, l, ledger.CopyJob), takeOne(t, l, ledger.DeleteJob); copying.Ref != "g1" || deleting.Ref != "g2" {
			t.Errorf("the copy of %s and the deletion of %s are due, want g1 and g2", copying.Ref, deleting.Ref)
		}
	})
}

// An operator's request for a copy is handled at once, even if earlier attempts to copy the result have failed.
func TestResultCopyRequestedByOperatorIsDueImmediately(t *testing.T) {
	onEach(t, func(t *testing.T, url string) {
		l := openUncopied(t, url, "g1")
		fetch := func() {
			if has, err := l.FetchContent(t.Context(), ada, "g1"); !has || err != nil {
				t.Fatal(has, err)
			}
		}
		job := takeOne(t, l, ledger.CopyJob)
		fetch() // the operator's request arrives while an attempt is in progress
		finishJob(t, l, job, ledger.Outcome{Again: true, After: time.Hour, Problem: "no space left"})
		if c, _, err := l.Content(t.Context(), "g1"); err != nil || c.Problem != "no space left" {
			t.Errorf("the problem is %q, %v", c.Problem, err)
		}
		fetch()
		job = takeOne(t, l, ledger.CopyJob)
		if job.Attempts != 0 || job.Age > time.Minute {
			t.Errorf("the job of the new request is %+v", job)
		}
		finishJob(t, l, job, ledger.Outcome{Change: ledger.CopyAbandoned(job, "gone")})
		if c, _, err := l.Content(t.Context(), "g1"); err != nil || c.State != ledger.ContentFailed || c.Problem != "gone" {
			t.Errorf("the copy is %v: %s, %v", c.State, c.Problem, err)
		}
		fetch()
		takeOne(t, l, ledger.CopyJob)
	})
}
