package systemtest

import (
	"bytes"
	"cmp"
	"database/sql"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"math"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	_ "modernc.org/sqlite" // driver for spreadOrders, which changes a ledger directly

	"github.com/easel-grpc/easel/internal/auth"
	"github.com/easel-grpc/easel/internal/proctest"
)

// consoleCallers is the callers file of the console's tests. The token of each caller is its name followed by "-token".
const consoleCallers = `teams: {studio: {budget: {daily_cents: 1500, monthly_cents: 20000}}, print: {budget: {daily_cents: 5}}}
callers:
  - {name: ops, team: studio, operator: true, tokens: [%q]}
  - {name: poster, team: studio, tokens: [%q]}
  - {name: flyers, team: print, tokens: [%q]}
`

func writeConsoleCallers(t *testing.T, file, text string) {
	t.Helper()
	text = fmt.Sprintf(text, auth.Hash("ops-token"), auth.Hash("poster-token"), auth.Hash("flyers-token"))
	proctest.Write(t, file, text)
}

// studio is a sandbox and a server whose console the tests open.
type studio struct {
	t       *testing.T
	rest    string
	callers string // path of the callers file
	flags   []string
	process *proctest.Process
}

func openStudio(t *testing.T, flags ...string) *studio {
	t.Helper()
	chromium(t)
	s := &studio{t: t, rest: "127.0.0.1:0", callers: filepath.Join(t.TempDir(), "callers.yaml")}
	writeConsoleCallers(t, s.callers, consoleCallers)
	s.flags = append([]string{"--callers", s.callers, "--db", filepath.Join(t.TempDir(), "studio.db"), "--seed", "7"}, flags...)
	s.start()
	return s
}

// start starts the server. Each further call starts it again at the same address.
func (s *studio) start() {
	s.t.Helper()
	s.process = proctest.StartDev(s.t, append(slices.Clone(s.flags), "--http-addr", s.rest)...)
	s.rest = s.process.HTTP
}

// placeOrder places an order over REST. While the server is overloaded, placeOrder retries every second.
func (s *studio) placeOrder(caller, model string, inputs map[string]any, labels map[string]string) {
	s.t.Helper()
	body, err := json.Marshal(map[string]any{"modelId": model, "inputs": inputs, "labels": labels, "idempotencyKey": auth.Hash(fmt.Sprint(caller, model, inputs))})
	if err != nil {
		s.t.Fatal(err)
	}
	answer, text := proctest.Request(s.t, http.MethodPost, "http://"+s.rest+"/v1/generations", string(body), "Authorization", "Bearer "+caller+"-token")
	if answer.StatusCode == http.StatusTooManyRequests { // the server is overloaded
		time.Sleep(time.Second) // the delay that RetryInfo requests
		s.placeOrder(caller, model, inputs, labels)
		return
	}
	if answer.StatusCode != http.StatusOK {
		s.t.Fatalf("%s: %s", answer.Status, text)
	}
}

// signIn opens the console in a browser with the given color scheme, and signs in as a caller.
func (s *studio) signIn(caller, scheme string) *browser {
	s.t.Helper()
	return s.signInWith(caller+"-token", scheme)
}

func (s *studio) signInWith(token, scheme string) *browser {
	s.t.Helper()
	b := openBrowser(s.t, scheme)
	b.callMethod(nil, "Page.navigate", map[string]any{"url": "http://" + s.rest + "/console"})
	b.typeText("field for the token", `document.querySelector('#token')`, token)
	b.clickElement("button to sign in", `document.querySelector('.signin button')`)
	b.awaitTrue("live gallery", `document.querySelector('#live').textContent === 'Live'`)
	return b
}

// checkCalm checks that each error that the page has reported contains one of the texts in expected, and that the page
// sent no request to another host.
func (s *studio) checkCalm(b *browser, expected ...string) {
	s.t.Helper()
complaints:
	for _, complaint := range b.complaints() {
		for _, text := range expected {
			if strings.Contains(complaint, text) {
				continue complaints
			}
		}
		s.t.Errorf("the browser reported: %s", complaint)
	}
	if others := b.foreignRequests(s.rest); len(others) > 0 {
		s.t.Errorf("the console sent requests to other hosts: %q", others)
	}
}

const (
	aCard       = `[...document.querySelectorAll('.card')].find(c => c.innerText.includes('%s'))`
	orderButton = `document.querySelector('.order .primary')`
	promptInput = `document.querySelector('#input-prompt')`
)

