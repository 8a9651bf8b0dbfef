package main

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/easel-grpc/easel/internal/proctest"
	"github.com/easel-grpc/easel/internal/telemetry"
)

func TestCopyIsServedWhileCatalogIsDown(t *testing.T) {
	box, dir := startSandbox(t, "--speed", "100"), t.TempDir()
	served := startServe(t, box.sharedSettings().With(proctest.Settings{
		"EASEL_LEDGER_URL": "sqlite:" + filepath.Join(dir, "ledger.db"), "EASEL_CONTENT_URL": "file:" + filepath.Join(dir, "results"),
	}))
	addr := served.addr
	made := easel(t.Context(), nil, "generate", "studio/landscape", "prompt=sea", "size=64x40", "--watch", "-o", "json", "--addr", addr("grpc"))
	text := easel(t.Context(), nil, "generate", "studio/haiku", "prompt=sea", "--watch", "-o", "json", "--addr", addr("grpc"))
	if made.exit != exitOK || text.exit != exitOK {
		t.Fatal(made.stderr, text.stderr)
	}
	id := func(printed string) string { return proctest.Find(t, `"generationId": ?"([^"]+)"`, printed) }
	at := func(printed string) string {
		return "http://" + addr("http") + "/v1/generations/" + id(printed) + "/content"
	}
	for _, one := range []string{made.stdout, text.stdout} {
		proctest.Eventually(t, 20*time.Second, "copy of "+one, func() bool {
			answer, _ := proctest.Request(t, http.MethodHead, at(one), "")
			return answer.Header.Get("Easel-Content-Source") == "copy"
		}, served.stderr.String)
	}
	whole, want := proctest.Request(t, http.MethodGet, at(made.stdout), "")
	box.stop()
	verify := []string{"content", "verify", "--bytes", "--ledger-url", "sqlite:" + filepath.Join(dir, "ledger.db"), "--content-url", "file:" + filepath.Join(dir, "results")}
	if got := easel(t.Context(), nil, verify...); got.exit != exitOK || !strings.HasPrefix(got.stdout, "2 copies of ") {
		t.Errorf("exit %d\n%s%s", got.exit, got.stdout, got.stderr)
	}

	second := filepath.Join(dir, "second.png")
	if got := easel(t.Context(), nil, "download", id(made.stdout), "--out", second, "--addr", addr("grpc")); got.exit != exitOK {
		t.Fatalf("exit %d\n%s%s", got.exit, got.stdout, got.stderr)
	}
	if got, err := os.ReadFile(second); err != nil || !bytes.Equal(got, want) || !bytes.HasPrefix(got, []byte("\x89PNG")) {
		t.Errorf("the downloaded file has %d bytes, want %d: %v", len(got), len(want), err)
	}
	holdContents(t, addr("admin"))
	etag := whole.Header.Get("Etag")
	for _, one := range []struct {
		header []string
		status int
		body   []byte
	}{
		{nil, http.StatusOK, want},
		{[]string{"Range", "bytes=10-19", "If-Range", etag}, http.StatusPartialContent, want[10:20]},
		{[]string{"If-None-Match", etag}, http.StatusNotModified, nil},
	} {
		answer, body := proctest.Request(t, http.MethodGet, at(made.stdout), "", one.header...)
		if answer.StatusCode != one.status || one.status < 300 && !bytes.Equal(body, one.body) {
			t.Errorf("header %q: %s, %d bytes", one.header, answer.Status, len(body))
		}
		if one.status < 300 && (answer.Header.Get("Etag") != etag || answer.Header.Get("Easel-Content-Source") != "copy" || answer.Header.Get("Content-Type") != "image/png") {
			t.Errorf("header %q: got response header %v", one.header, answer.Header)
		}
	}
	if answer, body := proctest.Request(t, http.MethodGet, at(text.stdout), ""); answer.StatusCode != http.StatusOK || answer.Header.Get("Content-Type") != "text/plain; charset=utf-8" || !strings.Contains(string(body), "\n") {
		t.Errorf("text result: got %s %q", answer.Status, body)
	}

	fetch := func(args ...string) printed {
		return easelEnv(t.Context(), nil, map[string]string{"EASEL_ADMIN_ADDR": addr("admin")}, append([]string{"content"}, args...)...)
	}
	for _, step := range []struct {
		exit int
		want string
		args []string
	}{
		{exitRetry, id(made.stdout) + " is not copied: ", []string{"fetch", id(made.stdout)}}, // 'easel content fetch' fails here, because the catalog is not running
		{exitUsage, "the ledger has no render gen_nowhere", []string{"fetch", "gen_nowhere"}},
		{exitUsage, "the ledger was not copied or restored", []string{"adopt"}},
	} {
		if got := fetch(step.args...); got.exit != step.exit || !strings.Contains(got.stdout+got.stderr, step.want) {
			t.Errorf("%q: exit %d\n%s%s", step.args, got.exit, got.stdout, got.stderr)
		}
	}
	if answer, body := proctest.Request(t, http.MethodGet, at(made.stdout), ""); answer.Header.Get("Easel-Content-Source") != "copy" || !bytes.Equal(body, want) {
		t.Errorf("after the failed fetch, got %s with %d bytes", answer.Status, len(body))
	}

	erased := easelEnv(t.Context(), nil, map[string]string{"EASEL_ADMIN_ADDR": addr("admin")}, "erase", "--generation", id(made.stdout))
	if erased.exit != exitOK {
		t.Errorf("exit %d\n%s%s", erased.exit, erased.stdout, erased.stderr)
	}
	left := 0
	err := filepath.WalkDir(filepath.Join(dir, "results"), func(name string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		left++
		data, err := os.ReadFile(name)
		if bytes.Contains(data, want[:100]) {
			t.Errorf("%s still has the erased bytes", name)
		}
		return err
	})
	if err != nil || left != 1 {
		t.Errorf("%d copies are left, want 1: %v", left, err)
	}
}

