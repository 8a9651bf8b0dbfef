package service

import (
	"time"

	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/watch"
)

// encoded is the message of an update, of one render's watch or of many renders': on the wire
// they are the same. All but the time of sending is encoded once for all watchers of a state, and
// shared by them, as the fields of a message may come in any order and from anywhere.
type encoded struct {
	update []byte
	sent   time.Time
}

// encode encodes an update, once for all who are told it. One that can't be encoded is nil.
func encode(u *watch.Update) []byte {
	return u.Memo.Get(func() any {
		update, _ := proto.Marshal(&easelv1.WatchGenerationResponse{
			Event: &easelv1.WatchGenerationResponse_Update{Update: updateMessage(u)},
		}) // it fails for text alone that is no UTF-8, and text is cleaned
		return update
	}).([]byte)
}

// Wire gives the message as it goes over the wire. None of it may be changed.
func (e encoded) Wire() mem.BufferSlice {
	emitTime, _ := proto.Marshal(&easelv1.WatchGenerationResponse{EmitTime: timestamppb.New(e.sent)}) // it holds no text
	return mem.BufferSlice{mem.SliceBuffer(e.update), mem.SliceBuffer(emitTime)}
}

// EncodedChunk is a message that carries bytes of a result, encoded into a buffer that is used again
// once it was sent: of one that the library encodes, nothing could be.
type EncodedChunk struct {
	wire  mem.Buffer
	bytes int
}

// chunkBuffers are for chunks and what the first and the last one say besides.
var chunkBuffers = mem.NewTieredBufferPool(chunkSize + 1<<10)

func encodeChunk(message proto.Message, bytes int) EncodedChunk {
	buffer := chunkBuffers.Get(proto.Size(message))
	*buffer, _ = proto.MarshalOptions{}.MarshalAppend((*buffer)[:0], message) // its text is clean
	return EncodedChunk{mem.NewBuffer(buffer, chunkBuffers), bytes}
}

// Wire gives the message as it goes over the wire, once.
func (c EncodedChunk) Wire() mem.BufferSlice { return mem.BufferSlice{c.wire} }

// Bytes is how many bytes of the result it carries.
func (c EncodedChunk) Bytes() int { return c.bytes }
