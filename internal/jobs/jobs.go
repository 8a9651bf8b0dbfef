// Package jobs runs background work in one loop. The work is stored as rows of the ledger.
//
// A job is written in the same transaction as the change that requires it. A process leases a job before it runs the job. If
// the process dies, another process leases the job after the lease has expired. Only the holder of the latest lease may finish
// the job.
package jobs

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/easel-grpc/easel/internal/catalog"
	"github.com/easel-grpc/easel/internal/ledger"
)

const (
	lookInterval = time.Second          // interval at which the loop reads the due jobs; a job that this process writes triggers another read
	lookPause    = 5 * time.Millisecond // delay after a wake-up, so that one query finds several new jobs
	stopTimeout  = 2 * time.Second      // time after which a stopping process cancels its running jobs
)

// Kind describes one kind of job: when its jobs run, how many run concurrently, and the function that runs them.
type Kind struct {
	Name string
	// Interval is the delay between two runs of a periodic job. A periodic kind has only one job, which [Jobs.Run] writes. Zero
	// means that the jobs of the kind are not periodic and are written elsewhere, for example together with an order.
	Interval time.Duration
	// Slots is the maximum number of concurrent jobs of the kind in this process.
	Slots int
	// Catalog is the client with which jobs of this kind send requests with the shared API key. Such jobs start only while
	// [MayAsk] returns true. Nil means that jobs of this kind send no such requests.
	Catalog *catalog.Client
	// Room returns the maximum number of an owner's concurrent jobs in this process. The maximum may change at any time. If
	// Room is nil, the owner may use half of the slots that other owners' jobs do not occupy, but at least one.
	Room func(owner string) int
	// RetryShare determines the delay before a retry. The delay is the age of the job divided by RetryShare, but at least
	// MinRetry and at most MaxRetry.
	RetryShare         int
	MinRetry, MaxRetry time.Duration
	// Do runs a job once. If Do returns an error, the job is retried. The outcome's Change is committed in this case too,
	// unless the process is stopping.
	Do func(context.Context, ledger.Job) (ledger.Outcome, error)
}

// MayAsk reports whether this process may start background work that sends requests with the shared API key. It returns false
// until Easel has verified that the API key belongs to the ledger's account. It also returns false for two minutes after the
// catalog has rejected the API key, unless the catalog accepts it earlier.
func MayAsk(led *ledger.Ledger, client *catalog.Client) bool {
	return !led.AccountUnknown.Load() && !client.Rejected()
}

// Jobs runs the due jobs of a ledger in this process.
type Jobs struct {
	ledger *ledger.Ledger
	logger *slog.Logger
	kinds  []*kind
	wake   chan struct{}
	work   sync.WaitGroup
	mu     sync.Mutex // guards the counts of running jobs in each kind
}

// kind is a [Kind] and its state in this process. all is the number of running jobs of the kind, and owners maps each owner to
// the number of its running jobs.
type kind struct {
	Kind

	written bool   // whether the row of the periodic job has been written
	last    string // owner whose jobs were started last
	all     int
	owners  map[string]int
}

// New returns a Jobs that runs jobs of the given kinds. It runs none until [Jobs.Run] is called.
func New(led *ledger.Ledger, logger *slog.Logger, kinds ...Kind) *Jobs {
	j := &Jobs{ledger: led, logger: logger, wake: make(chan struct{}, 1)}
	for _, k := range kinds {
		j.kinds = append(j.kinds, &kind{Kind: k, owners: map[string]int{}})
	}
	return j
}

// Run runs due jobs until ctx is done. Then it waits for the running jobs to finish, but cancels them after stopTimeout.
func (j *Jobs) Run(ctx context.Context) {
	lasting, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	defer j.work.Wait()
	defer func() { time.AfterFunc(stopTimeout, stop) }()
	ticks := time.NewTicker(lookInterval)
	defer ticks.Stop()
	for ctx.Err() == nil {
		for _, k := range j.kinds {
			j.startDueJobs(ctx, lasting, k)
		}
		select {
		case <-j.wake:
			time.Sleep(lookPause)
		case <-j.ledger.JobAdded():
			time.Sleep(lookPause)
		case <-ticks.C:
		case <-ctx.Done():
		}
	}
}

// startDueJobs starts due jobs of a kind. For a periodic kind, it first writes the job, unless this process has already written
// the job. The owners take turns, and the first owner is the one after k.last. Ledger queries use ctx. The jobs use the second
// context, which is canceled later. Ledger errors are ignored, because the next call retries.
func (j *Jobs) startDueJobs(ctx, lasting context.Context, k *kind) {
	if k.Interval > 0 && !k.written {
		k.written = j.ledger.AddJob(ctx, ledger.Job{Kind: k.Name}) == nil
	}
	if j.freeSlots(k) == 0 || k.Catalog != nil && !MayAsk(j.ledger, k.Catalog) {
		return
	}
	owners, _ := j.ledger.OwnersOfJobs(ctx, k.Name)
	next, _ := slices.BinarySearchFunc(owners, k.last, func(owner, last string) int { return cmp.Or(strings.Compare(owner, last), -1) })
	owners = slices.Concat(owners[next:], owners[:next])
	for n, owner := range owners {
		if share := (j.freeSlots(k) + len(owners) - n - 1) / (len(owners) - n); share > 0 { // the free slots are divided among the remaining owners
			j.startJobs(ctx, lasting, k, owner, min(share, j.freeOwnerSlots(k, owner)))
		}
	}
}