func TestConsoleOrdersRenderAndShowsItsPicture(t *testing.T) {
	t.Parallel()
	s := openStudio(t, "--speed", "5")
	b := s.signIn("poster", "light")
	b.awaitTrue("hint", `document.querySelector('.hint')`)
	b.savePicture("console-empty")
	b.clickElement("way out of an empty gallery", `document.querySelector('.hint a')`)
	b.typeText("prompt", promptInput, "夕暮れの静かな海、Möwen über'm Watt")
	b.typeText("label", `document.querySelector('#labels')`, "project=spring")
	b.awaitTrue("price", `/€0\.\d\d/.test(document.querySelector('output.price').textContent)`)
	b.clickElement("button to order", orderButton)
	b.awaitTrue("picture", `document.querySelector('.outcome img.drawn')`)
	b.savePicture("console-placed")
	if kept := b.evaluate(`Object.keys(sessionStorage).sort().concat(Object.keys(localStorage), document.cookie).join()`); kept != "easel.session,easel.token," {
		t.Errorf("the browser stores %v", kept)
	}
	b.clickElement("link to the render", `document.querySelector('.outcome a')`)
	b.awaitTrue("large picture", `document.querySelector('.large img.drawn')`)
	b.awaitTrue("end of the time line", `document.querySelector('.timeline li.done:last-child b').textContent === 'succeeded'`)
	b.awaitTrue("inputs", `document.querySelector('.render dl').innerText.includes('夕暮れの静かな海')`)
	s.checkSameOrder(b)
	b.clickElement("link to the gallery", `document.querySelector('nav a')`)
	b.awaitTrue("card", fmt.Sprintf(aCard, "Möwen")+`?.querySelector('img.drawn')`)
	b.awaitTrue("label", fmt.Sprintf(aCard, "Möwen")+`.innerText.includes('spring')`)
	for _, filter := range []struct{ label, want string }{
		{"project=autumn", `document.querySelector('.hint')?.innerText.includes('No render matches')`},
		{"project=spring", fmt.Sprintf(aCard, "Möwen")},
	} {
		b.evaluate(`(field => { field.value = '` + filter.label + `'; field.dispatchEvent(new Event('change')) })(document.querySelector('[aria-label=Label]'))`)
		b.awaitTrue("renders with "+filter.label, filter.want)
	}
	b.clickElement("link to money", `document.querySelector('nav a[href="#/money"]')`)
	b.awaitTrue("budgets", `document.querySelectorAll('.budget').length === 2`)
	b.awaitTrue("chart", `document.querySelector('.chart rect')`)
	checkFit(b, "gallery", "order/studio/landscape", "money")
	s.checkCalm(b)
}

// TestTheConsoleOrdersWithAnAPIKey follows the README: there is no callers file, and the user signs in with the API key
// that 'easel dev' has printed.
func TestTheConsoleOrdersWithAnAPIKey(t *testing.T) {
	t.Parallel()
	chromium(t)
	dev := proctest.StartDev(t, "--speed", "20")
	s := &studio{t: t, rest: proctest.Find(t, `console +http://(\S+)/console\n`, dev.Stdout.String())}
	b := openBrowser(t, "light")
	b.callMethod(nil, "Page.navigate", map[string]any{"url": "http://" + s.rest + "/console"})
	b.typeText("field for the token", `document.querySelector('#token')`, "sandbox_live_wrong")
	b.clickElement("button to sign in", `document.querySelector('.signin button')`)
	b.awaitTrue("rejection", `document.querySelector('.signin .problem')?.innerText.includes('UPSTREAM_CREDENTIAL_REJECTED')`)
	s.checkCalm(b, "status of 401")
	b = s.signInWith(dev.Key, "light")
	b.clickElement("link to order", `document.querySelector('nav a[href="#/order"]')`)
	b.typeText("prompt", promptInput, "a calm sea at dusk")
	b.awaitTrue("price and balance", `/€0\.\d\d/.test(document.querySelector('output.price').textContent) && document.querySelector('.order').innerText.includes('in the account')`)
	b.clickElement("button to order", orderButton)
	b.awaitTrue("picture", `document.querySelector('.outcome img.drawn')`)
	b.evaluate(`void (location.hash = '#/money')`)
	b.awaitTrue("balance and chart", `document.querySelector('.figures').innerText.includes('Balance') && document.querySelector('.chart rect')`)
	s.checkCalm(b)
}

