package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// basePath is where the catalog stands on its host.
const basePath = "/api/v1/api/catalog"

// stub is a catalog that answers as fast as it can. It reads requests and writes answers
// without net/http, and lives by a second listener that says what it is to answer.
type stub struct {
	mu      sync.Mutex
	renders map[string]*render
	order   []*render // the newest last, as the list has them
	text    string    // the result of a render that has no file

	requests [4]atomic.Int64 // by kind
	content  []byte
}

// The kinds of requests that are counted.
const (
	countGet = iota
	countList
	countContent
	countOther
)

const (
	// listPage is how many renders the list shows of those that are active, and of the others.
	listPage = 100
	// listed is how long a render stays in the list after its end.
	listed = 10 * time.Second
)

// render is one of the stub's renders. It is queued until its time comes.
type render struct {
	id       string
	created  time.Time
	ends     time.Time
	progress int           // a member that a caller can see change
	text     bool          // it ends with a text of stub.text
	showed   time.Duration // when the newest state was first sent, since the epoch; 0: not yet
	read     time.Duration // likewise by itself, and not in a list
}

func (r *render) ended(now time.Time) bool { return !r.ends.IsZero() && !now.Before(r.ends) }

// record is the answer about a render, of about 400 bytes.
func (s *stub) record(out *bytes.Buffer, r *render, now time.Time) {
	status, result := "queued", ""
	if r.ended(now) {
		status = "succeeded"
		if r.text {
			result = `,"textOutput":` + s.text
		} else {
			result = fmt.Sprintf(`,"contentUrl":"%s/generations/%s/content","contentType":"image/png","sizeBytes":%d`, basePath, r.id, len(s.content))
		}
	}
	fmt.Fprintf(out, `{"id":%q,"modelId":"studio/landscape","status":%q,"costCents":28,"createdAt":%q,`+
		`"inputs":{"prompt":"a calm sea at dusk with three small boats and a lighthouse","size":"1600x1000","seed":4711},`+
		`"queue":"standard","region":"eu-central","progress":%d%s}`,
		r.id, status, r.created.UTC().Format(time.RFC3339Nano), r.progress, result)
}

// show notes that the newest state of a render is about to be sent.
func (r *render) show(now time.Time) {
	if r.showed == 0 && (r.ended(now) || r.ends.IsZero() && r.progress > 0) {
		r.showed = time.Duration(now.UnixNano())
	}
}

// answer writes the body for a path; ok is false where there is nothing.
func (s *stub) answer(out *bytes.Buffer, path string) (ok bool) {
	now := time.Now()
	id, isRender := strings.CutPrefix(path, "/generations/")
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case isRender:
		s.requests[countGet].Add(1)
		r := s.renders[id]
		if r == nil {
			return false
		}
		r.show(now)
		if r.read == 0 && r.showed > 0 {
			r.read = time.Duration(now.UnixNano())
		}
		s.record(out, r, now)
	case path == "/generations":
		s.requests[countList].Add(1)
		s.list(out, now)
	default:
		s.requests[countOther].Add(1)
		return false
	}
	return true
}

// list shows the newest active renders and the newest of those that have just ended, a page
// of each.
func (s *stub) list(out *bytes.Buffer, now time.Time) {
	out.WriteString(`{"generations":[`)
	active, ended := 0, 0
	for _, r := range slices.Backward(s.order) {
		of := &active
		if r.ended(now) {
			of = &ended
			if now.Sub(r.ends) > listed {
				continue
			}
		}
		if *of++; *of > listPage {
			continue
		}
		if active+ended > 1 {
			out.WriteByte(',')
		}
		r.show(now)
		s.record(out, r, now)
	}
	out.WriteString(`]}`)
}

// serve answers the requests of one connection.
func (s *stub) serve(conn net.Conn) {
	defer conn.Close()
	in := bufio.NewReaderSize(conn, 4096)
	var body, out bytes.Buffer
	for {
		path, from, err := readRequest(in)
		if err != nil {
			return
		}
		path = strings.TrimPrefix(path, basePath)
		if strings.HasSuffix(path, "/content") {
			s.requests[countContent].Add(1)
			if s.sendContent(conn, from) != nil {
				return
			}
			continue
		}
		body.Reset()
		out.Reset()
		status := "200 OK"
		if !s.answer(&body, path) {
			status = "404 Not Found"
		}
		fmt.Fprintf(&out, "HTTP/1.1 %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n", status, body.Len())
		out.Write(body.Bytes())
		if _, err := conn.Write(out.Bytes()); err != nil {
			return
		}
	}
}

// sendContent sends the bytes of a result, all of them or from an offset.
func (s *stub) sendContent(conn net.Conn, from int64) error {
	status, extra := "200 OK", ""
	if from > 0 {
		status, extra = "206 Partial Content", fmt.Sprintf("Content-Range: bytes %d-%d/%d\r\n", from, len(s.content)-1, len(s.content))
	}
	_, err := fmt.Fprintf(conn, "HTTP/1.1 %s\r\nContent-Type: image/png\r\nETag: \"fixed\"\r\nAccept-Ranges: bytes\r\nContent-Length: %d\r\n%s\r\n",
		status, int64(len(s.content))-from, extra)
	if err == nil {
		_, err = conn.Write(s.content[from:])
	}
	return err
}

