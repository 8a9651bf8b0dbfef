package content

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/easel-grpc/easel/internal/ledger"
)

const (
	copiesAtOnce = 8 // that nobody waits for, and as many that readers wait for: each holds a part in memory
	promptsOfOne = 2 // of those that readers wait for, of one owner
	lookEvery    = time.Second
	holdEvery    = ledger.ClaimTime / 4
	copyTime     = time.Hour       // of one copy
	silence      = time.Minute     // after which a copy is given up that moves no byte
	concludeTime = 5 * time.Second // for the book, of a copy that has failed

	// What was not copied is tried again after a part of the time that it has waited, and for so long. A catalog that does
	// not know the generation may be a gateway that stands in its place.
	retryShare              = 2
	retryLeast, retryAtMost = time.Second, 5 * time.Minute
	tryFor, absentFor       = 7 * 24 * time.Hour, 24 * time.Hour

	// A store that fails is tried again after a pause that doubles.
	storeLeast, storeAtMost = time.Second, time.Minute

	probeName   = "/probe"
	textType    = "text/plain; charset=utf-8"
	mostProblem = 300 // bytes
	mostType    = 255
)

// Run copies what waits, until ctx ends, and ends what readers have begun meanwhile: it runs once. While the store fails, one copy at a time asks for all.
func (r *Results) Run(ctx context.Context) {
	if r.Store == nil {
		return
	}
	defer r.endCopies()
	r.work.Go(func() { r.tidy(ctx) })
	ticks := time.NewTicker(lookEvery)
	defer ticks.Stop()
	last, pause := "", storeLeast
	for {
		switch {
		case r.failed.Load() == 0:
			pause = storeLeast
			for r.next(ctx, &last) != nil {
			}
		case !r.tries(ctx, &last):
			if !sleep(ctx, pause) {
				return
			}
			pause = min(2*pause, storeAtMost)
		}
		select {
		case <-r.Ledger.ContentWanted():
		case <-r.freed:
		case <-ticks.C:
		case <-ctx.Done():
			return
		}
	}
}

// endCopies ends the copies that are being made, and has none begin any more.
func (r *Results) endCopies() {
	r.mu.Lock()
	r.end()
	r.mu.Unlock()
	r.work.Wait()
}

func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}

// next begins a copy, and gives what ends with it; nil where there is none to make, or no place. [Results.Run] alone calls it.
func (r *Results) next(ctx context.Context, last *string) (made chan struct{}) {
	enough, free := r.haveEnough()
	if ctx.Err() != nil || free == 0 {
		return nil
	}
	claim, found, err := r.Ledger.TakeContent(ctx, *last, enough...)
	if err != nil || !found {
		return nil
	}
	*last = claim.Owner
	r.count(claim.Owner, 1)
	return r.begin(ctx, claim, func() { r.count(claim.Owner, -1) })
}

// haveEnough gives the owners with as many copies on their way as there are free places: however slow theirs are, they leave
// places for others.
func (r *Results) haveEnough() (owners []string, free int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	free = copiesAtOnce
	for _, n := range r.workers {
		free -= n
	}
	for owner, n := range r.workers {
		if n >= free {
			owners = append(owners, owner)
		}
	}
	return owners, free
}

// count counts a copy of an owner that begins or ends.
func (r *Results) count(owner string, n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.workers[owner] += n; r.workers[owner] == 0 {
		delete(r.workers, owner)
	}
}

// tries writes to a store that has failed, before the catalog is read for it again, and makes one copy. It reports whether
// the store does well.
func (r *Results) tries(ctx context.Context, last *string) bool {
	probe := r.probe()
	timed, cancel := context.WithTimeout(ctx, storeTime)
	defer cancel()
	if err := r.Store.Put(timed, probe, strings.NewReader(probe), int64(len(probe))); err != nil {
		r.note(err)
		return false
	}
	made := r.next(ctx, last)
	if made == nil { // of a full store the next copy says so
		r.note(nil)
		return true
	}
	select {
	case <-made:
	case <-ctx.Done():
	}
	return r.failed.Load() == 0
}

// probe is the name of an object that asks whether the store takes any.
func (r *Results) probe() string { return r.Name + probeName }

// begin makes a copy under a claim, beside its caller. It gives nil after the end of all: the claim ends by itself then.
func (r *Results) begin(ctx context.Context, claim ledger.Content, give func()) (made chan struct{}) {
	made = make(chan struct{})
	r.mu.Lock()
	over := r.life.Err() != nil
	if !over {
		r.copying[claim.Generation] = made
		r.work.Add(1) // before the end waits
	}
	r.mu.Unlock()
	if over {
		give()
		return nil
	}
	go func() {
		defer r.work.Done()
		r.copyInLife(ctx, claim)
		r.mu.Lock()
		delete(r.copying, claim.Generation)
		r.mu.Unlock()
		close(made)
		give()
		select {
		case r.freed <- struct{}{}:
		default:
		}
	}()
	return made
}

