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

// Content describes a downloaded file.
type Content struct {
	Path        string // path of the file; empty if the bytes were written to a writer
	FileName    string // name that the server suggests
	ContentType string
	SizeBytes   int64
	SHA256      string // SHA-256 of the file, in hexadecimal
	Source      string // source of the first byte: "catalog" or "copy" (stored by the server); empty if unknown
}

// FetchOptions contains the options for Fetch. Download and DownloadFile use the zero value.
type FetchOptions struct {
	// Wait determines how long to wait for an unfinished render. If Wait is positive, the server waits for at most this time,
	// and then the download fails with a NotReadyError. If Wait is negative, the download fails immediately. If Wait is zero,
	// the client retries until the limits of the call are reached.
	Wait     time.Duration
	Keep     bool                            // whether Fetch fails with fs.ErrExist if the file exists, instead of replacing it
	Progress func(doneBytes, allBytes int64) // called after each chunk unless nil; allBytes is zero if the size is unknown
}

// Download writes a render's file to w. If a stream fails, Download opens a new stream that starts at the next byte. It verifies
// the CRC-32C of each chunk, the file's size and, if one stream sent the entire file, the SHA-256. If Download returns an error, w
// may contain a part of the file.
func (c *Client) Download(ctx context.Context, generationID string, w io.Writer, options ...CallOption) error {
	_, err := c.fetch(ctx, generationID, FetchOptions{}, options, func(string) (io.Writer, error) { return w, nil })
	return err
}

// download is the state of a download, which can span several streams.
type download struct {
	FetchOptions
	open    func(fileName string) (io.Writer, error)
	w       io.Writer // nil before the first chunk
	digest  hash.Hash
	request *easelv1.DownloadGenerationRequest // request for the remaining bytes
	size    *int64                             // size of the complete file; nil if unknown
	content Content
	broken  bool // whether the bytes are damaged or can't be written, so that a retry would not help
}

// fetch downloads a file. To get the writer, it calls openWriter once, with the file name that the server suggests.
func (c *Client) fetch(ctx context.Context, generationID string, options FetchOptions, more []CallOption, openWriter func(string) (io.Writer, error)) (*Content, error) {
	ctx, o, cancel := c.applyOptions(ctx, streamLimits, more)
	defer cancel()
	d := &download{FetchOptions: options, open: openWriter, digest: sha256.New(), request: &easelv1.DownloadGenerationRequest{GenerationId: generationID}}
	if options.Wait > 0 {
		d.request.WaitTimeout = durationpb.New(options.Wait)
	}
	for a := c.attempt(o, "DownloadGeneration", generationID, ""); ; {
		before := d.request.GetReadOffset()
		err := c.toTypedError(d.readStream(ctx, a))
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
		if again := d.prepareResume(); again != nil {
			return nil, errors.Join(err, again)
		}
		if err := a.pause(ctx, 0, err); err != nil {
			return nil, err
		}
	}
}

// prepareResume prepares the request for the next stream, or returns an error if the download can't continue. With an etag, the
// server ensures that the remaining bytes belong to the same content. Without an etag, the download restarts at its first byte,
// and prepareResume removes the downloaded bytes from the end of the writer. In this case, the writer must be a file that is
// positioned at its end.
func (d *download) prepareResume() error {
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
	return errors.New("easel: download cannot resume, because the content has no etag")
}

// readStream reads one stream and writes its bytes. It returns io.EOF if all bytes of the file have arrived.
func (d *download) readStream(ctx context.Context, a *attempts) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := a.Generations.DownloadGeneration(ctx, d.request)
	for err == nil {
		var message *easelv1.DownloadGenerationResponse
		if message, err = stream.Recv(); err == nil {
			a.recordSuccess()
			err = d.writeChunk(message.GetChunk())
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
	return &DamagedError{&Error{Code: codes.DataLoss, Message: "downloaded bytes are damaged or missing"}}
}

func (d *download) writeChunk(chunk *easelv1.ContentChunk) (err error) {
	data := chunk.GetData()
	if chunk.GetOffset() != d.request.GetReadOffset() || crc32.Checksum(data, crc32.MakeTable(crc32.Castagnoli)) != chunk.GetCrc32C() {
		return damaged()
	}
	if err := d.recordInfo(chunk.GetInfo()); err != nil {
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

// recordInfo records the file's description. Only the first chunk of each stream contains it; for other chunks, info is nil.
// For the first chunk of the download, recordInfo also opens the writer.
func (d *download) recordInfo(info *easelv1.ContentInfo) (err error) {
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
