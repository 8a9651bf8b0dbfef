package siege

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"flag"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/auth"
	"github.com/easel-grpc/easel/internal/proctest"
	"github.com/easel-grpc/easel/internal/sandbox"
)

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(proctest.Main(m))
}

// noiseFloor is a p99 of the neighbor's calls that is accepted during any attack. The neighbor is the client that does not
// attack. Smaller values vary too much, because the attacker, the server, the catalog and the neighbor share the processors
// of one machine.
const noiseFloor = 100 * time.Millisecond

// chartLimits returns the settings of Go's garbage collector in the Helm chart.
func chartLimits(t *testing.T) proctest.Settings {
	t.Helper()
	values := proctest.Read(t, "deploy", "helm", "easel", "values.yaml")
	return proctest.Settings{"GOGC": proctest.Find(t, `(?m)^goGC: "(\d+)"`, values), "GOMEMLIMIT": proctest.Find(t, `(?m)^goMemLimit: (\S+)`, values)}
}

// inFull reports whether attacks run at full size and one at a time, so that times can be compared.
func inFull() bool { return os.Getenv("EASEL_TEST_ATTACKS") == "full" }

// sizeOf returns full if attacks run at full size, and short otherwise.
func sizeOf[T any](full, short T) T {
	if inFull() {
		return full
	}
	return short
}

// encoded is an encoded message. Messages are encoded before the attack, because the attacker and the server share the
// processors.
type encoded []byte

// rawCodec sends [encoded] messages and discards the responses.
type rawCodec struct{}

func (rawCodec) Marshal(message any) ([]byte, error) { return message.(encoded), nil }
func (rawCodec) Unmarshal([]byte, any) error         { return nil }
func (rawCodec) Name() string                        { return "proto" }

// siege contains a server, a catalog and two clients: an attacker, and a neighbor at another address. The server has its
// own process, with the garbage collector's settings from the Helm chart. The catalog runs in this process.
type siege struct {
	*proctest.Process
	t                   *testing.T
	trust               *tls.Config // TLS configuration that trusts the server; nil for plaintext
	box                 *sandbox.Sandbox
	attacker, neighbour string                          // credentials
	near                *grpc.ClientConn                // connection of the neighbor, the client that does not attack
	call                func(ctx context.Context) error // sends a call from the neighbor
	every, floor        time.Duration                   // interval between the neighbor's calls, and p99 of their durations that is always accepted
}

// siegeConfig configures a siege.
type siegeConfig struct {
	// before wraps the catalog; may be nil.
	before func(catalog http.Handler) http.Handler
	// ledger is the URL of the ledger, or empty. With a ledger, the attacker and the other client share an API key, and
	// belong to different teams. Without a ledger, they forward their own API keys.
	ledger string
	// encrypted reports whether the server uses TLS.
	encrypted bool
	// settings contains additional settings of the server.
	settings proctest.Settings
}

func newSiege(t *testing.T, c siegeConfig) *siege {
	t.Helper()
	if !inFull() {
		t.Parallel()
	}
	box, err := sandbox.Open(sandbox.Config{Seed: 7, Speed: 100})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = box.Close() })
	s := &siege{t: t, box: box, every: 10 * time.Millisecond, floor: noiseFloor}
	s.attacker, s.neighbour = s.newKey(), s.newKey()
	catalog := http.Handler(box)
	if c.before != nil {
		catalog = c.before(box)
	}
	upstream := httptest.NewServer(catalog)
	t.Cleanup(upstream.Close)
	settings := chartLimits(t).With(proctest.Settings{"EASEL_UPSTREAM_URL": upstream.URL + sandbox.BasePath}).With(c.settings)
	if c.ledger != "" {
		settings = settings.With(twoTeams(t, s.attacker)).With(proctest.Settings{"EASEL_LEDGER_URL": c.ledger})
		s.attacker, s.neighbour = "attacker", "neighbour"
	}
	if c.encrypted {
		cert, key := proctest.Certificate(t, "easel")
		settings = settings.With(proctest.Settings{"EASEL_TLS_CERT_FILE": cert, "EASEL_TLS_KEY_FILE": key})
		s.trust = &tls.Config{RootCAs: x509.NewCertPool(), ServerName: "localhost", NextProtos: []string{"h2"}}
		s.trust.RootCAs.AppendCertsFromPEM([]byte(proctest.Read(t, cert)))
	}
	s.Process = proctest.Serve(t, settings)
	s.near = s.dialFrom("127.0.0.2")
	s.call = func(ctx context.Context) error {
		_, err := easelv1.NewAccountServiceClient(s.near).GetAccount(ctx, &easelv1.GetAccountRequest{})
		return err
	}
	return s
}

// twoTeams returns the settings for a shared API key and two teams. The token of each caller is its name.
func twoTeams(t *testing.T, held string) proctest.Settings {
	t.Helper()
	text := fmt.Sprintf("teams: {many: {}, few: {}}\ncallers:\n- {name: ops, operator: true, tokens: [%q]}\n", auth.Hash("ops"))
	for name, team := range map[string]string{"attacker": "many", "neighbour": "few"} {
		text += fmt.Sprintf("- {name: %s, team: %s, tokens: [%q]}\n", name, team, auth.Hash(name))
	}
	return proctest.Settings{"EASEL_UPSTREAM_KEY_FILE": proctest.File(t, held), "EASEL_CALLERS_FILE": proctest.File(t, text)}
}

func (s *siege) newKey() string {
	s.t.Helper()
	key, err := s.box.CreateKey(s.t.Context(), sandbox.KeyConfig{BalanceCents: 100_000_000})
	if err != nil {
		s.t.Fatal(err)
	}
	return key
}

