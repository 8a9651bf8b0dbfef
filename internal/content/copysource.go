package content

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"slices"

	"github.com/easel-grpc/easel/internal/catalog"
	"github.com/easel-grpc/easel/internal/ledger"
)

// download is a result that was opened in the catalog in order to copy it.
type download struct {
	*catalog.Content

	record *catalog.File // description of the file in the generation's record; nil for a text result
}

// openDownload opens the file of a generation in the catalog. If the generation has a text but no file, it opens the text.
func (r *Results) openDownload(ctx context.Context, row ledger.Content) (*download, error) {
	cred := *r.SharedKey
	cred.Owner = row.Owner
	record := fileOf(row.Record)
	if record == nil { // a record from a list may lack the file, so the complete record is read
		g, err := r.Catalog.Generation(ctx, cred, row.Generation)
		switch {
		case err != nil:
			return nil, err
		case g.File == nil && g.Text != nil:
			c, err := textAt(*g.Text, 0, "")
			return &download{Content: c}, err
		}
		record = cmp.Or(g.File, &catalog.File{})
	}
	c, err := r.Catalog.Content(ctx, cred, row.Generation, 0, "")
	if err != nil {
		return nil, err
	}
	found := &download{c, record}
	if err := found.checkResponse(); err != nil {
		_ = c.Body.Close() // the error can be ignored, because the body is not needed
		return nil, err
	}
	return found, nil
}

// fileOf returns the description of the file in a generation's record, which the ledger stores. It returns nil if the record
// has no file.
func fileOf(record string) *catalog.File {
	known := struct{ File *catalog.File }{}
	_ = json.Unmarshal([]byte(record), &known) // decoding fails only for an erased record, which is empty
	return known.File
}

// errorTypes are the media types of error pages and of error responses from the catalog.
var errorTypes = []string{"application/json", "application/problem+json", "text/html", "application/xhtml+xml"}

// checkResponse returns an error if the response can't be the result. For example, a proxy may send an error page with status
// 200.
func (d *download) checkResponse() error {
	got, want := mediaType(d.ContentType), mediaType(d.record.ContentType)
	if got != want && slices.Contains(errorTypes, got) {
		return fmt.Errorf("response has type %s instead of %s", got, cmp.Or(want, "a file"))
	}
	if d.Size == nil {
		return nil
	}
	return d.checkSize(*d.Size)
}

// checkSize returns an error if a body of the given size in bytes can't be the complete result.
func (d *download) checkSize(size int64) error {
	switch {
	case d.Size != nil && size != *d.Size:
		return fmt.Errorf("only %d of %d bytes were stored", size, *d.Size)
	case d.record == nil:
	case d.record.SizeBytes != nil && size != *d.record.SizeBytes:
		return fmt.Errorf("response has %d bytes instead of %d", size, *d.record.SizeBytes)
	case d.record.SizeBytes == nil && size == 0:
		return errors.New("response is empty")
	}
	return nil
}

// mediaType returns a media type without its parameters. It returns "" if the text is not a media type.
func mediaType(text string) string {
	media, _, _ := mime.ParseMediaType(text) // an error from parsing the parameters is ignored, because the parameters are dropped
	return media
}
