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

// fromCatalog opens a result in the catalog. If there is a store, it also serves results that are texts, which are part of the
// generation.
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

// servable returns an error if a request for an offset and an etag can't be served, whatever the source.
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

// ofCatalog converts the etag of a request for the catalog. Easel's own etag of the copy becomes empty, because the catalog
// does not know it. Any other etag is unchanged, because it identifies other bytes.
func ofCatalog(row ledger.Content, etag string) string {
	if row.SHA256 != "" && etag == ownEtag(row.SHA256) {
		return ""
	}
	return etag
}