func TestConsoleRestoresInputsOfRepeatedOrder(t *testing.T) {
	t.Parallel()
	s := openStudio(t, "--speed", "20")
	b := s.signIn("ops", "light")
	b.evaluate(`void (location.hash = '#/order/studio/landscape')`)
	b.typeText("prompt", promptInput, "a calm sea at dusk")
	b.typeText("seed", `document.querySelector('#input-seed')`, "9007199254740993")
	b.typeText("labels", `document.querySelector('#labels')`, "project=spring, note=a=b")
	b.typeText("expiry", `document.querySelector('#expires')`, "30")
	b.awaitTrue("balance", `document.querySelector('.order').innerText.includes('€50.00 in the account')`)
	b.clickElement("button to order", orderButton)
	b.awaitTrue("balance after the order", `document.querySelector('.order').innerText.includes('€49.89 in the account')`)
	b.clickElement("link to the render", `document.querySelector('.outcome a')`)
	b.awaitTrue("command with all digits", `/inputsJson.*:9007199254740993}/.test(document.querySelector('pre')?.textContent)`)
	if out, err := runShell(t, fmt.Sprint(b.evaluate(`document.querySelector('pre').textContent`)), "EASEL_API_KEY=ops-token"); err != nil {
		t.Errorf("curl: %v\n%s", err, out)
	}
	b.clickElement("choice of Python", `[...document.querySelectorAll('.example label')].find(l => l.innerText === 'Python')`)
	b.awaitTrue("program with all digits", `document.querySelector('pre').textContent.includes('"seed": 9007199254740993}')`)
	b.clickElement("link to order again", `[...document.querySelectorAll('.actions a')].find(a => a.innerText === 'Order again')`)
	b.awaitTrue("the same inputs and labels", `document.querySelector('#input-seed')?.value === '9007199254740993' && document.querySelector('#labels').value.split(', ').sort().join() === 'note=a=b,project=spring' && `+promptInput+`.value === 'a calm sea at dusk'`)
	b.awaitTrue("price", `/€0\.\d\d/.test(document.querySelector('output.price').textContent)`)
	b.typeText("ceiling", `document.querySelector('#ceiling')`, "0.01")
	b.clickElement("button to order", orderButton)
	b.awaitTrue("error at the ceiling", `document.querySelector('#ceiling-error').innerText === 'The price of €0.11 exceeds the ceiling of €0.01.'`)
	b.awaitTrue("order that was not placed", `document.querySelector('.problem').innerText.includes('Nothing was ordered.')`)
	s.checkCalm(b, "status of 400")
}

// checkSameOrder checks the commands that the console shows for a render's order. It runs the curl command, checks the
// order in the arguments of the grpcurl command, and checks the syntax of the Python program.
func (s *studio) checkSameOrder(b *browser) {
	s.t.Helper()
	const code = `document.querySelector('pre').textContent`
	b.awaitTrue("command", code+`.startsWith('curl')`)
	if out, err := runShell(s.t, fmt.Sprint(b.evaluate(code)), "EASEL_API_KEY=poster-token"); err != nil || !strings.Contains(out, "夕暮れの静かな海、Möwen über'm Watt") || !strings.Contains(out, `"project":"spring"`) {
		s.t.Errorf("curl: %v\n%s", err, out)
	}
	b.clickElement("choice of grpcurl", `[...document.querySelectorAll('.example label')].find(l => l.innerText === 'grpcurl')`)
	out, err := runShell(s.t, "grpcurl() { while [ \"$1\" != -d ]; do shift; done; printf %s \"$2\"; }\n"+fmt.Sprint(b.evaluate(code)))
	var order struct {
		ModelID, IdempotencyKey string
		Inputs                  struct{ Prompt string }
	}
	if unreadable := json.Unmarshal([]byte(out), &order); err != nil || unreadable != nil || order.ModelID != "studio/landscape" || order.IdempotencyKey == "" || !strings.HasSuffix(order.Inputs.Prompt, "über'm Watt") {
		s.t.Errorf("grpcurl: %v, %v\n%s", err, unreadable, out)
	}
	b.clickElement("choice of Python", `[...document.querySelectorAll('.example label')].find(l => l.innerText === 'Python')`)
	if out, err := runShell(s.t, `printf %s "$PROGRAM" | `+tool(s.t, "python3")+" -c 'import ast, sys; ast.parse(sys.stdin.read())'", fmt.Sprint("PROGRAM=", b.evaluate(code))); err != nil {
		s.t.Errorf("Python: %v\n%s", err, out)
	}
}

// runShell runs a shell script with additional environment variables, and returns its output.
func runShell(t *testing.T, script string, variables ...string) (string, error) {
	t.Helper()
	command := exec.CommandContext(t.Context(), "sh", "-c", script)
	command.Env = append(os.Environ(), variables...)
	out, err := command.CombinedOutput()
	return string(out), err
}

// checkFit checks that each view fits into a window that is 700 pixels wide, and that its controls and pictures have names
// for screen readers.
func checkFit(b *browser, views ...string) {
	b.t.Helper()
	b.callMethod(nil, "Emulation.setDeviceMetricsOverride", map[string]any{"width": 700, "height": 900, "deviceScaleFactor": 1, "mobile": false})
	for _, view := range views {
		b.evaluate(`void (location.hash = '#/` + view + `')`)
		b.awaitTrue("content of "+view, `document.querySelector('.card, #input-seed, tfoot')`)
		if excess := b.evaluate(`document.documentElement.scrollWidth - document.documentElement.clientWidth`); excess != 0.0 {
			b.t.Errorf("%s is %v pixels too wide", view, excess)
		}
		b.wantNames(view)
		b.savePicture("console-narrow-" + strings.ReplaceAll(view, "/", "-"))
	}
}

