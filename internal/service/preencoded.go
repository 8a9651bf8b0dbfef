package service

import (
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/ledger"
	"github.com/easel-grpc/easel/internal/watch"
)

// preEncodedUpdate is the message of an update, of a watch of one generation or of many: on the wire both
// are the same. All but the time of sending is encoded once for the watchers of a state, and shared by
// them: the fields of a message may come in any order.
type preEncodedUpdate struct {
	update []byte
	sent   time.Time
}

// encodeUpdate encodes an update, once for all its watchers who know the same of whose it is. One that can't be encoded is
// nil.
func encodeUpdate(u *watch.Update, whose ledger.Attribution) []byte {
	return u.Memo.Get(func() any { return new(encodings) }).(*encodings).of(u, whose)
}

// encodings are those of one update. There are few: its watchers know whose it is, or they do not.
type encodings struct {
	mu  sync.Mutex
	all []encoding
}

type encoding struct {
	whose  ledger.Attribution
	update []byte
}

// of gives the encoding for those who know so much.
func (e *encodings) of(u *watch.Update, whose ledger.Attribution) []byte {
	e.mu.Lock()
	defer e.mu.Unlock()
	at := slices.IndexFunc(e.all, func(one encoding) bool { return one.whose.Equal(whose) })
	if at >= 0 {
		return e.all[at].update
	}
	update, _ := proto.Marshal(&easelv1.WatchGenerationResponse{
		Event: &easelv1.WatchGenerationResponse_Update{Update: updateMessage(u, whose)},
	}) // it fails for text alone that is no UTF-8, and text is cleaned
	e.all = append(e.all, encoding{whose, update})
	return update
}

// Wire gives the message as it goes over the wire. None of it may be changed.
func (e preEncodedUpdate) Wire() mem.BufferSlice {
	return mem.BufferSlice{mem.SliceBuffer(e.update), mem.SliceBuffer(appendEmitTime(nil, e.sent))}
}

// appendEmitTime encodes the field emit_time, which is the same in both messages, without a message for each watcher.
func appendEmitTime(b []byte, sent time.Time) []byte {
	const emitTime = 5
	at := make([]byte, 0, 16) // it does not leave the stack
	for n, value := range [...]uint64{uint64(sent.Unix()), uint64(sent.Nanosecond())} {
		if value != 0 {
			at = protowire.AppendVarint(protowire.AppendTag(at, protowire.Number(n+1), protowire.VarintType), value)
		}
	}
	return protowire.AppendBytes(protowire.AppendTag(slices.Grow(b, 2+len(at)), emitTime, protowire.BytesType), at)
}

// PreEncodedChunk is a message that carries bytes of a result. Its buffer is used again once the message
// was sent, which is not possible for a message that the library encodes.
type PreEncodedChunk struct {
	wire  mem.Buffer
	bytes int
}

// chunkBuffers are for chunks and what the first and the last one say besides.
var chunkBuffers = mem.NewTieredBufferPool(chunkSize + 1<<10)

func encodeChunk(message proto.Message, bytes int) PreEncodedChunk {
	buffer := chunkBuffers.Get(proto.Size(message))
	*buffer, _ = proto.MarshalOptions{}.MarshalAppend((*buffer)[:0], message) // its text is clean
	return PreEncodedChunk{mem.NewBuffer(buffer, chunkBuffers), bytes}
}

// Wire gives the message as it goes over the wire, once.
func (c PreEncodedChunk) Wire() mem.BufferSlice { return mem.BufferSlice{c.wire} }

// Bytes is how many bytes of the result it carries.
func (c PreEncodedChunk) Bytes() int { return c.bytes }
