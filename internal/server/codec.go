package server

import (
	"context"

	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
	protobuf "google.golang.org/protobuf/proto"

	"github.com/easel-grpc/easel/internal/gate"
	"github.com/easel-grpc/easel/internal/service"
)

// codec is the stock codec, except that it knows the calls of its messages.
type codec struct {
	encoding.CodecV2
}

func newCodec() codec { return codec{encoding.GetCodecV2(proto.Name)} }

// received is a request that is being received. The library would answer INTERNAL where one can't be decoded, which is the
// caller's mistake: so the error is kept apart.
type received struct {
	ctx     context.Context //nolint:containedctx // of the call, whose turn a large one is decoded in
	message any
	err     error
}

// answer is an answer of a call, which counts it until it has left.
type answer struct {
	message any
	call    *call
}

// Unmarshal implements encoding.CodecV2. It counts what a request has before it builds anything of it.
func (c codec) Unmarshal(data mem.BufferSlice, v any) error {
	in, ok := v.(*received)
	if !ok {
		return c.CodecV2.Unmarshal(data, v)
	}
	message, ok := in.message.(protobuf.Message)
	if !ok {
		return c.CodecV2.Unmarshal(data, in.message)
	}
	in.err = gate.Work(in.ctx, service.Sharer(in.ctx), data.Len(), func() error { return decodeRequest(data, message) })
	return nil
}

func decodeRequest(data mem.BufferSlice, message protobuf.Message) error {
	whole := data.MaterializeToBuffer(mem.DefaultBufferPool())
	defer whole.Free()
	shape := message.ProtoReflect().Descriptor()
	if broken := checkWire(shape, whole.ReadOnlyData()); broken != nil {
		return service.InvalidRequest(*broken)
	}
	if protobuf.Unmarshal(whole.ReadOnlyData(), message) != nil {
		return service.InvalidRequest(service.Violation{Description: "the request can't be decoded: it is no " + string(shape.FullName())})
	}
	return nil
}

// Marshal implements encoding.CodecV2. A message gets a buffer of its own size, as a message may wait
// for a slow reader on each stream: the library takes buffers of 32 KiB from a pool, and of 1 MiB for a
// larger message.
func (c codec) Marshal(v any) (mem.BufferSlice, error) {
	out, counted := v.(*answer)
	if counted {
		v = out.message
	}
	data, err := c.encode(v)
	if err != nil || !counted {
		return data, err
	}
	out.message = nil // its bytes are what leaves
	return out.call.counted(data), nil
}

func (c codec) encode(v any) (mem.BufferSlice, error) {
	message, ok := v.(protobuf.Message)
	if !ok {
		return c.CodecV2.Marshal(v)
	}
	data, err := protobuf.Marshal(message)
	var pieces mem.BufferSlice
	for ; len(data) > answerPiece; data = data[answerPiece:] {
		pieces = append(pieces, mem.SliceBuffer(data[:answerPiece]))
	}
	return append(pieces, mem.SliceBuffer(data)), err
}

// answerPiece is how much of an answer has to leave for it to have moved: behind so much, and behind the rest, stands a mark.
const answerPiece = 64 << 10

// mark is empty, and large enough for the library to give it back: what it stands behind has left then.
var mark = make([]byte, 0, 2<<10)

// counted counts an answer until all of it has left. The call is the pool of its marks.
func (c *call) counted(pieces mem.BufferSlice) mem.BufferSlice {
	all := make(mem.BufferSlice, 0, len(pieces)+1+pieces.Len()/answerPiece)
	bytes, marks := 0, 0
	for n, piece := range pieces {
		all = append(all, piece)
		if bytes += piece.Len(); bytes >= answerPiece || n == len(pieces)-1 {
			all = append(all, mem.NewBuffer(&mark, c))
			bytes, marks = 0, marks+1
		}
	}
	c.count(0, marks)
	return all
}

// Get implements mem.BufferPool, and is not called.
func (c *call) Get(n int) *[]byte { b := make([]byte, n); return &b }

// Put implements mem.BufferPool: a piece of an answer has left, or never will.
func (c *call) Put(*[]byte) { c.count(0, -1) }

// lateCodec is that of the REST form: it leaves a large answer in a message as the bytes that it is. Whoever writes it as
// JSON decodes it then, since decoded it takes many times as much memory.
type lateCodec struct{ encoding.CodecV2 }

// Unmarshal implements encoding.CodecV2.
func (c lateCodec) Unmarshal(data mem.BufferSlice, v any) error {
	message, ok := v.(protobuf.Message)
	if !ok || data.Len() < largeResponse {
		return c.CodecV2.Unmarshal(data, v)
	}
	message.ProtoReflect().SetUnknown(data.Materialize())
	return nil
}