// copyInLife makes a copy, until ctx ends or all do.
func (r *Results) copyInLife(ctx context.Context, claim ledger.Content) {
	ctx, cancel := r.inLife(ctx)
	defer cancel()
	r.copyOne(ctx, claim)
}

// copyOne makes a copy, and records what has come of it.
func (r *Results) copyOne(ctx context.Context, claim ledger.Content) {
	err := r.copyUnder(ctx, claim)
	if err == nil || errors.Is(err, errNotOurs) {
		return
	}
	book, cancel := context.WithTimeout(context.WithoutCancel(ctx), concludeTime)
	defer cancel()
	age, problem := claim.Age, bookText(err.Error(), mostProblem)
	r.Counts.Failures.Add(1)
	switch {
	case ctx.Err() != nil: // another may go on at once
		_ = r.Ledger.ContentNotCopied(book, claim, claim.Problem, 0)
	case isAbsent(err) && age > absentFor, age > tryFor:
		r.Logger.ErrorContext(ctx, "a result can't be copied", "generation", claim.Generation, "owner", claim.Owner, "error", problem)
		_ = r.Ledger.ContentFails(book, claim, problem)
	default:
		if claim.Problem == "" {
			r.Logger.WarnContext(ctx, "a result was not copied; it is tried again", "generation", claim.Generation, "owner", claim.Owner, "error", problem)
		}
		_ = r.Ledger.ContentNotCopied(book, claim, problem, min(max(age/retryShare, retryLeast), retryAtMost)) // else the claim ends by itself
	}
}

// bookText is a text of others as each database takes it, and not longer than so many bytes.
func bookText(text string, most int) string {
	text = strings.ReplaceAll(strings.ToValidUTF8(text, "\uFFFD"), "\x00", "")
	return strings.ToValidUTF8(text[:min(len(text), most)], "") // the cut may be within a rune
}

// errNotOurs means that another copies a result, or that it is no longer to be copied.
var errNotOurs = errors.New("the claim is over")

// storeError is an error of the store, and not of the catalog.
type storeError struct{ error }

// Unwrap gives the store's own error.
func (e storeError) Unwrap() error { return e.error }

// copyUnder makes a copy while its claim holds.
func (r *Results) copyUnder(ctx context.Context, claim ledger.Content) error {
	ctx, stop := context.WithTimeout(ctx, copyTime)
	defer stop()
	ctx, cancel := context.WithCancelCause(ctx)
	moved, released := &progress{}, make(chan struct{})
	go func() {
		defer close(released)
		r.hold(ctx, claim, moved, cancel)
	}()
	made, err := r.transfer(ctx, claim, moved)
	cause := context.Cause(ctx)
	cancel(nil)
	<-released
	_, failed := errors.AsType[storeError](err)
	switch {
	case err == nil:
		r.note(nil)
		return r.conclude(context.WithoutCancel(ctx), claim, made)
	case errors.Is(cause, errNotOurs):
		return cause
	case errors.Is(cause, errSlow):
		r.note(errSlow)
		return storeError{errSlow}
	case failed && cause == nil:
		r.note(err)
	}
	return err
}

// hold renews a claim, and ends the copy where it can't, or where the store takes no byte any more.
func (r *Results) hold(ctx context.Context, claim ledger.Content, moved *progress, end func(error)) {
	ticks := time.NewTicker(holdEvery)
	defer ticks.Stop()
	held, bytes, since := time.Now(), int64(-1), time.Now()
	for {
		select {
		case <-ticks.C:
		case <-ctx.Done():
			return
		}
		asked := time.Now()
		ours, err := r.Ledger.HoldContent(ctx, claim)
		if now := moved.bytes.Load(); now != bytes || moved.reading.Load() { // the catalog's body has a limit of its own
			bytes, since = now, time.Now()
		}
		switch {
		case err == nil && ours:
			held = asked
		case err == nil, time.Since(held) >= ledger.ClaimTime:
			end(errNotOurs)
			return
		}
		if time.Since(since) > silence {
			r.note(errSlow) // at once, whenever the store lets go
			end(errSlow)
			return
		}
	}
}

// progress is how far a copy is.
type progress struct {
	bytes   atomic.Int64
	reading atomic.Bool // from the catalog, just now
}

