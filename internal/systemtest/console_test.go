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

// order places an order over REST. While the server is overloaded, order retries every second.
func (s *studio) order(caller, model string, inputs map[string]any, labels map[string]string) {
	s.t.Helper()
	body, err := json.Marshal(map[string]any{"modelId": model, "inputs": inputs, "labels": labels, "idempotencyKey": auth.Hash(fmt.Sprint(caller, model, inputs))})
	if err != nil {
		s.t.Fatal(err)
	}
	answer, text := proctest.Request(s.t, http.MethodPost, "http://"+s.rest+"/v1/generations", string(body), "Authorization", "Bearer "+caller+"-token")
	if answer.StatusCode == http.StatusTooManyRequests { // the server is overloaded
		time.Sleep(time.Second) // the delay that RetryInfo requests
		s.order(caller, model, inputs, labels)
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
	b.call(nil, "Page.navigate", map[string]any{"url": "http://" + s.rest + "/console"})
	b.write("field for the token", `document.querySelector('#token')`, token)
	b.press("button to sign in", `document.querySelector('.signin button')`)
	b.until("live gallery", `document.querySelector('#live').textContent === 'Live'`)
	return b
}

// calm checks that each error that the page has reported contains one of the texts in expected, and that the page sent no
// request to another host.
func (s *studio) calm(b *browser, expected ...string) {
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
	b.until("hint", `document.querySelector('.hint')`)
	b.picture("console-empty")
	b.press("way out of an empty gallery", `document.querySelector('.hint a')`)
	b.write("prompt", promptInput, "夕暮れの静かな海、Möwen über'm Watt")
	b.write("label", `document.querySelector('#labels')`, "project=spring")
	b.until("price", `/€0\.\d\d/.test(document.querySelector('output.price').textContent)`)
	b.press("button to order", orderButton)
	b.until("picture", `document.querySelector('.outcome img.drawn')`)
	b.picture("console-placed")
	if kept := b.value(`Object.keys(sessionStorage).sort().concat(Object.keys(localStorage), document.cookie).join()`); kept != "easel.session,easel.token," {
		t.Errorf("the browser stores %v", kept)
	}
	b.press("link to the render", `document.querySelector('.outcome a')`)
	b.until("large picture", `document.querySelector('.large img.drawn')`)
	b.until("end of the time line", `document.querySelector('.timeline li.done:last-child b').textContent === 'succeeded'`)
	b.until("inputs", `document.querySelector('.render dl').innerText.includes('夕暮れの静かな海')`)
	s.sameOrder(b)
	b.press("link to the gallery", `document.querySelector('nav a')`)
	b.until("card", fmt.Sprintf(aCard, "Möwen")+`?.querySelector('img.drawn')`)
	b.until("label", fmt.Sprintf(aCard, "Möwen")+`.innerText.includes('spring')`)
	for _, filter := range []struct{ label, want string }{
		{"project=autumn", `document.querySelector('.hint')?.innerText.includes('No render matches')`},
		{"project=spring", fmt.Sprintf(aCard, "Möwen")},
	} {
		b.value(`(field => { field.value = '` + filter.label + `'; field.dispatchEvent(new Event('change')) })(document.querySelector('[aria-label=Label]'))`)
		b.until("renders with "+filter.label, filter.want)
	}
	b.press("link to money", `document.querySelector('nav a[href="#/money"]')`)
	b.until("budgets", `document.querySelectorAll('.budget').length === 2`)
	b.until("chart", `document.querySelector('.chart rect')`)
	fits(b, "gallery", "order/studio/landscape", "money")
	s.calm(b)
}

// TestTheConsoleOrdersWithAnAPIKey follows the README: there is no callers file, and the user signs in with the API key
// that 'easel dev' has printed.
func TestTheConsoleOrdersWithAnAPIKey(t *testing.T) {
	t.Parallel()
	chromium(t)
	dev := proctest.StartDev(t, "--speed", "20")
	s := &studio{t: t, rest: proctest.Find(t, `console +http://(\S+)/console\n`, dev.Stdout.String())}
	b := openBrowser(t, "light")
	b.call(nil, "Page.navigate", map[string]any{"url": "http://" + s.rest + "/console"})
	b.write("field for the token", `document.querySelector('#token')`, "sandbox_live_wrong")
	b.press("button to sign in", `document.querySelector('.signin button')`)
	b.until("rejection", `document.querySelector('.signin .problem')?.innerText.includes('UPSTREAM_CREDENTIAL_REJECTED')`)
	s.calm(b, "status of 401")
	b = s.signInWith(dev.Key, "light")
	b.press("link to order", `document.querySelector('nav a[href="#/order"]')`)
	b.write("prompt", promptInput, "a calm sea at dusk")
	b.until("price and balance", `/€0\.\d\d/.test(document.querySelector('output.price').textContent) && document.querySelector('.order').innerText.includes('in the account')`)
	b.press("button to order", orderButton)
	b.until("picture", `document.querySelector('.outcome img.drawn')`)
	b.value(`void (location.hash = '#/money')`)
	b.until("balance and chart", `document.querySelector('.figures').innerText.includes('Balance') && document.querySelector('.chart rect')`)
	s.calm(b)
}

func TestConsoleRestoresInputsOfRepeatedOrder(t *testing.T) {
	t.Parallel()
	s := openStudio(t, "--speed", "20")
	b := s.signIn("ops", "light")
	b.value(`void (location.hash = '#/order/studio/landscape')`)
	b.write("prompt", promptInput, "a calm sea at dusk")
	b.write("seed", `document.querySelector('#input-seed')`, "9007199254740993")
	b.write("labels", `document.querySelector('#labels')`, "project=spring, note=a=b")
	b.write("expiry", `document.querySelector('#expires')`, "30")
	b.until("balance", `document.querySelector('.order').innerText.includes('€50.00 in the account')`)
	b.press("button to order", orderButton)
	b.until("balance after the order", `document.querySelector('.order').innerText.includes('€49.89 in the account')`)
	b.press("link to the render", `document.querySelector('.outcome a')`)
	b.until("command with all digits", `/inputsJson.*:9007199254740993}/.test(document.querySelector('pre')?.textContent)`)
	if out, err := runShell(t, fmt.Sprint(b.value(`document.querySelector('pre').textContent`)), "EASEL_API_KEY=ops-token"); err != nil {
		t.Errorf("curl: %v\n%s", err, out)
	}
	b.press("choice of Python", `[...document.querySelectorAll('.example label')].find(l => l.innerText === 'Python')`)
	b.until("program with all digits", `document.querySelector('pre').textContent.includes('"seed": 9007199254740993}')`)
	b.press("link to order again", `[...document.querySelectorAll('.actions a')].find(a => a.innerText === 'Order again')`)
	b.until("the same inputs and labels", `document.querySelector('#input-seed')?.value === '9007199254740993' && document.querySelector('#labels').value.split(', ').sort().join() === 'note=a=b,project=spring' && `+promptInput+`.value === 'a calm sea at dusk'`)
	b.until("price", `/€0\.\d\d/.test(document.querySelector('output.price').textContent)`)
	b.write("ceiling", `document.querySelector('#ceiling')`, "0.01")
	b.press("button to order", orderButton)
	b.until("error at the ceiling", `document.querySelector('#ceiling-error').innerText === 'The price of €0.11 exceeds the ceiling of €0.01.'`)
	b.until("order that was not placed", `document.querySelector('.problem').innerText.includes('Nothing was ordered.')`)
	s.calm(b, "status of 400")
}

// sameOrder checks the commands that the console shows for a render's order. It runs the curl command, checks the order
// in the arguments of the grpcurl command, and checks the syntax of the Python program.
func (s *studio) sameOrder(b *browser) {
	s.t.Helper()
	const code = `document.querySelector('pre').textContent`
	b.until("command", code+`.startsWith('curl')`)
	if out, err := runShell(s.t, fmt.Sprint(b.value(code)), "EASEL_API_KEY=poster-token"); err != nil || !strings.Contains(out, "夕暮れの静かな海、Möwen über'm Watt") || !strings.Contains(out, `"project":"spring"`) {
		s.t.Errorf("curl: %v\n%s", err, out)
	}
	b.press("choice of grpcurl", `[...document.querySelectorAll('.example label')].find(l => l.innerText === 'grpcurl')`)
	out, err := runShell(s.t, "grpcurl() { while [ \"$1\" != -d ]; do shift; done; printf %s \"$2\"; }\n"+fmt.Sprint(b.value(code)))
	var order struct {
		ModelID, IdempotencyKey string
		Inputs                  struct{ Prompt string }
	}
	if unreadable := json.Unmarshal([]byte(out), &order); err != nil || unreadable != nil || order.ModelID != "studio/landscape" || order.IdempotencyKey == "" || !strings.HasSuffix(order.Inputs.Prompt, "über'm Watt") {
		s.t.Errorf("grpcurl: %v, %v\n%s", err, unreadable, out)
	}
	b.press("choice of Python", `[...document.querySelectorAll('.example label')].find(l => l.innerText === 'Python')`)
	if out, err := runShell(s.t, `printf %s "$PROGRAM" | `+tool(s.t, "python3")+" -c 'import ast, sys; ast.parse(sys.stdin.read())'", fmt.Sprint("PROGRAM=", b.value(code))); err != nil {
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

// fits checks that each view fits into a window that is 700 pixels wide, and that its controls and pictures have names for
// screen readers.
func fits(b *browser, views ...string) {
	b.t.Helper()
	b.call(nil, "Emulation.setDeviceMetricsOverride", map[string]any{"width": 700, "height": 900, "deviceScaleFactor": 1, "mobile": false})
	for _, view := range views {
		b.value(`void (location.hash = '#/` + view + `')`)
		b.until("content of "+view, `document.querySelector('.card, #input-seed, tfoot')`)
		if excess := b.value(`document.documentElement.scrollWidth - document.documentElement.clientWidth`); excess != 0.0 {
			b.t.Errorf("%s is %v pixels too wide", view, excess)
		}
		b.wantNames(view)
		b.picture("console-narrow-" + strings.ReplaceAll(view, "/", "-"))
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
	b.call(&tree, "Accessibility.getFullAXTree", nil)
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

// key presses a key, such as Tab or Enter.
func (b *browser) key(name string) {
	b.t.Helper()
	code := map[string]int{"Tab": 9, "Enter": 13}[name]
	text := map[string]string{"Enter": "\r"}[name]
	b.call(nil, "Input.dispatchKeyEvent", map[string]any{"type": "keyDown", "key": name, "code": name, "windowsVirtualKeyCode": code, "text": text})
	b.call(nil, "Input.dispatchKeyEvent", map[string]any{"type": "keyUp", "key": name, "code": name, "windowsVirtualKeyCode": code})
}

// tab presses Tab until the element that a JavaScript expression returns has the focus. It checks that the focus is
// visible on every element on the way. The first argument describes the element in the failure message.
func (b *browser) tab(what, element string) {
	b.t.Helper()
	for range 30 {
		b.key("Tab")
		if b.value(`document.activeElement === `+element) == true {
			return
		}
		if b.value(`document.activeElement === document.body || document.activeElement.matches(':focus-visible')`) != true {
			b.t.Errorf("the focus is invisible on %v", b.value(`document.activeElement.outerHTML`))
		}
	}
	b.t.Fatalf("Tab does not reach the %s", what)
}

func TestTheConsoleWorksWithTheKeyboard(t *testing.T) {
	t.Parallel()
	s := openStudio(t, "--speed", "20")
	b := openBrowser(t, "light")
	b.call(nil, "Page.navigate", map[string]any{"url": "http://" + s.rest + "/console"})
	b.until("focus on the token", `document.activeElement?.id === 'token'`)
	b.call(nil, "Input.insertText", map[string]any{"text": "poster-token"})
	b.key("Enter")
	b.until("focus on the heading", `document.activeElement?.matches('h1') && document.activeElement.innerText === 'Gallery'`)
	b.value(`void (location.hash = '#/order/studio/haiku')`)
	b.until("focus on the heading", `document.activeElement?.matches('h1') && document.activeElement.innerText === 'Order'`)
	b.until("form", promptInput)
	b.tab("prompt", promptInput)
	b.call(nil, "Input.insertText", map[string]any{"text": "first snow"})
	b.until("price", `/€0\.\d\d/.test(document.querySelector('output.price').textContent)`)
	b.tab("ceiling", `document.querySelector('#ceiling')`)
	b.tab("labels", `document.querySelector('#labels')`)
	b.tab("button to order", orderButton)
	b.key("Enter")
	b.until("announcement", `document.querySelector('#said[aria-live]').textContent.includes('succeeded')`)
	b.tab("link to the render", `document.querySelector('.outcome a')`)
	b.key("Enter")
	b.until("focus on the render", `document.querySelector('.render blockquote') && document.title.startsWith('first snow')`)
	b.wantNames("render")
	s.calm(b)
}

func TestTheConsoleShowsAnOperatorTheRendersOfAllOwners(t *testing.T) {
	t.Parallel()
	s := openStudio(t, "--speed", "20")
	s.order("poster", "studio/haiku", map[string]any{"prompt": "of the studio"}, nil)
	s.order("flyers", "studio/haiku", map[string]any{"prompt": "of the printers"}, nil)
	b := s.signIn("ops", "light")
	owner := `document.querySelector('[aria-label=Owner]')`
	b.until("two cards", `document.querySelectorAll('.card').length === 2`)
	b.until("filter by owner", owner)
	b.until("owner of a render", fmt.Sprintf(aCard, "printers")+`.querySelector('.owner').checkVisibility()`)
	b.value(`(field => { field.value = 'print'; field.dispatchEvent(new Event('change')) })(` + owner + `)`)
	b.until("renders of one owner", `document.querySelectorAll('.card').length === 1 && `+fmt.Sprintf(aCard, "printers"))
	b.value(`void (location.hash = '#/money')`)
	b.until("groups of callers and owners", `document.querySelector('.choice input[value=OWNER]')`)
	b.press("button to sign out", `document.querySelector('#leave')`)
	b.write("field for the token", `document.querySelector('#token')`, "poster-token")
	b.press("button to sign in", `document.querySelector('.signin button')`)
	b.until("own renders", fmt.Sprintf(aCard, "of the studio")+` && document.querySelectorAll('.card').length === 1`)
	b.until("filter by model", `document.querySelector('[aria-label=Model]')`)
	if b.value(owner) != nil {
		t.Error("a caller that is not an operator can choose an owner")
	}
	s.calm(b)
}

func TestTheConsoleShowsOlderRendersOnScrolling(t *testing.T) {
	t.Parallel()
	const renders, page = 70, 60
	s := openStudio(t, "--speed", "20")
	for n := range renders {
		s.order("poster", "studio/haiku", map[string]any{"prompt": fmt.Sprintf("render %d.", n)}, nil)
	}
	b := s.signIn("poster", "light")
	prompts := `[...document.querySelectorAll('.prompt')].map(p => parseInt(p.innerText.split(' ')[1]))`
	if shown := b.value(prompts + `.length`); shown != float64(page) {
		t.Errorf("the gallery begins with %v renders", shown)
	}
	b.value(`scrollTo(0, document.body.scrollHeight)`)
	b.until("all renders, newest first", prompts+`.join() === [...Array(`+strconv.Itoa(renders)+`).keys()].reverse().join()`)
	s.calm(b)
}

func TestTheConsoleSavesUsageAsCSV(t *testing.T) {
	t.Parallel()
	s := openStudio(t, "--speed", "20")
	labels := []string{`=HYPERLINK("x")`, "+49 30", "-5", "@home", "Blatt \"A\", Rand", "日本", "plain"}
	for _, label := range labels {
		s.order("poster", "studio/haiku", map[string]any{"prompt": label}, map[string]string{"project": label})
	}
	b := s.signIn("poster", "light")
	directory := t.TempDir()
	b.call(nil, "Browser.setDownloadBehavior", map[string]any{"behavior": "allow", "downloadPath": directory})
	b.value(`void (location.hash = '#/money')`)
	b.press("grouping by label", `document.querySelector('.choice input[value=LABEL]')`)
	b.write("name of the label", `document.querySelector('[aria-label="Name of the label"]')`, "project")
	b.key("Enter")
	b.until("rows", `document.querySelectorAll('tbody tr').length === `+strconv.Itoa(len(labels)))
	b.press("link to the file", `document.querySelector('a[download]')`)
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
	s.calm(b)
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
	b.press("link to order", `document.querySelector('nav a[href="#/order"]')`)
	b.write("prompt", promptInput, "a poster")
	b.until("price", `/€0\.\d\d/.test(document.querySelector('output.price').textContent)`)
	b.press("button to order", orderButton)
	b.until("reason", `document.querySelector('.problem')?.innerText.includes('BUDGET_EXCEEDED')`)
	b.until("amounts", `/remaining €0\.05/.test(document.querySelector('.problem').innerText)`)
	b.until("outcome", `document.querySelector('.problem').innerText.includes('Nothing was ordered.')`)
	b.picture("console-refused")
	if b.value(`sessionStorage.getItem('easel.order')`) != nil {
		t.Error("an order that was not placed is still stored")
	}
	s.calm(b, "status of 402")
}

func TestConsoleShowsSignInFormAfterTokenIsRevoked(t *testing.T) {
	t.Parallel()
	s := openStudio(t)
	b := s.signIn("flyers", "light")
	writeConsoleCallers(t, s.callers, strings.Replace(consoleCallers, "  - {name: flyers", "  # - {name: flyers", 1))
	b.until("form to sign in", `document.querySelector('#token') && document.querySelector('.problem').innerText.includes('CALLER_UNKNOWN')`)
	b.picture("console-withdrawn")
	if b.value(`sessionStorage.getItem('easel.token')`) != nil {
		t.Error("a withdrawn token is still stored")
	}
	s.calm(b, "status of 401")
}

func TestTheConsoleContinuesAfterARestartOfTheServer(t *testing.T) {
	t.Parallel()
	s := openStudio(t, "--speed", "20")
	b := s.signIn("poster", "light")
	s.order("poster", "studio/haiku", map[string]any{"prompt": "before"}, nil)
	b.until("text of the first render", fmt.Sprintf(aCard, "before")+`?.querySelector('blockquote')`)
	s.process.Stop()
	b.until("notice", `document.querySelector('#live').textContent === 'Reconnecting'`)
	s.start()
	b.until("connection", `document.querySelector('#live').textContent === 'Live'`)
	s.order("poster", "studio/haiku", map[string]any{"prompt": "after"}, nil)
	b.until("text of the second render", fmt.Sprintf(aCard, "after")+`?.querySelector('blockquote')`)
	s.calm(b, "ERR_CONNECTION_REFUSED", "ERR_INCOMPLETE_CHUNKED_ENCODING", "ERR_CONNECTION_RESET", "status of 503")
}

func TestConsoleResendsOrderWithSameIdempotencyKey(t *testing.T) {
	t.Parallel()
	s := openStudio(t, "--speed", "20")
	b := s.signIn("poster", "light")
	b.value(`void (location.hash = '#/order/studio/haiku')`)
	b.write("prompt", promptInput, "first snow")
	b.until("price", `/€0\.\d\d/.test(document.querySelector('output.price').textContent)`)
	s.process.Stop()
	b.press("button to order", orderButton)
	b.until("explanation", `document.querySelector('.outcome')?.innerText.includes('same idempotency key')`)
	b.picture("console-unknown")
	key := b.value(`JSON.parse(sessionStorage.getItem('easel.order')).key`)
	b.value(`void (location.hash = '#/money')`)
	b.until("money", `document.querySelector('.figures')`)
	if kept := b.value(`JSON.parse(sessionStorage.getItem('easel.order')).key`); kept != key {
		t.Errorf("the idempotency key changed from %v to %v", key, kept)
	}
	s.start()
	b.value(`void (location.hash = '#/order/studio/haiku')`)
	b.until("text", `document.querySelector('.outcome blockquote')`)
	if kept := b.value(`sessionStorage.getItem('easel.order')`); kept != nil {
		t.Errorf("the browser still stores %v although the outcome is known", kept)
	}
	b.value(`void (location.hash = '#/gallery')`)
	b.until("one card", `document.querySelectorAll('.card').length === 1 && document.querySelector('#live').textContent === 'Live'`)
	s.calm(b, "ERR_CONNECTION_REFUSED", "ERR_INCOMPLETE_CHUNKED_ENCODING", "ERR_CONNECTION_RESET", "status of 503")
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
		s.order("poster", "studio/landscape", map[string]any{"prompt": prompt, "size": "640x400"}, map[string]string{"project": []string{"spring", "atlas", "cards"}[n%3]})
		if n%2 == 0 {
			s.order("poster", "studio/haiku", map[string]any{"prompt": prompt}, map[string]string{"project": "cards"})
		}
		if n%3 == 0 {
			s.order("ops", "studio/abstract", map[string]any{"prompt": "ink, " + prompt, "size": "640x400"}, map[string]string{"project": "atlas"})
		}
	}
	s.order("poster", "studio/landscape", map[string]any{"prompt": "a lake [fail]"}, map[string]string{"project": "spring"})
	s.order("flyers", "studio/haiku", map[string]any{"prompt": "thaw"}, nil)
	b := s.signIn("ops", "light")
	b.until("end of all renders", `document.querySelectorAll('.card').length > 20 && !document.querySelector('.card .queued, .card .running')`)
	s.process.Stop()
	spreadOrders(t, s.flags[3]+".ledger", 14)
	s.start()
	s.order("poster", "studio/landscape", map[string]any{"prompt": "Ebbe im Watt, letzte Sonne", "size": "1024x640"}, map[string]string{"project": "spring"})
	for _, shot := range screenshots {
		b := s.signIn("ops", shot.scheme)
		b.call(nil, "Emulation.setScrollbarsHidden", map[string]any{"hidden": true})
		b.call(nil, "Emulation.setDeviceMetricsOverride", map[string]any{"width": shot.width, "height": shot.height, "deviceScaleFactor": 1, "mobile": false})
		b.show(shot.view)
		save(b, filepath.Join(directory, fmt.Sprintf("console-%s-%d-%s.png", shot.view, shot.width, shot.scheme)))
		s.calm(b)
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

// show opens a view and waits until it is complete.
func (b *browser) show(view string) {
	b.t.Helper()
	switch view {
	case "gallery":
		b.until("gallery", `document.querySelectorAll('.card').length > 20 && document.querySelector('#live').textContent === 'Live'`)
		b.until("pictures", `[...document.querySelectorAll('.card img')].filter(i => i.getBoundingClientRect().top < innerHeight).every(i => i.complete && i.classList.contains('drawn'))`)
	case "render":
		b.press("render with a picture", fmt.Sprintf(aCard, "Ebbe im Watt"))
		b.until("render", `document.querySelector('.large img.drawn')`)
	case "order":
		b.value(`void (location.hash = '#/order/studio/landscape')`)
		b.write("prompt", promptInput, "Nordlicht über dem Fjord, ruhiges Wasser")
		b.until("price", `/€0\.\d\d/.test(document.querySelector('output.price').textContent) && !document.querySelector('.price.old')`)
	case "money":
		b.value(`void (location.hash = '#/money')`)
		b.until("money", `document.querySelectorAll('.budget').length === 2 && document.querySelector('.chart rect') && document.querySelector('tfoot')`)
	}
}

// maxScreenshotBytes is the maximum size of a screenshot for the README.
const maxScreenshotBytes = 300 << 10

// save waits for the page's transitions, and then writes a screenshot with at most 256 colors and maximum compression. The
// test fails if the screenshot is larger than maxScreenshotBytes.
func save(b *browser, file string) {
	b.t.Helper()
	b.value(`Promise.all(document.getAnimations().filter(a => a.effect.getComputedTiming().iterations !== Infinity).map(a => a.finished)).then(() => {})`)
	var shot struct{ Data []byte }
	b.call(&shot, "Page.captureScreenshot", nil)
	picture, err := png.Decode(bytes.NewReader(shot.Data))
	if err != nil {
		b.t.Fatal(err)
	}
	var out bytes.Buffer
	if err := (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&out, paletted(picture)); err != nil {
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

// paletted returns a dithered picture with at most 256 colors. It keeps the most frequent colors, such as the background, and
// chooses the others by median cut.
func paletted(picture image.Image) *image.Paletted {
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
	for _, box := range boxes(all[min(exact, len(all)):], 256-exact) {
		out.Palette = append(out.Palette, mean(box))
	}
	draw.FloydSteinberg.Draw(out, bounds, picture, bounds.Min)
	return out
}

// colorBox is a group of colors. channel is the color channel with the widest range of values. weight is this range,
// multiplied by the square root of the number of pixels.
type colorBox struct {
	colors  []colorCount
	channel int
	weight  float64
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

// boxes divides colors into up to the given number of boxes. In each step, it halves the box with the largest weight.
func boxes(all []colorCount, most int) (divided [][]colorCount) {
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

// mean returns the mean color of the pixels whose colors are in a box, which is a group of similar colors.
func mean(box []colorCount) color.Color {
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
