package server

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// contentStream is a download that has begun: its first chunk is there, and with it
// what the file is. It trusts no chunk: each must be where the last one ended, and
// have its checksum.
type contentStream struct {
	info   *easelv1.ContentInfo
	first  *easelv1.ContentChunk // not read yet, or nil
	offset int64                 // of the next byte
	recv   func() (*easelv1.ContentChunk, error)
	close  context.CancelFunc // ends the call; more than once does no harm
}

// openContent makes the call and waits for the first chunk.
func (g *gateway) openContent(ctx context.Context, req *easelv1.DownloadGenerationRequest) (*contentStream, error) {
	ctx, cancel := context.WithCancel(ctx)
	stream, err := g.client.DownloadGeneration(ctx, req)
	if err != nil {
		cancel()
		return nil, err
	}
	content := &contentStream{offset: req.GetReadOffset(), recv: chunks(stream), close: cancel}
	if content.first, err = content.recv(); err == nil && content.first.GetInfo() != nil {
		content.info = content.first.GetInfo()
		return content, nil
	}
	cancel()
	if err == nil || errors.Is(err, io.EOF) {
		err = refusal(codes.Internal, reasonInternal, "the download began without saying what it is")
	}
	return nil, err
}

func chunks(stream grpc.ServerStreamingClient[easelv1.DownloadGenerationResponse]) func() (*easelv1.ContentChunk, error) {
	return func() (*easelv1.ContentChunk, error) {
		message, err := stream.Recv()
		return message.GetChunk(), err
	}
}

// next is the next bytes, or io.EOF once the call ended with OK.
func (c *contentStream) next() ([]byte, error) {
	chunk := c.first
	c.first = nil
	if chunk == nil {
		var err error
		if chunk, err = c.recv(); err != nil {
			return nil, err
		}
	}
	data := chunk.GetData()
	if chunk.GetOffset() != c.offset {
		return nil, fmt.Errorf("a chunk is at %d, not at %d", chunk.GetOffset(), c.offset)
	}
	if crc32.Checksum(data, castagnoli) != chunk.GetCrc32C() {
		return nil, fmt.Errorf("the chunk at %d is damaged", c.offset)
	}
	c.offset += int64(len(data))
	return data, nil
}
