package content

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"strings"
	"time"

	"github.com/easel-grpc/easel/internal/jobs"
	"github.com/easel-grpc/easel/internal/ledger"
)

const (
	copyPlaces  = 8         // number of concurrent copies; each has a part of the result in memory
	copyTimeout = time.Hour // timeout of an attempt

	// A failed copy is attempted again after a share of its age, 1/retryShare, within bounds.
	retryShare         = 2
	minRetry, maxRetry = time.Second, 5 * time.Minute
	// A copy is abandoned after tryTime. If the catalog does not know the generation, the time is shorter but not zero,
	// because a proxy may have responded.
	tryTime, absentTime = 7 * 24 * time.Hour, 24 * time.Hour

	textType = "text/plain; charset=utf-8"
)

// Kinds returns the kinds of the jobs of the store, none without a store.
func (r *Results) Kinds() []jobs.Kind {
	if r.Store == nil {
		return nil
	}
	return []jobs.Kind{
		{Name: ledger.CopyJob, Places: copyPlaces, Catalog: r.Catalog, RetryShare: retryShare, MinRetry: minRetry, MaxRetry: maxRetry, Do: r.copy},
		{Name: ledger.DeleteJob, Places: deletePlaces, RetryShare: retryShare, MinRetry: minRetry, MaxRetry: maxRetry, Do: r.delete},
		{Name: "sweep", Interval: sweepInterval, Places: 1, MinRetry: maxRetry, MaxRetry: maxRetry, Do: r.sweep},
	}
}

// copy runs a job that copies a result.
func (r *Results) copy(ctx context.Context, job ledger.Job) (ledger.Outcome, error) {
	row, found, err := r.Ledger.Content(ctx, job.Ref)
	if err != nil || !found || row.State != ledger.ContentWaiting {
		return ledger.Outcome{}, err
	}
	made, err := r.transfer(ctx, job, row)
	if err == nil {
		err = r.record(ctx, job, row, made)
	}
	switch {
	case err == nil:
		return ledger.Outcome{Ended: true}, nil
	case ctx.Err() != nil, errors.Is(err, ledger.ErrLeaseLost): // the process stops, or another process has the job
		return ledger.Outcome{}, err
	}
	r.Counts.Failures.Add(1)
	if job.Age > tryTime || isAbsent(err) && job.Age > absentTime {
		r.Logger.ErrorContext(ctx, "result copy abandoned", "generation", row.Generation, "owner", row.Owner, "error", err, "hint", "easel content fetch tries again")
		return ledger.Outcome{Change: ledger.CopyAbandoned(job, err.Error())}, nil
	}
	if job.Attempts == 0 {
		r.Logger.WarnContext(ctx, "result copy failed; retrying", "generation", row.Generation, "owner", row.Owner, "error", err)
	}
	return ledger.Outcome{}, err
}

// transfer reads a result once, and writes it into the store. After an error it deletes the object, unless ctx is done.
func (r *Results) transfer(ctx context.Context, job ledger.Job, row ledger.Content) (made ledger.StoredCopy, err error) {
	ctx, cancel := context.WithTimeout(ctx, copyTimeout)
	defer cancel()
	made.Object = fmt.Sprintf("%s%d-%d-%s", objectPrefix(r.Name, row.Generation), job.ID, job.Fence, rand.Text())
	if _, err := r.Store.Size(ctx, made.Object); err != nil && !errors.Is(err, ErrAbsent) { // before any request
		return made, err
	}
	result, err := r.source(ctx, row)
	if err != nil {
		return made, err
	}
	defer func() { _ = result.Body.Close() }() // the needed part was read
	made.ContentType, made.Etag = result.ContentType, result.Etag
	defer func() {
		if err != nil && ctx.Err() == nil {
			r.drop(ctx, made.Object)
		}
	}()
	sum, size := &measured{Hash: sha256.New()}, int64(-1)
	if result.Size != nil {
		size = *result.Size
	}
	if err = r.Store.Put(ctx, made.Object, io.TeeReader(result.Body, sum), size); err == nil {
		err = result.whole(sum.size)
	}
	if err == nil {
		made.Size, err = r.Store.Size(ctx, made.Object)
	}
	if err == nil && made.Size != sum.size {
		err = fmt.Errorf("store has %d bytes of %d", made.Size, sum.size)
	}
	made.SHA256 = hex.EncodeToString(sum.Sum(nil))
	return made, err
}

// measured counts the bytes of a hash.
type measured struct {
	hash.Hash

	size int64
}

// Write implements [io.Writer].
func (m *measured) Write(p []byte) (int, error) {
	m.size += int64(len(p))
	return m.Hash.Write(p)
}

// record records a copy. It deletes objects of earlier copies, and its own object if the copy was certainly not recorded.
func (r *Results) record(ctx context.Context, job ledger.Job, row ledger.Content, made ledger.StoredCopy) error {
	err := r.Ledger.ContentCopied(context.WithoutCancel(ctx), job, made)
	if _, doubt := errors.AsType[*ledger.Doubt](err); doubt {
		return err
	}
	if err != nil {
		r.drop(ctx, made.Object)
		return err
	}
	r.Counts.Copied.Add(1)
	r.Counts.Bytes.Add(made.Size)
	if job.Fence > 1 || row.Object != "" {
		r.dropEarlier(ctx, job)
	}
	return nil
}

// dropEarlier deletes the objects that this ledger wrote for a generation before this run of a job. It keeps objects of later
// runs.
func (r *Results) dropEarlier(ctx context.Context, job ledger.Job) {
	prefix := objectPrefix(r.Name, job.Ref)
	for object, err := range r.Store.List(ctx, prefix) {
		var id, fence int64
		if _, unknown := fmt.Sscanf(strings.TrimPrefix(object.Name, prefix), "%d-%d-", &id, &fence); err != nil || unknown != nil {
			return
		}
		if id < job.ID || id == job.ID && fence < job.Fence {
			r.drop(ctx, object.Name)
		}
	}
}

// drop deletes an object that this ledger has written and no row refers to. If the store fails, [Results.Verify] reports the
// object until the copies of the generation are deleted.
func (r *Results) drop(ctx context.Context, object string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTimeout)
	defer cancel()
	_ = r.Store.Delete(ctx, object)
}

// objectPrefix returns the prefix of the names of all copies of a generation under a name of a ledger. The run of the job and
// a random part follow, so that no copy ever replaces another.
func objectPrefix(store, generation string) string {
	sum := sha256.Sum256([]byte(generation))
	name := hex.EncodeToString(sum[:])
	return store + "/" + name[:2] + "/" + name + "-"
}