// readRequest reads the head of a request. The requests here have no body but an order's,
// and there are no orders.
func readRequest(in *bufio.Reader) (path string, from int64, err error) {
	line, err := in.ReadSlice('\n')
	if err != nil {
		return "", 0, err
	}
	fields := strings.Fields(string(line))
	if len(fields) != 3 {
		return "", 0, fmt.Errorf("no request: %q", line)
	}
	for {
		line, err := in.ReadSlice('\n')
		if err != nil {
			return "", 0, err
		}
		if len(line) <= 2 {
			return fields[1], from, nil
		}
		if value, ok := strings.CutPrefix(strings.ToLower(string(line)), "range: bytes="); ok {
			from, _ = strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(value), "-"), 10, 64)
		}
	}
}

// control is the second listener: it makes renders, changes them and tells what was asked.
func (s *stub) control() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /renders", s.makeRenders)
	mux.HandleFunc("POST /change", s.change)
	mux.HandleFunc("POST /content", func(w http.ResponseWriter, r *http.Request) {
		s.content = make([]byte, number(r.URL.Query(), "bytes"))
		for i := range s.content {
			s.content[i] = byte(i * 7)
		}
	})
	mux.HandleFunc("GET /counts", func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(counts{
			Gets: s.requests[countGet].Load(), Lists: s.requests[countList].Load(),
			Contents: s.requests[countContent].Load(), Others: s.requests[countOther].Load(),
		})
	})
	mux.HandleFunc("GET /showed", s.tellShowed)
	return mux
}

// counts is how many requests the stub has answered.
type counts struct{ Gets, Lists, Contents, Others int64 }

func (c counts) polls() float64 { return float64(c.Gets + c.Lists) }

func number(query url.Values, name string) int {
	n, _ := strconv.Atoi(query.Get(name))
	return n
}

// makeRenders adds n renders whose ids begin with a prefix. With a median they end by
// themselves, log-normally distributed; else they wait for a change.
func (s *stub) makeRenders(_ http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	median, _ := time.ParseDuration(query.Get("median"))
	sigma, _ := strconv.ParseFloat(query.Get("sigma"), 64)
	random := rand.New(rand.NewPCG(1, uint64(number(query, "seed"))))
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := number(query, "textbytes"); n > 0 {
		s.text = strconv.Quote(strings.Repeat("easel ", n/6))
	}
	for i := range number(query, "n") {
		made := &render{id: fmt.Sprintf("%s%d", query.Get("prefix"), i), created: now, text: query.Has("textbytes")}
		if median > 0 {
			made.ends = now.Add(time.Duration(float64(median) * math.Exp(sigma*random.NormFloat64())))
		}
		s.renders[made.id] = made
		s.order = append(s.order, made)
	}
}

// change changes what a caller can see of one render, or ends it.
func (s *stub) change(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	s.mu.Lock()
	defer s.mu.Unlock()
	it := s.renders[query.Get("id")]
	if it == nil {
		http.Error(w, "no such render", http.StatusNotFound)
		return
	}
	it.showed, it.read = 0, 0
	if query.Has("end") {
		it.ends = time.Now()
		return
	}
	it.progress++
}

// tellShowed tells when the newest state of each render was first sent, in nanoseconds since
// the epoch, and how long after it began.
func (s *stub) tellShowed(w http.ResponseWriter, _ *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	times := map[string]showing{}
	for id, r := range s.renders {
		if r.showed > 0 {
			seen := showing{Sent: int64(r.showed), Read: int64(r.read)}
			if !r.ends.IsZero() {
				seen.Late = int64(r.showed) - r.ends.UnixNano()
			}
			times[id] = seen
		}
	}
	_ = json.NewEncoder(w).Encode(times)
}

// showing is when a state was first sent, when it was first sent by itself, and how long after it
// came to be; in nanoseconds.
type showing struct{ Sent, Read, Late int64 }

// runStub serves until its standard input is closed.
func runStub() error {
	s := &stub{renders: map[string]*render{}, text: `""`}
	catalog, err := listen("catalog")
	if err != nil {
		return err
	}
	go func() {
		for {
			conn, err := catalog.Accept()
			if err != nil {
				return
			}
			go s.serve(conn)
		}
	}()
	if err := serveHTTP("control", s.control()); err != nil {
		return err
	}
	return untilClosed()
}

// listen takes a free port of this machine, and tells it as the servers do.
func listen(name string) (net.Listener, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	line, err := json.Marshal(map[string]string{"msg": "listening", "server": name, "addr": l.Addr().String()})
	if err == nil {
		_, err = fmt.Fprintf(os.Stderr, "%s\n", line)
	}
	return l, err
}

// serveHTTP serves a handler on a port of its own, with profiles beside it where it is the
// admin listener of a server.
func serveHTTP(name string, handler http.Handler) error {
	l, err := listen(name)
	if err != nil {
		return err
	}
	go func() { _ = http.Serve(l, handler) }() //nolint:gosec // loopback, and this program's own load
	return nil
}

// untilClosed waits for the end of standard input: the program that started this one is done.
func untilClosed() error {
	_, err := io.Copy(io.Discard, os.Stdin)
	return err
}