// wantNames checks that the controls and pictures of a view have names for screen readers.
func (b *browser) wantNames(view string) {
	b.t.Helper()
	var tree struct {
		Nodes []struct {
			Ignored    bool
			Role, Name struct{ Value any }
		}
	}
	b.callMethod(&tree, "Accessibility.getFullAXTree", nil)
	named := 0
	for _, node := range tree.Nodes {
		spoken := slices.Contains([]any{"button", "link", "textbox", "combobox", "radio", "checkbox", "slider", "spinbutton", "image", "navigation", "heading"}, node.Role.Value)
		if named++; !node.Ignored && spoken && fmt.Sprint(node.Name.Value) == "" {
			b.t.Errorf("%s has an element with the role %v, but without a name", view, node.Role.Value)
		}
	}
	if named < 20 {
		b.t.Errorf("%s has only %d nodes", view, named)
	}
}

// pressKey presses a key, such as Tab or Enter.
func (b *browser) pressKey(name string) {
	b.t.Helper()
	code := map[string]int{"Tab": 9, "Enter": 13}[name]
	text := map[string]string{"Enter": "\r"}[name]
	b.callMethod(nil, "Input.dispatchKeyEvent", map[string]any{"type": "keyDown", "key": name, "code": name, "windowsVirtualKeyCode": code, "text": text})
	b.callMethod(nil, "Input.dispatchKeyEvent", map[string]any{"type": "keyUp", "key": name, "code": name, "windowsVirtualKeyCode": code})
}

// tabTo presses Tab until the element that a JavaScript expression returns has the focus. It checks that the focus is
// visible on every element on the way. The first argument describes the element in the failure message.
func (b *browser) tabTo(what, element string) {
	b.t.Helper()
	for range 30 {
		b.pressKey("Tab")
		if b.evaluate(`document.activeElement === `+element) == true {
			return
		}
		if b.evaluate(`document.activeElement === document.body || document.activeElement.matches(':focus-visible')`) != true {
			b.t.Errorf("the focus is invisible on %v", b.evaluate(`document.activeElement.outerHTML`))
		}
	}
	b.t.Fatalf("Tab does not reach the %s", what)
}

func TestTheConsoleWorksWithTheKeyboard(t *testing.T) {
	t.Parallel()
	s := openStudio(t, "--speed", "20")
	b := openBrowser(t, "light")
	b.callMethod(nil, "Page.navigate", map[string]any{"url": "http://" + s.rest + "/console"})
	b.awaitTrue("focus on the token", `document.activeElement?.id === 'token'`)
	b.callMethod(nil, "Input.insertText", map[string]any{"text": "poster-token"})
	b.pressKey("Enter")
	b.awaitTrue("focus on the heading", `document.activeElement?.matches('h1') && document.activeElement.innerText === 'Gallery'`)
	b.evaluate(`void (location.hash = '#/order/studio/haiku')`)
	b.awaitTrue("focus on the heading", `document.activeElement?.matches('h1') && document.activeElement.innerText === 'Order'`)
	b.awaitTrue("form", promptInput)
	b.tabTo("prompt", promptInput)
	b.callMethod(nil, "Input.insertText", map[string]any{"text": "first snow"})
	b.awaitTrue("price", `/€0\.\d\d/.test(document.querySelector('output.price').textContent)`)
	b.tabTo("ceiling", `document.querySelector('#ceiling')`)
	b.tabTo("labels", `document.querySelector('#labels')`)
	b.tabTo("button to order", orderButton)
	b.pressKey("Enter")
	b.awaitTrue("announcement", `document.querySelector('#said[aria-live]').textContent.includes('succeeded')`)
	b.tabTo("link to the render", `document.querySelector('.outcome a')`)
	b.pressKey("Enter")
	b.awaitTrue("focus on the render", `document.querySelector('.render blockquote') && document.title.startsWith('first snow')`)
	b.wantNames("render")
	s.checkCalm(b)
}

func TestTheConsoleShowsAnOperatorTheRendersOfAllOwners(t *testing.T) {
	t.Parallel()
	s := openStudio(t, "--speed", "20")
	s.placeOrder("poster", "studio/haiku", map[string]any{"prompt": "of the studio"}, nil)
	s.placeOrder("flyers", "studio/haiku", map[string]any{"prompt": "of the printers"}, nil)
	b := s.signIn("ops", "light")
	owner := `document.querySelector('[aria-label=Owner]')`
	b.awaitTrue("two cards", `document.querySelectorAll('.card').length === 2`)
	b.awaitTrue("filter by owner", owner)
	b.awaitTrue("owner of a render", fmt.Sprintf(aCard, "printers")+`.querySelector('.owner').checkVisibility()`)
	b.evaluate(`(field => { field.value = 'print'; field.dispatchEvent(new Event('change')) })(` + owner + `)`)
	b.awaitTrue("renders of one owner", `document.querySelectorAll('.card').length === 1 && `+fmt.Sprintf(aCard, "printers"))
	b.evaluate(`void (location.hash = '#/money')`)
	b.awaitTrue("groups of callers and owners", `document.querySelector('.choice input[value=OWNER]')`)
	b.clickElement("button to sign out", `document.querySelector('#leave')`)
	b.typeText("field for the token", `document.querySelector('#token')`, "poster-token")
	b.clickElement("button to sign in", `document.querySelector('.signin button')`)
	b.awaitTrue("own renders", fmt.Sprintf(aCard, "of the studio")+` && document.querySelectorAll('.card').length === 1`)
	b.awaitTrue("filter by model", `document.querySelector('[aria-label=Model]')`)
	if b.evaluate(owner) != nil {
		t.Error("a caller that is not an operator can choose an owner")
	}
	s.checkCalm(b)
}

