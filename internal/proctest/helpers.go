package proctest

import (
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Eventually calls isMet every 20 ms until it returns true, and fails the test if this takes longer than limit. The
// failure message contains condition, which describes what isMet checks, and the results of the functions in details.
func Eventually(t testing.TB, limit time.Duration, condition string, isMet func() bool, details ...func() string) {
	t.Helper()
	for end := time.Now().Add(limit); !isMet(); time.Sleep(20 * time.Millisecond) {
		if time.Now().Before(end) {
			continue
		}
		text := ""
		for _, one := range details {
			text += "\n" + one()
		}
		t.Fatalf("condition not met within %v: %s%s", limit, condition, text)
	}
}

// Write writes a file that only its owner can read. It replaces the content of an existing file.
func Write(t testing.TB, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// File writes text to a new temporary file and returns the path.
func File(t testing.TB, text string) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "file")
	Write(t, path, text)
	return path
}

// FromRoot joins the elements of a path, and returns the absolute path. A relative path is resolved from [Root].
func FromRoot(t testing.TB, path ...string) string {
	t.Helper()
	file := filepath.Join(path...)
	if filepath.IsAbs(file) {
		return file
	}
	file, err := filepath.Abs(filepath.Join(Root, file))
	if err != nil {
		t.Fatal(err)
	}
	return file
}

// Read returns the content of a file. A relative path is resolved from [Root].
func Read(t testing.TB, path ...string) string {
	t.Helper()
	text, err := os.ReadFile(FromRoot(t, path...))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// Run runs a command and returns its combined standard output and standard error. It fails the test if the command
// fails.
func Run(t testing.TB, command *exec.Cmd) string {
	t.Helper()
	text, err := command.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", command.Path, err, text)
	}
	return string(text)
}

// Request sends an HTTP request with text as its body, and returns the response and the body of the response. header
// contains alternating names and values.
func Request(t testing.TB, method, url, text string, header ...string) (answer *http.Response, body []byte) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	for n := 0; n < len(header); n += 2 {
		r.Header.Set(header[n], header[n+1])
	}
	r.Host = r.Header.Get("Host") // if header contains no Host, r.Host is empty, and the host in the URL is sent
	if answer, err = http.DefaultClient.Do(r); err == nil {
		defer answer.Body.Close()
		body, err = io.ReadAll(answer.Body)
	}
	if err != nil {
		t.Fatal(err)
	}
	return answer, body
}

// Fetch sends an HTTP request and returns the body of the response. It fails the test if the status is not 2xx.
func Fetch(t testing.TB, method, url, text string, header ...string) string {
	t.Helper()
	answer, body := Request(t, method, url, text, header...) //nolint:bodyclose // Request closes the body
	if answer.StatusCode/100 != 2 {
		t.Fatalf("%s %s: %s\n%s", method, url, answer.Status, body)
	}
	return string(body)
}
