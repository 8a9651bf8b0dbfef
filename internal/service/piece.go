package service

import (
	"sync"
	"time"

	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
)

// Piece is a message that carries bytes of a result, of a download or of a watch. The bytes
// go from the catalog's connection to the caller's through one buffer, which is used again. To
// encode the generated message instead would do the same, with two new buffers and a copy for
// each: 64 KiB take 1.5 instead of 33 µs, and leave 0.2 instead of 139 KB to collect
// (BenchmarkAPieceOfADownload).
type Piece struct {
	chunk *easelv1.ContentChunk // without its bytes
	data  mem.Buffer
	field protowire.Number // of the chunk in its message
	sent  time.Time        // in a watch; else zero
}

// Chunk gives what the message says. Its bytes are good until Free.
func (p Piece) Chunk() *easelv1.ContentChunk {
	p.chunk.Data = p.data.ReadOnlyData()
	return p.chunk
}

// Len is how many bytes of the result it carries.
func (p Piece) Len() int { return p.data.Len() }

// Free gives the buffer back. It is for who takes a piece without a wire; else the library
// does it once the message is written.
func (p Piece) Free() { p.data.Free() }

// Wire gives the message as it goes over the wire: what stands before the bytes, the bytes,
// and what stands behind them.
func (p Piece) Wire() mem.BufferSlice {
	p.chunk.Data = nil
	about, _ := proto.Marshal(p.chunk) // of what is our own: it can't fail
	size := len(about) + protowire.SizeTag(dataField) + protowire.SizeBytes(p.data.Len())
	head := make([]byte, 0, len(about)+20)
	head = protowire.AppendVarint(protowire.AppendTag(head, p.field, protowire.BytesType), uint64(size))
	head = protowire.AppendVarint(protowire.AppendTag(append(head, about...), dataField, protowire.BytesType), uint64(p.data.Len()))
	wire := mem.BufferSlice{mem.SliceBuffer(head), p.data}
	if !p.sent.IsZero() {
		wire = append(wire, mem.SliceBuffer(emitTime(p.sent)))
	}
	return wire
}

// buffers are of the size of a chunk each.
var buffers = &chunkPool{small: newPool(chunkSize), large: newPool(largeChunk)}

// chunkPool implements mem.BufferPool.
type chunkPool struct{ small, large *sync.Pool }

func newPool(size int) *sync.Pool {
	return &sync.Pool{New: func() any {
		data := make([]byte, size)
		return &data
	}}
}

func (p *chunkPool) of(size int) *sync.Pool {
	if size <= chunkSize {
		return p.small
	}
	return p.large
}

// Get implements mem.BufferPool.
func (p *chunkPool) Get(length int) *[]byte {
	data := p.of(length).Get().(*[]byte)
	*data = (*data)[:length]
	return data
}

// Put implements mem.BufferPool.
func (p *chunkPool) Put(data *[]byte) {
	*data = (*data)[:cap(*data)]
	p.of(cap(*data)).Put(data)
}
