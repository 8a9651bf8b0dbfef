package easel

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"hash"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
)

// Download writes the file of a render to w, over as many streams as it takes: each goes on at the byte
// where the last one broke off. Each chunk is compared with its CRC-32C, and the whole with its size and,
// where one stream has brought it, with its SHA-256. After an error w may have some of the bytes.
func (c *Client) Download(ctx context.Context, generationID string, w io.Writer) error {
	d := &download{Writer: w, digest: sha256.New(), request: &easelv1.DownloadGenerationRequest{GenerationId: generationID}}
	for attempt := 0; ; attempt++ {
		before := d.request.GetReadOffset()
		err := d.once(ctx, c)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if d.broken || !repeatHelps(err) {
			return err
		}
		if d.request.GetReadOffset() > before {
			attempt = 0
		}
		if err := pause(ctx, attempt, 0, err); err != nil {
			return err
		}
	}
}

// DownloadFile is Download into a file, which has its name when it is whole. Until then it is a new file with a random
// name beside it, and after an error it is gone.
func (c *Client) DownloadFile(ctx context.Context, generationID, path string) error {
	dir, base := filepath.Split(path)
	part := filepath.Join(dir, "."+base+"."+rand.Text()[:10]+".part")
	file, err := os.OpenFile(part, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666) //nolint:gosec // the caller names it, and the umask says who may read it
	if err != nil {
		return err
	}
	err = c.Download(ctx, generationID, file)
	if err = errors.Join(err, file.Close()); err == nil {
		err = os.Rename(file.Name(), path)
	}
	if err != nil {
		_ = os.Remove(file.Name())
	}
	return err
}

// download is how far one has come.
type download struct {
	io.Writer
	digest  hash.Hash
	request *easelv1.DownloadGenerationRequest // of the rest
	size    *int64                             // of the whole, where the server knows it
	broken  bool                               // here, and not at the server
}

// once reads one stream. io.EOF says that every byte is there.
func (d *download) once(ctx context.Context, c *Client) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := c.DownloadGeneration(ctx, d.request)
	for err == nil {
		var message *easelv1.DownloadGenerationResponse
		if message, err = stream.Recv(); err == nil {
			err = d.take(message.GetChunk())
			d.broken = err != nil
		}
	}
	if errors.Is(err, io.EOF) && d.size != nil && *d.size != d.request.GetReadOffset() {
		d.broken = true
		return errDamaged
	}
	return err
}

var errDamaged = status.Error(codes.DataLoss, "bytes arrived damaged")

func (d *download) take(chunk *easelv1.ContentChunk) error {
	data := chunk.GetData()
	if chunk.GetOffset() != d.request.GetReadOffset() || crc32.Checksum(data, crc32.MakeTable(crc32.Castagnoli)) != chunk.GetCrc32C() {
		return errDamaged
	}
	if _, err := d.Write(data); err != nil {
		return err
	}
	_, _ = d.digest.Write(data) // never fails
	d.request.ReadOffset += int64(len(data))
	if info := chunk.GetInfo(); info != nil {
		d.request.Etag, d.size = cmp.Or(info.GetEtag(), d.request.GetEtag()), info.SizeBytes
	}
	if whole := chunk.GetSummary(); whole != nil && hex.EncodeToString(d.digest.Sum(nil)) != whole.GetSha256() {
		return errDamaged
	}
	return nil
}
