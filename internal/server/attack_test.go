package server

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/server/servertest"
)

const (
	attackers    = 4
	attackMemory = 64 << 20
)

// attackLasts is how long an attack goes on, at least, and how many calls of healthy callers must be
// served meanwhile.
func attackLasts() (time.Duration, int64) {
	if os.Getenv("EASEL_TEST_ATTACKS") == "full" {
		return 300 * time.Millisecond, 3
	}
	return 100 * time.Millisecond, 1
}

// attacker is a connection that speaks HTTP/2 in frames of its own making.
type attacker struct {
	net.Conn
	*http2.Framer
	block   bytes.Buffer
	encoder *hpack.Encoder
	stream  uint32
}

// next gives the id of a new stream.
func (a *attacker) next() uint32 {
	a.stream += 2
	return a.stream - 1
}

// headers encodes the headers of a call that would be served, and more.
func (a *attacker) headers(more ...hpack.HeaderField) []byte {
	a.block.Reset()
	for _, f := range append([]hpack.HeaderField{
		{Name: ":method", Value: "POST"},
		{Name: ":scheme", Value: "http"},
		{Name: ":authority", Value: "easel.test"},
		{Name: ":path", Value: "/easel.v1.GenerationService/WatchGeneration"},
		{Name: "content-type", Value: "application/grpc"},
		{Name: "te", Value: "trailers"},
		{Name: "authorization", Value: "Bearer key"},
	}, more...) {
		_ = a.encoder.WriteField(f)
	}
	return a.block.Bytes()
}

// open begins a stream.
func (a *attacker) open(endStream bool) (uint32, error) {
	id := a.next()
	return id, a.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: a.headers(), EndHeaders: true, EndStream: endStream})
}

// attacks are what a client can do to a server with valid frames. Each goes on until the
// server ends the connection or the time is over; deaf is one that reads no answer.
var attacks = map[string]struct {
	deaf bool
	do   func(a *attacker) error
}{
	"streams that are reset as soon as they are open": {do: func(a *attacker) error {
		id, err := a.open(false)
		if err == nil {
			err = a.WriteRSTStream(id, http2.ErrCodeCancel)
		}
		return err
	}},
	"headers that never end": {do: func(a *attacker) error {
		id := a.next()
		err := a.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: a.headers()})
		for err == nil {
			a.block.Reset()
			_ = a.encoder.WriteField(hpack.HeaderField{Name: "x", Value: strings.Repeat("y", 8000), Sensitive: true})
			err = a.WriteContinuation(id, false, a.block.Bytes())
		}
		return err
	}},
	"headers that grow when they are unpacked": {do: func(a *attacker) error {
		large := hpack.HeaderField{Name: "x", Value: strings.Repeat("y", 3900)}
		more := make([]hpack.HeaderField, 4000) // two bytes each, once the table has it
		for i := range more {
			more[i] = large
		}
		block := a.headers(more...)
		return a.WriteHeaders(http2.HeadersFrameParam{StreamID: a.next(), BlockFragment: block, EndHeaders: true, EndStream: true})
	}},
	"pings whose answers are not read":    {deaf: true, do: func(a *attacker) error { return a.WritePing(false, [8]byte{}) }},
	"settings whose answers are not read": {deaf: true, do: func(a *attacker) error { return a.WriteSettings() }},
	"calls of no method whose answers are not read": {deaf: true, do: func(a *attacker) error {
		a.block.Reset()
		_ = a.encoder.WriteField(hpack.HeaderField{Name: ":method", Value: "GET"})
		return a.WriteHeaders(http2.HeadersFrameParam{StreamID: a.next(), BlockFragment: a.block.Bytes(), EndHeaders: true, EndStream: true})
	}},
	"streams without a window": {do: func(a *attacker) error {
		id, err := a.open(false)
		if err == nil {
			err = a.WriteData(id, true, []byte{0, 0, 0, 0, 4, 10, 2, 'g', '1'})
		}
		return err
	}},
	"data of no bytes": {do: func(a *attacker) error {
		id, err := a.open(false)
		for err == nil {
			err = a.WriteData(id, false, nil)
		}
		return err
	}},
	"windows that are widened by nothing much": {do: func(a *attacker) error {
		id, err := a.open(false)
		for range 1 << 16 {
			if err == nil {
				err = a.WriteWindowUpdate(id, 1)
			}
		}
		return err
	}},
}

// siege is a server on real sockets.
type siege struct {
	grpcAddr, httpAddr string
	client             *tls.Config // nil is plaintext
	server             *Server
}

func besiege(t *testing.T, encrypted bool, change ...func(*Config)) siege {
	t.Helper()
	studio := servertest.NewStudio()
	studio.Watch = func(_ *easelv1.WatchGenerationRequest, s grpc.ServerStreamingServer[easelv1.WatchGenerationResponse]) error {
		for range 100 {
			update := &easelv1.GenerationUpdate{Generation: &easelv1.Generation{FailureMessage: strings.Repeat("x", 10_000)}}
			if err := s.Send(&easelv1.WatchGenerationResponse{Event: &easelv1.WatchGenerationResponse_Update{Update: update}}); err != nil {
				return err
			}
		}
		<-s.Context().Done()
		return s.Context().Err()
	}
	var listeners [2]net.Listener
	for n := range listeners {
		var err error
		if listeners[n], err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
			t.Fatal(err)
		}
	}
	out := siege{grpcAddr: listeners[0].Addr().String(), httpAddr: listeners[1].Addr().String()}
	out.server = serve(t, studio, func(c *Config) {
		c.Listeners.GRPC, c.Listeners.HTTP = listeners[0], listeners[1]
		if encrypted {
			files := newTLSFiles(t, "server")
			c.TLS, out.client = files.TLS, files.clientConfig(t, nil)
		}
		for _, f := range change {
			f(c)
		}
	}).Server
	return out
}

