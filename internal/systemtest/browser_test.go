package systemtest

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// browser is a headless Chromium with one page. The test sends commands in Chromium's protocol over two pipes.
// Commands and responses are JSON documents, each followed by a zero byte.
type browser struct {
	t       *testing.T
	to      *os.File
	session string // ID of the page's session in Chromium's protocol

	mu      sync.Mutex
	last    int
	waiting map[int]chan browserMessage
	asked   []string // URLs of all requests that the page has sent
	errors  []string // errors and warnings that the page has reported
}

type browserMessage struct {
	ID     int             `json:"id,omitempty"`
	Method string          `json:"method,omitempty"`
	Params json.RawMessage `json:"params,omitempty"`
	Result json.RawMessage `json:"result,omitempty"`
	Error  json.RawMessage `json:"error,omitempty"`
}

func chromium(t *testing.T) string {
	t.Helper()
	return tool(t, "chromium", "chromium-browser", "google-chrome")
}

// openBrowser starts Chromium with an empty profile and opens an empty page. scheme is the preferred color scheme:
// light or dark.
func openBrowser(t *testing.T, scheme string) *browser {
	t.Helper()
	program := chromium(t)
	theirIn, to := pipe(t)
	from, theirOut := pipe(t)
	command := exec.CommandContext(t.Context(), program, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic",
		"--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage",
		"--remote-debugging-pipe", "--user-data-dir="+emptyProfile(t), "about:blank")
	command.ExtraFiles = []*os.File{theirIn, theirOut} // the child's descriptors 3 and 4, over which it receives commands and sends responses
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	theirIn.Close()
	theirOut.Close()
	b := &browser{t: t, to: to, waiting: map[int]chan browserMessage{}}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		b.read(from)
	}()
	t.Cleanup(func() {
		_, _ = b.send("", "Browser.close", nil)
		<-ended
		_ = command.Wait() // the exit code is irrelevant
	})
	b.open(scheme)
	return b
}

// emptyProfile returns an empty directory, which is removed at the end of the test. The removal is retried, because the
// browser's child processes can still write to the directory for a moment after the browser has exited.
func emptyProfile(t *testing.T) string {
	t.Helper()
	directory, err := os.MkdirTemp("", "easel-browser-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for deadline := time.Now().Add(10 * time.Second); os.RemoveAll(directory) != nil; time.Sleep(20 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Errorf("the profile %s can't be removed", directory)
				return
			}
		}
	})
	return directory
}

func pipe(t *testing.T) (read, write *os.File) {
	t.Helper()
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { read.Close(); write.Close() })
	return read, write
}

func (b *browser) open(scheme string) {
	b.t.Helper()
	var target struct{ TargetID string }
	b.callMethod(&target, "Target.createTarget", map[string]any{"url": "about:blank"})
	var attached struct{ SessionID string }
	b.callMethod(&attached, "Target.attachToTarget", map[string]any{"targetId": target.TargetID, "flatten": true})
	b.session = attached.SessionID
	for _, domain := range []string{"Page", "Runtime", "Network", "Log"} {
		b.callMethod(nil, domain+".enable", nil)
	}
	b.callMethod(nil, "Emulation.setEmulatedMedia", map[string]any{"features": []map[string]string{{"name": "prefers-color-scheme", "value": scheme}}})
	b.callMethod(nil, "Emulation.setDeviceMetricsOverride", map[string]any{"width": 1360, "height": 900, "deviceScaleFactor": 1, "mobile": false})
}

// read reads the browser's messages from a pipe until the pipe is closed.
func (b *browser) read(from *os.File) {
	documents := bufio.NewScanner(from)
	documents.Buffer(nil, 64<<20) // large enough for a screenshot, which is a single JSON document
	documents.Split(func(data []byte, _ bool) (int, []byte, error) {
		if end := bytes.IndexByte(data, 0); end >= 0 {
			return end + 1, data[:end], nil
		}
		return 0, nil, nil
	})
	for documents.Scan() {
		var m browserMessage
		if err := json.Unmarshal(documents.Bytes(), &m); err != nil {
			continue // ignores an invalid message; if it was the response to a call, the call times out
		}
		b.note(m)
	}
}

func (b *browser) note(m browserMessage) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if answer := b.waiting[m.ID]; answer != nil {
		delete(b.waiting, m.ID)
		answer <- m
		return
	}
	var event struct {
		Request struct{ URL string }
		Type    string
		Entry   struct{ Level, Text, URL string }
	}
	_ = json.Unmarshal(m.Params, &event) // errors are ignored, because the members of other events may have other types
	switch {
	case m.Method == "Network.requestWillBeSent":
		b.asked = append(b.asked, event.Request.URL)
	case m.Method == "Runtime.exceptionThrown", m.Method == "Runtime.consoleAPICalled" && (event.Type == "error" || event.Type == "warning"),
		m.Method == "Log.entryAdded" && event.Entry.Level == "error":
		b.errors = append(b.errors, string(m.Params))
	}
}

