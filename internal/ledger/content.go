package ledger

import (
	"context"
	"slices"
	"time"
)

// ContentState is the state of a result's copy.
type ContentState int

// The states of a result's copy.
const (
	ContentWaiting ContentState = iota // not copied yet
	ContentCopied
	ContentFailed // copying was abandoned
	ContentDoomed // marked for deletion
)

func (s ContentState) String() string {
	return [...]string{"waiting", "copied", "failed", "to be deleted"}[s]
}

// Kinds of jobs that copy results or delete the copies. The Ref of such a job is the ID of the generation.
const (
	CopyJob   = "copy"
	DeleteJob = "delete"
)

// Content is a row of the ledger about the copy of a result. Before the result is copied, the row represents the request for
// the copy.
type Content struct {
	Generation, Owner string
	State             ContentState
	// Problem is the reason why the last attempt to copy the result failed.
	Problem string
	// Record is the catalog's record of the generation, which the ledger stores with the order. It is empty if the record was
	// erased.
	Record string

	StoredCopy
}

// StoredCopy describes a copy of a result in the store.
type StoredCopy struct {
	// Object is the name of the copy in the store.
	Object string
	Size   int64
	// SHA256 is the hex-encoded SHA-256 digest of the copy.
	SHA256 string
	// ContentType is the type that the catalog returned. Etag is the catalog's etag, or an etag that Easel assigned if the
	// catalog returned none.
	ContentType, Etag string
	Time              time.Time
}

// selectContents begins a query whose rows scanContent can scan. Callers append a condition.
const selectContents = `SELECT generation_id, owner, state, COALESCE((SELECT problem FROM jobs WHERE kind = '` + CopyJob + `' AND ref = generation_id), problem), object, size_bytes, sha256, content_type, etag, copied_time,
	COALESCE((SELECT record FROM orders WHERE generation_id = contents.generation_id AND namespace <> api_key), '') FROM contents WHERE `

func scanContent(row scanner, c *Content) error {
	return row.Scan(&c.Generation, &c.Owner, &c.State, &c.Problem, &c.Object, &c.Size, &c.SHA256, &c.ContentType, &c.Etag, moment{&c.Time}, &c.Record)
}

// followContent requests or discards the copy of a result after a change to its order. It requests a copy if [Ledger.wantsCopy]
// returns true. If a call to Easel has deleted the generation, followContent marks the copy for deletion, unless the owner
// keeps copies.
func (t *transaction) followContent(before, after Order) error {
	switch {
	case after.isForwarded():
		return nil
	case after.DeletedByCall && !before.DeletedByCall && !t.l.keepsCopies(after.Owner):
		return doomContents(t, after.Generation)
	case !t.l.wantsCopy(before, after):
		return nil
	}
	rows, err := t.exec(`INSERT INTO contents (generation_id, owner) VALUES ($1, $2) ON CONFLICT DO NOTHING`, after.Generation, after.Owner)
	if err != nil || rows == 0 {
		return err
	}
	return t.addJob(Job{Kind: CopyJob, Ref: after.Generation, Owner: after.Owner}, 0)
}

// Content returns the row about the copy of a generation's result. isFound is false if there is no such row.
func (l *Ledger) Content(ctx context.Context, generation string) (c Content, isFound bool, err error) {
	all, err := askList(ctx, l, scanContent, selectContents+`generation_id = $1`, generation)
	if err != nil || len(all) == 0 {
		return c, false, err
	}
	return all[0], true, nil
}

// ContentCopied records a new copy, deletes the job that made it, and schedules the generation's success event for immediate
// delivery. It returns [ErrLeaseLost] if another process has leased the job, or if the copy is no longer requested. The job is
// deleted in the same transaction, because a later request for another copy needs a new job.
func (l *Ledger) ContentCopied(ctx context.Context, j Job, made StoredCopy) error {
	return l.runTx(ctx, func(tx *transaction) error {
		if err := tx.endContent(j, `state = {copied}, problem = '', object = $2, size_bytes = $3, sha256 = $4, content_type = $5, etag = $6, copied_time = {now}`,
			made.Object, made.Size, made.SHA256, storableText(made.ContentType), made.Etag); err != nil {
			return err
		}
		return tx.endJob(j)
	})
}