// countingConn counts what an attacker gets rid of.
type countingConn struct {
	net.Conn
	sent *atomic.Int64
}

func (c countingConn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	c.sent.Add(int64(n))
	return n, err
}

// attack opens a connection and does one thing to it again and again, until the server ends
// it, or ctx does.
func (s siege) attack(ctx context.Context, addr string, deaf bool, sent *atomic.Int64, do func(*attacker) error) error {
	var conn net.Conn
	var err error
	if s.client == nil {
		conn, err = (&net.Dialer{}).DialContext(ctx, "tcp", addr)
	} else {
		config := s.client.Clone()
		config.NextProtos = []string{"h2"}
		conn, err = (&tls.Dialer{Config: config}).DialContext(ctx, "tcp", addr)
	}
	if err != nil {
		return err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	counted := countingConn{conn, sent}
	a := &attacker{Conn: counted, Framer: http2.NewFramer(counted, nil), stream: 1}
	a.AllowIllegalWrites = true
	a.encoder = hpack.NewEncoder(&a.block)
	if _, err := io.WriteString(counted, http2.ClientPreface); err != nil {
		return err
	}
	if err := a.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0}); err != nil {
		return err
	}
	if !deaf {
		go func() { _, _ = io.Copy(io.Discard, counted) }()
	}
	for err == nil {
		err = do(a)
	}
	return err
}

// healthy calls over both forms until ctx ends, and counts what was answered.
func (s siege) healthy(ctx context.Context, t *testing.T, served *atomic.Int64) {
	t.Helper()
	transport, scheme := insecure.NewCredentials(), "http"
	if s.client != nil {
		transport, scheme = credentials.NewTLS(s.client), "https"
	}
	conn, err := grpc.NewClient(s.grpcAddr, grpc.WithTransportCredentials(transport))
	if err != nil {
		t.Error(err)
		return
	}
	defer conn.Close()
	browser := &http.Client{Transport: &http.Transport{TLSClientConfig: s.client}}
	defer browser.CloseIdleConnections()
	for ctx.Err() == nil {
		waiting, cancel := context.WithTimeout(servertest.WithKey(context.WithoutCancel(ctx)), 10*time.Second)
		_, err := easelv1.NewGenerationServiceClient(conn).GetGeneration(waiting, &easelv1.GetGenerationRequest{GenerationId: "g1"})
		if err == nil {
			err = fetch(waiting, browser, scheme+"://"+s.httpAddr+"/v1/generations/g1")
		}
		cancel()
		if err != nil {
			t.Errorf("a healthy caller: %v", err)
			return
		}
		served.Add(1)
	}
}

func fetch(ctx context.Context, client *http.Client, url string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	request.Header.Set("Authorization", "Bearer key")
	answer, err := client.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if _, err := io.Copy(io.Discard, answer.Body); err != nil || answer.StatusCode != http.StatusOK {
		return fmt.Errorf("%s, %w", answer.Status, err)
	}
	return nil
}

// inUse is the memory that this process has in use, attackers and all.
func inUse() int64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapInuse + m.StackInuse)
}

func TestAttackByHTTP2FramesTakesLittleMemoryAndOthersAreServed(t *testing.T) { // L9
	if testing.Short() {
		t.Skip("it is of scale: .ci/nightly runs it")
	}
	for name, attack := range attacks {
		for form, encrypted := range map[string]bool{"plaintext": false, "TLS": true} {
			t.Run(form+", "+name, func(t *testing.T) {
				s := besiege(t, encrypted)
				targets := []string{s.grpcAddr}
				if encrypted { // HTTP/2 is spoken on the other port too
					targets = append(targets, s.httpAddr)
				}
				for _, addr := range targets {
					s.withstand(t, addr, attack.deaf, attack.do)
				}
			})
		}
	}
}

// withstand measures an attack on one address.
func (s siege) withstand(t *testing.T, addr string, deaf bool, do func(*attacker) error) {
	t.Helper()
	runtime.GC()
	before, highest, began := inUse(), int64(0), time.Now()
	lasts, calls := attackLasts()
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	var working sync.WaitGroup
	var sent, served atomic.Int64
	working.Go(func() { s.healthy(ctx, t, &served) })
	for range attackers {
		working.Go(func() {
			for ctx.Err() == nil { // a connection that is ended is opened again
				if err := s.attack(ctx, addr, deaf, &sent, do); err == nil {
					t.Error("an attack ended by itself")
				}
			}
		})
	}
	for ctx.Err() == nil && (time.Since(began) < lasts || served.Load() < calls || sent.Load() < 100_000) {
		highest = max(highest, inUse())
		time.Sleep(5 * time.Millisecond) // between two readings
	}
	if ctx.Err() != nil {
		t.Error("healthy callers were not served")
	}
	stop()
	working.Wait()
	t.Logf("%d KiB of attack; %d healthy calls; %.1f MiB more memory", sent.Load()>>10, served.Load(), float64(highest-before)/(1<<20))
	if highest-before > attackMemory {
		t.Errorf("memory rose by %d MiB", (highest-before)>>20)
	}
}
