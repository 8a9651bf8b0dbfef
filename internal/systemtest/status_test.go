package systemtest

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/easel-grpc/easel/internal/proctest"
)

// facility is a server and a catalog with fault injection. Tests observe the server as an operator does.
type facility struct {
	t                 *testing.T
	grpc, rest, admin string
	sandbox, upstream string // address of the sandbox, and URL of its catalog
	keys              []string
	operator          string // token for the admin address, or empty
	served            *proctest.Process
}

// newFacility starts a server, and a catalog with the given number of API keys. flags are passed to 'easel
// sandbox'.
func newFacility(t *testing.T, keys int, flags ...string) *facility {
	t.Helper()
	f := newCatalog(t, keys, flags...)
	f.serve(nil)
	return f
}

// newCatalog starts only the catalog, so that the test can start a server with other settings.
func newCatalog(t *testing.T, keys int, flags ...string) *facility {
	t.Helper()
	box := start(t, nil, printsKey,
		append([]string{"sandbox", "--addr", "127.0.0.1:0", "--admin", "--speed", "0.05", "--seed", "1"}, flags...)...)
	f := &facility{t: t, sandbox: proctest.Find(t, `http://([\d.:]+)/_sandbox`, box.Stdout.String())}
	for range keys {
		var made struct{ Key string }
		if err := json.Unmarshal([]byte(f.request(http.MethodPost, "http://"+f.sandbox+"/_sandbox/keys", `{"balanceCents": 5000}`)), &made); err != nil {
			t.Fatal(err)
		}
		f.keys = append(f.keys, made.Key)
	}
	f.upstream = proctest.Find(t, `(http://\S+/catalog)`, box.Stdout.String())
	return f
}

// serveShared starts a server with the given callers file. The server shares the first API key.
func (f *facility) serveShared(callers, ledger string, more map[string]string) {
	f.t.Helper()
	env := map[string]string{"EASEL_UPSTREAM_KEY_FILE": fileOf(f.t, f.keys[0]), "EASEL_CALLERS_FILE": callers, "EASEL_LEDGER_URL": ledger}
	maps.Copy(env, more)
	f.serve(env)
}

// serve starts a server, which replaces the previous server in f.
func (f *facility) serve(env map[string]string) {
	f.t.Helper()
	all := map[string]string{"EASEL_UPSTREAM_URL": f.upstream, "EASEL_DRAIN_TIMEOUT": "1s"}
	maps.Copy(all, env)
	f.served = proctest.Serve(f.t, all)
	f.grpc, f.rest, f.admin = f.served.Address(f.t, "grpc"), f.served.Address(f.t, "http"), f.served.Address(f.t, "admin")
}

// measured returns the sum of a metric's Prometheus series whose labels contain all parts.
func (f *facility) measured(name string, parts ...string) (sum float64) {
	f.t.Helper()
	pattern := regexp.MustCompile(`(?m)^` + name + `(\{.*\})? (\S+)$`)
	for _, found := range pattern.FindAllStringSubmatch(f.request(http.MethodGet, "http://"+f.admin+"/metrics", ""), -1) {
		if slices.ContainsFunc(parts, func(part string) bool { return !strings.Contains(found[1], part) }) {
			continue
		}
		value, err := strconv.ParseFloat(found[2], 64)
		if err != nil {
			f.t.Fatal(err)
		}
		sum += value
	}
	return sum
}

