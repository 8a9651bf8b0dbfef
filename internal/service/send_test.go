package service

import (
	"bytes"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// readNothing calls a method of a server with a window of nothing: not a byte of the answer may
// be sent.
func readNothing(t *testing.T, listener *bufconn.Listener, method string) {
	conn, err := listener.DialContext(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	go func() { _, _ = io.Copy(io.Discard, conn) }()
	var headers bytes.Buffer
	encoder := hpack.NewEncoder(&headers)
	for _, field := range [][2]string{
		{":method", "POST"}, {":scheme", "http"}, {":path", method}, {":authority", "easel"}, {"content-type", "application/grpc"}, {"te", "trailers"},
	} {
		_ = encoder.WriteField(hpack.HeaderField{Name: field[0], Value: field[1]})
	}
	_, err = io.WriteString(conn, http2.ClientPreface)
	framer := http2.NewFramer(conn, nil)
	for _, write := range []func() error{
		func() error { return framer.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0}) },
		func() error {
			return framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: headers.Bytes(), EndHeaders: true})
		},
		func() error { return framer.WriteData(1, true, make([]byte, 5)) }, // an empty message
	} {
		if err == nil {
			err = write()
		}
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestAStreamThatNobodyReadsTakesWhatIsQuickAtOnce holds the library to what a watch relies on
// that is told on a goroutine of all.
func TestAStreamThatNobodyReadsTakesWhatIsQuickAtOnce(t *testing.T) {
	for _, each := range []int{0, 100, 1000, 60 << 10} {
		synctest.Test(t, func(t *testing.T) {
			const patience = time.Minute
			message := wrapperspb.Bytes(make([]byte, each))
			quickly, ended := -1, make(chan error, 1)
			began := time.Now()
			server := grpc.NewServer(grpc.UnknownServiceHandler(func(_ any, stream grpc.ServerStream) error {
				out := &patient{stream: stream, patience: patience}
				n := 0
				for ; out.quick(); n++ {
					if err := out.send(message); err != nil {
						return err
					}
				}
				quickly = n
				if waited := time.Since(began); waited > 0 {
					t.Errorf("%d messages of %d bytes took %v", n, each, waited)
				}
				var err error
				for err == nil {
					err = out.send(message)
				}
				ended <- err
				return err
			}))
			listener := bufconn.Listen(1 << 20)
			go func() { _ = server.Serve(listener) }()
			defer server.Stop()
			readNothing(t, listener, "/some/Method")
			err := <-ended
			if least := roomUnread / (each + 11); quickly < least {
				t.Errorf("%d messages of %d bytes were quick, want %d", quickly, each, least)
			}
			if status.Code(err) != codes.ResourceExhausted || time.Since(began) != patience {
				t.Errorf("it ends after %v with %v", time.Since(began), err)
			}
		})
	}
}