// freeSlots returns the number of free slots of a kind.
func (j *Jobs) freeSlots(k *kind) int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return k.Slots - k.all
}

// freeOwnerSlots returns the number of additional jobs that may be started for an owner.
func (j *Jobs) freeOwnerSlots(k *kind, owner string) int {
	room := 0
	if k.Room != nil {
		room = k.Room(owner)
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	own := k.owners[owner]
	if k.Room == nil {
		room = max(1, (k.Slots-k.all+own)/2)
	}
	return room - own
}

// startJobs leases at most limit due jobs of the given kind and owner, and runs each job in a goroutine.
func (j *Jobs) startJobs(ctx, lasting context.Context, k *kind, owner string, limit int) {
	if limit <= 0 {
		return
	}
	began := time.Now() // the clock is read before TakeJobs, so that the local deadline is not later than the end of the leases
	taken, _ := j.ledger.TakeJobs(ctx, k.Name, owner, limit)
	for _, job := range taken {
		k.last = owner
		j.addCount(k, owner, 1)
		j.work.Go(func() {
			j.runJob(lasting, k, job, began)
			j.addCount(k, owner, -1)
			j.wakeLoop()
		})
	}
}

func (j *Jobs) addCount(k *kind, owner string, n int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	k.all += n
	if k.owners[owner] += n; k.owners[owner] == 0 {
		delete(k.owners, owner)
	}
}

// wakeLoop wakes the loop of [Jobs.Run] without blocking.
func (j *Jobs) wakeLoop() {
	select {
	case j.wake <- struct{}{}:
	default:
	}
}

// runJob runs a job once, and records the outcome. It renews the lease while the job runs.
func (j *Jobs) runJob(ctx context.Context, k *kind, job ledger.Job, began time.Time) {
	running, cancel := context.WithCancelCause(ctx)
	var renewing sync.WaitGroup
	renewing.Go(func() { j.renewLease(running, job, began.Add(ledger.JobLease), cancel) })
	outcome, failed := k.Do(running, job)
	err, stopped := context.Cause(running), ctx.Err() != nil
	cancel(nil)
	renewing.Wait()
	if outcome.Ended {
		return
	}
	if !errors.Is(err, ledger.ErrLeaseLost) {
		err = j.recordOutcome(context.WithoutCancel(ctx), k, job, outcome, failed, stopped)
	}
	if err != nil { // without a recorded outcome, the job runs again after this lease has expired
		j.logger.WarnContext(ctx, "job outcome not recorded", "kind", job.Kind, "ref", job.Ref, "owner", job.Owner, "error", err)
	}
}

// renewLease renews the lease of a job until ctx is done. If the lease is lost, or can't be renewed in time, it cancels the
// job.
func (j *Jobs) renewLease(ctx context.Context, job ledger.Job, until time.Time, cancel context.CancelCauseFunc) {
	ticks := time.NewTicker(ledger.JobLease / 3)
	defer ticks.Stop()
	for {
		select {
		case <-ticks.C:
		case <-ctx.Done():
			return
		}
		asked := time.Now() // the clock is read before RenewJob, so that the deadline is not later than the end of the lease
		err := j.ledger.RenewJob(ctx, job)
		if err == nil {
			until = asked.Add(ledger.JobLease)
		}
		if errors.Is(err, ledger.ErrLeaseLost) || time.Until(until) < ledger.JobLease/3 { // the lease is lost, or may expire before the next renewal
			cancel(ledger.ErrLeaseLost)
			return
		}
	}
}

// recordOutcome records the outcome of a job's run. If the run failed because the process is stopping, recordOutcome only
// releases the lease.
func (j *Jobs) recordOutcome(ctx context.Context, k *kind, job ledger.Job, outcome ledger.Outcome, failed error, stopped bool) error {
	switch {
	case failed != nil && stopped:
		return j.ledger.ReleaseJob(ctx, job)
	case failed != nil:
		j.logger.DebugContext(ctx, "job failed; retrying", "kind", job.Kind, "ref", job.Ref, "owner", job.Owner, "attempt", job.Attempts+1, "error", failed)
		outcome.Again, outcome.Problem = true, failed.Error()
		outcome.After = min(max(job.Age/time.Duration(max(k.RetryShare, 1)), k.MinRetry), k.MaxRetry)
	case k.Interval > 0 && !outcome.Again:
		outcome.Again, outcome.After, outcome.Cursor = true, k.Interval, ""
	}
	return j.ledger.FinishJob(ctx, job, outcome)
}