// request sends a request, whose response must have a 2xx status, and returns the body of the response.
func (f *facility) request(method, address, body string) string {
	f.t.Helper()
	r, err := http.NewRequestWithContext(f.t.Context(), method, address, strings.NewReader(body))
	if err != nil {
		f.t.Fatal(err)
	}
	if f.operator != "" && r.URL.Host == f.admin {
		r.Header.Set("Authorization", "Bearer "+f.operator)
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		f.t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode/100 != 2 {
		f.t.Fatalf("%s %s: %s %v\n%s", method, address, answer.Status, err, text)
	}
	return string(text)
}

// watch orders renders with an API key and starts the given number of watches for each. It returns the generation
// IDs.
func (f *facility) watch(key string, renders, watches int) (ids []string) {
	f.t.Helper()
	env := map[string]string{"EASEL_ADDR": f.grpc, "EASEL_API_KEY": key}
	for n := range renders {
		got := easel(f.t, env, "generate", "studio/landscape", fmt.Sprintf("prompt=sea %d", n), "size=64x40", "-q")
		if got.exit != exitOK {
			f.t.Fatalf("exit %d\n%s", got.exit, got.stderr)
		}
		ids = append(ids, strings.TrimSpace(got.stdout))
		for range watches {
			start(f.t, env, func(string, string) bool { return true }, "watch", ids[n])
		}
	}
	return ids
}

// seen opens the status page and waits until it shows the given verdict.
func (f *facility) seen(scheme, verdict string) *browser {
	f.t.Helper()
	b := openBrowser(f.t, scheme)
	b.call(nil, "Page.navigate", map[string]any{"url": "http://" + f.admin + "/"})
	b.until("verdict", `document.querySelector('#verdict strong')?.textContent === '`+verdict+`'`)
	return b
}

// calm checks that the page reported no errors and sent no requests to other hosts.
func (f *facility) calm(b *browser) {
	f.t.Helper()
	complaints := slices.DeleteFunc(slices.Clone(b.complaints()), func(complaint string) bool { // before the token is entered, the page receives a 401
		return strings.Contains(complaint, "status of 401") && strings.Contains(complaint, "/status.json")
	})
	if len(complaints) > 0 {
		f.t.Errorf("the browser complains:\n%s", strings.Join(complaints, "\n"))
	}
	if others := b.foreignRequests(f.admin); len(others) > 0 {
		f.t.Errorf("the page asked %q", others)
	}
}

func (f *facility) withoutKeys(text any) {
	f.t.Helper()
	for _, key := range f.keys {
		if strings.Contains(fmt.Sprint(text), key) {
			f.t.Error("the page shows an API key")
		}
	}
}

const textOf = `document.getElementById('%s').innerText`

func TestTheStatusPageOfAServerThatNobodyUsesSaysThatAllIsWell(t *testing.T) {
	t.Parallel()
	chromium(t)
	f := newFacility(t, 0)
	for _, scheme := range []string{"light", "dark"} {
		b := f.seen(scheme, "All is well")
		b.until("word that nothing is watched", `document.body.innerText.includes('No renders are active.')`)
		b.picture("status-empty-" + scheme)
		f.calm(b)
	}
}

func TestTheStatusPageShowsEachKeyAndRenderAndWhatIsWrong(t *testing.T) {
	t.Parallel()
	chromium(t)
	f := newFacility(t, 3)
	f.watch(f.keys[0], 5, 3)
	f.watch(f.keys[1], 2, 1)
	f.watch(f.keys[2], 1, 2)
	b, dark := f.seen("light", "All is well"), f.seen("dark", "All is well")
	for _, page := range []*browser{b, dark} {
		page.until("three keys and eight renders", `document.querySelectorAll('#keys tr').length === 4 && document.querySelectorAll('#renders tr').length === 9`)
		page.until("nineteen watches", fmt.Sprintf(textOf, "numbers")+`.startsWith('19\n')`)
	}
	b.until("three healthy keys", `document.querySelectorAll('#keys .good').length === 3`)
	b.picture("status-busy-light")
	dark.picture("status-busy-dark")
	f.withoutKeys(b.value(`document.documentElement.outerHTML`))

	f.request(http.MethodPost, "http://"+f.sandbox+"/_sandbox/faults", `{"status": 503, "body": "the <b>catalog</b> is down"}`)
	for _, page := range []*browser{b, dark} {
		page.until("word of the outage", fmt.Sprintf(textOf, "verdict")+`.includes('Requests to the catalog fail for 3 API keys')`)
		page.until("three keys that are not reached", `document.querySelectorAll('#keys .bad').length === 3`)
	}
	b.picture("status-down-light")
	dark.picture("status-down-dark")
	f.request(http.MethodDelete, "http://"+f.sandbox+"/_sandbox/faults", "")
	b.until("that all is well again", `document.querySelector('#verdict strong').textContent === 'All is well'`)
	f.withoutKeys(b.value(`document.documentElement.outerHTML`))
	f.calm(b)
	f.calm(dark)

	f.served.Stop()
	b.until("word that the server is gone", `document.querySelector('#verdict strong').textContent === 'This server does not answer'`)
	b.picture("status-gone-light")
}
