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

// h2conn is an HTTP/2 connection with many watches. It knows as little as it can: it sends calls,
// counts the messages that come, and never widens a window, as none is ever used up.
type h2conn struct {
	net.Conn
	framer  *http2.Framer
	message func(at time.Time) // called with each message, on the goroutine that reads
	pending map[uint32][]byte  // of each stream: the part of a message that has come

	mu      sync.Mutex // guards what follows, and what is written
	out     *bufio.Writer
	encoder *hpack.Encoder
	block   bytes.Buffer
	next    uint32
}

// widest is the largest window.
const widest = 1<<31 - 1

// dial opens a connection.
func dial(addr string, message func(at time.Time)) (*h2conn, error) {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return nil, err
	}
	c := &h2conn{Conn: conn, message: message, out: bufio.NewWriterSize(conn, 64<<10), next: 1, pending: map[uint32][]byte{}}
	c.encoder = hpack.NewEncoder(&c.block)
	c.framer = http2.NewFramer(c.out, bufio.NewReaderSize(conn, 256<<10))
	c.framer.SetReuseFrames()
	c.framer.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	if _, err := c.out.WriteString(http2.ClientPreface); err != nil {
		return nil, err
	}
	return c, c.write(func() error {
		if err := c.framer.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: widest}); err != nil {
			return err
		}
		return c.framer.WriteWindowUpdate(0, widest-(1<<16-1))
	})
}

// write writes frames and sends all that was written.
func (c *h2conn) write(frames func() error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := frames(); err != nil {
		return err
	}
	return c.out.Flush()
}

// flush sends what calls have written.
func (c *h2conn) flush() error { return c.write(func() error { return nil }) }

// call begins a call with one request message, which flush sends.
func (c *h2conn) call(method string, request proto.Message) error {
	message, err := proto.Marshal(request)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.block.Reset()
	for _, field := range [][2]string{
		{":method", "POST"},
		{":scheme", "http"},
		{":path", method},
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
	err = c.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: c.block.Bytes(), EndHeaders: true})
	if err != nil {
		return err
	}
	head := binary.BigEndian.AppendUint32([]byte{0}, uint32(len(message)))
	return c.framer.WriteData(id, true, append(head, message...))
}

// read takes frames until the connection or one of its watches ends.
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
	switch f := frame.(type) {
	case *http2.DataFrame:
		c.data(f.StreamID, f.Data(), at)
	case *http2.SettingsFrame:
		if !f.IsAck() {
			return c.write(c.framer.WriteSettingsAck)
		}
	case *http2.PingFrame:
		if !f.IsAck() {
			return c.write(func() error { return c.framer.WritePing(true, f.Data) })
		}
	case *http2.MetaHeadersFrame:
		if f.StreamEnded() {
			return fmt.Errorf("a watch has ended: %v", f.Fields)
		}
	case *http2.RSTStreamFrame, *http2.GoAwayFrame:
		return fmt.Errorf("the server ends a watch: %v", f)
	}
	return nil
}

// data counts the messages in the bytes of a stream.
func (c *h2conn) data(id uint32, data []byte, at time.Time) {
	before := c.pending[id]
	if len(before) > 0 {
		data = append(before, data...)
	}
	for len(data) >= 5 {
		size := 5 + int(binary.BigEndian.Uint32(data[1:]))
		if len(data) < size {
			break
		}
		c.message(at)
		data = data[size:]
	}
	if len(before) > 0 || len(data) > 0 {
		c.pending[id] = append([]byte(nil), data...)
	}
}
