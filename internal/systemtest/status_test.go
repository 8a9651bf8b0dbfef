package systemtest

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/easel-grpc/easel/internal/proctest"
)

// facility is a server, and a catalog with fault injection. Tests observe the server from outside, as an
// operator does.
type facility struct{ *proctest.Stack }

// newFacility starts a server, and a catalog with the given number of API keys. flags are passed to 'easel
// sandbox'.
func newFacility(t *testing.T, keys int, flags ...string) facility {
	t.Helper()
	f := newCatalog(t, keys, flags...)
	f.Serve()
	return f
}

// newCatalog starts only the catalog, so that the test can start a server with other settings.
func newCatalog(t *testing.T, keys int, flags ...string) facility {
	t.Helper()
	flags = append([]string{"--speed", "0.05"}, flags...)
	return facility{proctest.NewStack(t, flags...).WithKeys(keys).With(proctest.Settings{"EASEL_DRAIN_TIMEOUT": "1s"})}
}

// startWatches orders the given number of renders with an API key, and starts the given number of 'easel watch'
// processes for each render. It returns the generation IDs.
func (f facility) startWatches(key string, renders, watches int) (ids []string) {
	f.Helper()
	env := f.caller(key)
	for n := range renders {
		got := runProgram(f.T, env, "generate", "studio/landscape", fmt.Sprintf("prompt=sea %d", n), "size=64x40", "-q")
		if got.exit != exitOK {
			f.Fatalf("exit %d\n%s", got.exit, got.stderr)
		}
		ids = append(ids, strings.TrimSpace(got.stdout))
		for range watches {
			f.startWatch(key, ids[n])
		}
	}
	return ids
}

// startWatch starts the command 'easel watch' for a render.
func (f facility) startWatch(key, id string) {
	f.Helper()
	proctest.Start(f, proctest.Environ(f.caller(key)), proctest.Easel(f), "watch", id)
}

// caller returns the environment of a caller with a token.
func (f facility) caller(token string) map[string]string {
	return map[string]string{"EASEL_ADDR": f.Server.GRPC, "EASEL_API_KEY": token}
}

// openStatus opens the status page and waits until it shows the given verdict. scheme is the preferred color scheme,
// light or dark.
func (f facility) openStatus(scheme, verdict string) *browser {
	f.Helper()
	b := openBrowser(f.T, scheme)
	b.callMethod(nil, "Page.navigate", map[string]any{"url": "http://" + f.Server.Admin + "/"})
	b.awaitTrue("verdict", `document.querySelector('#verdict strong')?.textContent === '`+verdict+`'`)
	return b
}

// checkCalm checks that the browser reported no errors, except status 401 for /status.json, and that the page sent no
// requests to other hosts.
func (f facility) checkCalm(b *browser) {
	f.Helper()
	complaints := slices.DeleteFunc(slices.Clone(b.complaints()), func(complaint string) bool { // until the token is entered, the page receives a 401
		return strings.Contains(complaint, "status of 401") && strings.Contains(complaint, "/status.json")
	})
	if len(complaints) > 0 {
		f.Errorf("the browser reported:\n%s", strings.Join(complaints, "\n"))
	}
	if others := b.foreignRequests(f.Server.Admin); len(others) > 0 {
		f.Errorf("the page sent requests to other hosts: %q", others)
	}
}

func (f facility) withoutKeys(text any) {
	f.Helper()
	for _, key := range f.Keys {
		if strings.Contains(fmt.Sprint(text), key) {
			f.Error("the text contains an API key")
		}
	}
}

const textOf = `document.getElementById('%s').innerText`

func TestStatusPageOfIdleServerShowsNoProblems(t *testing.T) {
	t.Parallel()
	chromium(t)
	f := newFacility(t, 0)
	for _, scheme := range []string{"light", "dark"} {
		b := f.openStatus(scheme, "All is well")
		b.awaitTrue("note that no renders are active", `document.body.innerText.includes('No renders are active.')`)
		b.savePicture("status-empty-" + scheme)
		f.checkCalm(b)
	}
}

func TestStatusPageShowsCatalogOutage(t *testing.T) {
	t.Parallel()
	chromium(t)
	f := newFacility(t, 3)
	f.startWatches(f.Keys[0], 5, 3)
	f.startWatches(f.Keys[1], 2, 1)
	f.startWatches(f.Keys[2], 1, 2)
	b, dark := f.openStatus("light", "All is well"), f.openStatus("dark", "All is well")
	for _, page := range []*browser{b, dark} {
		page.awaitTrue("three keys and eight renders", `document.querySelectorAll('#keys tr').length === 4 && document.querySelectorAll('#renders tr').length === 9`)
		page.awaitTrue("nineteen watches", fmt.Sprintf(textOf, "numbers")+`.startsWith('19\n')`)
	}
	b.awaitTrue("three healthy keys", `document.querySelectorAll('#keys .good').length === 3`)
	b.savePicture("status-busy-light")
	dark.savePicture("status-busy-dark")
	f.withoutKeys(b.evaluate(`document.documentElement.outerHTML`))

	f.Fault(`{"status": 503, "body": "the <b>catalog</b> is down"}`)
	for _, page := range []*browser{b, dark} {
		page.awaitTrue("report of the outage", fmt.Sprintf(textOf, "verdict")+`.includes('Requests to the catalog fail for 3 API keys')`)
		page.awaitTrue("three API keys with failing requests", `document.querySelectorAll('#keys .bad').length === 3`)
	}
	b.savePicture("status-down-light")
	dark.savePicture("status-down-dark")
	f.Heal()
	b.awaitTrue("healthy verdict after the outage", `document.querySelector('#verdict strong').textContent === 'All is well'`)
	f.withoutKeys(b.evaluate(`document.documentElement.outerHTML`))
	f.checkCalm(b)
	f.checkCalm(dark)

	f.Server.Stop()
	b.awaitTrue("report that the server does not respond", `document.querySelector('#verdict strong').textContent === 'This server does not answer'`)
	b.savePicture("status-gone-light")
}
