package main

import (
	"errors"
	"io"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/emptypb"
)

// newSink returns a server that accepts and drops OpenTelemetry exports. An export is received as an empty message with
// unknown fields, and therefore not decoded.
func newSink() *grpc.Server {
	return grpc.NewServer(grpc.UnknownServiceHandler(func(_ any, stream grpc.ServerStream) error {
		for {
			switch err := stream.RecvMsg(&emptypb.Empty{}); {
			case errors.Is(err, io.EOF):
				return stream.SendMsg(&emptypb.Empty{})
			case err != nil:
				return err
			}
		}
	}))
}
