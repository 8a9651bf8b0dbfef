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

// slowReader does something whenever a part of an answer has come.
type slowReader struct {
	*httptest.ResponseRecorder
	came func()
}

func (r slowReader) Write(p []byte) (int, error) {
	defer r.came()
	return r.ResponseRecorder.Write(p)
}

func TestAPackageIsOpenOnlyWhileAPieceIsRead(t *testing.T) {
	directory := t.TempDir()
	file := filepath.Join(directory, "easel.jar")
	write := func(file, of string) {
		if err := os.WriteFile(file, []byte(strings.Repeat(of, 1<<20)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	get := func(came func()) string {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://easel.example/packages/easel.jar", nil)
		w := slowReader{httptest.NewRecorder(), came}
		Packages(directory)["/packages/{name}"].ServeHTTP(w, r)
		return w.Body.String()
	}
	write(file, "a")
	pieces := 0
	whole := get(func() {
		pieces++
		fds, _ := filepath.Glob("/proc/self/fd/*") // elsewhere there are none
		for _, fd := range fds {
			if name, _ := os.Readlink(fd); name == file {
				t.Error("the file is open while its reader takes a piece")
			}
		}
	})
	if whole != strings.Repeat("a", 1<<20) || pieces < 2 {
		t.Errorf("%d bytes came in %d pieces", len(whole), pieces)
	}
	write(file+".new", "b")
	part := get(func() {
		if err := os.Rename(file+".new", file); err != nil && !os.IsNotExist(err) {
			t.Error(err)
		}
	})
	if len(part) == 1<<20 || strings.Contains(part, "b") {
		t.Errorf("of a package that is replaced meanwhile %d bytes come, as if they were one file", len(part))
	}
}
