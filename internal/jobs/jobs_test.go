package jobs_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/easel-grpc/easel/internal/jobs"
	"github.com/easel-grpc/easel/internal/ledger"
	"github.com/easel-grpc/easel/internal/proctest"
)

func TestMain(m *testing.M) { os.Exit(proctest.Main(m)) }

// office is a ledger with jobs that a test runs. It records which jobs have run.
type office struct {
	*testing.T
	*ledger.Ledger
	url string

	mu   sync.Mutex
	runs []string // refs of the jobs that ran, in the order in which they ran
	more chan struct{}
}

func onEach(t *testing.T, test func(o *office)) {
	t.Helper()
	proctest.OnEach(t, func(t *testing.T, url string) { test(newOffice(t, url)) })
}

func newOffice(t *testing.T, url string) *office {
	led, err := ledger.Open(t.Context(), ledger.Config{URL: url, Catalog: "https://catalog.example"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = led.Close() })
	return &office{T: t, Ledger: led, url: url, more: make(chan struct{}, 10_000)}
}

// execSQL executes a statement over a separate connection.
func (o *office) execSQL(statement string) {
	o.Helper()
	proctest.Exec(o, o.url, statement)
}

// addJobs adds one job of the given owner for each ref in refs. line is the name of a queue, in which the owner's jobs run
// one at a time. If line is empty, the jobs are in no queue.
func (o *office) addJobs(owner, line string, refs ...string) {
	o.Helper()
	for _, ref := range refs {
		if err := o.AddJob(o.Context(), ledger.Job{Kind: "test", Ref: ref, Owner: owner, Line: line}); err != nil {
			o.Fatal(err)
		}
	}
}

// recordRun records that a job ran.
func (o *office) recordRun(ref string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.runs = append(o.runs, ref)
	o.more <- struct{}{}
}

func (o *office) ran() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.runs)
}

// awaitRuns waits until the given number of runs is recorded.
func (o *office) awaitRuns(runs int) {
	o.Helper()
	for late := time.After(time.Minute); len(o.ran()) < runs; {
		select {
		case <-o.more:
		case <-late:
			o.Fatalf("only %q ran", o.ran())
		}
	}
}

// newKind returns a job kind that calls fn for each job.
func (o *office) newKind(fn func(context.Context, ledger.Job) (ledger.Outcome, error)) jobs.Kind {
	return jobs.Kind{Name: "test", Slots: 4, RetryShare: 2, MinRetry: 10 * time.Millisecond, MaxRetry: time.Second, Do: fn}
}

// startJobs runs jobs until stop is called.
func (o *office) startJobs(kinds ...jobs.Kind) (stop func()) {
	ctx, cancel := context.WithCancel(o.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		jobs.New(o.Ledger, slog.New(slog.DiscardHandler), kinds...).Run(ctx)
	}()
	return func() {
		cancel()
		<-done
	}
}

// runOnce handles a job: it records the run and succeeds.
func (o *office) runOnce(_ context.Context, job ledger.Job) (ledger.Outcome, error) {
	o.recordRun(job.Ref)
	return ledger.Outcome{}, nil
}

func names(prefix string, n int) (all []string) {
	for i := range n {
		all = append(all, fmt.Sprint(prefix, i))
	}
	return all
}

func TestTwoJobRunnersRunEachJobOnce(t *testing.T) {
	onEach(t, func(o *office) {
		refs := names("job", 60)
		for range 2 {
			defer o.startJobs(o.newKind(o.runOnce))()
		}
		o.addJobs("studio", "", refs...)
		o.addJobs("studio", "", refs[0]) // adds a second job with this ref, unless the first one is still waiting to run
		o.awaitRuns(len(refs))
		got := o.ran()[:len(refs)]
		if slices.Sort(got); len(slices.Compact(got)) < len(refs)-1 {
			o.Errorf("%q ran", got)
		}
	})
}

func TestFailedJobDelaysOnlyLaterJobsOfItsQueue(t *testing.T) {
	onEach(t, func(o *office) {
		o.addJobs("studio", "g1", "a1", "a2", "a3")
		o.addJobs("studio", "g2", "b1")
		o.addJobs("print", "g1", "c1") // does not wait for the jobs of the owner studio, because each owner has its own queues
		defer o.startJobs(o.newKind(func(_ context.Context, job ledger.Job) (ledger.Outcome, error) {
			if job.Ref == "a1" && job.Attempts < 2 {
				return ledger.Outcome{}, errors.New("try again")
			}
			o.recordRun(job.Ref)
			return ledger.Outcome{}, nil
		}))()
		o.awaitRuns(5)
		got := o.ran()
		line := slices.DeleteFunc(slices.Clone(got), func(ref string) bool { return ref[0] != 'a' })
		if !slices.Equal(line, []string{"a1", "a2", "a3"}) || slices.Index(got, "b1") > slices.Index(got, "a1") || slices.Index(got, "c1") > slices.Index(got, "a1") {
			o.Errorf("%q ran", got)
		}
	})
}

