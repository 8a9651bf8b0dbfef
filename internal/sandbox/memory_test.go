package sandbox_test

import (
	"fmt"
	"math/rand/v2"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/easel-grpc/easel/internal/sandbox"
)

// TestMemoryAnswersAsAFileDoes does the same to a sandbox in memory, which has one connection, and to one on a
// file, which reads by others than it writes, and compares every answer with its headers.
func TestMemoryAnswersAsAFileDoes(t *testing.T) {
	if testing.Short() {
		t.Skip("it is of scale: .ci/nightly runs it")
	}
	met := map[string]int{}
	for seed, d := range sandbox.Dialects() {
		t.Run(d.Name, func(t *testing.T) {
			memory := historyOf(t, sandbox.Config{Dialect: d}, uint64(seed), met)
			file := historyOf(t, sandbox.Config{Dialect: d, Path: filepath.Join(t.TempDir(), "catalog.db")}, uint64(seed), met)
			for i := range max(len(memory), len(file)) {
				if memory[i] != file[i] {
					t.Fatalf("answer %d differs: in memory\n%.2000s\non a file\n%.2000s", i, memory[i], file[i])
				}
			}
		})
	}
	for _, answer := range []string{
		"POST /generations 200", "POST /generations 201", "POST /generations 402", "POST /generations 409", "GET /generations 200",
		"GET /generations 401", "GET /generations/{id} 200", "GET /generations/{id} 404", "DELETE /generations/{id} 204",
		"GET /generations/{id}/content 200", "GET /generations/{id}/content 409", "GET /me 200",
	} {
		if met[answer] < 20 {
			t.Errorf("met %q only %d times", answer, met[answer])
		}
	}
}

// historyOf is every answer to a random sequence of requests, the same one for the same seed.
func historyOf(t *testing.T, cfg sandbox.Config, seed uint64, met map[string]int) (answers []string) {
	cfg.FailureRate, cfg.DailyCapCents = 0.2, 2500
	synctest.Test(t, func(t *testing.T) {
		c := &customer{bubble: openBubble(t, cfg), rnd: rand.New(rand.NewPCG(seed, 4)), met: met}
		c.keys = []string{c.key, c.newKey(t)}
		for range 600 {
			c.act(t)
		}
		for _, key := range c.keys {
			a, err := c.s.Audit(t.Context(), key)
			c.answers = append(c.answers, fmt.Sprintf("%+v %v", a, err))
		}
		answers = c.answers
	})
	return answers
}

// customer does what comes to mind.
type customer struct {
	*bubble
	rnd     *rand.Rand
	keys    []string
	ids     []string
	orders  int
	answers []string
	met     map[string]int // answers by route and status
}

func (c *customer) act(t *testing.T) {
	if c.rnd.IntN(4) == 0 {
		c.key = c.keys[c.rnd.IntN(len(c.keys))]
	}
	switch c.rnd.IntN(16) {
	case 0, 1, 2:
		c.orders++
		c.order(c.orders)
	case 3:
		c.order(c.rnd.IntN(c.orders + 1))
	case 4:
		c.ask("DELETE", "/generations/"+c.someID(), "")
	case 5:
		c.ask("GET", "/me", "")
		c.ask("POST", "/quote", small)
	case 6:
		c.ask("GET", "/generations/"+c.someID()+"/content", "")
	case 7, 8, 9:
		time.Sleep(time.Duration(c.rnd.IntN(4000)) * time.Millisecond)
		synctest.Wait()
	case 10:
		c.administer(t)
	case 11, 12:
		c.ask("GET", "/generations", "")
	default:
		c.ask("GET", "/generations/"+c.someID(), "")
	}
}

// order creates, or creates again; each number has a body of its own.
func (c *customer) order(number int) {
	bodies := []string{haiku, doomed, small, haiku, `{"modelId":"studio/essay","inputs":{"prompt":"a <sea>","paragraphs":200}}`}
	r := c.ask("POST", "/generations", bodies[number%len(bodies)], "Idempotency-Key", fmt.Sprint("order-", number))
	if r.status == 201 {
		id := member(c.decode(r), "id")
		c.ids = append(c.ids, id)
	}
}

func (c *customer) someID() string {
	if len(c.ids) == 0 || c.rnd.IntN(20) == 0 {
		return "gen_unknown"
	}
	return c.ids[len(c.ids)-1-min(c.rnd.IntN(len(c.ids)), c.rnd.IntN(len(c.ids)))]
}

func (c *customer) administer(t *testing.T) {
	switch c.rnd.IntN(8) {
	case 0:
		if err := c.s.RevokeKey(t.Context(), c.key); err != nil {
			t.Error(err)
		}
		c.ask("GET", "/generations", "")
		c.keys = append(c.keys, c.newKey(t))
		c.key = c.keys[len(c.keys)-1]
	case 1, 2:
		if err := c.s.TopUp(t.Context(), c.key, int64(c.rnd.IntN(3000)+1), "more"); err != nil {
			t.Error(err)
		}
	}
}

// ask keeps the whole answer.
func (c *customer) ask(method, path, body string, head ...string) reply {
	r := c.send(method, path, body, head...)
	c.answers = append(c.answers, fmt.Sprintf("%s %s %s: %d %v %s", c.key, method, path, r.status, r.header, r.body))
	if rest, found := strings.CutPrefix(path, "/generations/"); found {
		_, rest, _ = strings.Cut(rest, "/")
		path = strings.TrimSuffix("/generations/{id}/"+rest, "/")
	}
	c.met[fmt.Sprint(method, " ", path, " ", r.status)]++
	return r
}

// TestNoReaderSeesAGenerationGoBackwards lets readers of records and of lists race with the renders.
func TestNoReaderSeesAGenerationGoBackwards(t *testing.T) {
	s, err := sandbox.Open(sandbox.Config{Seed: 5, Speed: 3000, RefundDelay: 5 * time.Second, FailureRate: 0.5})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	key, err := s.CreateKey(t.Context(), sandbox.KeyConfig{BalanceCents: 1 << 30})
	if err != nil {
		t.Fatal(err)
	}
	read := func(method, path, body string) string {
		r := httptest.NewRequest(method, sandbox.BasePath+path, strings.NewReader(body))
		r.Header.Set("Authorization", "Bearer "+key)
		r.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		return w.Body.String()
	}
	var steps atomic.Int64
	var group errgroup.Group
	for range 4 {
		group.Go(func() error {
			for range 30 {
				_, id, _ := strings.Cut(read("POST", "/generations", haiku), `"id":"`)
				id, _, _ = strings.Cut(id, `"`)
				last := 0
				for last < 2 {
					for _, path := range []string{"/generations/" + id, "/generations"} {
						_, after, _ := strings.Cut(read("GET", path, ""), `"id":"`+id+`"`)
						_, after, _ = strings.Cut(after, `"status":"`)
						status, _, _ := strings.Cut(after, `"`)
						now, known := map[string]int{"queued": 0, "failed": 1, "succeeded": 2, "refunded": 2}[status]
						if !known || now < last {
							return fmt.Errorf("%s: %q after state %d", path, status, last)
						}
						steps.Add(int64(now - last))
						last = now
					}
				}
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		t.Error(err)
	}
	if steps.Load() != 4*30*2 {
		t.Errorf("the readers saw %d steps", steps.Load())
	}
}
