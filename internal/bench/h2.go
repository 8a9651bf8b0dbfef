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

// h2conn is an HTTP/2 connection with many watches. It implements only the necessary parts of the protocol: it sends
// calls and counts messages. After dial, it sends no window updates, because no measurement receives enough bytes to
// use up a window.
type h2conn struct {
	net.Conn
	framer  *http2.Framer
	message func(at time.Time)       // called for each message, in the goroutine of readFrames
	pending map[uint32]*bytes.Buffer // bytes of the incomplete message on each stream, by stream ID

	mu      sync.Mutex // guards the fields below, and serializes writes to the connection
	out     *bufio.Writer
	encoder *hpack.Encoder
	block   bytes.Buffer
	newest  uint32 // ID of the stream that was opened last
}

const widest = 1<<31 - 1 // maximum size of a flow-control window

// dial opens a connection with flow-control windows of the maximum size. The connection calls handleMessage for each
// message that it receives.
func dial(addr string, handleMessage func(at time.Time)) (*h2conn, error) {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return nil, err
	}
	c := &h2conn{Conn: conn, message: handleMessage, out: bufio.NewWriterSize(conn, 64<<10), newest: 1, pending: map[uint32]*bytes.Buffer{}}
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

// write calls writeFrames to fill the buffer, and then flushes the buffer. Concurrent calls are serialized.
func (c *h2conn) write(writeFrames func() error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := writeFrames(); err != nil {
		return err
	}
	return c.out.Flush()
}

// startCall starts a gRPC call, and sends its only request message.
func (c *h2conn) startCall(method string, request proto.Message) error {
	message, err := proto.Marshal(request)
	if err != nil {
		return err
	}
	message = append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(message))), message...)
	return c.write(func() error {
		c.newest += 2
		if err := c.writeHeaders(method); err != nil {
			return err
		}
		return c.framer.WriteData(c.newest, true, message)
	})
}

func (c *h2conn) writeHeaders(method string) error {
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
		_ = c.encoder.WriteField(hpack.HeaderField{Name: field[0], Value: field[1]}) // cannot fail, because the encoder writes to a buffer
	}
	return c.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: c.newest, BlockFragment: c.block.Bytes(), EndHeaders: true})
}

// readFrames reads frames until the connection is closed or a watch ends, and returns the reason as an error.
func (c *h2conn) readFrames() error {
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
		c.appendData(f.StreamID, f.Data(), at)
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
			return fmt.Errorf("the server ended a watch: %v", f.Fields)
		}
	case *http2.RSTStreamFrame, *http2.GoAwayFrame:
		return fmt.Errorf("the server reset a watch or is closing the connection: %v", f)
	}
	return nil
}

// appendData appends bytes to the incomplete message of a stream, and calls c.message for each complete message.
func (c *h2conn) appendData(id uint32, data []byte, at time.Time) {
	in := c.pending[id]
	if in == nil {
		in = &bytes.Buffer{}
		c.pending[id] = in
	}
	in.Write(data)
	for in.Len() >= 5 {
		size := 5 + int(binary.BigEndian.Uint32(in.Bytes()[1:]))
		if in.Len() < size {
			return
		}
		c.message(at)
		in.Next(size)
	}
}