func TestJobsAlternateBetweenOwners(t *testing.T) {
	onEach(t, func(o *office) {
		o.addJobs("studio", "", names("many", 200)...)
		o.addJobs("print", "", names("few", 5)...)
		defer o.startJobs(o.newKind(o.runOnce))()
		o.awaitRuns(30)
		for _, ref := range names("few", 5) {
			if !slices.Contains(o.ran()[:30], ref) {
				o.Errorf("%s is not among the first 30 jobs", ref)
			}
		}
	})
}

func TestSlowJobsDoNotBlockOtherOwners(t *testing.T) {
	inSimulatedTime(t, func(o *office) {
		kind := o.newKind(func(ctx context.Context, job ledger.Job) (ledger.Outcome, error) {
			o.recordRun(job.Ref)
			if job.Owner != "print" {
				<-ctx.Done()
			}
			return ledger.Outcome{}, ctx.Err()
		})
		kind.Slots = 8
		defer o.startJobs(kind)()
		for n, slow := range []string{"studio", "press", "film"} {
			o.addJobs(slow, "", names(slow, 10)...)
			time.Sleep(5 * time.Second)
			if want := []int{4, 6, 7}[n]; len(o.ran()) != want {
				t.Errorf("after the jobs of %s, %d jobs ran, want %d", slow, len(o.ran()), want)
			}
		}
		o.addJobs("print", "", "quick")
		time.Sleep(5 * time.Second)
		if ran := o.ran(); ran[len(ran)-1] != "quick" {
			t.Errorf("the job of another owner waits behind %q", ran)
		}
	})
}

func TestJobOfDeadProcessRunsAfterLeaseExpires(t *testing.T) {
	onEach(t, func(o *office) {
		o.addJobs("studio", "", "left")
		taken, err := o.TakeJobs(o.Context(), "test", "studio", 1)
		if err != nil || len(taken) != 1 {
			t.Fatal(taken, err)
		}
		o.addJobs("studio", "", "other")
		defer o.startJobs(o.newKind(o.runOnce))()
		o.awaitRuns(1)
		if got := o.ran(); !slices.Equal(got, []string{"other"}) {
			o.Errorf("while the lease lasts, %q ran", got)
		}
		o.execSQL(fmt.Sprintf(`UPDATE jobs SET run_time = run_time - %d`, ledger.JobLease.Microseconds()))
		o.awaitRuns(2)
	})
}

func TestLostLeaseCancelsTheJob(t *testing.T) {
	onEach(t, func(o *office) {
		defer o.startJobs(o.newKind(func(ctx context.Context, job ledger.Job) (ledger.Outcome, error) {
			if job.Fence == 1 {
				o.execSQL(`UPDATE jobs SET fence = fence + 1`)
				<-ctx.Done()
				o.recordRun("canceled")
			}
			return ledger.Outcome{}, nil
		}))()
		o.addJobs("studio", "", "job")
		o.awaitRuns(1)
		if owners, err := o.OwnersOfJobs(o.Context(), "test"); err != nil || len(owners) > 0 {
			o.Errorf("the job is due immediately, %v", err)
		}
	})
}

func TestFormerLeaseHolderCannotFinishJob(t *testing.T) {
	onEach(t, func(o *office) {
		o.addJobs("studio", "", "job")
		taken, err := o.TakeJobs(o.Context(), "test", "studio", 1)
		if err != nil || len(taken) != 1 {
			t.Fatal(taken, err)
		}
		o.execSQL(`UPDATE jobs SET run_time = 0`)
		again, err := o.TakeJobs(o.Context(), "test", "studio", 1)
		if err != nil || len(again) != 1 || again[0].Fence != 2 {
			t.Fatal(again, err)
		}
		for name, finish := range map[string]func() error{
			"done":     func() error { return o.FinishJob(o.Context(), taken[0], ledger.Outcome{}) },
			"again":    func() error { return o.FinishJob(o.Context(), taken[0], ledger.Outcome{Again: true}) },
			"failed":   func() error { return o.FinishJob(o.Context(), taken[0], ledger.Outcome{Again: true, Problem: "x"}) },
			"released": func() error { return o.ReleaseJob(o.Context(), taken[0]) },
			"renewed":  func() error { return o.RenewJob(o.Context(), taken[0]) },
		} {
			if err := finish(); !errors.Is(err, ledger.ErrLeaseLost) {
				o.Errorf("%s: %v", name, err)
			}
		}
		if err := o.FinishJob(o.Context(), again[0], ledger.Outcome{}); err != nil {
			o.Errorf("the holder can't finish the job: %v", err)
		}
	})
}