func TestTheConsoleShowsOlderRendersOnScrolling(t *testing.T) {
	t.Parallel()
	const renders, page = 70, 60
	s := openStudio(t, "--speed", "20")
	for n := range renders {
		s.placeOrder("poster", "studio/haiku", map[string]any{"prompt": fmt.Sprintf("render %d.", n)}, nil)
	}
	b := s.signIn("poster", "light")
	prompts := `[...document.querySelectorAll('.prompt')].map(p => parseInt(p.innerText.split(' ')[1]))`
	if shown := b.evaluate(prompts + `.length`); shown != float64(page) {
		t.Errorf("the gallery begins with %v renders", shown)
	}
	b.evaluate(`scrollTo(0, document.body.scrollHeight)`)
	b.awaitTrue("all renders, newest first", prompts+`.join() === [...Array(`+strconv.Itoa(renders)+`).keys()].reverse().join()`)
	s.checkCalm(b)
}

func TestTheConsoleSavesUsageAsCSV(t *testing.T) {
	t.Parallel()
	s := openStudio(t, "--speed", "20")
	labels := []string{`=HYPERLINK("x")`, "+49 30", "-5", "@home", "Blatt \"A\", Rand", "日本", "plain"}
	for _, label := range labels {
		s.placeOrder("poster", "studio/haiku", map[string]any{"prompt": label}, map[string]string{"project": label})
	}
	b := s.signIn("poster", "light")
	directory := t.TempDir()
	b.callMethod(nil, "Browser.setDownloadBehavior", map[string]any{"behavior": "allow", "downloadPath": directory})
	b.evaluate(`void (location.hash = '#/money')`)
	b.clickElement("grouping by label", `document.querySelector('.choice input[value=LABEL]')`)
	b.typeText("name of the label", `document.querySelector('[aria-label="Name of the label"]')`, "project")
	b.pressKey("Enter")
	b.awaitTrue("rows", `document.querySelectorAll('tbody tr').length === `+strconv.Itoa(len(labels)))
	b.clickElement("link to the file", `document.querySelector('a[download]')`)
	rows := downloadedCSV(t, directory)
	want := [][]string{{"day", "labelValue", "orderCount", "failedCount", "unknownCount", "costCents", "refundedCents", "reservedCents", "unconfirmedCents", "currencyCode"}}
	for _, label := range labels {
		if strings.ContainsAny(label[:1], "=+-@") {
			label = "'" + label
		}
		want = append(want, []string{rows[1][0], label, "1", "0", "0", "1", "0", "0", "0", "EUR"})
	}
	byLabel := func(a, b []string) int { return cmp.Compare(a[1], b[1]) }
	slices.SortFunc(rows[1:], byLabel)
	slices.SortFunc(want[1:], byLabel)
	if _, err := time.Parse(time.DateOnly, rows[1][0]); err != nil || !slices.EqualFunc(rows, want, slices.Equal) {
		t.Errorf("%v; the file has %q, want %q", err, rows, want)
	}
	s.checkCalm(b)
}

// downloadedCSV waits until the browser has downloaded a CSV file to a directory, and returns the file's records. The test
// fails unless all lines end with CRLF.
func downloadedCSV(t *testing.T, directory string) [][]string {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) { // an incomplete file has a different name, which Glob does not find
		files, err := filepath.Glob(filepath.Join(directory, "easel-usage-*.csv"))
		if err != nil || len(files) == 0 {
			continue
		}
		text, err := os.ReadFile(files[0])
		rows, broken := csv.NewReader(bytes.NewReader(text)).ReadAll()
		if err != nil || broken != nil || bytes.Count(text, []byte("\n")) != bytes.Count(text, []byte("\r\n")) || len(rows) < 2 {
			t.Fatalf("%v, %v: %q", err, broken, text)
		}
		return rows
	}
	t.Fatal("the browser saved no file")
	return nil
}

