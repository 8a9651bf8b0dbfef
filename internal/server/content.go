package server

import (
	"context"
	"errors"
	"fmt"
	"io"

	"google.golang.org/grpc/codes"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
)

// contentStream is a download that has begun: its first chunk is there, and with it
// what the file is. Each chunk must be where the last one ended.
type contentStream struct {
	info   *easelv1.ContentInfo
	held   piece // that was received last
	unread bool  // it is the first, and was not given yet
	offset int64 // of the next byte
	recv   func() (piece, error)
	close  context.CancelFunc // ends the call; more than once does no harm
}

// openContent makes the call and waits for the first chunk.
func (g *gateway) openContent(ctx context.Context, req *easelv1.DownloadGenerationRequest) (*contentStream, error) {
	ctx, cancel := context.WithCancel(ctx)
	content := &contentStream{offset: req.GetReadOffset(), recv: g.local.download(ctx, req), close: cancel, unread: true}
	var err error
	if content.held, err = content.recv(); err == nil && content.held.Chunk().GetInfo() != nil {
		content.info = content.held.Chunk().GetInfo()
		return content, nil
	}
	cancel()
	if err == nil || errors.Is(err, io.EOF) {
		err = refusal(codes.Internal, reasonInternal, "the download began without saying what it is")
	}
	return nil, err
}

// next is the next bytes, or io.EOF once the call ended with OK. They are good until next is
// called again.
func (c *contentStream) next() ([]byte, error) {
	if !c.unread {
		c.held.Free()
		held, err := c.recv()
		if err != nil {
			c.held = message{}
			return nil, err
		}
		c.held = held
	}
	c.unread = false
	chunk := c.held.Chunk()
	data := chunk.GetData()
	if chunk.GetOffset() != c.offset {
		return nil, fmt.Errorf("a chunk is at %d, not at %d", chunk.GetOffset(), c.offset)
	}
	c.offset += int64(len(data))
	return data, nil
}
