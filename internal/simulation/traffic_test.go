package simulation

import (
	"context"
	"hash/fnv"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/easel-grpc/easel/internal/catalog"
)

// request is one that a process sent to the catalog.
type request struct {
	at, end time.Duration
	process string
	tenant  string // key that it went under
	op      string // route, as "GET /generations/{id}"
	path    string
	poll    bool   // nobody's call: the hub made it
	key     string // Idempotency-Key
	status  int    // 0: no answer
	cut     bool   // its own context ended it
	after   time.Duration
}

// traffic is all that went to the catalog, by process.
type traffic struct {
	mu      sync.Mutex
	history *history
	list    []request
	leaks   []string
}

func (t *traffic) add(r request) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.list = append(t.list, r)
}

type pollMark struct{}

// polls is the hub's view of the catalog client. It marks what the hub asks.
type polls struct{ client *catalog.Client }

func marked(ctx context.Context) context.Context { return context.WithValue(ctx, pollMark{}, true) }

func (p polls) Generation(ctx context.Context, cred catalog.Credential, id string) (catalog.Generation, error) {
	return p.client.Generation(marked(ctx), cred, id)
}

func (p polls) Generations(ctx context.Context, cred catalog.Credential) ([]catalog.Generation, error) {
	return p.client.Generations(marked(ctx), cred)
}

// tap is the transport of one process: it notes every request, and gives each a way to go
// that takes a time of its own, so that no two arrive at one instant.
type tap struct {
	base    http.RoundTripper
	traffic *traffic
	process string
	seed    uint64
	tenants map[string]string // names of keys

	mu    sync.Mutex
	times map[string]int // requests so far, by what they ask
}

func (t *tap) RoundTrip(r *http.Request) (*http.Response, error) {
	tenant := t.tenants[strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")]
	note := request{
		at: t.traffic.history.since(), process: t.process, tenant: tenant, op: r.Pattern, path: r.URL.Path,
		poll: r.Context().Value(pollMark{}) != nil, key: r.Header.Get("Idempotency-Key"),
	}
	resp, err := t.send(r, tenant)
	note.end = t.traffic.history.since()
	note.cut = err != nil && context.Cause(r.Context()) != nil
	if err == nil {
		note.status = resp.StatusCode
		note.after = retryAfter(resp.Header.Get("Retry-After"))
	}
	t.traffic.add(note)
	return resp, err
}

func (t *tap) send(r *http.Request, tenant string) (*http.Response, error) {
	way := t.way(r.Method + tenant + r.URL.String() + r.Header.Get("Idempotency-Key"))
	select {
	case <-time.After(way):
	case <-r.Context().Done():
		return nil, r.Context().Err()
	}
	return t.base.RoundTrip(r)
}

// way is how long a request takes to the catalog: drawn from what it is and how often it was
// made, so that the order in which requests are made does not matter.
func (t *tap) way(what string) time.Duration {
	t.mu.Lock()
	t.times[what]++
	n := t.times[what]
	t.mu.Unlock()
	sum := fnv.New64a()
	sum.Write([]byte(strconv.FormatUint(t.seed, 10) + what + strconv.Itoa(n)))
	return time.Millisecond + time.Duration(mix(sum.Sum64())%uint64(20*time.Millisecond))
}

// mix spreads a number over all of its bits.
func mix(z uint64) uint64 {
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// retryAfter reads the seconds that a fault asks to wait. Other spellings are faults of
// their own, and promise no pause of a certain length.
func retryAfter(text string) time.Duration {
	seconds, err := strconv.Atoi(text)
	if err != nil || seconds < 0 {
		return 0
	}
	return min(time.Duration(seconds)*time.Second, 2*time.Minute)
}
