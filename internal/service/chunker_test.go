package service

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"hash/crc32"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/mem"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
)

// pacedBody takes its time for each read.
type pacedBody struct {
	*bytes.Reader
	pause time.Duration
}

func (b pacedBody) Read(p []byte) (int, error) {
	time.Sleep(b.pause)
	return b.Reader.Read(p)
}

// cut cuts file into chunks, beside other downloads, and gives the sizes of the chunks.
func cut(t *testing.T, file []byte, beside int, body func(sent int) time.Duration, unsummed bool) (sizes []int) {
	t.Helper()
	var downloads atomic.Int32
	downloads.Store(int32(1 + beside))
	var whole []byte
	var summary *easelv1.ContentSummary
	c := chunker{size: chunkSize, downloads: &downloads, unsummed: unsummed}
	if !unsummed {
		c.whole = newWholeSum()
		defer c.whole.stop()
	}
	c.send = func(chunk *easelv1.ContentChunk, data mem.Buffer) error {
		defer data.Free() // and used again: a chunk that looks into it later sees other bytes
		piece := data.ReadOnlyData()
		if sum := crc32.Checksum(piece, castagnoli); chunk.GetOffset() != int64(len(whole)) || !unsummed && chunk.GetCrc32C() != sum {
			t.Errorf("a chunk of %d bytes after %d is at %d with %x", len(piece), len(whole), chunk.GetOffset(), chunk.GetCrc32C())
		}
		time.Sleep(body(len(whole)))
		whole, sizes, summary = append(whole, piece...), append(sizes, len(piece)), chunk.GetSummary()
		return nil
	}
	err := c.copy(pacedBody{bytes.NewReader(file), time.Millisecond})
	if err != nil || !bytes.Equal(whole, file) {
		t.Errorf("%d of %d bytes came, %v", len(whole), len(file), err)
	}
	if sum := sha256.Sum256(file); !unsummed && summary.GetSha256() != hex.EncodeToString(sum[:]) || unsummed && summary != nil {
		t.Errorf("the summary is %v", summary)
	}
	return sizes
}

func TestAResultIsTheSameInLargeAndSmallChunks(t *testing.T) {
	file := bytes.Repeat([]byte("a picture of the sea "), 200_001) // 4.2 MB
	atOnce := func(int) time.Duration { return 0 }
	onePause := func(sent int) time.Duration {
		if sent == flowsAfter+largeChunk {
			return time.Minute
		}
		return 0
	}
	for name, test := range map[string]struct {
		beside   int
		pace     func(sent int) time.Duration
		unsummed bool
		large    int // chunks of the larger size
	}{
		"that flows":               {pace: atOnce, large: 12},
		"that flows, without sums": {pace: atOnce, large: 12, unsummed: true},
		"beside many":              {pace: atOnce, beside: largeDownloads},
		"beside less than many":    {pace: atOnce, beside: largeDownloads - 1, large: 12},
		"that is read slowly":      {pace: func(int) time.Duration { return time.Second }},
		"that is paused once":      {pace: onePause, large: 8},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sizes := cut(t, file, test.beside, test.pace, test.unsummed)
				large := 0
				for _, size := range sizes[:len(sizes)-1] {
					if size == largeChunk {
						large++
					} else if size != chunkSize {
						t.Errorf("a chunk has %d bytes", size)
					}
				}
				if large != test.large || slices.Index(sizes, largeChunk) < flowsAfter/chunkSize && large > 0 {
					t.Errorf("%d chunks are large, of %v", large, sizes)
				}
			})
		})
	}
}

// drippingBody flows for so many bytes, and then drips 1,000 a second.
type drippingBody struct {
	*bytes.Reader
	flows int64
}

func (b drippingBody) Read(p []byte) (int, error) {
	if b.Size()-int64(b.Len()) >= b.flows {
		time.Sleep(time.Second)
		p = p[:min(len(p), 1000)]
	}
	return b.Reader.Read(p)
}

func TestBytesThatFlowNoMoreAreNotKeptBackForALargeChunk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const flows = flowsAfter + 3*largeChunk
		var downloads atomic.Int32
		var large int
		last, longest, sum := time.Now(), time.Duration(0), newWholeSum()
		defer sum.stop()
		c := chunker{size: chunkSize, downloads: &downloads, whole: sum}
		c.send = func(_ *easelv1.ContentChunk, data mem.Buffer) error {
			if data.Len() == largeChunk {
				large++
			}
			longest, last = max(longest, time.Since(last)), time.Now()
			data.Free()
			return nil
		}
		err := c.copy(drippingBody{bytes.NewReader(make([]byte, flows+3*largeChunk)), flows})
		if small := time.Duration(chunkSize/1000+2) * time.Second; err != nil || large != 3 || longest > small {
			t.Errorf("%d large chunks, and up to %v between two, %v", large, longest, err)
		}
	})
}