// holdContents checks that the metrics of a server count two copies and no failed ones, and that its status page
// reports that results are copied. admin is the address of the server's admin listener.
func holdContents(t *testing.T, admin string) {
	t.Helper()
	_, metrics := proctest.Request(t, http.MethodGet, "http://"+admin+"/metrics", "")
	for _, row := range telemetry.Table {
		if row.From == telemetry.Contents && !strings.Contains(string(metrics), "\n"+row.Prometheus()) {
			t.Errorf("no value for %s", row.Name)
		}
	}
	for _, want := range []string{`easel_content_copies_total{easel_content_outcome="copied"} 2`, `easel_content_copies_total{easel_content_outcome="failed"} 0`} {
		if !strings.Contains(string(metrics), "\n"+want+"\n") {
			t.Errorf("the metrics lack %s", want)
		}
	}
	if _, status := proctest.Request(t, http.MethodGet, "http://"+admin+"/status.json", ""); !strings.Contains(string(status), `"copies":true`) {
		t.Errorf("the status page does not report copies: %s", status)
	}
}

// TestResultRedirectIsFollowedOnlyToAllowedHost uses a catalog that redirects downloads to an address at which no server
// listens. The status of Easel's response shows whether Easel followed the redirect.
func TestResultRedirectIsFollowedOnlyToAllowedHost(t *testing.T) {
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "https://127.0.0.1:1/file", http.StatusFound)
	}))
	t.Cleanup(upstream.Close)
	for hosts, want := range map[string]int{"": http.StatusInternalServerError, "127.0.0.1:1": http.StatusServiceUnavailable} {
		rest := startServe(t, map[string]string{"EASEL_UPSTREAM_URL": upstream.URL, "EASEL_UPSTREAM_KEY_FILE": proctest.File(t, "key\n"), "EASEL_CONTENT_HOSTS": hosts}).addr("http")
		if answer, body := proctest.Request(t, http.MethodGet, "http://"+rest+"/v1/generations/gen_1/content", ""); answer.StatusCode != want {
			t.Errorf("content hosts %q: got %s %s", hosts, answer.Status, body)
		}
	}
}