func (b *browser) send(session, method string, params any) (<-chan browserMessage, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.last++
	text, err := json.Marshal(map[string]any{"id": b.last, "method": method, "params": params, "sessionId": session})
	if session == "" {
		text, err = json.Marshal(map[string]any{"id": b.last, "method": method, "params": params})
	}
	if err != nil {
		return nil, err
	}
	answer := make(chan browserMessage, 1)
	b.waiting[b.last] = answer
	_, err = b.to.Write(append(text, 0)) //nolint:gosec // this write does not block, because a command fits into the pipe's buffer
	return answer, err
}

// callMethod calls a method of Chromium's protocol and decodes the response into result, which may be nil.
func (b *browser) callMethod(result any, method string, params map[string]any) {
	b.t.Helper()
	if params == nil {
		params = map[string]any{}
	}
	answer, err := b.send(b.session, method, params)
	if err != nil {
		b.t.Fatal(err)
	}
	select {
	case m := <-answer:
		if m.Error != nil {
			b.t.Fatalf("%s: %s", method, m.Error)
		}
		if result != nil {
			if err := json.Unmarshal(m.Result, result); err != nil {
				b.t.Fatalf("%s: %v in the result %s", method, err, m.Result)
			}
		}
	case <-time.After(time.Minute):
		b.t.Fatalf("%s: the browser does not respond", method)
	}
}

// evaluate evaluates a JavaScript expression in the page and returns its value. If the expression returns a promise,
// evaluate waits for the promise and returns its result.
func (b *browser) evaluate(expression string) any {
	b.t.Helper()
	var answer struct {
		Result           struct{ Value any }
		ExceptionDetails json.RawMessage
	}
	b.callMethod(&answer, "Runtime.evaluate", map[string]any{"expression": expression, "returnByValue": true, "awaitPromise": true})
	if answer.ExceptionDetails != nil {
		b.t.Fatalf("%s: %s", expression, answer.ExceptionDetails)
	}
	return answer.Result.Value
}

// awaitTrue waits up to a minute for a JavaScript expression to become true. In the failure message, the string
// condition describes what the test waits for.
func (b *browser) awaitTrue(condition, expression string) {
	b.t.Helper()
	for deadline := time.Now().Add(time.Minute); b.evaluate("!!("+expression+")") != true; time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			b.savePicture("failure")
			b.t.Fatalf("no %s; the page shows\n%.3000s\n%s", condition, b.evaluate("document.body.innerText"), strings.Join(b.complaints(), "\n"))
		}
	}
}

// clickElement waits for the element that a JavaScript expression returns, and clicks it. The first argument describes
// the element in failure messages.
func (b *browser) clickElement(what, element string) {
	b.t.Helper()
	b.awaitTrue(what, element)
	b.evaluate("void (" + element + ").click()")
}

// typeText waits for the element that a JavaScript expression returns, and types text into it. The first argument
// describes the element in failure messages.
func (b *browser) typeText(what, element, text string) {
	b.t.Helper()
	b.awaitTrue(what, element)
	b.evaluate("void (" + element + ").focus()")
	b.callMethod(nil, "Input.insertText", map[string]any{"text": text})
}

func (b *browser) complaints() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.errors
}

// foreignRequests returns the URLs of all requests to hosts other than the given one.
func (b *browser) foreignRequests(host string) (others []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, address := range b.asked {
		if !strings.HasPrefix(address, "http://"+host+"/") && !strings.HasPrefix(address, "data:") && !strings.HasPrefix(address, "blob:") {
			others = append(others, address)
		}
	}
	return others
}

// savePicture saves a screenshot in the directory that EASEL_PICTURES names. If the variable is not set, savePicture
// does nothing.
func (b *browser) savePicture(name string) {
	b.t.Helper()
	directory := os.Getenv("EASEL_PICTURES")
	if directory == "" {
		return
	}
	var shot struct{ Data string }
	b.callMethod(&shot, "Page.captureScreenshot", nil)
	data, err := base64.StdEncoding.DecodeString(shot.Data)
	if err == nil {
		err = os.WriteFile(filepath.Join(directory, fmt.Sprintf("page-%s.png", name)), data, 0o600)
	}
	if err != nil {
		b.t.Error(err)
	}
}
