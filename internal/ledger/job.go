package ledger

import (
	"context"
	"math"
	"strconv"
	"strings"
	"time"
)

// JobLease is the length of a job's lease, measured by the database's clock. A process renews the lease while it runs the job.
const JobLease = 20 * time.Second

// maxJobDelay is longer than the delay of any job. If a job is due later than that, the database's clock was wrong when the
// job was written.
const maxJobDelay = 25 * time.Hour

// Job is background work that is stored as a row of the ledger.
type Job struct {
	ID int64
	// Fence identifies the latest lease of the job. It increases with each lease, and also when a lease is revoked. Only the
	// holder of the latest lease may finish the job.
	Fence int64
	// Kind and Ref identify the job. Ref is empty if there is only one job of the kind.
	Kind, Ref string
	Owner     string
	// Line is the queue of the job. Jobs of one owner and line run one at a time, in the order in which they were written.
	// Empty means that the job is in no queue.
	Line string
	// Cursor is the position at which the next run continues. It is empty for the first run.
	Cursor string
	// Age is the time since the job was written or last succeeded.
	Age time.Duration
	// Attempts is the number of consecutive failed attempts.
	Attempts int64
}

// Change is a change to the ledger that is committed together with a job's outcome.
type Change func(*transaction) error

// Outcome is the result of running a job. The zero value means that the job is done.
type Outcome struct {
	// Ended means that the function of the job has already deleted the job, in a separate transaction.
	Ended bool
	// Again means that the job runs again after the delay After. The next run starts at Cursor.
	Again  bool
	After  time.Duration
	Cursor string
	// Problem is the reason for a failure. Empty means success, which resets the number of attempts.
	Problem string
	// Change is a change to the ledger that is committed together with the job's outcome. Nil means no change.
	Change Change
}

// addJob writes a job that is due after a delay. It does nothing if the ledger already has a job of this kind and ref.
func (t *transaction) addJob(j Job, delay time.Duration) error {
	rows, err := t.exec(`INSERT INTO jobs (kind, ref, owner, line, begin_time, run_time) VALUES ($1, $2, $3, $4, {now}, {now} + $5) ON CONFLICT DO NOTHING`,
		j.Kind, j.Ref, j.Owner, j.Line, delay.Microseconds())
	t.jobAdded = t.jobAdded || rows > 0
	return err
}

// AddJob writes a job that is due now. It does nothing if the ledger already has a job of this kind and ref.
func (l *Ledger) AddJob(ctx context.Context, j Job) error {
	return l.runTx(ctx, func(tx *transaction) error { return tx.addJob(j, 0) })
}

// JobAdded returns a channel that receives a value after this process has written a job.
func (l *Ledger) JobAdded() <-chan struct{} { return l.jobAdded }

// dueJobs returns the SQL condition that selects an owner's due jobs of a kind. If a job is due more than maxJobDelay from now,
// the clock was wrong when the job was written. In this case, all of the owner's jobs of this kind count as due. The condition
// is a single upper bound, so that the database can use an index.
func dueJobs(owner string) string {
	return `run_time <= (SELECT CASE WHEN EXISTS (SELECT 1 FROM jobs WHERE kind = $1 AND owner = ` + owner + ` AND run_time > (SELECT {now}) + ` + micro(maxJobDelay) + `)
		THEN ` + strconv.FormatInt(math.MaxInt64, 10) + ` ELSE {now} END)`
}

var ownersOfJobs = ownersQuery("jobs", "kind = $1") + ` AND EXISTS (SELECT 1 FROM jobs WHERE kind = $1 AND owner = each_of.owner AND ` + dueJobs("each_of.owner") + `)`

// OwnersOfJobs returns the owners that have due jobs of a kind, sorted.
func (l *Ledger) OwnersOfJobs(ctx context.Context, kind string) ([]string, error) {
	return askList(ctx, l, scanText, ownersOfJobs, kind)
}

// firstInLine is the SQL condition for a job that is the first in its queue (see [Job.Line]), or in no queue.
const firstInLine = `(due.line = '' OR NOT EXISTS (SELECT 1 FROM jobs AS earlier
	WHERE earlier.owner = due.owner AND earlier.line = due.line AND earlier.line <> '' AND earlier.kind = due.kind AND earlier.id < due.id))`

