package catalog

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"net"
	"net/http"
	"os"
	"slices"
	"sync"
	"time"
)

// line is a connection that serves one request at a time.
type line struct {
	net.Conn
	raw     net.Conn // below the encryption
	records *records // between the two; nil where nothing is encrypted
	to      string   // its target
	in      *bufio.Reader
	out     bytes.Buffer
	left    int64 // bytes that may be read yet
	idle    time.Time
}

var (
	errLongHeader = errors.New("the header of the answer is too long")
	errSwitched   = errors.New("the catalog switches to another protocol")
)

func newLine(conn, raw net.Conn, below *records, to string) *line {
	l := &line{Conn: conn, raw: raw, records: below, to: to}
	l.in = bufio.NewReader(l)
	return l
}

// Read implements io.Reader, within bounds.
func (l *line) Read(p []byte) (int, error) {
	if l.left <= 0 {
		return 0, errLongHeader
	}
	n, err := l.Conn.Read(p[:min(int64(len(p)), l.left)])
	l.left -= int64(n)
	return n, err
}

// quiet reports whether nothing has come on a connection that nobody reads. The encryption reads
// ahead: what it holds, whole or in part, shows neither below nor above it. A read whose time is
// over gets what is whole, and takes nothing from below.
func (l *line) quiet() bool {
	if l.records == nil {
		return quiet(l.raw)
	}
	if !quiet(l.raw) || !l.records.whole() || l.SetReadDeadline(time.Unix(1, 0)) != nil {
		return false
	}
	_, err := l.in.Peek(1)
	return errors.Is(err, os.ErrDeadlineExceeded) && l.SetReadDeadline(time.Time{}) == nil
}

// records follows the records of TLS in what is read: a head of five bytes, the last two of which
// are the length of the rest.
type records struct {
	net.Conn
	head [5]byte
	got  int // bytes of the head
	left int // bytes of the rest that have not come
}

// Read implements io.Reader.
func (r *records) Read(p []byte) (int, error) {
	n, err := r.Conn.Read(p)
	for p = p[:n]; len(p) > 0; {
		if r.left > 0 {
			skipped := min(r.left, len(p))
			r.left, p = r.left-skipped, p[skipped:]
			continue
		}
		copied := copy(r.head[r.got:], p)
		r.got, p = r.got+copied, p[copied:]
		if r.got == len(r.head) {
			r.got, r.left = 0, int(binary.BigEndian.Uint16(r.head[3:]))
		}
	}
	return n, err
}

// whole reports whether the last record has come to its end.
func (r *records) whole() bool { return r.got == 0 && r.left == 0 }

// send sends a request and waits until an answer begins.
func (l *line) send(r *http.Request) error {
	l.out.Reset()
	for _, part := range []string{"GET ", r.URL.RequestURI(), " HTTP/1.1\r\nHost: ", r.URL.Host, "\r\n"} {
		l.out.WriteString(part)
	}
	_ = r.Header.Write(&l.out) // a buffer takes all; line breaks in values become blanks
	l.out.WriteString("\r\n")
	if _, err := l.Write(l.out.Bytes()); err != nil {
		return err
	}
	_, err := l.in.Peek(1)
	return err
}

// answer reads the header of an answer, and passes over what servers may send before it.
func (l *line) answer(r *http.Request) (*http.Response, error) {
	for {
		resp, err := http.ReadResponse(l.in, r)
		switch {
		case err != nil:
			return nil, err
		case resp.StatusCode == http.StatusSwitchingProtocols:
			return nil, errSwitched
		case resp.StatusCode/100 != 1:
			return resp, nil
		}
	}
}

// lines are the connections that nobody uses.
type lines struct {
	most    int
	longest time.Duration

	mu   sync.Mutex
	all  []*line // the one that was used last is the last
	reap *time.Timer
}

// take gives the connection to a target that was used last, nil where none is good. What has
// come on it meanwhile is no answer to the next request: neither an end, nor anything else.
func (s *lines) take(to string) *line {
	for {
		l := s.pop(to)
		if l == nil || l.quiet() {
			return l
		}
		_ = l.Close()
	}
}

func (s *lines) pop(to string) *line {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, l := range slices.Backward(s.all) {
		if l.to == to {
			s.all = slices.Delete(s.all, i, i+1)
			return l
		}
	}
	return nil
}

// put keeps a connection for the next request.
func (s *lines) put(l *line) {
	var old *line
	s.mu.Lock()
	if len(s.all) >= s.most {
		old = s.all[0]
		s.all = slices.Delete(s.all, 0, 1)
	}
	l.idle = time.Now()
	s.all = append(s.all, l)
	if s.reap == nil {
		s.reap = time.AfterFunc(s.longest, s.closeOld)
	}
	s.mu.Unlock()
	if old != nil {
		_ = old.Close()
	}
}

// closeOld closes what was idle for too long. The server has closed some of it before.
func (s *lines) closeOld() {
	s.mu.Lock()
	n := 0
	for n < len(s.all) && time.Since(s.all[n].idle) >= s.longest {
		n++
	}
	old := slices.Clone(s.all[:n])
	s.all = slices.Delete(s.all, 0, n)
	if s.reap = nil; len(s.all) > 0 {
		s.reap = time.AfterFunc(s.longest-time.Since(s.all[0].idle), s.closeOld)
	}
	s.mu.Unlock()
	for _, l := range old {
		_ = l.Close()
	}
}

// close closes all.
func (s *lines) close() {
	s.mu.Lock()
	all := s.all
	s.all = nil
	if s.reap != nil {
		s.reap.Stop()
		s.reap = nil
	}
	s.mu.Unlock()
	for _, l := range all {
		_ = l.Close()
	}
}
