package main

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"net"
	"sync"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/protobuf/proto"
)

// plenty is a window that is never used up by a watch.
const plenty = 1<<30 - 1

// h2conn is an HTTP/2 connection that sends gRPC calls and reads frames. It knows as little
// as it can: no deadlines, no retries, no trailers beyond "the stream has ended".
type h2conn struct {
	net.Conn
	framer *http2.Framer
	out    *bufio.Writer
	window uint32 // for each stream

	mu      sync.Mutex
	encoder *hpack.Encoder
	block   bytes.Buffer
	next    uint32
	streams map[uint32]*h2stream
	credit  int // bytes taken since the window of the connection was widened
}

// h2stream is one call.
type h2stream struct {
	pending []byte
	credit  int
	ended   bool
	stalled bool // nothing that it reads is given back
	status  string
	// took is called with each message, on the goroutine that reads the connection. The
	// message is only valid during the call; sparing callers are told its length alone.
	took func(s *h2stream, message []byte, at time.Time)
	// bytes is called with the bytes of each frame instead, where it is set.
	bytes func(s *h2stream, n int)
	done  func(s *h2stream, at time.Time)
}

// dial opens a connection whose streams have the given window each.
func dial(addr string, window uint32) (*h2conn, error) {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return nil, err
	}
	c := &h2conn{Conn: conn, out: bufio.NewWriterSize(conn, 64<<10), window: window, next: 1, streams: map[uint32]*h2stream{}}
	c.encoder = hpack.NewEncoder(&c.block)
	c.framer = http2.NewFramer(c.out, bufio.NewReaderSize(conn, 256<<10))
	c.framer.SetReuseFrames()
	c.framer.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	if _, err := c.out.WriteString(http2.ClientPreface); err != nil {
		return nil, err
	}
	err = c.framer.WriteSettings(
		http2.Setting{ID: http2.SettingInitialWindowSize, Val: window},
		http2.Setting{ID: http2.SettingMaxFrameSize, Val: 1 << 20},
		http2.Setting{ID: http2.SettingEnablePush, Val: 0},
	)
	if err == nil {
		err = c.framer.WriteWindowUpdate(0, plenty)
	}
	if err == nil {
		err = c.out.Flush()
	}
	return c, err
}

// call begins a call with one request message. Flush sends it.
func (c *h2conn) call(method string, request proto.Message, s *h2stream) error {
	message, err := proto.Marshal(request)
	if err != nil {
		return err
	}
	frame := make([]byte, 5+len(message))
	binary.BigEndian.PutUint32(frame[1:], uint32(len(message)))
	copy(frame[5:], message)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.block.Reset()
	for _, field := range [][2]string{
		{":method", "POST"},
		{":scheme", "http"},
		{":path", "/easel.v1." + method},
		{":authority", "localhost"},
		{"content-type", "application/grpc"},
		{"te", "trailers"},
		{"authorization", "Bearer " + benchKey},
	} {
		if err := c.encoder.WriteField(hpack.HeaderField{Name: field[0], Value: field[1]}); err != nil {
			return err
		}
	}
	id := c.next
	c.next += 2
	c.streams[id] = s
	err = c.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: c.block.Bytes(), EndHeaders: true})
	if err == nil {
		err = c.framer.WriteData(id, true, frame)
	}
	return err
}

func (c *h2conn) flush() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.out.Flush()
}

// read takes frames until the connection ends.
func (c *h2conn) read() error {
	for {
		frame, err := c.framer.ReadFrame()
		if err != nil {
			return err
		}
		if err := c.take(frame, time.Now()); err != nil {
			return err
		}
	}
}

func (c *h2conn) take(frame http2.Frame, at time.Time) error {
	c.mu.Lock()
	s := c.streams[frame.Header().StreamID]
	c.mu.Unlock()
	switch f := frame.(type) {
	case *http2.DataFrame:
		if s == nil {
			return nil
		}
		s.data(f.Data(), at)
		if err := c.widen(f.StreamID, s, len(f.Data())); err != nil {
			return err
		}
		s.end(f.StreamEnded(), at)
	case *http2.MetaHeadersFrame:
		if s == nil {
			return nil
		}
		for _, field := range f.Fields {
			if field.Name == "grpc-status" {
				s.status = field.Value
			}
		}
		s.end(f.StreamEnded(), at)
	case *http2.RSTStreamFrame:
		if s != nil {
			s.status = f.ErrCode.String()
			s.end(true, at)
		}
	case *http2.SettingsFrame:
		if !f.IsAck() {
			return c.write(c.framer.WriteSettingsAck)
		}
	case *http2.PingFrame:
		if !f.IsAck() {
			return c.write(func() error { return c.framer.WritePing(true, f.Data) })
		}
	case *http2.GoAwayFrame:
		return fmt.Errorf("the server goes away: %v", f.ErrCode)
	}
	return nil
}

// write writes one frame and sends it.
func (c *h2conn) write(frame func() error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := frame(); err != nil {
		return err
	}
	return c.out.Flush()
}

// widen gives the server back what was read, a quarter of a window at a time.
func (c *h2conn) widen(id uint32, s *h2stream, n int) error {
	if s.stalled {
		return nil
	}
	c.credit += n
	s.credit += n
	if s.credit < int(c.window)/4 && c.credit < plenty/4 {
		return nil
	}
	stream, conn := uint32(s.credit), uint32(c.credit)
	s.credit, c.credit = 0, 0
	return c.write(func() error {
		if err := c.framer.WriteWindowUpdate(id, stream); err != nil {
			return err
		}
		return c.framer.WriteWindowUpdate(0, conn)
	})
}

// data takes the messages out of the bytes of a stream.
func (s *h2stream) data(data []byte, at time.Time) {
	if s.bytes != nil {
		s.bytes(s, len(data))
		return
	}
	if len(s.pending) > 0 {
		s.pending = append(s.pending, data...)
		data = s.pending
	}
	for len(data) >= 5 {
		size := 5 + int(binary.BigEndian.Uint32(data[1:]))
		if len(data) < size {
			break
		}
		if s.took != nil {
			s.took(s, data[5:size], at)
		}
		data = data[size:]
	}
	s.pending = append(s.pending[:0], data...)
}

func (s *h2stream) end(ended bool, at time.Time) {
	if !ended || s.ended {
		return
	}
	s.ended = true
	if s.done != nil {
		s.done(s, at)
	}
}