// CopyAbandoned returns a change that gives up on a requested copy, and records problem as the reason. If the ledger has an
// earlier copy, that copy remains in use.
func CopyAbandoned(j Job, problem string) Change {
	return func(tx *transaction) error {
		return tx.endContent(j, `state = CASE WHEN object <> '' THEN {copied} ELSE {not copied} END, problem = $2`, storableText(problem))
	}
}

// endContent updates the row of a requested copy, and schedules the generation's success event for immediate delivery.
// assignments contains the SQL assignments for the row. endContent returns [ErrLeaseLost] if the copy is no longer requested.
func (t *transaction) endContent(j Job, assignments string, args ...any) error {
	rows, err := t.exec(`UPDATE contents SET `+assignments+` WHERE generation_id = $1 AND state = {waiting}`, slices.Concat([]any{j.Ref}, args)...)
	switch {
	case err != nil:
		return err
	case rows == 0:
		return ErrLeaseLost
	}
	return t.deliverNow(j.Owner, j.Ref)
}

// ContentIsLost records that the store has lost a copy, and requests another copy. It does nothing if the ledger no longer
// refers to the copy c.
func (l *Ledger) ContentIsLost(ctx context.Context, c Content) error {
	return l.runTx(ctx, func(tx *transaction) error {
		rows, err := tx.exec(`UPDATE contents SET state = {waiting} WHERE generation_id = $1 AND object = $2 AND state = {copied}`, c.Generation, c.Object)
		if err != nil || rows == 0 {
			return err
		}
		return tx.addJob(Job{Kind: CopyJob, Ref: c.Generation, Owner: c.Owner}, 0)
	})
}

// DiscardContent marks the copy of a generation for deletion, because the catalog no longer has the generation. It does nothing
// if the copy belongs to another owner, or if its owner keeps copies. A nil owner means any owner.
func (l *Ledger) DiscardContent(ctx context.Context, owner *string, generation string) error {
	return l.runTx(ctx, func(tx *transaction) error {
		owners, err := queryList(tx, scanText, `SELECT owner FROM contents WHERE generation_id = $1`, generation)
		if err != nil || len(owners) == 0 || owner != nil && owners[0] != *owner || l.keepsCopies(owners[0]) {
			return err
		}
		return doomContents(tx, generation)
	})
}

// FetchContent records that an operator has requested another copy of a result. It returns false if the ledger has no such
// result, if the order was erased, if a call to Easel has deleted the generation, or if the copy is marked for deletion.
func (l *Ledger) FetchContent(ctx context.Context, by By, generation string) (has bool, err error) {
	err = l.runTx(ctx, func(tx *transaction) error {
		rows, err := tx.exec(`INSERT INTO contents (generation_id, owner)
			SELECT generation_id, owner FROM orders WHERE generation_id = $1 AND namespace <> api_key AND status = {succeeded} AND erased = 0 AND (deleted = 0 OR presumed_deleted = 1)
			ON CONFLICT (generation_id) DO UPDATE SET state = {waiting}, problem = '' WHERE contents.state <> {doomed}`, generation)
		if has = rows > 0; err != nil || !has {
			return err
		}
		// If a process is already copying for an earlier request, the incremented fence revokes its lease. The process can then
		// not complete the new request.
		if _, err := tx.exec(addCopies+`generation_id = $1 ON CONFLICT (kind, ref) DO UPDATE SET begin_time = {now}, run_time = {now}, fence = jobs.fence + 1, attempts = 0, problem = '' WHERE jobs.attempts > 0`, generation); err != nil {
			return err
		}
		tx.jobAdded = true
		return tx.addAuditLine(Act{By: by, Action: ActFetch, Subject: generation})
	})
	return has && err == nil, err
}

// addCopies and addDeletions are the beginnings of statements that write jobs of the kinds [CopyJob] and [DeleteJob].
// Callers append a condition that selects rows of the table named contents.
var (
	addCopies = `INSERT INTO jobs (kind, ref, owner, line, begin_time, run_time) SELECT '` + CopyJob + `', generation_id, owner, '', {now}, {now} FROM contents WHERE `
	// A process may still be copying the result. The deletion therefore waits until the lease of that copy job has ended.
	addDeletions = `INSERT INTO jobs (kind, ref, owner, line, begin_time, run_time) SELECT '` + DeleteJob + `', generation_id, owner, '', {now}, COALESCE((SELECT run_time FROM jobs AS copying
		WHERE copying.kind = '` + CopyJob + `' AND copying.ref = generation_id AND copying.fence > 0 AND copying.run_time BETWEEN {now} AND {now} + ` + micro(JobLease) + `), {now}) FROM contents WHERE `
)

