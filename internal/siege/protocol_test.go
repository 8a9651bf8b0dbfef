package siege

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/proctest"
)

const (
	// attackRise is the maximum growth of the server's resident memory during an attack, in bytes.
	attackRise = 64 << 20
	// attackers is the number of connections over which an attack runs. The cost of an attack grows with this number.
	attackers = 2
	// neverLate is the timeout of each call from the neighbor, the client that does not attack.
	neverLate = 20 * time.Second
)

// enemy is an attacker that targets one of the server's addresses.
type enemy struct {
	t    *testing.T
	dial func() (net.Conn, error)
	// path and headers of a call that the server accepts at the address
	path    string
	headers []hpack.HeaderField
}

// accountsAtOnce returns a catalog that immediately returns the same account for all API keys, so that a test measures
// only the cost in Easel.
func accountsAtOnce(http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, `{"balanceCents":5}`) })
}

// setAccountReads replaces the calls of the neighbor, the client that does not attack, with reads of the account,
// alternately over gRPC and REST. Each read over REST uses a new connection.
func (s *siege) setAccountReads() {
	transport := &http.Transport{DisableKeepAlives: true}
	if s.trust != nil {
		transport.TLSClientConfig = &tls.Config{RootCAs: s.trust.RootCAs, ServerName: s.trust.ServerName}
	}
	client, overGRPC, n := &http.Client{Transport: transport}, s.call, atomic.Int64{}
	s.floor = neverLate
	s.call = func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, neverLate)
		defer cancel()
		if n.Add(1)%2 == 0 {
			return s.get(ctx, client, "/v1/account", "Bearer "+s.neighbour)
		}
		return overGRPC(ctx)
	}
}

// startHTTP2 starts HTTP/2 on a connection: it sends the client preface and the given settings.
func startHTTP2(conn net.Conn, settings ...http2.Setting) *http2.Framer {
	_, _ = io.WriteString(conn, http2.ClientPreface)
	framer := http2.NewFramer(conn, conn)
	_ = framer.WriteSettings(settings...)
	return framer
}

// readFrames reads the server's frames until the connection ends. Without these reads, flow control would prevent the
// server from sending.
func readFrames(framer *http2.Framer) {
	go func() {
		for {
			if _, err := framer.ReadFrame(); err != nil && !errors.As(err, new(http2.StreamError)) {
				return
			}
		}
	}()
}

// headerBlock returns a header block that consists of the headers of the attacker's call and the given additional
// headers.
func (e enemy) headerBlock(more ...hpack.HeaderField) []byte {
	var out bytes.Buffer
	encoder := hpack.NewEncoder(&out)
	for _, field := range append(append([]hpack.HeaderField{{Name: ":path", Value: e.path}}, e.headers...), more...) {
		_ = encoder.WriteField(field) // cannot fail, because it writes to memory
	}
	return out.Bytes()
}

// repeatStep calls step until it returns an error or the limit is reached. It returns the number of successful calls.
func repeatStep(limit int, step func(n int) error) (successes int) {
	for ; successes < limit; successes++ {
		if step(successes) != nil {
			return successes
		}
	}
	return successes
}

func rapidReset(e enemy, conn net.Conn) int {
	framer := startHTTP2(conn)
	readFrames(framer)
	block := e.headerBlock()
	return repeatStep(10_000, func(n int) error {
		id := uint32(2*n + 1)
		if err := framer.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: block, EndHeaders: true}); err != nil {
			return err
		}
		return framer.WriteRSTStream(id, http2.ErrCodeCancel)
	})
}

// headerBomb adds a large header to the connection's HPACK table and then refers to it many times by its index. The server
// expands each byte of such a request to four kilobytes.
func headerBomb(e enemy, conn net.Conn) int {
	framer := startHTTP2(conn)
	readFrames(framer)
	var out bytes.Buffer
	encoder := hpack.NewEncoder(&out)
	for _, field := range append(e.headers, hpack.HeaderField{Name: ":path", Value: e.path}, hpack.HeaderField{Name: "x-bomb", Value: strings.Repeat("x", 3800)}) {
		_ = encoder.WriteField(field)
	}
	bomb := append(out.Bytes(), bytes.Repeat([]byte{0x80 | 62}, 12<<10)...) // 62 is the HPACK index of the latest entry in the dynamic table
	return repeatStep(500, func(n int) error {
		return framer.WriteHeaders(http2.HeadersFrameParam{StreamID: uint32(2*n + 1), BlockFragment: bomb, EndHeaders: true, EndStream: true})
	})
}