func TestConsoleExplainsRejectionOfOrderByBudget(t *testing.T) {
	t.Parallel()
	s := openStudio(t)
	b := s.signIn("flyers", "dark")
	b.clickElement("link to order", `document.querySelector('nav a[href="#/order"]')`)
	b.typeText("prompt", promptInput, "a poster")
	b.awaitTrue("price", `/€0\.\d\d/.test(document.querySelector('output.price').textContent)`)
	b.clickElement("button to order", orderButton)
	b.awaitTrue("reason", `document.querySelector('.problem')?.innerText.includes('BUDGET_EXCEEDED')`)
	b.awaitTrue("amounts", `/remaining €0\.05/.test(document.querySelector('.problem').innerText)`)
	b.awaitTrue("outcome", `document.querySelector('.problem').innerText.includes('Nothing was ordered.')`)
	b.savePicture("console-refused")
	if b.evaluate(`sessionStorage.getItem('easel.order')`) != nil {
		t.Error("an order that was not placed is still stored")
	}
	s.checkCalm(b, "status of 402")
}

func TestConsoleShowsSignInFormAfterTokenIsRevoked(t *testing.T) {
	t.Parallel()
	s := openStudio(t)
	b := s.signIn("flyers", "light")
	writeConsoleCallers(t, s.callers, strings.Replace(consoleCallers, "  - {name: flyers", "  # - {name: flyers", 1))
	b.awaitTrue("form to sign in", `document.querySelector('#token') && document.querySelector('.problem').innerText.includes('CALLER_UNKNOWN')`)
	b.savePicture("console-withdrawn")
	if b.evaluate(`sessionStorage.getItem('easel.token')`) != nil {
		t.Error("a withdrawn token is still stored")
	}
	s.checkCalm(b, "status of 401")
}

func TestTheConsoleContinuesAfterARestartOfTheServer(t *testing.T) {
	t.Parallel()
	s := openStudio(t, "--speed", "20")
	b := s.signIn("poster", "light")
	s.placeOrder("poster", "studio/haiku", map[string]any{"prompt": "before"}, nil)
	b.awaitTrue("text of the first render", fmt.Sprintf(aCard, "before")+`?.querySelector('blockquote')`)
	s.process.Stop()
	b.awaitTrue("notice", `document.querySelector('#live').textContent === 'Reconnecting'`)
	s.start()
	b.awaitTrue("connection", `document.querySelector('#live').textContent === 'Live'`)
	s.placeOrder("poster", "studio/haiku", map[string]any{"prompt": "after"}, nil)
	b.awaitTrue("text of the second render", fmt.Sprintf(aCard, "after")+`?.querySelector('blockquote')`)
	s.checkCalm(b, "ERR_CONNECTION_REFUSED", "ERR_INCOMPLETE_CHUNKED_ENCODING", "ERR_CONNECTION_RESET", "status of 503")
}

func TestConsoleResendsOrderWithSameIdempotencyKey(t *testing.T) {
	t.Parallel()
	s := openStudio(t, "--speed", "20")
	b := s.signIn("poster", "light")
	b.evaluate(`void (location.hash = '#/order/studio/haiku')`)
	b.typeText("prompt", promptInput, "first snow")
	b.awaitTrue("price", `/€0\.\d\d/.test(document.querySelector('output.price').textContent)`)
	s.process.Stop()
	b.clickElement("button to order", orderButton)
	b.awaitTrue("explanation", `document.querySelector('.outcome')?.innerText.includes('same idempotency key')`)
	b.savePicture("console-unknown")
	key := b.evaluate(`JSON.parse(sessionStorage.getItem('easel.order')).key`)
	b.evaluate(`void (location.hash = '#/money')`)
	b.awaitTrue("money", `document.querySelector('.figures')`)
	if kept := b.evaluate(`JSON.parse(sessionStorage.getItem('easel.order')).key`); kept != key {
		t.Errorf("the idempotency key changed from %v to %v", key, kept)
	}
	s.start()
	b.evaluate(`void (location.hash = '#/order/studio/haiku')`)
	b.awaitTrue("text", `document.querySelector('.outcome blockquote')`)
	if kept := b.evaluate(`sessionStorage.getItem('easel.order')`); kept != nil {
		t.Errorf("the browser still stores %v although the outcome is known", kept)
	}
	b.evaluate(`void (location.hash = '#/gallery')`)
	b.awaitTrue("one card", `document.querySelectorAll('.card').length === 1 && document.querySelector('#live').textContent === 'Live'`)
	s.checkCalm(b, "ERR_CONNECTION_REFUSED", "ERR_INCOMPLETE_CHUNKED_ENCODING", "ERR_CONNECTION_RESET", "status of 503")
}

