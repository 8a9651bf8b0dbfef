package main

import (
	"errors"
	"io"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/emptypb"
)

// newSink returns a server that accepts and drops OpenTelemetry exports. It receives each export as an empty message
// type, whose fields are all unknown. Therefore, it does not decode exports.
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
