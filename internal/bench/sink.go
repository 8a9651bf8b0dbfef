package main

import (
	"errors"
	"io"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"
)

// rawCodec hands messages on as they are: the sink reads no trace, and its answer is empty.
type rawCodec struct{}

func (rawCodec) Name() string                             { return "proto" }
func (rawCodec) Marshal(any) (mem.BufferSlice, error)     { return nil, nil }
func (rawCodec) Unmarshal(_ mem.BufferSlice, _ any) error { return nil }

var _ encoding.CodecV2 = rawCodec{}

// slowness is how long a slow sink thinks about each export.
const slowness = time.Second

// runSink takes the exports of OpenTelemetry and forgets them; one that is "stuck" takes them and
// never says so, one that is "slow" says so late.
func runSink(kind string) error {
	l, err := listen("sink")
	if err != nil {
		return err
	}
	server := grpc.NewServer(grpc.ForceServerCodecV2(rawCodec{}), grpc.UnknownServiceHandler(func(_ any, stream grpc.ServerStream) error {
		for {
			switch err := stream.RecvMsg(nil); {
			case err == nil:
				continue
			case !errors.Is(err, io.EOF):
				return err
			case kind == "stuck":
				<-stream.Context().Done()
				return stream.Context().Err()
			case kind == "slow":
				time.Sleep(slowness)
			}
			return stream.SendMsg(nil)
		}
	}))
	go func() { _ = server.Serve(l) }()
	return untilClosed()
}