// slowHeaders opens 500 connections to the same address as conn, and sends only the start of an HTTP/1 request over each. It
// returns the number of connections over which this succeeded.
func slowHeaders(e enemy, conn net.Conn) int {
	return crowd(e, conn, "GET / HTTP/1.1\r\nHost: easel.test\r\nX: ")
}

// halfHandshakes opens 500 connections to the same address as conn, and sends only the start of a TLS handshake over each. It
// returns the number of connections over which this succeeded.
func halfHandshakes(e enemy, conn net.Conn) int { return crowd(e, conn, "\x16\x03\x01\x02\x00\x01") }

func crowd(e enemy, first net.Conn, begin string) int {
	done := 0
	for range 500 {
		conn, err := net.Dial("tcp", first.RemoteAddr().String())
		if err != nil {
			e.t.Errorf("the connection failed: %v", err)
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

// attacks contains the attacks, keyed by protocol. Attacks that need only a single connection, such as slow headers, are
// also tested in package server.
var attacks = map[string][]struct {
	name  string
	run   func(enemy, net.Conn) int
	least int64 // minimum number of frames or connections that the server must accept; with fewer, the test would prove nothing
}{
	"HTTP/2": {{"rapid reset", rapidReset, 1000}, {"header bomb", headerBomb, 1}},
	"HTTP/1": {{"slow headers", slowHeaders, 1000}},
	"TLS":    {{"half-open handshakes", halfHandshakes, 1000}},
}

func TestAttacksOnProtocolsUseLittleMemory(t *testing.T) {
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
		for _, attack := range attacks[on.kind] {
			name := fmt.Sprintf("%s on %s%s", attack.name, on.address, map[bool]string{true: " over TLS"}[on.encrypted])
			t.Run(name, func(t *testing.T) {
				s := newSiege(t, siegeConfig{encrypted: on.encrypted, before: accountsAtOnce, settings: proctest.Settings{"GOGC": "100"}}) // attackRise, the maximum growth of memory, is chosen for this value of GOGC
				s.setAccountReads()
				e, started, done := s.newEnemy(on.address, on.kind), atomic.Int64{}, atomic.Int64{}
				s.runAlongside(assault{workers: attackers, least: attackers, memory: attackRise, one: func(ctx context.Context, _ int) error {
					if started.Add(1) > attackers { // only the first calls attack, one for each worker; later calls wait until ctx is done
						<-ctx.Done()
						return ctx.Err()
					}
					conn, err := e.dial()
					if err != nil {
						return err
					}
					defer conn.Close()
					_ = conn.SetDeadline(time.Now().Add(2 * time.Second)) // ends the attack even if the server no longer reads
					done.Add(int64(attack.run(e, conn)))
					return nil
				}})
				if done.Load() < attack.least {
					t.Errorf("only %d frames and connections got through, which is too few for this test", done.Load())
				}
			})
		}
	}
}

// newEnemy returns an attacker whose headers form a valid call. The attacker targets the gRPC listener if address is "gRPC",
// and otherwise the HTTP listener. With the protocol "HTTP/2", the attacker uses TLS if the server does.
func (s *siege) newEnemy(address, protocol string) enemy {
	field := func(name, value string) hpack.HeaderField { return hpack.HeaderField{Name: name, Value: value} }
	e := enemy{t: s.t, headers: []hpack.HeaderField{field(":scheme", "http"), field(":authority", "easel.test"), field("authorization", "Bearer "+s.attacker)}}
	addr := s.HTTP
	if address == "gRPC" {
		addr, e.path = s.GRPC, easelv1.AccountService_GetAccount_FullMethodName
		e.headers = append([]hpack.HeaderField{field(":method", "POST")}, append(e.headers, field("content-type", "application/grpc"), field("te", "trailers"))...)
	} else {
		e.path, e.headers = "/v1/account", append([]hpack.HeaderField{field(":method", "GET")}, e.headers...)
	}
	e.dial = func() (net.Conn, error) { return net.Dial("tcp", addr) }
	if s.trust != nil && protocol == "HTTP/2" {
		e.dial = func() (net.Conn, error) { return tls.Dial("tcp", addr, s.trust) }
	}
	return e
}
