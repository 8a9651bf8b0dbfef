package sandbox_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/easel-grpc/easel/internal/proctest"
	"github.com/easel-grpc/easel/internal/sandbox"
)

// childPath is the environment variable that makes the test binary serve a catalog. Its value is the path of the
// database file.
const childPath = "SANDBOX_TEST_CHILD"

// crashConfig returns a configuration in which renders are fast, so that a kill can hit renders in any state. It sets no
// seed, so each process uses a different one.
func crashConfig(path string) sandbox.Config {
	return sandbox.Config{Path: path, Speed: 100, FailureRate: 0.4}
}

// runChild prints its address and serves a catalog until it is killed.
func runChild(path string) {
	s, err := sandbox.Open(crashConfig(path))
	if err != nil {
		fmt.Println("error:", err)
		os.Exit(1)
	}
	fmt.Println(httptest.NewServer(s).URL)
	select {}
}

func TestAcceptedOrdersAndBalancesSurviveKills(t *testing.T) {
	path := filepath.Join(t.TempDir(), "catalog.db")
	key := prepareKey(t, path)
	life := &client{account: &account{t: t, key: key}, accepted: map[string]string{}}
	for range 10 {
		life.surviveKill(t, path)
	}
	if len(life.accepted) < 20 {
		t.Fatalf("only %d orders were accepted, which is too few for this test", len(life.accepted))
	}

	s, err := sandbox.Open(crashConfig(path))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var a sandbox.Audit
	proctest.Eventually(t, 20*time.Second, "end of all renders", func() bool {
		if a, err = s.Audit(t.Context(), key); err != nil {
			t.Fatal(err)
		}
		if err := a.Check(); err != nil {
			t.Fatal(err)
		}
		return allEnded(a)
	})
	byKey := map[string]string{}
	counts := map[string]int{}
	for _, g := range a.Generations {
		byKey[g.IdempotencyKey] = g.ID
		counts[g.Status]++
	}
	t.Logf("%d accepted, %d committed: %v", len(life.accepted), len(a.Generations), counts)
	for idempotency, id := range life.accepted {
		if byKey[idempotency] != id {
			t.Errorf("the order %s returned %s, but the audit has %q", idempotency, id, byKey[idempotency])
		}
	}
	if counts["succeeded"] == 0 || counts["refunded"] == 0 {
		t.Errorf("the final states are %v, want both succeeded and refunded", counts)
	}
}

func prepareKey(t *testing.T, path string) string {
	t.Helper()
	s, err := sandbox.Open(crashConfig(path))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	key, err := s.CreateKey(t.Context(), sandbox.KeyConfig{BalanceCents: 1 << 30})
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func allEnded(a sandbox.Audit) bool {
	for _, g := range a.Generations {
		if g.Status != "succeeded" && g.Status != "refunded" {
			return false
		}
	}
	return true
}

// client sends orders and records the responses.
type client struct {
	*account
	accepted map[string]string // generation IDs, keyed by idempotency key
	sent     int
}

// startChild starts a catalog in another process and returns the process and the address of the catalog.
func startChild(t *testing.T, path string) (*exec.Cmd, string) {
	t.Helper()
	binary, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	child := exec.Command(binary)
	child.Env = append(os.Environ(), childPath+"="+path)
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	url, err := bufio.NewReader(out).ReadString('\n')
	if err != nil || !strings.HasPrefix(url, "http") {
		child.Process.Kill()
		child.Wait()
		t.Fatalf("the catalog did not start: %q, %v", url, err)
	}
	return child, strings.TrimSpace(url)
}

// surviveKill starts a catalog and sends orders. After some responses, it kills the catalog at a random time. It adds
// the orders that received a response to c.accepted.
func (c *client) surviveKill(t *testing.T, path string) {
	t.Helper()
	child, url := startChild(t, path)
	defer child.Wait()
	c.url = url
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var answers atomic.Int64
	enough := int64(2 + rand.IntN(20))
	type promise struct{ idempotency, id string }
	promises := make(chan promise, 1<<16)
	var group errgroup.Group
	for range 4 {
		first := c.sent
		c.sent += 1 << 16
		group.Go(func() error {
			for i := first; ctx.Err() == nil; i++ {
				idempotency := fmt.Sprintf("k%d", i)
				if id := c.placeOrder(ctx, idempotency, i); id != "" {
					promises <- promise{idempotency, id}
					if answers.Add(1) == enough {
						time.AfterFunc(rand.N(20*time.Millisecond), cancel)
					}
				}
			}
			return nil
		})
	}
	<-ctx.Done()
	if err := child.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	group.Wait()
	close(promises)
	for p := range promises {
		c.accepted[p.idempotency] = p.id
	}
}

// placeOrder places an order and returns the generation ID, or "" if no response arrived.
func (c *client) placeOrder(ctx context.Context, idempotency string, i int) string {
	body := haiku
	if i%5 == 0 {
		body = small
	}
	req := c.newRequest(ctx, "POST", "/generations", body, "Idempotency-Key", idempotency)
	req.Close = true
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return ""
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != http.StatusCreated {
		return ""
	}
	return reply{body: text}.record(c.t)["id"].(string)
}

func TestGenerationsContinueAfterRestart(t *testing.T) {
	path := filepath.Join(t.TempDir(), "catalog.db")
	s, err := sandbox.Open(sandbox.Config{Path: path, Speed: 0.0001})
	if err != nil {
		t.Fatal(err)
	}
	key, err := s.CreateKey(t.Context(), sandbox.KeyConfig{BalanceCents: 100})
	if err != nil {
		t.Fatal(err)
	}
	b := &account{t: t, s: s, url: "http://catalog", key: key}
	b.c = &http.Client{Transport: direct{b}}
	later := b.create(haiku)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if r := b.do("GET", "/me", ""); r.status < 500 {
		t.Errorf("a closed catalog returned the status %d", r.status)
	}

	// Some renders become due while no process is running.
	if s, err = sandbox.Open(sandbox.Config{Path: path, Speed: 20}); err != nil {
		t.Fatal(err)
	}
	b.s = s
	due, failing := b.create(small), b.create(doomed)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if s, err = sandbox.Open(sandbox.Config{Path: path, Speed: 20}); err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	b.s = s
	proctest.Eventually(t, 20*time.Second, "end of the renders that are due", func() bool { return b.status(due) == "succeeded" && b.status(failing) == "refunded" })
	b.do("GET", "/generations/"+due+"/content", "").want(t, 200, "PNG")
	if got := b.status(later); got != "queued" {
		t.Errorf("a render that is not due yet is %s, want queued", got)
	}
	b.audit()
}
