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
	polls   atomic.Int64
	content []byte

	mu          sync.Mutex
	generations map[string]*generation
	order       []*generation // the newest last
	page        int           // of the list, which has those that are active
}

// generation is queued until its time comes.
type generation struct {
	id       string
	created  time.Time
	ends     time.Time // zero: not by itself
	progress int       // a member that a caller can see change
	shown    time.Time // when the newest state was first sent
}

func (g *generation) ended(now time.Time) bool { return !g.ends.IsZero() && !now.Before(g.ends) }

// record is the answer about a generation, of about 400 bytes.
func (s *stub) record(out *bytes.Buffer, g *generation, now time.Time) {
	if g.shown.IsZero() && (g.progress > 0 || g.ended(now)) {
		g.shown = now
	}
	status, result := "queued", ""
	if g.ended(now) {
		status = "succeeded"
		result = fmt.Sprintf(`,"contentUrl":"%s/generations/%s/content","contentType":"image/png","sizeBytes":%d`, basePath, g.id, len(s.content))
	}
	fmt.Fprintf(out, `{"id":%q,"modelId":"studio/landscape","status":%q,"costCents":28,"createdAt":%q,`+
		`"inputs":{"prompt":"a calm sea at dusk with three small boats and a lighthouse","size":"1600x1000","seed":4711},`+
		`"queue":"standard","region":"eu-central","progress":%d%s}`,
		g.id, status, g.created.UTC().Format(time.RFC3339Nano), g.progress, result)
}

// answer writes the body for a path; ok is false where there is nothing.
func (s *stub) answer(out *bytes.Buffer, path string) (ok bool) {
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	if path == "/generations" {
		s.polls.Add(1)
		s.list(out, now)
		return true
	}
	id, _ := strings.CutPrefix(path, "/generations/")
	g := s.generations[id]
	if g == nil {
		return false
	}
	s.polls.Add(1)
	s.record(out, g, now)
	return true
}

// list shows the newest active generations.
func (s *stub) list(out *bytes.Buffer, now time.Time) {
	out.WriteString(`{"generations":[`)
	shown := 0
	for _, g := range slices.Backward(s.order) {
		if shown == s.page {
			break
		}
		if g.ended(now) {
			continue
		}
		if shown++; shown > 1 {
			out.WriteByte(',')
		}
		s.record(out, g, now)
	}
	out.WriteString(`]}`)
}

// serve answers the requests of one connection.
func (s *stub) serve(conn net.Conn) {
	defer conn.Close()
	in := bufio.NewReaderSize(conn, 4096)
	var body, out bytes.Buffer
	for {
		path, err := readRequest(in)
		if err != nil {
			return
		}
		body.Reset()
		out.Reset()
		status, kind, content := "200 OK", "application/json", []byte(nil)
		if strings.HasSuffix(path, "/content") {
			kind, content = "image/png", s.content
		} else if !s.answer(&body, path) {
			status = "404 Not Found"
		}
		fmt.Fprintf(&out, "HTTP/1.1 %s\r\nContent-Type: %s\r\nContent-Length: %d\r\nETag: \"fixed\"\r\n\r\n", status, kind, body.Len()+len(content))
		out.Write(body.Bytes())
		answer := net.Buffers{out.Bytes(), content}
		if _, err := answer.WriteTo(conn); err != nil {
			return
		}
	}
}

// readRequest reads the head of a request. None here has a body.
func readRequest(in *bufio.Reader) (path string, err error) {
	line, err := in.ReadString('\n')
	if err != nil {
		return "", err
	}
	fields := strings.Fields(line)
	if len(fields) != 3 {
		return "", fmt.Errorf("no request: %q", line)
	}
	for len(line) > 2 {
		if line, err = in.ReadString('\n'); err != nil {
			return "", err
		}
	}
	return strings.TrimPrefix(fields[1], basePath), nil
}

// control is the second listener: it makes generations, changes them and says what was asked.
func (s *stub) control() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /generations", s.makeGenerations)
	mux.HandleFunc("POST /change", s.change)
	mux.HandleFunc("POST /list", func(_ http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.page = number(r, "page")
	})
	mux.HandleFunc("POST /content", func(_ http.ResponseWriter, r *http.Request) {
		s.content = make([]byte, number(r, "bytes"))
		for i := range s.content {
			s.content[i] = byte(i * 7)
		}
	})
	mux.HandleFunc("GET /polls", func(w http.ResponseWriter, _ *http.Request) { _ = json.NewEncoder(w).Encode(s.polls.Load()) })
	mux.HandleFunc("GET /times", s.times)
	return mux
}

func number(r *http.Request, name string) int {
	n, _ := strconv.Atoi(r.URL.Query().Get(name))
	return n
}

// makeGenerations adds n generations whose ids begin with a prefix. With a median they end by
// themselves, log-normally distributed.
func (s *stub) makeGenerations(_ http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	median, _ := time.ParseDuration(query.Get("median"))
	sigma, _ := strconv.ParseFloat(query.Get("sigma"), 64)
	random := rand.New(rand.NewPCG(1, uint64(number(r, "seed"))))
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range number(r, "n") {
		made := &generation{id: fmt.Sprintf("%s%d", query.Get("prefix"), i), created: now}
		if median > 0 {
			made.ends = now.Add(time.Duration(float64(median) * math.Exp(sigma*random.NormFloat64())))
		}
		s.generations[made.id] = made
		s.order = append(s.order, made)
	}
}

// change changes what a caller can see of one generation.
func (s *stub) change(_ http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if g := s.generations[r.URL.Query().Get("id")]; g != nil {
		g.shown = time.Time{}
		g.progress++
	}
}

// generationTimes is when the newest state was first sent, and when the generation ended; in
// nanoseconds since the epoch.
type generationTimes struct{ Shown, Ended int64 }

func (s *stub) times(w http.ResponseWriter, _ *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	times := map[string]generationTimes{}
	for id, g := range s.generations {
		times[id] = generationTimes{Shown: g.shown.UnixNano(), Ended: g.ends.UnixNano()}
	}
	_ = json.NewEncoder(w).Encode(times)
}

// runStub serves until its standard input is closed.
func runStub() error {
	s := &stub{generations: map[string]*generation{}, page: 100}
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

// serveHTTP serves a handler on a port of its own.
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
