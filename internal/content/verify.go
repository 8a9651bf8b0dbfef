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
	Generation string // "" of an orphan
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
				err = r.verifyOrphans(ctx, tell)
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

func (r *Results) verifyOrphans(ctx context.Context, tell func(Difference)) error {
	for object, err := range r.orphans(ctx, time.Now().Add(-orphanAge)) {
		if err != nil {
			return err
		}
		tell(Difference{"", object.Name, "the book does not know it"})
	}
	return nil
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
