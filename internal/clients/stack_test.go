package clients

import (
	"encoding/json"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/easel-grpc/easel/internal/proctest"
)

// stack is a catalog with an administration API, and a facade, which is an Easel server for this catalog.
type stack struct {
	program string
	catalog string // host and port
	addr    string // address of the facade, which stays the same after a restart
	facade  *proctest.Process
	metrics string // host and port of the facade's metrics
	flags   []string
}

// startStack starts the catalog and the facade. flags are additional flags of the facade.
func startStack(t *testing.T, flags ...string) *stack {
	t.Helper()
	s := &stack{program: proctest.Easel(t), addr: "127.0.0.1:0", flags: flags}
	catalog := proctest.Start(t, nil, s.program, "sandbox", "--addr", "127.0.0.1:0", "--admin", "--seed", "1", "--speed", "10")
	s.catalog = must(t)(catalog.Await(0, `http://(127\.0\.0\.1:\d+)`, patience))
	s.serve(t)
	return s
}

// serve starts the facade. A restarted facade uses the same address.
func (s *stack) serve(t *testing.T) {
	t.Helper()
	s.facade = proctest.Start(t, nil, append([]string{
		s.program, "serve", "--upstream-url", "http://" + s.catalog + "/api/v1/api/catalog",
		"--grpc-addr", s.addr, "--http-addr", "127.0.0.1:0", "--admin-addr", "127.0.0.1:0",
	}, s.flags...)...)
	s.addr = must(t)(s.facade.Await(0, `"server":"grpc","addr":"([^"]+)"`, patience))
	s.metrics = must(t)(s.facade.Await(0, `"server":"admin","addr":"([^"]+)"`, patience))
}

// awaitWatches waits until want watches of single generations are open.
func (s *stack) awaitWatches(t *testing.T, want int) {
	t.Helper()
	s.awaitStreams(t, "WatchGeneration", want)
}

// awaitStreams waits until want streams of the method name are open.
func (s *stack) awaitStreams(t *testing.T, name string, want int) {
	t.Helper()
	for end := time.Now().Add(patience); ; {
		n := s.measured(t, "easel_stream_open{", name)
		if n == want {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%d streams of %s are open, want %d", n, name, want)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// measured returns the sum of the facade's metrics with a name and a label.
func (s *stack) measured(t *testing.T, name, label string) (sum int) {
	t.Helper()
	text := s.get(t, "http://"+s.metrics+"/metrics", "")
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, name) && strings.Contains(line, label) {
			n, err := strconv.Atoi(strings.TrimSpace(line[strings.LastIndex(line, " ")+1:]))
			if err != nil {
				t.Fatal(err)
			}
			sum += n
		}
	}
	return sum
}

// hold injects faults that make the catalog report all renders as queued.
func (s *stack) hold(t *testing.T) {
	t.Helper()
	for _, fault := range []string{
		`{"route":"GET /generations","status":503}`,
		`{"route":"GET /generations/{id}","set":{"status":"queued"}}`,
		`{"route":"POST /generations","set":{"status":"queued"}}`,
	} {
		s.admin(t, http.MethodPost, "faults", fault, nil)
	}
}

// catalogAudit contains the parts of the catalog's audit that the tests check.
type catalogAudit struct {
	Faults      []string `json:"faults"`
	Generations []struct {
		ID      string `json:"id"`
		Charges int    `json:"charges"`
	} `json:"generations"`
}

// content returns the file of a render, which it reads directly from the catalog.
func (s *stack) content(t *testing.T, key, id string) []byte {
	t.Helper()
	return s.get(t, "http://"+s.catalog+"/api/v1/api/catalog/generations/"+id+"/content", key)
}

func (s *stack) get(t *testing.T, url, key string) []byte {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+key)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	data, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		t.Fatalf("%s %v", response.Status, err)
	}
	return data
}

// admin calls the administration API of the catalog.
func (s *stack) admin(t *testing.T, method, path, body string, into any) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, "http://"+s.catalog+"/_sandbox/"+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if response.StatusCode >= 300 {
		t.Fatalf("%s %s: %s", method, path, response.Status)
	}
	if into != nil {
		if err := json.NewDecoder(response.Body).Decode(into); err != nil {
			t.Fatal(err)
		}
	}
}

func readFile(t *testing.T, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}
