package server

import (
	"context"
	"slices"

	"google.golang.org/grpc"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
	protobuf "google.golang.org/protobuf/proto"
)

// codec is the stock one, but for what answers lie in and for requests that can't be decoded.
type codec struct {
	encoding.CodecV2
}

func newCodec() codec { return codec{encoding.GetCodecV2(proto.Name)} }

// Marshal implements encoding.CodecV2. A message gets a buffer of its own size, as one may wait
// for a slow reader on each stream: the library keeps such of up to 32 KiB for use again, and
// takes one of 1 MiB for what is larger.
func (c codec) Marshal(v any) (mem.BufferSlice, error) {
	if made, ok := v.(interface{ Wire() mem.BufferSlice }); ok {
		return made.Wire(), nil // by the service: what many are told, or bytes of a result
	}
	message, ok := v.(protobuf.Message)
	if !ok {
		return c.CodecV2.Marshal(v)
	}
	data, err := protobuf.Marshal(message)
	return mem.BufferSlice{mem.SliceBuffer(data)}, err
}

// Unmarshal implements encoding.CodecV2.
func (c codec) Unmarshal(data mem.BufferSlice, v any) error {
	r, ok := v.(*received)
	if !ok {
		return c.CodecV2.Unmarshal(data, v)
	}
	r.err = c.CodecV2.Unmarshal(data, r.message)
	return nil
}

// registrar has the requests of unary calls decoded like that.
type registrar struct {
	grpc.ServiceRegistrar
}

// RegisterService implements grpc.ServiceRegistrar.
func (r registrar) RegisterService(desc *grpc.ServiceDesc, implementation any) {
	shown := *desc
	shown.Methods = slices.Clone(desc.Methods)
	for n, method := range desc.Methods {
		shown.Methods[n].Handler = func(srv any, ctx context.Context, decode func(any) error, intercept grpc.UnaryServerInterceptor) (any, error) {
			var in received
			return method.Handler(srv, ctx, func(message any) error {
				in.message = message
				return decode(&in)
			}, func(ctx context.Context, _ any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
				return intercept(ctx, in.request(), info, handler)
			})
		}
	}
	r.ServiceRegistrar.RegisterService(&shown, implementation)
}

// checkedStream holds the rules against what a streaming call receives.
type checkedStream struct {
	grpc.ServerStream
	ctx   context.Context
	rules rules
	span  *callSpan
}

// Context implements grpc.ServerStream.
func (s *checkedStream) Context() context.Context { return s.ctx }

// SendMsg implements grpc.ServerStream.
func (s *checkedStream) SendMsg(message any) error {
	bytes := bytesOf(message) // now: it is not ours any more when it is sent
	err := s.ServerStream.SendMsg(message)
	if err == nil {
		s.span.message(bytes)
	}
	return err
}

// RecvMsg implements grpc.ServerStream.
func (s *checkedStream) RecvMsg(message any) error {
	in := received{message: message}
	if err := s.ServerStream.RecvMsg(&in); err != nil {
		return err
	}
	err := s.rules.check(s.ctx, in.request())
	if err == nil {
		s.span.asked(message, true)
	}
	return err
}
