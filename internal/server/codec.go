package server

import (
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
	protobuf "google.golang.org/protobuf/proto"
)

// largeMessage is the size from which on a message has a buffer of its own size. The library takes 1 MiB for it, and a stream
// whose reader is slow keeps several messages.
const largeMessage = 32 << 10

func init() { encoding.RegisterCodecV2(codec{encoding.GetCodecV2(proto.Name)}) }

// codec is the library's codec with buffers that are as large as large messages.
type codec struct{ encoding.CodecV2 }

// Marshal implements encoding.CodecV2.
func (c codec) Marshal(v any) (mem.BufferSlice, error) {
	message, ok := v.(protobuf.Message)
	if !ok || protobuf.Size(message) <= largeMessage {
		return c.CodecV2.Marshal(v)
	}
	data, err := protobuf.Marshal(message)
	return mem.BufferSlice{mem.SliceBuffer(data)}, err
}