// TestConsoleScreenshotsAreWritten writes the screenshots to the directory that EASEL_SCREENSHOTS names. 'make screenshots'
// sets this variable.
func TestConsoleScreenshotsAreWritten(t *testing.T) {
	directory := os.Getenv("EASEL_SCREENSHOTS")
	if directory == "" {
		t.Skip("EASEL_SCREENSHOTS is not set")
	}
	s := openStudio(t, "--speed", "40", "--balance", "80.00")
	for n, prompt := range []string{
		"a calm sea at dusk", "Nebel über dem Tal, kurz vor Sonnenaufgang", "desert night, many stars", "snow on the high moor", "Ein Wald nach dem Regen",
		"storm over the strait", "forest at dawn", "mountains, first light", "ein See im Herbst, windstill", "sunset behind the dunes", "夕暮れの静かな海", "Winter am Fjord",
	} {
		s.placeOrder("poster", "studio/landscape", map[string]any{"prompt": prompt, "size": "640x400"}, map[string]string{"project": []string{"spring", "atlas", "cards"}[n%3]})
		if n%2 == 0 {
			s.placeOrder("poster", "studio/haiku", map[string]any{"prompt": prompt}, map[string]string{"project": "cards"})
		}
		if n%3 == 0 {
			s.placeOrder("ops", "studio/abstract", map[string]any{"prompt": "ink, " + prompt, "size": "640x400"}, map[string]string{"project": "atlas"})
		}
	}
	s.placeOrder("poster", "studio/landscape", map[string]any{"prompt": "a lake [fail]"}, map[string]string{"project": "spring"})
	s.placeOrder("flyers", "studio/haiku", map[string]any{"prompt": "thaw"}, nil)
	b := s.signIn("ops", "light")
	b.awaitTrue("end of all renders", `document.querySelectorAll('.card').length > 20 && !document.querySelector('.card .queued, .card .running')`)
	s.process.Stop()
	spreadOrders(t, s.flags[3]+".ledger", 14)
	s.start()
	s.placeOrder("poster", "studio/landscape", map[string]any{"prompt": "Ebbe im Watt, letzte Sonne", "size": "1024x640"}, map[string]string{"project": "spring"})
	for _, shot := range screenshots {
		b := s.signIn("ops", shot.scheme)
		b.callMethod(nil, "Emulation.setScrollbarsHidden", map[string]any{"hidden": true})
		b.callMethod(nil, "Emulation.setDeviceMetricsOverride", map[string]any{"width": shot.width, "height": shot.height, "deviceScaleFactor": 1, "mobile": false})
		b.openView(shot.view)
		save(b, filepath.Join(directory, fmt.Sprintf("console-%s-%d-%s.png", shot.view, shot.width, shot.scheme)))
		s.checkCalm(b)
	}
}

// screenshots contains the view, the color scheme and the window size of each screenshot. Together, the screenshots
// cover both widths and both color schemes.
var screenshots = []struct {
	view, scheme  string
	width, height int
}{
	{"gallery", "light", 1440, 900}, {"render", "dark", 1440, 900}, {"order", "dark", 800, 1000}, {"money", "light", 800, 1000},
}

