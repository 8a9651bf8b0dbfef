package service

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"testing"
	"testing/iotest"

	"google.golang.org/protobuf/proto"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/auth"
	"github.com/easel-grpc/easel/internal/catalog"
)

// picture is the content of a result. It has several full chunks and a partial one.
var picture = bytes.Repeat([]byte("a picture of the sea "), 20_001)

// copied sends picture from an offset, up to a limit, and returns the chunks. The function read wraps the body.
func copied(offset, limit int, read func(io.Reader) io.Reader) (chunks []*easelv1.ContentChunk, err error) {
	size := int64(len(picture))
	c := &Content{
		Info: &easelv1.ContentInfo{SizeBytes: &size}, Offset: int64(offset), Limit: int64(limit),
		Body: io.NopCloser(read(bytes.NewReader(picture[offset:]))),
	}
	err = c.Copy(c.summed(func(chunk *easelv1.ContentChunk) error {
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
			t.Errorf("chunk %d is at %d with %x", i, chunk.GetOffset(), chunk.GetCrc32C())
		}
		if (chunk.GetInfo() != nil) != (i == 0) || chunk.GetSummary() != nil && i != len(chunks)-1 {
			t.Errorf("chunk %d of %d has %v, %v", i, len(chunks), chunk.GetInfo(), chunk.GetSummary())
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
		"at once": func(r io.Reader) io.Reader { return r }, "by halves": iotest.HalfReader, "with its end": iotest.DataErrReader,
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
				chunks, err := copied(part.offset, part.limit, read)
				if err != nil || len(chunks) == 0 {
					t.Fatalf("%d chunks, %v", len(chunks), err)
				}
				checkChunks(t, chunks, part.offset, picture[part.offset:part.end])
				sum := sha256.Sum256(picture)
				summary := chunks[len(chunks)-1].GetSummary()
				if part.whole && (summary.GetSizeBytes() != int64(all) || summary.GetSha256() != hex.EncodeToString(sum[:])) || !part.whole && summary != nil {
					t.Errorf("the summary is %v", summary)
				}
			})
		}
	}
}

func TestABodyThatBreaksOffIsNeverWhole(t *testing.T) { // fault U16
	for name, broken := range map[string]error{
		"an error":              errors.New("the line is cut"),
		"one that wraps an end": fmt.Errorf("cut: %w", io.EOF),
		"half a body":           io.ErrUnexpectedEOF,
		"one of the catalog's":  &catalog.Error{Kind: catalog.KindInterrupted, Err: io.EOF},
	} {
		t.Run(name, func(t *testing.T) {
			for _, limit := range []int{0, chunkSize + 7, len(picture)} {
				chunks, err := copied(0, limit, func(r io.Reader) io.Reader {
					return io.MultiReader(io.LimitReader(r, chunkSize+5), iotest.ErrReader(broken))
				})
				if !errors.Is(err, broken) {
					t.Errorf("of %d: the download ended with %v", limit, err)
				}
				checkChunks(t, chunks, 0, picture[:chunkSize+5])
				for _, chunk := range chunks {
					if chunk.GetSummary() != nil {
						t.Errorf("of %d: the download has the summary %v", limit, chunk.GetSummary())
					}
				}
			}
		})
	}
}

func TestNothingIsReadForASinkThatHasFailed(t *testing.T) {
	full := errors.New("the sink is full")
	c := &Content{Body: io.NopCloser(io.MultiReader(io.LimitReader(bytes.NewReader(picture), chunkSize), iotest.ErrReader(errors.New("read on"))))}
	if err := c.Copy(func(*easelv1.ContentChunk) error { return full }); !errors.Is(err, full) {
		t.Errorf("the download ended with %v", err)
	}
}

func TestACallerThatIsTakenOutGetsNoMoreOfAResult(t *testing.T) {
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
