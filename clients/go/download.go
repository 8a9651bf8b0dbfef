package easel

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"hash"
	"hash/crc32"
	"io"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/durationpb"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
)

// Content is what was downloaded.
type Content struct {
	Path        string // of the file, "" where it went to a writer
	FileName    string // that the server suggests
	ContentType string
	SizeBytes   int64
	SHA256      string // in hex
	Source      string // of the first byte: "catalog", or "copy" of one that the server keeps; "" where the server does not say
}

// FetchOptions change a download. The zero value is that of Download and DownloadFile.
type FetchOptions struct {
	// Wait is how long the server waits for a render that is not finished; then, or at once below 0, the download ends
	// with a NotReadyError. With 0 it is tried again until the context ends.
	Wait     time.Duration
	Keep     bool                            // a file that is there stays: the error is fs.ErrExist
	Progress func(doneBytes, allBytes int64) // after each chunk; allBytes is 0 where nobody knows
}

// Download writes the file of a render to w, over as many streams as it takes: each goes on at the byte where the last one
// broke off. Each chunk is compared with its CRC-32C, and the whole with its size and, where one stream has brought it,
// with its SHA-256. After an error w may have some of the bytes.
func (c *Client) Download(ctx context.Context, generationID string, w io.Writer, options ...CallOption) error {
	_, err := c.fetch(ctx, generationID, FetchOptions{}, options, func(string) (io.Writer, error) { return w, nil })
	return err
}

// download is how far one has come.
type download struct {
	FetchOptions
	open    func(fileName string) (io.Writer, error)
	w       io.Writer // nil before the first chunk
	digest  hash.Hash
	request *easelv1.DownloadGenerationRequest // of the rest
	size    *int64                             // of the whole, where the server knows it
	content Content
	broken  bool // here, and not at the server
}

// fetch downloads to the writer that open gives when the name of the file is known.
func (c *Client) fetch(ctx context.Context, generationID string, options FetchOptions, more []CallOption, open func(string) (io.Writer, error)) (*Content, error) {
	ctx, o, cancel := c.begin(ctx, streamLimits, more)
	defer cancel()
	d := &download{FetchOptions: options, open: open, digest: sha256.New(), request: &easelv1.DownloadGenerationRequest{GenerationId: generationID}}
	if options.Wait > 0 {
		d.request.WaitTimeout = durationpb.New(options.Wait)
	}
	for a := c.attempt(o, "DownloadGeneration", generationID, ""); ; {
		before := d.request.GetReadOffset()
		err := typed(d.once(ctx, a))
		if errors.Is(err, io.EOF) {
			d.content.SizeBytes, d.content.SHA256 = d.request.GetReadOffset(), hex.EncodeToString(d.digest.Sum(nil))
			return &d.content, nil
		}
		if d.broken || !IsRetryable(err) || d.Wait != 0 && ReasonOf(err) == easelv1.ErrorReason_CONTENT_NOT_READY.String() {
			return nil, err
		}
		if d.request.GetReadOffset() > before {
			a.Attempt = 0
		}
		if again := d.resumable(); again != nil {
			return nil, errors.Join(err, again)
		}
		if err := a.pause(ctx, 0, err); err != nil {
			return nil, err
		}
	}
}

// resumable checks that the rest belongs to the bytes that were written. Without an etag the download starts again
// where it started in the file, if the bytes of this download are the last ones of the file.
func (d *download) resumable() error {
	if d.request.GetEtag() != "" || d.request.GetReadOffset() == 0 {
		return nil
	}
	if file, ok := d.w.(interface {
		io.Seeker
		Truncate(size int64) error
	}); ok {
		at, unknown := file.Seek(0, io.SeekCurrent)
		end, err := file.Seek(0, io.SeekEnd)
		if start := end - d.request.GetReadOffset(); err == nil && unknown == nil && at == end {
			d.digest.Reset()
			d.request.ReadOffset = 0
			_, err = file.Seek(start, io.SeekStart)
			return errors.Join(err, file.Truncate(start))
		}
	}
	return errors.New("easel: download cannot resume: the content has no etag")
}

// once reads one stream. io.EOF says that every byte is there.
func (d *download) once(ctx context.Context, a *attempts) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := a.Generations.DownloadGeneration(ctx, d.request)
	for err == nil {
		var message *easelv1.DownloadGenerationResponse
		if message, err = stream.Recv(); err == nil {
			a.answered()
			err = d.take(message.GetChunk())
			d.broken = err != nil
		}
	}
	if errors.Is(err, io.EOF) && (d.w == nil || d.size != nil && *d.size != d.request.GetReadOffset()) {
		d.broken = true
		return damaged()
	}
	return err
}

func damaged() error {
	return &DamagedError{&Error{Code: codes.DataLoss, Message: "bytes arrived damaged"}}
}

func (d *download) take(chunk *easelv1.ContentChunk) (err error) {
	data := chunk.GetData()
	if chunk.GetOffset() != d.request.GetReadOffset() || crc32.Checksum(data, crc32.MakeTable(crc32.Castagnoli)) != chunk.GetCrc32C() {
		return damaged()
	}
	if err := d.begin(chunk.GetInfo()); err != nil {
		return err
	}
	if _, err := d.w.Write(data); err != nil {
		return err
	}
	_, _ = d.digest.Write(data) // never fails
	d.request.ReadOffset += int64(len(data))
	if d.Progress != nil {
		all := int64(0)
		if d.size != nil {
			all = *d.size
		}
		d.Progress(d.request.GetReadOffset(), all)
	}
	whole := chunk.GetSummary()
	if whole != nil && (whole.GetSizeBytes() != d.request.GetReadOffset() || whole.GetSha256() != hex.EncodeToString(d.digest.Sum(nil))) {
		return damaged()
	}
	return nil
}

// begin takes in what the first chunk of a stream says of the file, and opens the file.
func (d *download) begin(info *easelv1.ContentInfo) (err error) {
	if info != nil {
		d.request.Etag, d.size = cmp.Or(info.GetEtag(), d.request.GetEtag()), info.SizeBytes
		d.content.FileName, d.content.ContentType = info.GetFileName(), info.GetContentType()
		if info.GetSource() != easelv1.ContentSource_CONTENT_SOURCE_UNSPECIFIED && d.content.Source == "" {
			d.content.Source = strings.ToLower(strings.TrimPrefix(info.GetSource().String(), "CONTENT_SOURCE_"))
		}
	}
	if d.w == nil {
		d.w, err = d.open(d.content.FileName)
	}
	return err
}