// spreadOrders distributes the orders in a ledger over several days, and recomputes the rollups. A chart of a single day would
// show little.
func spreadOrders(t *testing.T, file string, days int) {
	t.Helper()
	db, err := sql.Open("sqlite", file)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for _, statement := range []string{
		fmt.Sprintf(`UPDATE orders SET order_time = order_time - 86400000000 * (rowid * 5 %% %d)`, days),
		`DELETE FROM rollups`,
		`INSERT INTO rollups SELECT order_time / 86400000000 * 86400000000, owner, caller, model_id, COUNT(*), SUM(status IN (3, 5)), SUM(COALESCE(cost_cents, 0)),
			SUM(refunded_cents), SUM(reserved_cents), SUM(unconfirmed_cents) FROM orders WHERE state = 2 GROUP BY 1, 2, 3, 4`,
	} {
		if _, err := db.ExecContext(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
}

// openView opens a view and waits until it is complete.
func (b *browser) openView(view string) {
	b.t.Helper()
	switch view {
	case "gallery":
		b.awaitTrue("gallery", `document.querySelectorAll('.card').length > 20 && document.querySelector('#live').textContent === 'Live'`)
		b.awaitTrue("pictures", `[...document.querySelectorAll('.card img')].filter(i => i.getBoundingClientRect().top < innerHeight).every(i => i.complete && i.classList.contains('drawn'))`)
	case "render":
		b.clickElement("render with a picture", fmt.Sprintf(aCard, "Ebbe im Watt"))
		b.awaitTrue("render", `document.querySelector('.large img.drawn')`)
	case "order":
		b.evaluate(`void (location.hash = '#/order/studio/landscape')`)
		b.typeText("prompt", promptInput, "Nordlicht über dem Fjord, ruhiges Wasser")
		b.awaitTrue("price", `/€0\.\d\d/.test(document.querySelector('output.price').textContent) && !document.querySelector('.price.old')`)
	case "money":
		b.evaluate(`void (location.hash = '#/money')`)
		b.awaitTrue("money", `document.querySelectorAll('.budget').length === 2 && document.querySelector('.chart rect') && document.querySelector('tfoot')`)
	}
}

// maxScreenshotBytes is the maximum size of a screenshot for the README.
const maxScreenshotBytes = 300 << 10

// save waits for the page's transitions, and then writes a screenshot with at most 256 colors and maximum compression. The
// test fails if the screenshot is larger than maxScreenshotBytes.
func save(b *browser, file string) {
	b.t.Helper()
	b.evaluate(`Promise.all(document.getAnimations().filter(a => a.effect.getComputedTiming().iterations !== Infinity).map(a => a.finished)).then(() => {})`)
	var shot struct{ Data []byte }
	b.callMethod(&shot, "Page.captureScreenshot", nil)
	picture, err := png.Decode(bytes.NewReader(shot.Data))
	if err != nil {
		b.t.Fatal(err)
	}
	var out bytes.Buffer
	if err := (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&out, reduceColors(picture)); err != nil {
		b.t.Fatal(err)
	}
	if out.Len() > maxScreenshotBytes {
		b.t.Errorf("%s is too large: %d bytes", file, out.Len())
	}
	proctest.Write(b.t, file, out.String())
}

// colorCount is a color and the number of its pixels in a picture.
type colorCount struct {
	color color.RGBA
	count int
}

func (c colorCount) channel(n int) int { return int([]uint8{c.color.R, c.color.G, c.color.B}[n]) }

// reduceColors returns a dithered picture with at most 256 colors. It keeps the most frequent colors, such as the background,
// and chooses the others by median cut.
func reduceColors(picture image.Image) *image.Paletted {
	counts := map[color.RGBA]int{}
	bounds := picture.Bounds()
	for y := bounds.Min.Y; y < bounds.Max.Y; y++ {
		for x := bounds.Min.X; x < bounds.Max.X; x++ {
			counts[color.RGBAModel.Convert(picture.At(x, y)).(color.RGBA)]++
		}
	}
	var all []colorCount
	for c, n := range counts {
		all = append(all, colorCount{c, n})
	}
	slices.SortFunc(all, func(a, b colorCount) int {
		return cmp.Or(cmp.Compare(b.count, a.count), cmp.Compare(a.color.R, b.color.R), cmp.Compare(a.color.G, b.color.G), cmp.Compare(a.color.B, b.color.B))
	})
	const exact = 40
	out := image.NewPaletted(bounds, nil)
	for _, c := range all[:min(exact, len(all))] {
		out.Palette = append(out.Palette, c.color)
	}
	for _, box := range divideColors(all[min(exact, len(all)):], 256-exact) {
		out.Palette = append(out.Palette, meanColor(box))
	}
	draw.FloydSteinberg.Draw(out, bounds, picture, bounds.Min)
	return out
}

// colorBox is a group of colors.
type colorBox struct {
	colors  []colorCount
	channel int     // color channel with the widest range of values
	weight  float64 // range of values in this channel, multiplied by the square root of the number of pixels
}

func newColorBox(colors []colorCount) colorBox {
	box, pixels := colorBox{colors: colors}, 0
	for _, c := range colors {
		pixels += c.count
	}
	for n := range 3 {
		by := func(a, b colorCount) int { return cmp.Compare(a.channel(n), b.channel(n)) }
		span := slices.MaxFunc(colors, by).channel(n) - slices.MinFunc(colors, by).channel(n)
		if weight := float64(span) * math.Sqrt(float64(pixels)); weight > box.weight {
			box.channel, box.weight = n, weight
		}
	}
	return box
}

// divideColors divides colors into up to the given number of boxes. In each step, it halves the box with the largest
// weight.
func divideColors(all []colorCount, most int) (divided [][]colorCount) {
	if len(all) == 0 {
		return nil
	}
	parts := []colorBox{newColorBox(all)}
	for len(parts) < most {
		n := 0
		for i := range parts {
			if parts[i].weight > parts[n].weight {
				n = i
			}
		}
		box := parts[n]
		if box.weight == 0 {
			break
		}
		slices.SortStableFunc(box.colors, func(a, b colorCount) int { return cmp.Compare(a.channel(box.channel), b.channel(box.channel)) })
		half := len(box.colors) / 2
		parts[n] = newColorBox(box.colors[:half])
		parts = append(parts, newColorBox(box.colors[half:]))
	}
	for _, box := range parts {
		divided = append(divided, box.colors)
	}
	return divided
}

// meanColor returns the mean color of the pixels whose colors are in a box, which is a group of similar colors.
func meanColor(box []colorCount) color.Color {
	var sums [3]int
	pixels := 0
	for _, c := range box {
		pixels += c.count
		for n := range sums {
			sums[n] += c.channel(n) * c.count
		}
	}
	return color.RGBA{uint8(sums[0] / pixels), uint8(sums[1] / pixels), uint8(sums[2] / pixels), 255}
}
