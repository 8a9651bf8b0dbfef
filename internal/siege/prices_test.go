package siege

import (
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/protobuf/types/known/durationpb"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/proctest"
)

// price is what one of some things may take, in bytes, as the table of limits says.
func price(t *testing.T, of string) int {
	t.Helper()
	page, err := os.ReadFile("../../docs/operating.md")
	if err != nil {
		t.Fatal(err)
	}
	kilobytes, err := strconv.Atoi(proctest.Find(t, `\| memory of `+of+` \| [\d,]+ of (\d+) KiB: `, string(page)))
	if err != nil {
		t.Fatal(err)
	}
	return kilobytes << 10
}

// live is the memory that the server needs, in bytes, without what the collector would give back.
func (a attacked) live(t *testing.T) int {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+a.admin+"/debug/pprof/heap?gc=1&debug=1", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer ops") // where there are operators
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	sum := 0
	for _, name := range []string{"HeapAlloc = ", "Stack = "} {
		bytes, err := strconv.Atoi(proctest.Find(t, `(?m)^# `+name+`(\d+)`, string(text)))
		if err != nil {
			t.Fatal(err)
		}
		sum += bytes
	}
	return sum
}

// largeHeaders are nearly all that a request may have.
func largeHeaders() (all []hpack.HeaderField) {
	for n := range 8 {
		all = append(all, hpack.HeaderField{Name: fmt.Sprint("x-", n), Value: strings.Repeat("y", 3900), Sensitive: true})
	}
	return all
}

// unreadStreams are streams of one connection whose answers nobody reads.
func (e enemy) unreadStreams(many int, body []byte, end bool) (net.Conn, error) {
	conn, err := e.dial()
	if err != nil {
		return nil, err
	}
	framer := speak(conn, http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0})
	listen(framer)
	for n := range many {
		id := uint32(2*n + 1)
		block := e.block(largeHeaders()...)
		const frame = 16 << 10
		if err := framer.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: block[:frame], EndStream: len(body) == 0}); err != nil {
			return conn, err
		}
		for block = block[frame:]; len(block) > 0; {
			part := block[:min(frame, len(block))]
			block = block[len(part):]
			if err := framer.WriteContinuation(id, len(block) == 0, part); err != nil {
				return conn, err
			}
		}
		for left := body; len(left) > 0; {
			part := left[:min(frame, len(left))]
			left = left[len(part):]
			if err := framer.WriteData(id, end && len(left) == 0, part); err != nil {
				return conn, err
			}
		}
	}
	return conn, nil
}

// TestWhatIsHeldCostsNoMoreThanItsPrice measures the prices of the table of limits at their dearest: over TLS, with headers as
// large as they may be.
func TestWhatIsHeldCostsNoMoreThanItsPrice(t *testing.T) { // D4
	const (
		connections = "the connections to the gRPC or to the HTTP address"
		calls       = "calls and health checks without a credential"
		refusals    = "refusals over HTTP, and of calls that wait for a proof, beside what they send"
		pages       = "pages"
	)
	conns := sizeOf(2000, 300)
	dial := func(a attacked, addr string, protocols ...string) (net.Conn, error) {
		trust := a.trust.Clone()
		trust.NextProtos = protocols
		return tls.Dial("tcp", addr, trust)
	}
	for name, row := range map[string]struct {
		of   string
		many int
		hold func(a attacked) ([]net.Conn, error)
	}{
		"silent connections of gRPC": {connections, conns, func(a attacked) (all []net.Conn, err error) {
			for range conns {
				conn, err := dial(a, a.grpc, "h2")
				if err != nil {
					return all, err
				}
				listen(speak(conn))
				all = append(all, conn)
			}
			return all, nil
		}},
		"silent connections of HTTP/2": {connections, conns, func(a attacked) (all []net.Conn, err error) {
			for range conns {
				conn, err := dial(a, a.rest, "h2")
				if err != nil {
					return all, err
				}
				listen(speak(conn))
				all = append(all, conn)
			}
			return all, nil
		}},
		"connections of HTTP/1.1": {connections, conns, func(a attacked) (all []net.Conn, err error) {
			for range conns {
				conn, err := dial(a, a.rest, "http/1.1")
				if err != nil {
					return all, err
				}
				_, err = io.WriteString(conn, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
				if err != nil {
					return all, err
				}
				all = append(all, conn)
			}
			return all, nil
		}},
		"refusals": {refusals, 1000, func(a attacked) ([]net.Conn, error) {
			e := a.enemy(t, "REST", "HTTP/2")
			e.headers = []hpack.HeaderField{{Name: ":method", Value: "POST"}, {Name: ":scheme", Value: "https"}, {Name: ":authority", Value: "localhost"}}
			e.path = "/v1/generations"
			conn, err := e.unreadStreams(1000, nil, true)
			return []net.Conn{conn}, err
		}},
		"pages": {pages, 100, func(a attacked) ([]net.Conn, error) {
			e := a.enemy(t, "REST", "HTTP/2")
			e.headers = []hpack.HeaderField{{Name: ":method", Value: "GET"}, {Name: ":scheme", Value: "https"}, {Name: ":authority", Value: "localhost"}}
			e.path = "/page/scalar.js"
			conn, err := e.unreadStreams(100, nil, true)
			return []net.Conn{conn}, err
		}},
		"health checks": {calls, 100, func(a attacked) ([]net.Conn, error) {
			e := a.enemy(t, "gRPC", "HTTP/2")
			e.path = grpc_health_v1.Health_Check_FullMethodName
			conn, err := e.unreadStreams(100, message(nil), true)
			return []net.Conn{conn}, err
		}},
		"health checks that don't arrive": {calls, 50, func(a attacked) ([]net.Conn, error) {
			e := a.enemy(t, "gRPC", "HTTP/2")
			e.path = grpc_health_v1.Health_Check_FullMethodName
			conn, err := e.unreadStreams(50, message(make([]byte, 63<<10))[:60<<10], false)
			return []net.Conn{conn}, err
		}},
	} {
		t.Run(name, func(t *testing.T) {
			if !inFull() {
				t.Parallel()
			}
			a := startAttacked(t, true)
			a.unpack(t)
			before := a.quiet(t)
			conns, err := row.hold(a)
			for _, conn := range conns {
				defer conn.Close()
			}
			if err != nil {
				t.Fatal(err)
			}
			a.costs(t, before, row.many, row.of)
		})
	}
}

// unpack has the server unpack its largest page, which it does once.
func (a attacked) unpack(t *testing.T) {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{DisableCompression: true, TLSClientConfig: &tls.Config{RootCAs: a.trust.RootCAs, ServerName: a.trust.ServerName}}}
	defer client.CloseIdleConnections()
	answer, err := client.Get("https://" + a.rest + "/page/scalar.js") //nolint:noctx // it answers soon
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if _, err := io.Copy(io.Discard, answer.Body); err != nil {
		t.Fatal(err)
	}
}