// doomContents marks copies for deletion, and writes the jobs that delete them. It also deletes the jobs that would copy the
// results.
func doomContents(tx *transaction, generations ...string) error {
	ids := asList(generations)
	rows, err := tx.exec(`UPDATE contents SET state = {doomed}, content_type = '', etag = '', sha256 = '', problem = '' WHERE generation_id {in ids} AND state <> {doomed}`, ids)
	if err != nil || rows == 0 {
		return err
	}
	for _, statement := range []string{
		addDeletions + `generation_id {in ids} AND state = {doomed} ON CONFLICT DO NOTHING`,
		`DELETE FROM jobs WHERE kind = '` + CopyJob + `' AND ref {in ids}`,
	} {
		if _, err := tx.exec(statement, ids); err != nil {
			return err
		}
	}
	tx.jobAdded = true
	return nil
}

// ownObject is the SQL condition under which this ledger may delete an object in the store. If this ledger is a copy of another
// ledger, objects that were stored before it was copied may belong to the original ledger. This ledger may delete those objects
// only if an operator has adopted them.
const ownObject = `(object = '' OR EXISTS (SELECT 1 FROM facts WHERE name = '` + adoptedFact + `') OR object LIKE (SELECT value || '/%' FROM facts WHERE name = '` + storeFact + `'))`

// MayDelete reports whether the copy of a generation is marked for deletion and may be deleted by this ledger.
func (l *Ledger) MayDelete(ctx context.Context, generation string) (may bool, err error) {
	err = l.askOne(ctx, []any{&may}, `SELECT EXISTS (SELECT 1 FROM contents WHERE generation_id = $1 AND state = {doomed} AND `+ownObject+`)`, generation)
	return may, err
}

// CopiesDeleted returns a change that deletes the row of a copy that was already deleted from the store.
func CopiesDeleted(generation string) Change {
	return func(tx *transaction) error {
		_, err := tx.exec(`DELETE FROM contents WHERE generation_id = $1 AND state = {doomed}`, generation)
		return err
	}
}

// DoomedCount returns the number of copies that are marked for deletion. ownCopies is the number of those copies that this
// ledger may delete.
func (l *Ledger) DoomedCount(ctx context.Context) (count, ownCopies int64, err error) {
	err = l.askOne(ctx, []any{&count, &ownCopies}, `SELECT COUNT(*), COUNT(CASE WHEN `+ownObject+` THEN 1 END) FROM contents WHERE state = {doomed}`)
	return count, ownCopies, err
}

// HasObject reports whether a row of the ledger refers to an object in the store.
func (l *Ledger) HasObject(ctx context.Context, object string) (has bool, err error) {
	err = l.askOne(ctx, []any{&has}, `SELECT EXISTS (SELECT 1 FROM contents WHERE object <> '' AND object = $1)`, object)
	return has, err
}

// CopiesAfter returns at most limit copies in the order of their generation IDs, starting after the given ID.
func (l *Ledger) CopiesAfter(ctx context.Context, generation string, limit int) ([]Content, error) {
	return askList(ctx, l, scanContent, selectContents+`generation_id > $1 AND state = {copied} ORDER BY generation_id LIMIT $2`, generation, limit)
}

// ContentSummary contains the totals for copies of results.
type ContentSummary struct {
	Waiting int64         `json:"waiting"` // number of results that are not copied yet
	Failed  int64         `json:"failed"`  // number of results whose copying was abandoned
	Oldest  time.Duration `json:"oldest"`  // age of the oldest result that is not copied yet
}

// Queries for the totals of copies. Each query reads only an index.
const (
	waitingCopies = `SELECT COUNT(*), COALESCE({now} - MIN(begin_time), 0) FROM jobs WHERE kind = '` + CopyJob + `'`
	failedCount   = `SELECT COUNT(*) FROM contents WHERE state = {not copied}`
)

func summarizeContents(tx *transaction, s *ContentSummary) error {
	oldest := int64(0)
	if err := tx.scanRow([]any{&s.Waiting, &oldest}, waitingCopies); err != nil {
		return err
	}
	s.Oldest = time.Duration(oldest) * time.Microsecond
	return tx.scanRow([]any{&s.Failed}, failedCount)
}
