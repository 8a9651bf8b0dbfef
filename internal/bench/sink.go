package main

import (
	"errors"
	"io"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/emptypb"
)

// newSink returns a gRPC server that accepts OpenTelemetry exports and discards them. It decodes each
// export as an empty message, in which all fields are unknown.
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
