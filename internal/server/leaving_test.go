package server

import (
	"bytes"
	"context"
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	_ "google.golang.org/grpc/encoding/gzip"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/server/servertest"
)

// manyWords answers with so many bytes.
func manyWords(n int) *servertest.Studio {
	studio := servertest.NewStudio()
	studio.Get = func(context.Context, *easelv1.GetGenerationRequest) (*easelv1.GetGenerationResponse, error) {
		return &easelv1.GetGenerationResponse{Generation: &easelv1.Generation{FailureMessage: strings.Repeat("x", n)}}, nil
	}
	studio.Watch = func(_ *easelv1.WatchGenerationRequest, stream servertest.WatchStream) error {
		return stream.Send(&easelv1.WatchGenerationResponse{Event: &easelv1.WatchGenerationResponse_Update{
			Update: &easelv1.GenerationUpdate{Generation: &easelv1.Generation{FailureMessage: strings.Repeat("x", n)}},
		}})
	}
	return studio
}

// unread makes a call whose answer nobody reads, which the transport of the client holds back.
func unread(t *testing.T, ctx context.Context, conn *grpc.ClientConn, method string, options ...grpc.CallOption) {
	t.Helper()
	stream, err := conn.NewStream(servertest.WithKey(ctx), &grpc.StreamDesc{ServerStreams: true}, method, options...)
	if err == nil {
		err = stream.SendMsg(&easelv1.GetGenerationRequest{GenerationId: "g"})
	}
	if err == nil {
		err = stream.CloseSend()
	}
	if err != nil {
		t.Fatal(err)
	}
	synctest.Wait()
}

func smallWindow(t *testing.T, s *site) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient("passthrough:///easel", grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithStaticStreamWindowSize(64<<10),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return s.GRPCPipe.DialContext(ctx) }))
	if err != nil {
		t.Fatal(err)
	}
	return conn
}

func TestACallHoldsItsPlaceUntilItsAnswerHasLeft(t *testing.T) { // D3
	for name, method := range map[string]string{
		"a unary call": easelv1.GenerationService_GetGeneration_FullMethodName,
		"a stream":     easelv1.GenerationService_WatchGeneration_FullMethodName,
	} {
		for form, options := range map[string][]grpc.CallOption{"": nil, ", compressed": {grpc.UseCompressor("gzip")}} {
			t.Run(name+form, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := serve(t, manyWords(1<<20))
					conn := smallWindow(t, s)
					ctx, cancel := context.WithCancel(t.Context())
					unread(t, ctx, conn, method, options...)
					unread(t, t.Context(), conn, method, options...)
					if s.used() != 2 {
						t.Errorf("%d places are taken by two answers", s.used())
					}
					cancel()
					synctest.Wait()
					if s.used() != 1 {
						t.Errorf("%d places are taken when one was reset", s.used())
					}
					conn.Close()
					synctest.Wait()
					if s.used() != 0 {
						t.Errorf("%d places are taken when the connection has ended", s.used())
					}
				})
			})
		}
	}
}

func TestAnAnswerThatIsReadGivesItsPlaceBack(t *testing.T) { // D3
	synctest.Test(t, func(t *testing.T) {
		for _, size := range []int{0, 1, 100, 2 << 20} {
			s := serve(t, manyWords(size))
			for range 5 {
				if _, err := s.Generations().GetGeneration(servertest.WithKey(t.Context()), &easelv1.GetGenerationRequest{GenerationId: "g"}); err != nil {
					t.Fatal(err)
				}
				if err := openWatch(t.Context(), s.Generations()); err != nil {
					t.Fatal(err)
				}
			}
			synctest.Wait()
			if s.used() != 0 {
				t.Errorf("%d places are taken by answers of %d bytes", s.used(), size)
			}
		}
	})
}

