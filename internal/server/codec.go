package server

import (
	"runtime"

	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
	protobuf "google.golang.org/protobuf/proto"
)

func init() { encoding.RegisterCodecV2(codec{encoding.GetCodecV2(proto.Name)}) }

// codec is the gRPC library's protobuf codec with two changes. First, Marshal allocates a buffer of exactly the message's
// size. The library's own codec would allocate 1 MiB for each message above 32 KiB. This memory would stay in use while a
// message waits for a client that reads slowly. Second, Unmarshal limits the number of large messages that are decoded
// concurrently.
type codec struct{ encoding.CodecV2 }

// largeMessage is the minimum size of a large message in bytes. At most half of the processors decode large messages
// concurrently. The other half remains available for small messages.
const largeMessage = 256 << 10

var largeDecodes = make(chan struct{}, max(1, runtime.GOMAXPROCS(0)/2))

// Unmarshal implements encoding.CodecV2.
func (c codec) Unmarshal(data mem.BufferSlice, v any) error {
	if data.Len() >= largeMessage {
		largeDecodes <- struct{}{}
		defer func() { <-largeDecodes }()
	}
	return c.CodecV2.Unmarshal(data, v)
}

// Marshal implements encoding.CodecV2.
func (c codec) Marshal(v any) (mem.BufferSlice, error) {
	message, ok := v.(protobuf.Message)
	if !ok {
		return c.CodecV2.Marshal(v)
	}
	data, err := protobuf.Marshal(message)
	return mem.BufferSlice{mem.SliceBuffer(data)}, err
}
