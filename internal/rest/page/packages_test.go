package page

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func getPackage(t *testing.T, directory, path string) (int, string) {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://easel.example"+path, nil)
	w := httptest.NewRecorder()
	Packages(directory)["/packages"].ServeHTTP(w, r)
	body, err := io.ReadAll(w.Result().Body)
	if err != nil {
		t.Fatal(err)
	}
	return w.Code, string(body)
}

func TestPackagesAreListedAndHandedOut(t *testing.T) {
	base := t.TempDir()
	directory := filepath.Join(base, "packages")
	for path, text := range map[string]string{
		"secret.whl": "outside", "packages/easel_grpc-0.1.0-py3-none-any.whl": "a wheel", "packages/easel-grpc-easel-0.1.0.tgz": "a tarball",
		"packages/easel-grpc-0.1.0.jar": "a jar", "packages/.hidden.jar": "hidden", "packages/notes.txt": "notes",
	} {
		if err := os.MkdirAll(directory, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(base, filepath.FromSlash(path)), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(filepath.Join("..", "secret.whl"), filepath.Join(directory, "link.whl")); err != nil {
		t.Fatal(err)
	}
	_, list := getPackage(t, directory, "/packages")
	for _, part := range []string{
		"pip install http://easel.example/packages/easel_grpc-0.1.0-py3-none-any.whl", "npm install http://easel.example/packages/easel-grpc-easel-0.1.0.tgz",
		`href="/packages/easel-grpc-0.1.0.jar"`,
	} {
		if !strings.Contains(list, part) {
			t.Errorf("%q is not in\n%s", part, list)
		}
	}
	for _, name := range []string{"hidden", "notes"} {
		if strings.Contains(list, name) {
			t.Errorf("%q is in\n%s", name, list)
		}
	}
	if code, body := getPackage(t, directory, "/packages/easel-grpc-0.1.0.jar"); code != http.StatusOK || body != "a jar" {
		t.Errorf("the jar is %d %q", code, body)
	}
	for _, path := range []string{"/packages/link.whl", "/packages/.hidden.jar", "/packages/notes.txt", "/packages/../secret.whl", "/packages/none.whl"} {
		if code, body := getPackage(t, directory, path); code != http.StatusNotFound {
			t.Errorf("%s is %d %q", path, code, body)
		}
	}
}

func TestWithoutADirectoryThereAreNoPackages(t *testing.T) {
	if code, list := getPackage(t, "", "/packages/"); code != http.StatusOK || !strings.Contains(list, "no packages") {
		t.Errorf("the list is %d %s", code, list)
	}
	if code, _ := getPackage(t, "", "/packages/easel-grpc-0.1.0.jar"); code != http.StatusNotFound {
		t.Errorf("a package is %d", code)
	}
}
