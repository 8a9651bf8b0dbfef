package siege

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
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
	"github.com/easel-grpc/easel/internal/proctest"
)

const (
	// attackRise is the maximum growth of the server's resident memory during an attack, in bytes.
	attackRise = 64 << 20
	// attackers is the number of connections over which an attack runs. The cost of an attack grows with this number.
	attackers = 2
	// neverLate is the maximum duration of a bystander's call.
	neverLate = 20 * time.Second
)

// enemy contains the attacker's knowledge about the server.
type enemy struct {
	t    *testing.T
	dial func() (net.Conn, error)
	// path and headers make up a valid call at the address.
	path    string
	headers []hpack.HeaderField
}

// attacked is a server in its own process, so that its memory can be measured separately.
type attacked struct {
	*proctest.Process

	trust *tls.Config // TLS configuration that trusts the server; nil for plaintext
}

func startAttacked(t *testing.T, encrypted bool) attacked {
	t.Helper()
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"balanceCents":5}`)
	}))
	t.Cleanup(upstream.Close)
	env := proctest.Settings{"EASEL_UPSTREAM_URL": upstream.URL + "/catalog"}
	a := attacked{}
	if encrypted {
		cert, key := proctest.Certificate(t, "easel")
		env["EASEL_TLS_CERT_FILE"], env["EASEL_TLS_KEY_FILE"] = cert, key
		a.trust = &tls.Config{RootCAs: x509.NewCertPool(), ServerName: "localhost", NextProtos: []string{"h2"}}
		a.trust.RootCAs.AppendCertsFromPEM([]byte(proctest.Read(t, cert)))
	}
	a.Process = proctest.Serve(t, env)
	return a
}

// bystander sends calls over gRPC and REST until it is stopped. Every call must succeed.
type bystander struct {
	calls   atomic.Int64
	slowest atomic.Int64
	stop    func()
}

func (a attacked) bystander(t *testing.T) *bystander {
	t.Helper()
	b, secured, scheme := &bystander{}, insecure.NewCredentials(), "http"
	transport := &http.Transport{DisableKeepAlives: true}
	if a.trust != nil {
		secured, scheme, transport.TLSClientConfig = credentials.NewTLS(a.trust), "https", &tls.Config{RootCAs: a.trust.RootCAs, ServerName: a.trust.ServerName}
	}
	conn := proctest.Dial(t, a.GRPC, grpc.WithTransportCredentials(secured))
	account := easelv1.NewAccountServiceClient(conn)
	ctx, cancel := context.WithCancel(t.Context())
	var both sync.WaitGroup
	for form, call := range map[string]func() error{
		"gRPC": func() error {
			ctx, cancel := context.WithTimeout(proctest.Bearing(t.Context(), "bystander"), neverLate)
			defer cancel()
			_, err := account.GetAccount(ctx, &easelv1.GetAccountRequest{})
			return err
		},
		"REST": func() error { return accountOver(t, &http.Client{Transport: transport}, scheme+"://"+a.HTTP) },
	} {
		both.Go(func() {
			for ctx.Err() == nil {
				began := time.Now()
				if err := call(); err != nil {
					t.Errorf("a call over %s during an attack: %v", form, err)
					return
				}
				b.calls.Add(1)
				b.slowest.Store(max(b.slowest.Load(), int64(time.Since(began))))
			}
		})
	}
	b.stop = func() { cancel(); both.Wait(); conn.Close() }
	return b
}

func accountOver(t *testing.T, client *http.Client, base string) error {
	ctx, cancel := context.WithTimeout(t.Context(), neverLate)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, base+"/v1/account", nil)
	if err != nil {
		return err
	}
	r.Header.Set("Authorization", "Bearer bystander")
	answer, err := client.Do(r)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if _, err := io.Copy(io.Discard, answer.Body); err != nil || answer.StatusCode != http.StatusOK {
		return fmt.Errorf("%s, %w", answer.Status, err)
	}
	return nil
}

// attack runs an attack over several connections concurrently. It returns the number of frames and connections that the
// server has accepted.
func (e enemy) attack(one func(e enemy, conn net.Conn) int) int {
	var all sync.WaitGroup
	var done atomic.Int64
	for range attackers {
		all.Go(func() {
			conn, err := e.dial()
			if err != nil {
				e.t.Errorf("no connection: %v", err)
				return
			}
			defer conn.Close()
			_ = conn.SetDeadline(time.Now().Add(2 * time.Second)) // ends the attack even if the server no longer reads
			done.Add(int64(one(e, conn)))
		})
	}
	all.Wait()
	return int(done.Load())
}

// speak starts HTTP/2 on a connection with the given settings.
func speak(conn net.Conn, settings ...http2.Setting) *http2.Framer {
	_, _ = io.WriteString(conn, http2.ClientPreface)
	framer := http2.NewFramer(conn, conn)
	_ = framer.WriteSettings(settings...)
	return framer
}

// listen reads the server's frames until the connection ends. Otherwise, flow control would stop the server.
func listen(framer *http2.Framer) {
	go func() {
		for {
			if _, err := framer.ReadFrame(); err != nil && !errors.As(err, new(http2.StreamError)) {
				return
			}
		}
	}()
}

// block returns the encoded headers of the enemy's call, followed by additional headers.
func (e enemy) block(more ...hpack.HeaderField) []byte {
	var out bytes.Buffer
	encoder := hpack.NewEncoder(&out)
	for _, field := range append(append([]hpack.HeaderField{{Name: ":path", Value: e.path}}, e.headers...), more...) {
		_ = encoder.WriteField(field) // cannot fail, because it writes to memory
	}
	return out.Bytes()
}

// until repeats a step until it fails or the limit is reached. It returns the number of successful steps.
func until(limit int, step func(n int) error) (done int) {
	for ; done < limit; done++ {
		if step(done) != nil {
			return done
		}
	}
	return done
}

func rapidReset(e enemy, conn net.Conn) int {
	framer := speak(conn)
	listen(framer)
	block := e.block()
	return until(10_000, func(n int) error {
		id := uint32(2*n + 1)
		if err := framer.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: block, EndHeaders: true}); err != nil {
			return err
		}
		return framer.WriteRSTStream(id, http2.ErrCodeCancel)
	})
}

// headerBomb adds a large header to the connection's table and then refers to it many times by its index. The server
// expands each byte of such a request to four kilobytes.
func headerBomb(e enemy, conn net.Conn) int {
	framer := speak(conn)
	listen(framer)
	var out bytes.Buffer
	encoder := hpack.NewEncoder(&out)
	for _, field := range append(e.headers, hpack.HeaderField{Name: ":path", Value: e.path}, hpack.HeaderField{Name: "x-bomb", Value: strings.Repeat("x", 3800)}) {
		_ = encoder.WriteField(field)
	}
	bomb := append(out.Bytes(), bytes.Repeat([]byte{0x80 | 62}, 12<<10)...) // 62 is the HPACK index of the latest entry in the dynamic table
	return until(500, func(n int) error {
		return framer.WriteHeaders(http2.HeadersFrameParam{StreamID: uint32(2*n + 1), BlockFragment: bomb, EndHeaders: true, EndStream: true})
	})
}

// slowHeaders opens connections that send only the start of a request.
func slowHeaders(e enemy, conn net.Conn) int {
	return crowd(e, conn, "GET / HTTP/1.1\r\nHost: easel.test\r\nX: ")
}

// halfHandshakes opens connections that send only the start of a TLS handshake.
func halfHandshakes(e enemy, conn net.Conn) int { return crowd(e, conn, "\x16\x03\x01\x02\x00\x01") }

func crowd(e enemy, first net.Conn, begin string) int {
	done := 0
	for range 500 {
		conn, err := net.Dial("tcp", first.RemoteAddr().String())
		if err != nil {
			e.t.Errorf("no connection: %v", err)
			break
		}
		defer conn.Close()
		if _, err := io.WriteString(conn, begin); err == nil {
			done++
		}
	}
	_, _ = io.WriteString(first, begin)
	_, _ = io.ReadAll(first) // returns when the server closes this connection; the other connections stay open
	return done
}

// attacks contains the attacks on each kind of address. Package server tests cheaper attacks. least is the minimum number
// of frames and connections that the server must accept; with fewer, the test would prove nothing.
var attacks = map[string][]struct {
	name  string
	run   func(enemy, net.Conn) int
	least int
}{
	"HTTP/2": {{"rapid reset", rapidReset, 1000}, {"a bomb of headers", headerBomb, 1}},
	"HTTP/1": {{"slow headers", slowHeaders, 1000}},
	"TLS":    {{"half-open handshakes", halfHandshakes, 1000}},
}

func TestAttacksOnTheProtocolCostLittleMemoryAndOthersAreServed(t *testing.T) { // fault L9
	for _, on := range []struct {
		address, kind string
		encrypted     bool
	}{
		{"gRPC", "HTTP/2", false},
		{"gRPC", "HTTP/2", true},
		{"REST", "HTTP/2", true},
		{"REST", "HTTP/1", false},
		{"gRPC", "TLS", true},
		{"REST", "TLS", true},
	} {
		for _, one := range attacks[on.kind] {
			name := fmt.Sprintf("%s on %s%s", one.name, on.address, map[bool]string{true: " over TLS"}[on.encrypted])
			t.Run(name, func(t *testing.T) {
				server := startAttacked(t, on.encrypted) // a new server, because an earlier attack may have increased its memory
				server.withstand(t, server.enemy(t, on.address, on.kind), one.run, one.least)
			})
		}
	}
}

// withstand attacks the server while a bystander sends calls. It checks the server's memory, and the number of accepted
// frames and connections.
func (a attacked) withstand(t *testing.T, e enemy, one func(enemy, net.Conn) int, least int) {
	t.Helper()
	beside := a.bystander(t)
	for beside.calls.Load() < 200 && !t.Failed() {
		time.Sleep(time.Millisecond)
	}
	before, _ := proctest.Memory(t, a.Pid())
	undisturbed := beside.calls.Load()
	beside.slowest.Store(0)
	began := time.Now()
	done := e.attack(one)
	took := time.Since(began)
	for beside.calls.Load() == undisturbed && !t.Failed() {
		time.Sleep(time.Millisecond) // waits for at least one call, because an attack may be short
	}
	served := beside.calls.Load() - undisturbed
	beside.stop()
	_, highest := proctest.Memory(t, a.Pid())
	t.Logf("%d got through in %v, memory %.1f%+.1f MiB, %d other calls, the slowest %v", done, took.Round(time.Millisecond),
		float64(before)/(1<<20), float64(highest-before)/(1<<20), served, time.Duration(beside.slowest.Load()))
	if done < least {
		t.Errorf("only %d got through, which is too few for this test", done)
	}
	if highest-before > attackRise {
		t.Errorf("the memory rose by %d bytes", highest-before)
	}
}

// enemy returns an attacker that knows a valid call at an address.
func (a attacked) enemy(t *testing.T, address, kind string) enemy {
	field := func(name, value string) hpack.HeaderField { return hpack.HeaderField{Name: name, Value: value} }
	e := enemy{t: t, headers: []hpack.HeaderField{field(":scheme", "http"), field(":authority", "easel.test"), field("authorization", "Bearer key")}}
	addr := a.HTTP
	if address == "gRPC" {
		addr, e.path = a.GRPC, easelv1.AccountService_GetAccount_FullMethodName
		e.headers = append([]hpack.HeaderField{field(":method", "POST")}, append(e.headers, field("content-type", "application/grpc"), field("te", "trailers"))...)
	} else {
		e.path, e.headers = "/v1/account", append([]hpack.HeaderField{field(":method", "GET")}, e.headers...)
	}
	e.dial = func() (net.Conn, error) { return net.Dial("tcp", addr) }
	if a.trust != nil && kind == "HTTP/2" {
		e.dial = func() (net.Conn, error) { return tls.Dial("tcp", addr, a.trust) }
	}
	return e
}