// dialFrom connects to the server over gRPC from one of this machine's addresses.
func (s *siege) dialFrom(address string) *grpc.ClientConn {
	s.t.Helper()
	from, secured := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(address)}}, insecure.NewCredentials()
	if s.trust != nil {
		secured = credentials.NewTLS(s.trust)
	}
	return proctest.Dial(s.t, s.GRPC, grpc.WithTransportCredentials(secured),
		grpc.WithContextDialer(func(ctx context.Context, addr string) (net.Conn, error) { return from.DialContext(ctx, "tcp", addr) }))
}

// measure sends the calls of the neighbor, the client that does not attack, at a constant rate. It sends them without
// waiting for earlier responses. All calls must succeed. measure returns the 99th percentile of their durations.
func (s *siege) measure(length time.Duration) time.Duration {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(proctest.Bearing(s.t.Context(), s.neighbour), length+time.Minute)
	defer cancel()
	took := make([]time.Duration, length/s.every)
	var calls sync.WaitGroup
	ticker := time.NewTicker(s.every)
	defer ticker.Stop()
	failed := atomic.Int64{}
	for n := range took {
		due := <-ticker.C
		calls.Go(func() {
			if err := s.call(ctx); err != nil && failed.Add(1) < 5 {
				s.t.Errorf("the neighbor's call failed: %v", err)
			}
			took[n] = time.Since(due)
		})
	}
	calls.Wait()
	slices.Sort(took)
	return took[len(took)*99/100]
}

// cpuTime returns the processor time that the server has used so far.
func (s *siege) cpuTime() time.Duration {
	s.t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", s.Pid()))
	if err != nil {
		s.t.Skipf("this system does not report the processor time of a process: %v", err)
	}
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	ticks := 0
	for _, field := range fields[11:13] { // user and system time, in ticks of 10 ms
		n, err := strconv.Atoi(field)
		if err != nil {
			s.t.Fatal(err)
		}
		ticks += n
	}
	return time.Duration(ticks) * 10 * time.Millisecond
}

// assault is an attack and its limits.
type assault struct {
	// workers is the number of goroutines that run the attack. Each goroutine calls [assault.one] in a loop, with its
	// index as worker.
	workers int
	one     func(ctx context.Context, worker int) error
	// hold starts an attack in the background that lasts until ctx is done. It returns the number of successes, such as
	// opened streams. If hold is nil, the attack consists only of the calls of [assault.one].
	hold func(ctx context.Context) int64
	// least is the minimum number of successes. With fewer, the test would prove nothing.
	least int64
	// memory is the maximum growth of the server's memory, in bytes.
	memory int
	// cpu is the maximum processor time per success. Zero means no limit.
	cpu time.Duration
}

// runAlongside runs an attack while the neighbor, a client that does not attack, sends calls. It checks the durations of
// these calls, and the server's memory and processor time.
func (s *siege) runAlongside(a assault) {
	s.t.Helper()
	length := sizeOf(10*time.Second, time.Second)
	s.measure(length / 4) // warm-up that opens the connections
	quiet := s.measure(length)
	before := s.forgetPeak()
	ctx, stop := context.WithCancel(s.t.Context())
	var working sync.WaitGroup
	through := atomic.Int64{}
	if a.hold != nil {
		through.Add(a.hold(ctx))
	}
	worked := s.cpuTime()
	for n := range a.workers {
		working.Go(func() {
			for ctx.Err() == nil {
				if err := a.one(ctx, n); err == nil || ctx.Err() == nil {
					through.Add(1)
				}
			}
		})
	}
	attacked := s.measure(length)
	for late := time.Now().Add(time.Minute); through.Load() < a.least && a.workers > 0 && time.Now().Before(late); {
		time.Sleep(10 * time.Millisecond) // on a busy machine, the attack needs more time to reach the minimum number of successes
	}
	worked = s.cpuTime() - worked
	stop()
	working.Wait()
	left := s.measure(length / 4)
	_, highest := proctest.Memory(s.t, s.Pid())
	s.t.Logf("quiet / attacked / after it: neighbor p99 %v / %v / %v; %d of the attack; memory %d MB, %+d MB at most; processors %v",
		quiet, attacked, left, through.Load(), before>>20, (highest-before)>>20, worked)
	s.judge(a, quiet, max(attacked, left), through.Load(), highest-before, worked)
}

func (s *siege) judge(a assault, quiet, worst time.Duration, through int64, more int, worked time.Duration) {
	s.t.Helper()
	if inFull() && worst > max(5*quiet, s.floor) {
		s.t.Errorf("the neighbor's p99 is %v with the attack, and %v without it", worst, quiet)
	}
	if through < a.least {
		s.t.Errorf("only %d calls of the attack got through, which is too few for this test", through)
	}
	if more > a.memory {
		s.t.Errorf("the memory rose by %d MB, more than %d MB", more>>20, a.memory>>20)
	}
	if each := worked / time.Duration(max(through, 1)); a.cpu > 0 && each > a.cpu {
		s.t.Errorf("each call costs %v of processor time, more than %v", each, a.cpu)
	}
}

// forgetPeak resets the peak of the server's memory and returns its current memory.
func (s *siege) forgetPeak() (now int) {
	s.t.Helper()
	if err := os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", s.Pid()), []byte("5"), 0o200); err != nil {
		s.t.Logf("can't reset the peak memory, which is now measured since the start: %v", err)
	}
	now, _ = proctest.Memory(s.t, s.Pid())
	return now
}