// quiet is the memory of a server that nobody calls.
func (a attacked) quiet(t *testing.T) (lowest int) {
	t.Helper()
	lowest = a.live(t)
	for range 5 {
		time.Sleep(100 * time.Millisecond) // between two readings: what the start has left goes
		lowest = min(lowest, a.live(t))
	}
	return lowest
}

// beside is what the server does beside, in bytes.
const beside = 256 << 10

// costs fails the test where so many of some things take more than their price, or so little that none are there.
func (a attacked) costs(t *testing.T, before, many int, of string) {
	t.Helper()
	highest := 0
	for range 5 {
		highest = max(highest, a.live(t))
		time.Sleep(100 * time.Millisecond) // between two readings
	}
	t.Logf("%d of them take %.1f KiB each", many, float64(highest-before)/float64(many<<10))
	if most := many * price(t, of); highest-before < many<<10 || highest-before > most+beside {
		t.Errorf("they take %d bytes, and may take %d", highest-before, most)
	}
}

func TestUnreadCopiesCostNoMoreThanTheirPrice(t *testing.T) { // D4
	const many = 200
	result := bytes.Repeat([]byte("copied "), 1<<20)
	s := newSiege(t, siegeConfig{ledger: newBook(t), settings: map[string]string{"EASEL_CONTENT_URL": "file:" + t.TempDir()}, before: func(catalog http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if strings.HasSuffix(r.URL.Path, "/content") {
				w.Header().Set("ETag", `"e"`)
				http.ServeContent(w, r, "a.png", time.Time{}, bytes.NewReader(result))
				return
			}
			catalog.ServeHTTP(w, r)
		})
	}})
	conn := s.dialFrom("127.0.0.1")
	ctx := as(t.Context(), s.attacker)
	created, err := easelv1.NewGenerationServiceClient(conn).CreateGeneration(ctx, &easelv1.CreateGenerationRequest{ModelId: "studio/landscape", IdempotencyKey: "k", InputsJson: `{"prompt":"sea"}`})
	if err != nil {
		t.Fatal(err)
	}
	request := &easelv1.DownloadGenerationRequest{GenerationId: created.GetGeneration().GetGenerationId(), WaitTimeout: durationpb.New(time.Minute)}
	for source := easelv1.ContentSource_CONTENT_SOURCE_UNSPECIFIED; source != easelv1.ContentSource_CONTENT_SOURCE_COPY; {
		download, err := easelv1.NewGenerationServiceClient(conn).DownloadGeneration(ctx, request)
		if err != nil {
			t.Fatal(err)
		}
		for chunk := new(easelv1.DownloadGenerationResponse); err == nil; chunk, err = download.Recv() {
			source = max(source, chunk.GetChunk().GetInfo().GetSource())
		}
		if !errors.Is(err, io.EOF) {
			t.Fatal(err)
		}
	}
	before := s.quiet(t)
	f := s.frames(s.attacker, 0)
	f.until(t.Context())
	request.WaitTimeout = nil
	for n := range many {
		if id := uint32(2*n + 1); f.call(id, easelv1.GenerationService_DownloadGeneration_FullMethodName) != nil || f.send(id, message(mustMarshal(t, request)), true) != nil {
			t.Fatal("the server takes no more downloads")
		}
	}
	s.costs(t, before, many, "readers of copies")
}
