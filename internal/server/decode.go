package server

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
	protobuf "google.golang.org/protobuf/proto"

	"github.com/easel-grpc/easel/internal/service"
)

// A request that can't be decoded is the caller's mistake: INVALID_ARGUMENT, with a
// line in the log. The library would answer INTERNAL, before any interceptor runs. So
// the codec tells it that all is well and leaves the error in the received.
type received struct {
	message any
	err     error
}

// refused is the error of a message that could not be decoded.
func (r *received) refused() error {
	if r.err == nil {
		return nil
	}
	return service.InvalidRequest(service.Violation{Description: "the request can't be decoded: " + r.err.Error()})
}

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

// registrar registers services whose unary requests are decoded as above.
type registrar struct {
	grpc.ServiceRegistrar
}

// RegisterService implements grpc.ServiceRegistrar.
func (r registrar) RegisterService(desc *grpc.ServiceDesc, implementation any) {
	checked := *desc
	checked.Methods = make([]grpc.MethodDesc, len(desc.Methods))
	for n, method := range desc.Methods {
		checked.Methods[n] = grpc.MethodDesc{
			MethodName: method.MethodName,
			Handler:    refuseMalformed("/"+desc.ServiceName+"/"+method.MethodName, method.Handler),
		}
	}
	r.ServiceRegistrar.RegisterService(&checked, implementation)
}

func refuseMalformed(fullMethod string, handler grpc.MethodHandler) grpc.MethodHandler {
	return func(srv any, ctx context.Context, decode func(any) error, intercept grpc.UnaryServerInterceptor) (any, error) {
		var refused error
		resp, err := handler(srv, ctx, func(message any) error {
			r := &received{message: message}
			if err := decode(r); err != nil {
				return err
			}
			refused = r.refused()
			return refused
		}, intercept)
		if refused == nil {
			return resp, err
		}
		info := &grpc.UnaryServerInfo{Server: srv, FullMethod: fullMethod}
		return intercept(ctx, nil, info, func(context.Context, any) (any, error) { return nil, refused })
	}
}

// checkedStream decodes as above what a streaming call receives, and holds the rules
// against it.
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
	r := &received{message: message}
	if err := s.ServerStream.RecvMsg(r); err != nil {
		return err
	}
	if err := r.refused(); err != nil {
		return err
	}
	err := s.rules.check(s.ctx, message)
	if err == nil {
		s.span.asked(message, true)
	}
	return err
}