func TestJobWithImplausibleRunTimeRunsImmediately(t *testing.T) {
	onEach(t, func(o *office) {
		o.addJobs("studio", "", "job")
		o.execSQL(fmt.Sprintf(`UPDATE jobs SET run_time = run_time + %d`, (48 * time.Hour).Microseconds()))
		defer o.startJobs(o.newKind(o.runOnce))()
		o.awaitRuns(1)
	})
}

func inSimulatedTime(t *testing.T, test func(o *office)) {
	synctest.Test(t, func(t *testing.T) { test(newOffice(t, "sqlite:"+t.TempDir()+"/book.db")) })
}

func TestRetryIntervalOfAFailedJobGrowsWithItsAge(t *testing.T) {
	inSimulatedTime(t, func(o *office) {
		k := o.newKind(func(context.Context, ledger.Job) (ledger.Outcome, error) {
			o.recordRun("attempt")
			return ledger.Outcome{}, errors.New("not delivered \x00")
		})
		k.MaxRetry = 10 * time.Minute
		defer o.startJobs(k)()
		o.addJobs("studio", "", "job")
		for _, row := range []struct {
			span     time.Duration
			min, max int
		}{{10 * time.Minute, 10, 30}, {time.Hour, 5, 7}} {
			before := len(o.ran())
			time.Sleep(row.span)
			synctest.Wait()
			if runs := len(o.ran()) - before; runs < row.min || runs > row.max {
				o.Errorf("in %v the job ran %d times", row.span, runs)
			}
		}
	})
}

func TestPeriodicJobRunsItsStepsOncePerInterval(t *testing.T) {
	inSimulatedTime(t, func(o *office) {
		begin, k := time.Now(), o.newKind(func(_ context.Context, job ledger.Job) (ledger.Outcome, error) {
			o.recordRun(job.Cursor)
			return ledger.Outcome{Again: len(job.Cursor) < 2, Cursor: job.Cursor + "x"}, nil
		})
		k.Interval = time.Hour
		for range 2 {
			defer o.startJobs(k)()
		}
		time.Sleep(3*time.Hour + time.Minute)
		synctest.Wait()
		want := slices.Repeat([]string{"", "x", "xx"}, 4)
		if got := o.ran(); !slices.Equal(got, want) {
			o.Errorf("%q ran in %v", got, time.Since(begin))
		}
	})
}

func TestStoppedProcessReleasesItsJobs(t *testing.T) {
	inSimulatedTime(t, func(o *office) {
		stop := o.startJobs(o.newKind(func(ctx context.Context, _ ledger.Job) (ledger.Outcome, error) {
			<-ctx.Done()
			return ledger.Outcome{}, ctx.Err()
		}))
		o.addJobs("studio", "", "job")
		synctest.Wait()
		time.Sleep(time.Minute)
		stopped := time.Now()
		stop()
		if took := time.Since(stopped); took > 3*time.Second {
			o.Errorf("stopping took %v", took)
		}
		defer o.startJobs(o.newKind(o.runOnce))()
		time.Sleep(time.Second)
		synctest.Wait()
		if got := o.ran(); !slices.Equal(got, []string{"job"}) {
			o.Errorf("%q ran", got)
		}
	})
}

func TestLeaseOfARunningJobIsRenewed(t *testing.T) {
	inSimulatedTime(t, func(o *office) {
		for range 2 {
			defer o.startJobs(o.newKind(func(ctx context.Context, job ledger.Job) (ledger.Outcome, error) {
				o.recordRun(job.Ref)
				select {
				case <-time.After(5 * ledger.JobLease):
				case <-ctx.Done():
				}
				return ledger.Outcome{}, ctx.Err()
			}))()
		}
		o.addJobs("studio", "", "job")
		time.Sleep(10 * ledger.JobLease)
		synctest.Wait()
		if got := o.ran(); !slices.Equal(got, []string{"job"}) {
			o.Errorf("%q ran, although its lease can be renewed", got)
		}
	})
}

func TestJobIsCanceledIfLeaseRenewalFails(t *testing.T) {
	inSimulatedTime(t, func(o *office) {
		began, lasted := time.Time{}, time.Duration(0)
		stop := o.startJobs(o.newKind(func(ctx context.Context, _ ledger.Job) (ledger.Outcome, error) {
			began = time.Now()
			if err := o.Close(); err != nil { // from now on, every ledger call fails
				o.Error(err)
			}
			<-ctx.Done()
			lasted = time.Since(began)
			return ledger.Outcome{}, ctx.Err()
		}))
		o.addJobs("studio", "", "job")
		time.Sleep(10 * ledger.JobLease)
		synctest.Wait()
		if lasted == 0 || lasted > ledger.JobLease {
			o.Errorf("the job ran for %v, longer than its lease of %v", lasted, ledger.JobLease)
		}
		stop()
	})
}
