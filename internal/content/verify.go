package content

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/easel-grpc/easel/internal/ledger"
)

// Difference is one between the book and the store.
type Difference struct {
	Generation string // empty for an object that the ledger does not know
	Object     string
	Problem    string
}

// String names it in a line.
func (d Difference) String() string {
	if d.Generation == "" {
		return d.Object + ": " + d.Problem
	}
	return d.Generation + ": " + d.Problem + " (" + d.Object + ")"
}

// lookedAtOnce is the number of rows and of objects that are compared at once.
const lookedAtOnce = 500

// Verified is what was compared.
type Verified struct{ Copies, Bytes, Differences int64 }

// Verify compares each copy of the book with the store, its bytes too where they are asked for, and each object of the
// store with the book.
func (r *Results) Verify(ctx context.Context, bytes bool, differs func(Difference), looked func(copies int64)) (v Verified, err error) {
	tell := func(d Difference) {
		v.Differences++
		differs(d)
	}
	for last := ""; ; {
		some, err := r.Ledger.ContentsAfter(ctx, last, lookedAtOnce)
		if err != nil || len(some) == 0 {
			if err == nil {
				err = r.verifyObjects(ctx, tell)
			}
			return v, err
		}
		for _, c := range some {
			last = c.Generation
			if c.State != ledger.ContentCopied {
				continue
			}
			v.Copies, v.Bytes = v.Copies+1, v.Bytes+c.Size
			if problem, err := r.verifyOne(ctx, c, bytes); err != nil {
				return v, err
			} else if problem != "" {
				tell(Difference{c.Generation, c.Object, problem})
			}
		}
		looked(v.Copies)
	}
}

// verifyObjects reports each object under a name of the ledger that no row names. A copy that is being made is younger than
// partAge.
func (r *Results) verifyObjects(ctx context.Context, report func(Difference)) error {
	stores, err := r.Ledger.Stores(ctx)
	if err != nil {
		return err
	}
	for _, name := range stores.All() {
		some := make([]Object, 0, lookedAtOnce)
		for object, err := range r.Store.List(ctx, name+"/") {
			if err != nil {
				return err
			}
			if object.Name == name+probeName || !object.Time.Before(time.Now().Add(-partAge)) {
				continue
			}
			if some = append(some, object); len(some) == lookedAtOnce {
				if err := r.verifyKnown(ctx, some, report); err != nil {
					return err
				}
				some = some[:0]
			}
		}
		if err := r.verifyKnown(ctx, some, report); err != nil {
			return err
		}
	}
	return nil
}

// verifyKnown reports those of some objects that no row names.
func (r *Results) verifyKnown(ctx context.Context, some []Object, report func(Difference)) error {
	names := make([]string, len(some))
	for n, object := range some {
		names[n] = object.Name
	}
	known, err := r.Ledger.KnownObjects(ctx, names)
	for _, name := range names {
		if err == nil && !known[name] {
			report(Difference{"", name, "the ledger does not know it"})
		}
	}
	return err
}

// verifyOne says what is wrong with a copy; "" where nothing is.
func (r *Results) verifyOne(ctx context.Context, c ledger.Content, bytes bool) (problem string, err error) {
	size, err := r.Store.Size(ctx, c.Object)
	switch {
	case errors.Is(err, ErrAbsent):
		return "the store has it not", nil
	case err != nil:
		return "", err
	case size != c.Size:
		return fmt.Sprintf("the store has %d bytes, and the book %d", size, c.Size), nil
	case !bytes:
		return "", nil
	}
	body, err := r.Store.Get(ctx, c.Object, 0)
	if err != nil {
		return "", err
	}
	defer func() { _ = body.Close() }() // it was read to its end
	digest := sha256.New()
	if _, err := io.Copy(digest, body); err != nil {
		return "", err
	}
	if hex.EncodeToString(digest.Sum(nil)) != c.SHA256 {
		return "its SHA-256 is another", nil
	}
	return "", nil
}
