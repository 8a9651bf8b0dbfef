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

// fromCatalog opens a result as the catalog has it.
func (r *Results) fromCatalog(ctx context.Context, cred catalog.Credential, row ledger.Content, id string, offset int64, etag string) (*Content, error) {
	c, err := r.original(ctx, cred, row, id, offset, etag)
	if err != nil {
		return nil, err
	}
	return &Content{*c, FromCatalog}, nil
}

// original opens a result in the catalog. Where there is a store it may be a text, which is a part of the generation there.
func (r *Results) original(ctx context.Context, cred catalog.Credential, row ledger.Content, id string, offset int64, etag string) (*catalog.Content, error) {
	c, err := r.Catalog.Content(ctx, cred, id, offset, ofCatalog(row, etag))
	switch catalog.KindOf(err) {
	case catalog.KindNotFound, catalog.KindContentNotReady, catalog.KindNoContent:
	default:
		return c, err
	}
	if r.Store == nil {
		return nil, err
	}
	g, failed := r.Catalog.Generation(ctx, cred, id)
	if failed != nil || g.File != nil || g.Text == nil {
		return nil, err
	}
	return textAt(*g.Text, offset, etag)
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

// servable says why no source can serve a request for bytes of a size with an etag.
func servable(size int64, has string, offset int64, etag string) error {
	switch {
	case etag != "" && etag != has:
		return &catalog.Error{Kind: catalog.KindContentChanged, Op: opRead, Message: "the etag is another"}
	case offset > size:
		return &catalog.Error{Kind: catalog.KindOutOfRange, Op: opRead}
	}
	return nil
}

// etagOf is the etag of a copy: the catalog's, or one of our own where that has none.
func etagOf(row ledger.Content) string {
	if row.Etag != "" {
		return row.Etag
	}
	return ownEtag(row.SHA256)
}

const ownEtagBegins = `"copy-`

// ownEtag is an etag that the catalog does not know.
func ownEtag(digest string) string { return ownEtagBegins + digest[:32] + `"` }

// ofCatalog is an etag as the catalog knows it. It has given none for what is copied without one; an etag of ours that is
// of no copy is one of other bytes.
func ofCatalog(row ledger.Content, etag string) string {
	if row.Etag == "" && row.SHA256 != "" && etag == etagOf(row) {
		return ""
	}
	return etag
}
