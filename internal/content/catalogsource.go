package content

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"strings"

	"github.com/easel-grpc/easel/internal/catalog"
	"github.com/easel-grpc/easel/internal/ledger"
)

// openFromCatalog opens a result in the catalog. If r has a store and the catalog has only a text result and no file,
// openFromCatalog returns the text from the generation's record.
func (r *Results) openFromCatalog(ctx context.Context, cred catalog.Credential, row ledger.Content, id string, offset int64, etag string) (*Content, error) {
	c, err := r.Catalog.Content(ctx, cred, id, offset, catalogEtag(row, etag))
	switch kind := catalog.KindOf(err); {
	case r.Store == nil:
	case kind == catalog.KindNotFound, kind == catalog.KindContentNotReady, kind == catalog.KindNoContent:
		if g, failed := r.Catalog.Generation(ctx, cred, id); failed == nil && g.File == nil && g.Text != nil {
			c, err = textAt(*g.Text, offset, etag)
		}
	}
	if err != nil {
		return nil, err
	}
	return &Content{*c, FromCatalog}, nil
}

// textAt returns the part of a text that starts at offset. It returns the error from [checkServable] if the offset or the
// caller's etag is invalid.
func textAt(text string, offset int64, etag string) (*catalog.Content, error) {
	sum, size := sha256.Sum256([]byte(text)), int64(len(text))
	own := ownEtag(hex.EncodeToString(sum[:]))
	if err := checkServable(size, own, offset, etag); err != nil {
		return nil, err
	}
	return &catalog.Content{Body: io.NopCloser(strings.NewReader(text[offset:])), ContentType: textType, Offset: offset, Size: &size, Etag: own}, nil
}

// checkServable returns an error if a result can't serve a request. size is the size of the result, and resultEtag is its etag.
// As in the catalog, the request's offset must not be past the end of the result, and the request's etag must be empty or equal
// to the result's etag.
func checkServable(size int64, resultEtag string, offset int64, etag string) error {
	switch {
	case etag != "" && etag != resultEtag:
		return &catalog.Error{Kind: catalog.KindContentChanged, Op: opRead, Message: "etag differs"}
	case offset > size:
		return &catalog.Error{Kind: catalog.KindOutOfRange, Op: opRead}
	}
	return nil
}

// ownEtag returns the etag that Easel assigns to a result for which the catalog sends no etag. digest is the SHA-256 of the
// result in hex.
func ownEtag(digest string) string { return `"copy-` + digest[:32] + `"` }

// catalogEtag converts the etag in a caller's request to the etag for the catalog. It returns "" for an etag that Easel
// assigned, because the catalog does not know such an etag. It returns any other etag unchanged, so that the catalog can
// compare it.
func catalogEtag(row ledger.Content, etag string) string {
	if row.SHA256 != "" && etag == ownEtag(row.SHA256) {
		return ""
	}
	return etag
}
