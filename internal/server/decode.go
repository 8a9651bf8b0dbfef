package server

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	protobuf "google.golang.org/protobuf/proto"

	"github.com/easel-grpc/easel/internal/service"
)

// codec is the stock codec, except for the buffers of answers and for requests that are not decoded.
type codec struct {
	encoding.CodecV2
}

func newCodec() codec { return codec{encoding.GetCodecV2(proto.Name)} }

// Marshal implements encoding.CodecV2. A message gets a buffer of its own size, as a message may wait
// for a slow reader on each stream: the library takes buffers of 32 KiB from a pool, and of 1 MiB for a
// larger message.
func (c codec) Marshal(v any) (mem.BufferSlice, error) {
	if made, ok := v.(interface{ Wire() mem.BufferSlice }); ok {
		return made.Wire(), nil // a pre-encoded message of the service
	}
	message, ok := v.(protobuf.Message)
	if !ok {
		return c.CodecV2.Marshal(v)
	}
	data, err := protobuf.Marshal(message)
	return mem.BufferSlice{mem.SliceBuffer(data)}, err
}

// refusal is the number of the field that has why a request was not decoded: first the field of the request, then the
// reason. No message has it: 536,870,911 is the highest number.
const refusal = protowire.MaxValidNumber

// Unmarshal implements encoding.CodecV2. It counts what a message has before it builds anything of it. A request with too
// much, or one that can't be decoded, is the caller's mistake, with a log line and the reason of the contract; the library
// would answer INTERNAL and log nothing. So Unmarshal notes it in an unknown field of the message, and the rules refuse the
// request.
func (c codec) Unmarshal(data mem.BufferSlice, v any) error {
	if in, ok := v.(*received); ok {
		v, in.bytes = in.message, data.Len()
	}
	message, ok := v.(protobuf.Message)
	if !ok {
		return c.CodecV2.Unmarshal(data, v)
	}
	whole := data.MaterializeToBuffer(mem.DefaultBufferPool())
	defer whole.Free()
	broken := checkWire(message.ProtoReflect().Descriptor(), whole.ReadOnlyData())
	if broken == nil && protobuf.Unmarshal(whole.ReadOnlyData(), message) != nil {
		broken = &service.Violation{Description: "the request can't be decoded: it is no " + string(message.ProtoReflect().Descriptor().FullName())}
	}
	if broken != nil {
		protobuf.Reset(message)
		note := protowire.AppendString(protowire.AppendTag(nil, refusal, protowire.BytesType), broken.Field)
		message.ProtoReflect().SetUnknown(protowire.AppendString(note, broken.Description))
	}
	return nil
}

// notDecoded is why a message was not decoded; nil where it was.
func notDecoded(message protobuf.Message) error {
	number, kind, n := protowire.ConsumeTag(message.ProtoReflect().GetUnknown())
	if n < 0 || number != refusal || kind != protowire.BytesType {
		return nil
	}
	field, length := protowire.ConsumeString(message.ProtoReflect().GetUnknown()[n:])
	description, _ := protowire.ConsumeString(message.ProtoReflect().GetUnknown()[n+max(length, 0):])
	return service.InvalidRequest(service.Violation{Field: field, Description: description})
}

// checkedStream admits a streaming call when its request has come.
type checkedStream struct {
	grpc.ServerStream
	ctx  context.Context
	call *call
}

// Context implements grpc.ServerStream.
func (s *checkedStream) Context() context.Context { return s.ctx }

// SendMsg implements grpc.ServerStream.
func (s *checkedStream) SendMsg(message any) error {
	bytes := bytesOf(message) // before SendMsg, which owns the message from then on
	err := s.ServerStream.SendMsg(message)
	if err == nil {
		s.call.span.message(bytes)
	}
	return err
}

// RecvMsg implements grpc.ServerStream.
func (s *checkedStream) RecvMsg(message any) error {
	return s.call.request(s.ctx, s.ServerStream, message)
}
