package service

import (
	"bytes"
	"io"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	_ "google.golang.org/grpc/encoding/gzip" // as the server does
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// readNothing calls a method of a server with a window of nothing: not a byte of the answer may
// be sent. The answer is packed as encoding says.
func readNothing(t *testing.T, listener *bufconn.Listener, method, encoding string) {
	conn, err := listener.DialContext(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	go func() { _, _ = io.Copy(io.Discard, conn) }()
	var headers bytes.Buffer
	encoder := hpack.NewEncoder(&headers)
	for _, field := range [][2]string{
		{":method", "POST"},
		{":scheme", "http"},
		{":path", method},
		{":authority", "easel"},
		{"content-type", "application/grpc"},
		{"te", "trailers"},
		{"grpc-encoding", encoding},
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

// TestAStreamThatNobodyReadsTakesWhatIsQuickAtOnce holds the library to what patient.send relies on.
func TestAStreamThatNobodyReadsTakesWhatIsQuickAtOnce(t *testing.T) {
	for _, encoding := range []string{"identity", "gzip"} {
		t.Run(encoding, func(t *testing.T) { takeQuickly(t, encoding) })
	}
}

func takeQuickly(t *testing.T, encoding string) {
	for _, each := range []int{0, 1, 20, 30, 50, 100, 1000, 60 << 10} {
		synctest.Test(t, func(t *testing.T) {
			const patience = time.Minute
			noise := make([]byte, each) // what is small or random takes more room when it is packed
			_, _ = rand.NewChaCha8([32]byte{}).Read(noise)
			message := wrapperspb.Bytes(noise)
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
			readNothing(t, listener, "/some/Method", encoding)
			err := <-ended
			if least := roomUnread / (each + 11 + packing); quickly < least {
				t.Errorf("%d messages of %d bytes were quick, want %d", quickly, each, least)
			}
			if status.Code(err) != codes.ResourceExhausted || time.Since(began) != patience {
				t.Errorf("it ends after %v with %v", time.Since(began), err)
			}
		})
	}
}