func TestAConnectionThatTakesNothingOfAnAnswerIsClosed(t *testing.T) { // D3
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, manyWords(1<<20))
		conn := smallWindow(t, s)
		defer conn.Close()
		unread(t, t.Context(), conn, easelv1.GenerationService_GetGeneration_FullMethodName)
		time.Sleep(writeTimeout - checkInterval)
		if s.used() != 1 {
			t.Errorf("%d places are taken", s.used())
		}
		time.Sleep(3 * checkInterval)
		if s.used() != 0 || s.Server.grpcConns.inUse() != 0 {
			t.Errorf("%d places and %d connections are taken later", s.used(), s.Server.grpcConns.inUse())
		}
	})
}

// crumbs is a connection whose message comes in frames of one byte.
type crumbs struct {
	padded  bool
	refused bool // calls that are refused come between them
}

func (c crumbs) send(conn net.Conn, frames int) error {
	if _, err := io.WriteString(conn, http2.ClientPreface); err != nil {
		return err
	}
	framer := http2.NewFramer(conn, nil)
	err := framer.WriteSettings()
	if err == nil {
		err = writeHeaders(framer, 1, "Bearer key")
	}
	if err == nil {
		err = framer.WriteData(1, false, []byte{0, 0, 16, 0, 0}) // the head of a message of a megabyte
	}
	for n := range frames {
		if err == nil && c.refused && n%8 == 0 {
			err = writeHeaders(framer, uint32(n/4+3), "")
		}
		switch {
		case err != nil:
			return err
		case c.padded:
			err = framer.WriteDataPadded(1, false, []byte("x"), make([]byte, 255))
		default:
			err = framer.WriteData(1, false, []byte("x"))
		}
	}
	return err
}

// writeHeaders writes the headers of a call.
func writeHeaders(framer *http2.Framer, stream uint32, credential string) error {
	var block bytes.Buffer
	encoder := hpack.NewEncoder(&block)
	for _, f := range []hpack.HeaderField{
		{Name: ":method", Value: "POST"},
		{Name: ":scheme", Value: "http"},
		{Name: ":authority", Value: "easel.test"},
		{Name: ":path", Value: easelv1.GenerationService_CreateGeneration_FullMethodName},
		{Name: "content-type", Value: "application/grpc"},
		{Name: "te", Value: "trailers"},
		{Name: "authorization", Value: credential},
	} {
		f.Sensitive = true // else it goes into the table that the blocks share
		_ = encoder.WriteField(f)
	}
	return framer.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: block.Bytes(), EndHeaders: true})
}

func TestAMessageInTinyFramesEndsItsConnection(t *testing.T) { // D11
	for name, attack := range map[string]crumbs{"bare": {}, "padded": {padded: true}, "between refused calls": {refused: true}} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, servertest.NewStudio())
			few, err := s.GRPCPipe.Dial()
			if err != nil {
				t.Fatal(err)
			}
			defer few.Close()
			go func() { _, _ = io.Copy(io.Discard, few) }()
			if err := attack.send(few, tinyFrames/2); err != nil {
				t.Errorf("%d frames: %v", tinyFrames/2, err)
			}
			many, err := s.GRPCPipe.Dial()
			if err != nil {
				t.Fatal(err)
			}
			defer many.Close()
			ended := make(chan error, 1)
			go func() { _, err := io.Copy(io.Discard, many); ended <- err }()
			_ = attack.send(many, 8*tinyFrames) // the pipe breaks
			if err := <-ended; err != nil {
				t.Error(err)
			}
		})
	}
}

func TestTheTimerOfARefusedCallGoesWithIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		at := newConnContext(t.Context(), &conn{})
		ctx, cancel := context.WithTimeout(at, 100*time.Hour) // as the library makes it
		defer cancel()
		if at.conn.end(at.take()); ctx.Err() == nil {
			t.Error("its context goes on")
		}
		if at.Err() != nil || at.newest == nil {
			t.Error("the connection has ended too")
		}
		next, cancel := context.WithTimeout(at, 100*time.Hour)
		defer cancel()
		if next.Err() != nil {
			t.Error("the next call's has ended too")
		}
	})
}
