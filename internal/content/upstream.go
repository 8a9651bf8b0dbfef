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

// fromCatalog opens a result in the catalog. If there is a store, it also serves text results, which are part of the
// generation's record.
func (r *Results) fromCatalog(ctx context.Context, cred catalog.Credential, row ledger.Content, id string, offset int64, etag string) (*Content, error) {
	c, err := r.Catalog.Content(ctx, cred, id, offset, ofCatalog(row, etag))
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

// textAt opens a text at an offset.
func textAt(text string, offset int64, etag string) (*catalog.Content, error) {
	sum, size := sha256.Sum256([]byte(text)), int64(len(text))
	own := ownEtag(hex.EncodeToString(sum[:]))
	if err := servable(size, own, offset, etag); err != nil {
		return nil, err
	}
	return &catalog.Content{Body: io.NopCloser(strings.NewReader(text[offset:])), ContentType: textType, Offset: offset, Size: &size, Etag: own}, nil
}

// servable returns an error if a request for an offset and an etag can be served neither from the store nor from the catalog.
func servable(size int64, has string, offset int64, etag string) error {
	switch {
	case etag != "" && etag != has:
		return &catalog.Error{Kind: catalog.KindContentChanged, Op: opRead, Message: "etag differs"}
	case offset > size:
		return &catalog.Error{Kind: catalog.KindOutOfRange, Op: opRead}
	}
	return nil
}

// ownEtag returns Easel's etag for a result that has no etag in the catalog.
func ownEtag(digest string) string { return `"copy-` + digest[:32] + `"` }

// ofCatalog returns the etag to send to the catalog for the etag in a request. It is empty for the etag that Easel itself
// assigned to the copy, because the catalog does not know that etag. Any other etag is returned unchanged, because it
// identifies other bytes.
func ofCatalog(row ledger.Content, etag string) string {
	if row.SHA256 != "" && etag == ownEtag(row.SHA256) {
		return ""
	}
	return etag
}
