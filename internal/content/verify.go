package content

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/easel-grpc/easel/internal/ledger"
)

const (
	verifyBatch    = 500             // number of copies read by one query
	unrecordedTime = 2 * copyTimeout // minimum age of a reported object; the copy of a younger object may still be in progress, and its row may not be in the ledger yet
)

// Verified contains the totals of [Results.Verify].
type Verified struct{ Copies, Bytes, Differences int64 }

// Verify compares each copy in the ledger with its object in the store. It also checks that each of the ledger's objects in the
// store has a row in the ledger. If withBytes is true, it reads each object and compares its SHA-256. It calls reportLine with
// a line for each difference. After each batch, it calls reportProgress with the number of copies compared so far.
func (r *Results) Verify(ctx context.Context, withBytes bool, reportLine func(line string), reportProgress func(copies int64)) (v Verified, err error) {
	differs := func(line string) {
		v.Differences++
		reportLine(line)
	}
	for last := ""; ; reportProgress(v.Copies) {
		some, err := r.Ledger.CopiesAfter(ctx, last, verifyBatch)
		if err == nil && len(some) == 0 {
			err = r.verifyObjects(ctx, differs)
		}
		if err != nil || len(some) == 0 {
			return v, err
		}
		for _, c := range some {
			problem, err := r.verifyOne(ctx, c, withBytes)
			if err != nil {
				return v, err
			}
			if problem != "" {
				differs(c.Generation + ": " + problem + " (" + c.Object + ")")
			}
			v.Copies, v.Bytes, last = v.Copies+1, v.Bytes+c.Size, c.Generation
		}
	}
}

// verifyOne compares one copy with its object in the store. It returns a description of the difference, or "" if they agree.
func (r *Results) verifyOne(ctx context.Context, c ledger.Content, withBytes bool) (problem string, err error) {
	size, err := r.Store.Size(ctx, c.Object)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "not found in the store", nil
	case err == nil && size != c.Size:
		return fmt.Sprintf("the store has %d bytes, but the ledger has %d", size, c.Size), nil
	case err != nil || !withBytes:
		return "", err
	}
	body, _, err := r.Store.Get(ctx, c.Object, 0)
	if err != nil {
		return "", err
	}
	defer func() { _ = body.Close() }() // an error does not matter, because the body was read completely
	digest := sha256.New()
	if _, err := io.Copy(digest, body); err != nil {
		return "", err
	}
	if hex.EncodeToString(digest.Sum(nil)) != c.SHA256 {
		return "SHA-256 differs", nil
	}
	return "", nil
}

// verifyObjects reports each object that has no row in the ledger. It checks only objects whose names begin with the ledger's
// current name in the store or one of its former names. It skips objects younger than unrecordedTime, because their copies may
// be in progress.
func (r *Results) verifyObjects(ctx context.Context, reportLine func(line string)) error {
	stores, err := r.Ledger.Stores(ctx)
	now, failed := r.Ledger.Now(ctx)
	if err = errors.Join(err, failed); err != nil {
		return err
	}
	for _, name := range stores.All() {
		for object, err := range r.Store.List(ctx, name+"/") {
			known := true
			if err == nil && object.Time.Before(now.Add(-unrecordedTime)) {
				known, err = r.Ledger.HasObject(ctx, object.Name)
			}
			if err != nil {
				return err
			}
			if !known {
				reportLine(object.Name + ": not found in the ledger")
			}
		}
	}
	return nil
}