// passing is the body of a copy: what is read of it was passed to a sink.
type passing struct {
	from  io.Reader
	sink  io.Writer
	moved *progress
	whole func(size int64) error // an error if a body of that size is not the result
	err   error                  // the error of the source
	ended bool
}

// Read implements [io.Reader].
func (p *passing) Read(data []byte) (int, error) {
	p.moved.reading.Store(true)
	n, err := p.from.Read(data)
	p.moved.reading.Store(false)
	p.moved.bytes.Add(int64(n))
	_, _ = p.sink.Write(data[:n]) // sums alone
	if err == io.EOF {            //nolint:errorlint // as below
		if wrong := p.whole(p.moved.bytes.Load()); wrong != nil {
			err = wrong
		}
	}
	if err == io.EOF { //nolint:errorlint // an error that wraps one is a body that broke off
		p.ended = true
	} else if err != nil {
		p.err = err
	}
	return n, err
}

// transfer reads a result once, and writes it into the store. It leaves no object there that is not recorded.
func (r *Results) transfer(ctx context.Context, claim ledger.Content, moved *progress) (made ledger.StoredCopy, err error) {
	result, err := r.source(ctx, claim)
	if err != nil {
		return made, err
	}
	defer func() { _ = result.Body.Close() }() // it was read as far as it was wanted
	made = ledger.StoredCopy{Object: fmt.Sprint(objectPrefix(r.Name, claim.Generation), claim.Claims, "-", rand.Text()), ContentType: bookText(result.ContentType, mostType), Etag: result.Etag}
	defer func() {
		if err != nil && ctx.Err() == nil {
			r.drop(ctx, made.Object)
		}
	}()
	digest, sums, size := sha256.New(), &blockSums{}, int64(-1)
	if result.Size != nil {
		size = *result.Size
	}
	body := &passing{from: result.Body, sink: io.MultiWriter(digest, sums), moved: moved, whole: result.whole}
	err = r.Store.Put(ctx, made.Object, body, size)
	if err == nil && !body.ended { // a size that was known is all that a store reads
		_, err = io.Copy(io.Discard, body)
	}
	switch {
	case body.err != nil:
		return made, body.err
	case err != nil:
		return made, storeError{err}
	}
	made.Size, made.SHA256, made.Blocks = sums.at, hex.EncodeToString(digest.Sum(nil)), sums.text()
	switch stored, err := r.Store.Size(ctx, made.Object); {
	case err != nil:
		return made, storeError{err}
	case stored != made.Size:
		return made, storeError{fmt.Errorf("the store has %d bytes of %d", stored, made.Size)}
	}
	return made, nil
}

// conclude records a copy. A copy that does not count is deleted, and so is the copy that it replaces.
func (r *Results) conclude(ctx context.Context, claim ledger.Content, made ledger.StoredCopy) error {
	counts, err := r.Ledger.ContentIsCopied(ctx, claim, made)
	if _, doubt := errors.AsType[*ledger.Doubt](err); doubt {
		return err // it may be recorded
	}
	if err == nil && counts {
		r.Counts.Copied.Add(1)
		r.Counts.Bytes.Add(made.Size)
		if claim.Claims > 1 {
			r.dropEarlier(ctx, claim)
		}
		return nil
	}
	r.drop(ctx, made.Object)
	if err == nil {
		err = errNotOurs
	}
	return err
}

// dropEarlier deletes the objects that earlier claims of this ledger have written for a generation. A later claim may have
// started since: its object stays.
func (r *Results) dropEarlier(ctx context.Context, claim ledger.Content) {
	prefix := objectPrefix(r.Name, claim.Generation)
	for object, err := range r.Store.List(ctx, prefix) {
		if err != nil {
			return
		}
		number, _, _ := strings.Cut(strings.TrimPrefix(object.Name, prefix), "-")
		if claims, err := strconv.ParseInt(number, 10, 64); err == nil && claims < claim.Claims {
			r.drop(ctx, object.Name)
		}
	}
}

// drop deletes an object that this ledger has written and no row names. If the store fails, [Results.Verify] reports the object
// until the copies of the generation are deleted.
func (r *Results) drop(ctx context.Context, object string) {
	ctx, cancel := context.WithTimeout(ctx, storeTime)
	defer cancel()
	_ = r.Store.Delete(ctx, object)
}

// objectPrefix returns the beginning of the names of all copies of a generation under a name of a ledger. The rest is the number
// of the claim, and a random part, so that no copy ever replaces another.
func objectPrefix(store, generation string) string {
	sum := sha256.Sum256([]byte(generation))
	name := hex.EncodeToString(sum[:])
	return store + "/" + name[:2] + "/" + name + "-"
}
