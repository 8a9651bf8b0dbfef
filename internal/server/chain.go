package server

import (
	"context"
	"slices"

	"google.golang.org/grpc"
	"google.golang.org/grpc/encoding"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/service"
)

// What a call passes behind the door, the outermost first:
//
//	stats handler   its span, its measurements, the end of its place, its line in the log
//	registrar       the proof of its API key and its turn, before its request is received (unary)
//	stream          the same (streams); what fails becomes a status, a panic too
//	receive         its request, the rules of the contract, and what its caller may ask for

// options are those of both gRPC servers.
func (d *door) options(tap grpc.ServerOption) []grpc.ServerOption {
	return []grpc.ServerOption{
		tap,
		grpc.StatsHandler(d),
		grpc.StreamInterceptor(d.stream),
		grpc.MaxRecvMsgSize(messageBytes),
		grpc.ForceServerCodecV2(newCodec()),
	}
}

// registrar registers services so that a unary call passes the door before its request is received: the library calls the
// interceptors of unary calls later.
type registrar struct {
	*grpc.Server
	door *door
}

// RegisterService implements grpc.ServiceRegistrar.
func (r registrar) RegisterService(service *grpc.ServiceDesc, handlers any) {
	described := *service
	described.Methods = slices.Clone(service.Methods)
	for i, m := range described.Methods {
		described.Methods[i].Handler = unary(m.Handler)
	}
	r.Server.RegisterService(&described, handlers)
	for _, m := range r.GetServiceInfo()[service.ServiceName].Methods {
		r.door.methods["/"+service.ServiceName+"/"+m.Name] = m
	}
}

// unary is the handler of a unary call behind the door.
func unary(handler grpc.MethodHandler) grpc.MethodHandler {
	return func(srv any, ctx context.Context, receive func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
		c := callOf(ctx)
		err := c.run(ctx, func() (err error) {
			if c.method == easelv1.GenerationService_CreateGeneration_FullMethodName {
				ctx = service.WithAdmission(ctx, service.Admission{Hold: c.hold, Order: &c.span.order})
			}
			c.out.message, err = handler(srv, ctx, func(req any) error { return c.receive(ctx, req, receive) }, nil)
			return err
		})
		if err != nil {
			return nil, err
		}
		c.span.answer = c.out.message
		return &c.out, nil
	}
}

// run runs the handler of a call whose API key is proved. What fails becomes a status, a panic too.
func (c *call) run(ctx context.Context, handle func() error) error {
	c.out.call = c
	return c.fail(func() (err error) {
		defer c.recovered(&err)
		if ctx.Err() != nil {
			c.quiet = true // cancelled before it began: no work, and no line, for a flood of such
			return ctx.Err()
		}
		if err := c.admit(ctx); err != nil {
			return err
		}
		_ = grpc.SetSendCompressor(ctx, encoding.Identity) // what is compressed can't be counted until it has left
		return handle()
	}())
}

func (d *door) stream(srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
	c := callOf(stream.Context())
	return c.run(stream.Context(), func() error { return handler(srv, &checkedStream{stream, c}) })
}

// checkedStream checks the requests of a stream, and counts its answers.
type checkedStream struct {
	grpc.ServerStream
	call *call
}

// SendMsg implements grpc.ServerStream.
func (s *checkedStream) SendMsg(message any) error {
	bytes := bytesOf(message) // before SendMsg, which owns the message from then on
	s.call.out.message = message
	err := s.ServerStream.SendMsg(&s.call.out)
	if err == nil {
		s.call.span.message(bytes)
	}
	return err
}

// RecvMsg implements grpc.ServerStream.
func (s *checkedStream) RecvMsg(message any) error {
	return s.call.receive(s.Context(), message, s.ServerStream.RecvMsg)
}
