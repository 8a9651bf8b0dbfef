package service

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/auth"
	"github.com/easel-grpc/easel/internal/catalog"
)

// picture is the content of a result. It is long enough for several full chunks and a partial chunk.
var picture = bytes.Repeat([]byte("a picture of the sea "), 20_001)

// copyPicture sends the bytes of picture from the given offset through [Content.Copy], and returns the resulting
// chunks. limit is the maximum number of bytes; zero means no limit. wrapReader wraps the reader of these bytes, for
// example to make it fail.
func copyPicture(offset, limit int, wrapReader func(io.Reader) io.Reader) (chunks []*easelv1.ContentChunk, err error) {
	size := int64(len(picture))
	c := &Content{
		Info: &easelv1.ContentInfo{SizeBytes: &size}, Offset: int64(offset), Limit: int64(limit),
		Body: io.NopCloser(wrapReader(bytes.NewReader(picture[offset:]))),
	}
	err = c.Copy(c.summedSink(func(chunk *easelv1.ContentChunk) error {
		chunks = append(chunks, proto.CloneOf(chunk))
		return nil
	}))
	return chunks, err
}

// checkChunks checks the offsets, checksums and sizes of chunks, and compares their data with want.
func checkChunks(t *testing.T, chunks []*easelv1.ContentChunk, offset int, want []byte) {
	t.Helper()
	var got []byte
	for i, chunk := range chunks {
		if chunk.GetOffset() != int64(offset+len(got)) || chunk.GetCrc32C() != crc32.Checksum(chunk.GetData(), castagnoli) {
			t.Errorf("chunk %d has offset %d and CRC32C %x", i, chunk.GetOffset(), chunk.GetCrc32C())
		}
		if (chunk.GetInfo() != nil) != (i == 0) || chunk.GetSummary() != nil && i != len(chunks)-1 {
			t.Errorf("chunk %d of %d has info %v, summary %v", i, len(chunks), chunk.GetInfo(), chunk.GetSummary())
		}
		if len(chunk.GetData()) > chunkSize {
			t.Errorf("chunk %d has %d bytes", i, len(chunk.GetData()))
		}
		got = append(got, chunk.GetData()...)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("received %d bytes that differ from the expected %d", len(got), len(want))
	}
}

func TestAResultIsCutIntoChunksWithChecksums(t *testing.T) {
	all := len(picture)
	readers := map[string]func(io.Reader) io.Reader{
		"full reads": func(r io.Reader) io.Reader { return r }, "half reads": iotest.HalfReader, "EOF with the last bytes": iotest.DataErrReader,
	}
	for name, read := range readers {
		for _, part := range []struct {
			offset, limit, end int
			whole              bool
		}{
			{0, 0, all, true},
			{0, all, all, true},
			{0, all + 1, all, true},
			{0, all - 1, all - 1, false},
			{0, chunkSize, chunkSize, false},
			{0, 1, 1, false},
			{1, 0, all, false},
			{all - 1, 0, all, false},
			{all, 0, all, false},
			{chunkSize, 2 * chunkSize, 3 * chunkSize, false},
		} {
			t.Run(fmt.Sprintf("%s, %d from %d", name, part.limit, part.offset), func(t *testing.T) {
				chunks, err := copyPicture(part.offset, part.limit, read)
				if err != nil || len(chunks) == 0 {
					t.Fatalf("got %d chunks and the error %v", len(chunks), err)
				}
				checkChunks(t, chunks, part.offset, picture[part.offset:part.end])
				sum := sha256.Sum256(picture)
				summary := chunks[len(chunks)-1].GetSummary()
				if part.whole && (summary.GetSizeBytes() != int64(all) || summary.GetSha256() != hex.EncodeToString(sum[:])) || !part.whole && summary != nil {
					t.Errorf("the summary is %v; want size and checksum of a complete file, none for a part", summary)
				}
			})
		}
	}
}

func TestInterruptedDownloadHasNoSummary(t *testing.T) {
	for name, broken := range map[string]error{
		"an error":                errors.New("the line is cut"),
		"an error that wraps EOF": fmt.Errorf("cut: %w", io.EOF),
		"unexpected EOF":          io.ErrUnexpectedEOF,
		"a catalog error":         &catalog.Error{Kind: catalog.KindInterrupted, Err: io.EOF},
	} {
		t.Run(name, func(t *testing.T) {
			for _, limit := range []int{0, chunkSize + 7, len(picture)} {
				chunks, err := copyPicture(0, limit, func(r io.Reader) io.Reader {
					return io.MultiReader(io.LimitReader(r, chunkSize+5), iotest.ErrReader(broken))
				})
				if !errors.Is(err, broken) {
					t.Errorf("limit %d: the download ended with %v", limit, err)
				}
				checkChunks(t, chunks, 0, picture[:chunkSize+5])
				for _, chunk := range chunks {
					if chunk.GetSummary() != nil {
						t.Errorf("limit %d: got summary %v, want none", limit, chunk.GetSummary())
					}
				}
			}
		})
	}
}

