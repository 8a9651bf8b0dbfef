package systemtest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/easel-grpc/easel/internal/proctest"
)

// openPage opens a server's page, and waits until the page is rendered. scheme is the preferred color scheme,
// light or dark.
func openPage(t *testing.T, host, scheme string) *browser {
	t.Helper()
	b := openBrowser(t, scheme)
	b.callMethod(nil, "Page.navigate", map[string]any{"url": "http://" + host + "/"})
	b.awaitTrue("page", `document.readyState === 'complete' && document.getElementById('plain').hidden`)
	b.awaitTrue("first heading", `[...document.querySelectorAll('h1')].some(h => h.innerText.trim() === 'Easel')`)
	return b
}

func TestAPIPageLoadsWithoutErrors(t *testing.T) {
	t.Parallel()
	chromium(t)
	dev := proctest.StartDev(t)
	for scheme, want := range map[string]string{"light": "rgb(255, 255, 255)", "dark": "rgb(15, 15, 15)"} {
		t.Run(scheme, func(t *testing.T) {
			b := openPage(t, dev.HTTP, scheme)
			for _, part := range []string{"Get started", "Command line", "curl", "Go", "Python", "TypeScript", "Java", "Account", "Generations", "Models", "Messages"} {
				b.awaitTrue("entry "+part, `[...document.querySelectorAll('aside *')].some(e => !e.children.length && e.textContent.trim() === '`+part+`')`)
			}
			b.awaitTrue("address of gRPC", `document.body.textContent.includes('`+dev.GRPC+`')`)
			b.savePicture(scheme)
			if got := b.evaluate(`getComputedStyle(document.body).backgroundColor`); got != want {
				t.Errorf("the page's background is %v", got)
			}
			if complaints := b.complaints(); len(complaints) > 0 {
				t.Errorf("the browser reported:\n%s", strings.Join(complaints, "\n"))
			}
			if others := b.foreignRequests(dev.HTTP); len(others) > 0 {
				t.Errorf("the page sent requests to other hosts: %q", others)
			}
		})
	}
}

const (
	// JavaScript expression for the entry named %s in the table of contents.
	inContents = `[...document.querySelectorAll('aside button, aside a')].find(e => e.innerText.trim().split('\n')[0] === '%s')`
	// JavaScript expression for the button that opens a test request, in the section that contains %s.
	testRequest = `[...document.querySelectorAll('button')].find(e => e.innerText.includes('Test Request') && e.closest('section').innerText.includes('%s'))`
	// JavaScript expression for the button that sends the test request.
	send = `[...document.querySelectorAll('button')].find(e => e.innerText.trim().startsWith('Send') && !e.innerText.includes('Request') && e.offsetParent)`
)

func TestAPIPageSendsCallsWithoutStoringAPIKey(t *testing.T) {
	t.Parallel()
	chromium(t)
	dev := proctest.StartDev(t)
	for _, call := range []struct{ service, name, path, answer string }{
		{"Models", "ListModels", "/v1/models", "studio/landscape"},
		{"Generations", "QuoteGeneration", "/v1/generations:quote", "priceCents"},
	} {
		t.Run(call.name, func(t *testing.T) {
			b := openPage(t, dev.HTTP, "light")
			b.typeText("field for the key", `document.querySelector('input[placeholder=Token]')`, dev.Key)
			b.clickElement("entry of the service", fmt.Sprintf(inContents, call.service))
			b.clickElement("entry of the call", fmt.Sprintf(inContents, call.name))
			b.clickElement("button to try it", fmt.Sprintf(testRequest, call.path))
			b.clickElement("button to send it", send)
			b.awaitTrue("answer", `document.body.innerText.includes('200 OK') && document.body.innerText.includes('`+call.answer+`')`)
			b.savePicture(call.name)
			kept := fmt.Sprint(b.evaluate(`(async () => JSON.stringify([{...localStorage}, {...sessionStorage}, await indexedDB.databases(), document.cookie]))()`))
			if strings.Contains(kept, dev.Key) || !strings.HasSuffix(kept, `{},[],""]`) {
				t.Errorf("the browser stores %s", kept)
			}
			if complaints := b.complaints(); len(complaints) > 0 {
				t.Errorf("the browser reported:\n%s", strings.Join(complaints, "\n"))
			}
			if others := b.foreignRequests(dev.HTTP); len(others) > 0 {
				t.Errorf("the page sent requests to other hosts: %q", others)
			}
		})
	}
}