var nextJobs = `SELECT id FROM jobs AS due WHERE kind = $1 AND owner = $2 AND ` + dueJobs("$2") + ` AND ` + firstInLine + ` ORDER BY run_time, id LIMIT $3 {take}`

// TakeJobs leases at most limit due jobs of the given kind and owner, longest overdue first.
func (l *Ledger) TakeJobs(ctx context.Context, kind, owner string, limit int) (jobs []Job, err error) {
	err = l.runTx(ctx, func(tx *transaction) error {
		ids, err := queryList(tx, func(row scanner, id *int64) error { return row.Scan(id) }, nextJobs, kind, owner, limit)
		if jobs = nil; err != nil || len(ids) == 0 {
			return err
		}
		jobs, err = queryList(tx, scanJob, `UPDATE jobs SET fence = fence + 1, run_time = {now} + $1 WHERE id {in times}
			RETURNING id, fence, kind, ref, owner, line, cursor, {now} - begin_time, attempts`, JobLease.Microseconds(), asList(ids))
		return err
	})
	if err != nil {
		return nil, err
	}
	return jobs, nil
}

func scanJob(row scanner, j *Job) error {
	age := int64(0)
	err := row.Scan(&j.ID, &j.Fence, &j.Kind, &j.Ref, &j.Owner, &j.Line, &j.Cursor, &age, &j.Attempts)
	j.Age = time.Duration(age) * time.Microsecond
	return err
}

// RenewJob renews the lease of a job. It returns [ErrLeaseLost] if another process has leased the job.
func (l *Ledger) RenewJob(ctx context.Context, j Job) error {
	return l.runTx(ctx, func(tx *transaction) error {
		return tx.execFenced(`UPDATE jobs SET run_time = {now} + $3 WHERE id = $1 AND fence = $2`, j.ID, j.Fence, JobLease.Microseconds())
	})
}

// FinishJob records the outcome of a job, and applies the outcome's Change in the same transaction. If another process has
// leased the job, it records nothing and returns [ErrLeaseLost].
func (l *Ledger) FinishJob(ctx context.Context, j Job, o Outcome) error {
	return l.runTx(ctx, func(tx *transaction) error {
		if o.Change != nil { // locks the rows of the change first and the row of the job last, as transactions that write jobs do
			if err := o.Change(tx); err != nil {
				return err
			}
		}
		switch {
		case !o.Again:
			return tx.endJob(j)
		case o.Problem != "":
			return tx.execFenced(`UPDATE jobs SET run_time = {now} + $3, attempts = attempts + 1, problem = $4 WHERE id = $1 AND fence = $2`, j.ID, j.Fence, o.After.Microseconds(), storableText(o.Problem))
		}
		return tx.execFenced(`UPDATE jobs SET run_time = {now} + $3, attempts = 0, problem = '', begin_time = {now}, cursor = $4 WHERE id = $1 AND fence = $2`, j.ID, j.Fence, o.After.Microseconds(), o.Cursor)
	})
}

func (t *transaction) endJob(j Job) error {
	return t.execFenced(`DELETE FROM jobs WHERE id = $1 AND fence = $2`, j.ID, j.Fence)
}

// maxProblem is the maximum length of a job's problem, in bytes.
const maxProblem = 300

// storableText converts untrusted text to a string of at most [maxProblem] bytes that both databases accept.
func storableText(text string) string {
	text = strings.ReplaceAll(strings.ToValidUTF8(text, "\uFFFD"), "\x00", "")
	return strings.ToValidUTF8(text[:min(len(text), maxProblem)], "") // the cut may split a rune
}

// ReleaseJob ends the lease of a job, so that another process can lease it immediately.
func (l *Ledger) ReleaseJob(ctx context.Context, j Job) error {
	return l.runTx(ctx, func(tx *transaction) error {
		return tx.execFenced(`UPDATE jobs SET run_time = {now} WHERE id = $1 AND fence = $2`, j.ID, j.Fence)
	})
}

// execFenced executes a statement that changes the row of a job. It returns [ErrLeaseLost] if no row was changed.
func (t *transaction) execFenced(text string, args ...any) error {
	rows, err := t.exec(text, args...)
	if err == nil && rows == 0 {
		return ErrLeaseLost
	}
	return err
}