func TestDownloadStopsReadingAfterSendFailure(t *testing.T) {
	full := errors.New("the sink is full")
	c := &Content{Body: io.NopCloser(io.MultiReader(io.LimitReader(bytes.NewReader(picture), chunkSize), iotest.ErrReader(errors.New("read on"))))}
	if err := c.Copy(func(*easelv1.ContentChunk) error { return full }); !errors.Is(err, full) {
		t.Errorf("the download ended with %v", err)
	}
}

func TestRemovedCallerReceivesNoFurtherChunks(t *testing.T) {
	got, asked := 0, 0
	c := &Content{Body: io.NopCloser(bytes.NewReader(picture)), known: func() error {
		if asked++; asked > 2 {
			return auth.ErrUncertified
		}
		return nil
	}}
	err := c.Copy(func(chunk *easelv1.ContentChunk) error {
		got += len(chunk.GetData())
		return nil
	})
	if !errors.Is(err, auth.ErrUncertified) || got != 2*chunkSize {
		t.Errorf("after %d bytes the download ended with %v", got, err)
	}
}

// slowReader is the stream of a caller that reads messages slowly.
type slowReader struct {
	grpc.ServerStream
	takes func(n int) time.Duration // time that the caller needs to read message n, counted from 0
	ended chan struct{}             // closed when the caller must stop reading
	got   int
}

func (r *slowReader) SendMsg(any) error {
	select {
	case <-time.After(r.takes(r.got)):
		r.got++
		return nil
	case <-r.ended:
		return errors.New("the call has ended")
	}
}

// body is the body of a result.
type body struct {
	io.Reader
	pause  time.Duration // time that each Read sleeps first
	closed chan struct{} // closed by Close
}

func (b *body) Read(p []byte) (int, error) {
	time.Sleep(b.pause)
	return b.Reader.Read(p)
}

func (b *body) Close() error {
	close(b.closed)
	return nil
}

// flowTo sends n chunks to the slow reader r, and delays each read of the body by the given pause. It returns the
// duration of the call and its error.
func flowTo(r *slowReader, n int, pause time.Duration) (took time.Duration, err error) {
	r.ended = make(chan struct{})
	began, result := time.Now(), &body{bytes.NewReader(make([]byte, n*chunkSize-1)), pause, make(chan struct{})}
	err = (&deadlineSender{stream: r, timeout: time.Minute}).content(&Content{Body: result}, func(chunk *easelv1.ContentChunk) proto.Message {
		return &easelv1.DownloadGenerationResponse{Chunk: chunk}
	})
	took = time.Since(began)
	close(r.ended)
	<-result.closed
	return took, err
}

func TestUnreadDownloadEndsAfterOneMinute(t *testing.T) {
	const never = -1
	for name, row := range map[string]struct {
		takes time.Duration // time that the caller needs to read a message
		pause time.Duration // time that the catalog needs for each part of the body
		stuck int           // number of the message that the caller does not read within the timeout
		took  time.Duration
	}{
		"a caller that is almost too slow": {time.Minute - 1, 0, never, 5 * (time.Minute - 1)},
		"a slow catalog":                   {time.Second, time.Hour, never, 0},
		"first message never read":         {25 * time.Second, 0, 0, time.Minute},
		"later message never read":         {25 * time.Second, 0, 2, 2*25*time.Second + time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := &slowReader{takes: func(n int) time.Duration {
					if n == row.stuck {
						return time.Hour
					}
					return row.takes
				}}
				took, err := flowTo(r, 5, row.pause)
				want, got := codes.OK, 5
				if row.stuck != never {
					want, got = codes.ResourceExhausted, row.stuck
				}
				if status.Code(err) != want || r.got != got || row.took > 0 && took != row.took {
					t.Errorf("the reader got %d messages in %v, and the stream ended with %v", r.got, took, err)
				}
			})
		})
	}
}

func TestPanicDuringDownloadReturnsInternalError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &slowReader{takes: func(int) time.Duration { panic("no such bytes") }}
		_, err := flowTo(r, 1, 0)
		if err == nil || !strings.Contains(err.Error(), "no such bytes") || !strings.Contains(err.Error(), "content_test.go") {
			t.Errorf("the download ended with %v", err)
		}
		if st := Status(err); st.Code() != codes.Internal || strings.Contains(st.Message(), "bytes") {
			t.Errorf("the caller receives %v", st)
		}
	})
}
