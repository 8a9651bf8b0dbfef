package siege

import (
	"context"
	"encoding/binary"
	"errors"
	"net"
	"sync"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// framed is a connection that speaks HTTP/2 in frames, and keeps to the windows that the server gives.
type framed struct {
	*http2.Framer
	conn net.Conn
	enemy

	mu      sync.Mutex
	changed *sync.Cond
	window  map[uint32]int // by stream; 0 is that of the connection
	first   int            // window of a new stream
	closed  bool
}

// frames opens a connection. The client's own windows are of so many bytes.
func (s *siege) frames(credential string, window uint32) *framed {
	s.t.Helper()
	conn, err := net.Dial("tcp", s.grpc)
	if err != nil {
		s.t.Fatal(err)
	}
	f := &framed{conn: conn, window: map[uint32]int{0: 65535}, first: 65535, enemy: enemy{t: s.t}}
	f.changed = sync.NewCond(&f.mu)
	f.headers = []hpack.HeaderField{
		{Name: ":method", Value: "POST"},
		{Name: ":scheme", Value: "http"},
		{Name: ":authority", Value: "easel.test"},
		{Name: "content-type", Value: "application/grpc"},
		{Name: "te", Value: "trailers"},
	}
	if credential != "" {
		f.headers = append(f.headers, hpack.HeaderField{Name: "authorization", Value: "Bearer " + credential})
	}
	f.Framer = speak(conn, http2.Setting{ID: http2.SettingInitialWindowSize, Val: window})
	go f.read()
	return f
}

// read takes in what the server says of windows, until the connection ends.
func (f *framed) read() {
	for {
		frame, err := f.ReadFrame()
		if err != nil && !errors.As(err, new(http2.StreamError)) {
			break
		}
		f.mu.Lock()
		switch frame := frame.(type) {
		case *http2.WindowUpdateFrame:
			f.window[frame.StreamID] = f.left(frame.StreamID) + int(frame.Increment)
		case *http2.SettingsFrame:
			if size, ok := frame.Value(http2.SettingInitialWindowSize); ok {
				for id := range f.window {
					if id != 0 {
						f.window[id] += int(size) - f.first
					}
				}
				f.first = int(size)
			}
		case *http2.RSTStreamFrame:
			f.window[frame.StreamID] = 1 << 30 // what is sent there is dropped
		}
		f.changed.Broadcast()
		f.mu.Unlock()
	}
	f.mu.Lock()
	f.closed = true
	f.changed.Broadcast()
	f.mu.Unlock()
}

func (f *framed) left(id uint32) int {
	if size, ok := f.window[id]; ok {
		return size
	}
	return f.first
}

// call opens a stream with the headers of a call.
func (f *framed) call(id uint32, path string) error {
	f.path = path
	return f.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: f.block(), EndHeaders: true})
}

var errClosed = errors.New("the server has closed the connection")

// send sends bytes when there is window for them.
func (f *framed) send(id uint32, data []byte, last bool) error {
	f.mu.Lock()
	for (f.left(id) < len(data) || f.window[0] < len(data)) && !f.closed {
		f.changed.Wait()
	}
	closed := f.closed
	f.window[id] = f.left(id) - len(data)
	f.window[0] -= len(data)
	f.mu.Unlock()
	if closed {
		return errClosed
	}
	return f.WriteData(id, last, data)
}

// message is a message of gRPC with its prefix.
func message(body []byte) []byte {
	return append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(body))), body...)
}

// ends reports whether the server closes the connection within a time.
func (f *framed) ends(within time.Duration) bool {
	late := time.AfterFunc(within, func() { _ = f.conn.Close() })
	f.mu.Lock()
	defer f.mu.Unlock()
	for !f.closed {
		f.changed.Wait()
	}
	return late.Stop()
}

// until closes the connection when ctx ends.
func (f *framed) until(ctx context.Context) {
	context.AfterFunc(ctx, func() { _ = f.conn.Close() })
}
