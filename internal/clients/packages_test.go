package clients

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/easel-grpc/easel/internal/proctest"
)

// built has the packages that make creates below .build, by language. holds has the required files of each package: a
// pattern of the path, and a pattern of the content.
var built = map[string]struct {
	files string
	holds map[string]string
}{
	"python": {"easel_grpc-*.whl", map[string]string{
		`\.dist-info/licenses/LICENSE$`: `Apache License`,
		`\.dist-info/licenses/NOTICE$`:  `The Easel authors`,
		`\.dist-info/METADATA$`:         `(?s)\nVersion: VERSION\n.*License-Expression: Apache-2\.0\n.*Project-URL: Homepage, https://.*\n\n.*client\.order\(`,
		`^easel_grpc/py\.typed$`:        ``,
		`^easel_grpc/connection\.py$`:   `__version__ = "VERSION"`,
		`^easel_grpc/v1/.*_pb2\.pyi$`:   ``,
	}},
	"typescript": {"easel-grpc-easel-*.tgz", map[string]string{
		`^package/LICENSE$`:             `Apache License`,
		`^package/NOTICE$`:              `Google LLC`,
		`^package/README\.md$`:          `order\(`,
		`^package/package\.json$`:       `(?s)"version": "VERSION".*"license": "Apache-2\.0".*"homepage": "https://`,
		`^package/src/easel\.d\.ts$`:    ``,
		`error_details_pb\.js$`:         ``,
		`^package/src/connection\.js$`:  `version = "VERSION"`,
		`^package/src/easel/v1/index\.`: ``,
	}},
	"java": {"easel-grpc-*.jar", map[string]string{
		`^META-INF/LICENSE$`:           `Apache License`,
		`^META-INF/NOTICE$`:            `The Easel authors`,
		`^META-INF/MANIFEST\.MF$`:      `Implementation-Version: VERSION\r?\n`,
		`^META-INF/MANIFEST\.MF`:       `Automatic-Module-Name: io\.github\.easelgrpc\.easel\r?\n`,
		`^META-INF/maven/.*/pom\.xml$`: `(?s)<version>VERSION</version>.*<url>https://.*<name>Apache-2\.0</name>`,
	}},
}

func TestEachPackageHasItsLicenceItsNoticeAndItsTypes(t *testing.T) {
	t.Parallel()
	for language, want := range built {
		if !strings.Contains(*languages, language) {
			continue
		}
		path := onlyOne(t, want.files)
		files, version := unpack(t, path), proctest.Find(t, `-(\d+\.\d+\.\d.*?)(?:-py3-none-any\.whl|\.tgz|\.jar)$`, filepath.Base(path))
		for name, text := range want.holds {
			if !holds(files, regexp.MustCompile(name), regexp.MustCompile(strings.ReplaceAll(text, "VERSION", regexp.QuoteMeta(version)))) {
				t.Errorf("%s has no %s that says %q", filepath.Base(path), name, text)
			}
		}
	}
}

// onlyOne returns the only package that matches a pattern. It ignores the jars of sources and Javadoc.
func onlyOne(t *testing.T, pattern string) (path string) {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(proctest.Root, ".build", "packages", pattern))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range found {
		if !strings.HasSuffix(f, "-sources.jar") && !strings.HasSuffix(f, "-javadoc.jar") {
			if path != "" {
				t.Fatalf("there are %s and %s", path, f)
			}
			path = f
		}
	}
	if path == "" {
		t.Fatalf("there is no %s: make packages builds it", pattern)
	}
	return path
}

// unpack returns the contents of the files in an archive by name.
func unpack(t *testing.T, path string) (files map[string]string) {
	t.Helper()
	data, files := readFile(t, path), map[string]string{}
	var err error
	if strings.HasSuffix(path, ".tgz") {
		err = untar(data, files)
	} else {
		err = unzip(data, files)
	}
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func untar(data []byte, files map[string]string) error {
	plain, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return err
	}
	for archive := tar.NewReader(plain); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		text, err := io.ReadAll(archive)
		if err != nil {
			return err
		}
		files[header.Name] = string(text)
	}
}

func unzip(data []byte, files map[string]string) error {
	archive, err := zip.NewReader(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		return err
	}
	for _, entry := range archive.File {
		in, err := entry.Open()
		if err != nil {
			return err
		}
		text, err := io.ReadAll(in)
		if err := errors.Join(err, in.Close()); err != nil {
			return err
		}
		files[entry.Name] = string(text)
	}
	return nil
}

func holds(files map[string]string, name, text *regexp.Regexp) bool {
	for path, content := range files {
		if name.MatchString(path) && text.MatchString(content) {
			return true
		}
	}
	return false
}

// hideOtherLanguages links all commands of this machine into bin, except the commands of other languages than Python.
func hideOtherLanguages(t *testing.T, bin string) {
	t.Helper()
	others := []string{"go", "gofmt", "node", "npm", "npx", "mvn", "java", "javac", "cargo", "rustc"}
	for _, dir := range filepath.SplitList(os.Getenv("PATH")) {
		entries, err := os.ReadDir(dir)
		if err != nil {
			continue // PATH may have missing directories
		}
		for _, entry := range entries {
			if slices.Contains(others, entry.Name()) {
				continue
			}
			if err := os.Symlink(filepath.Join(dir, entry.Name()), filepath.Join(bin, entry.Name())); err != nil && !errors.Is(err, fs.ErrExist) {
				t.Fatal(err)
			}
		}
	}
}

// TestThePackageForPythonNeedsPythonAlone builds the package with a PATH that has only Python of all languages.
func TestThePackageForPythonNeedsPythonAlone(t *testing.T) {
	t.Parallel()
	if !strings.Contains(*languages, "python") {
		t.Skip("make test-clients builds packages")
	}
	work, bin := t.TempDir(), t.TempDir()
	hideOtherLanguages(t, bin)
	for _, name := range []string{"Makefile", "LICENSE", "NOTICE", "clients/python", "gen/python", "internal/tools/python"} {
		from, to := filepath.Join(proctest.Root, name), filepath.Join(work, name)
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			t.Fatal(err)
		}
		if out, err := exec.CommandContext(t.Context(), "cp", "-R", from, to).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	build := exec.CommandContext(t.Context(), "make", "package-python", "VERSION=v1.2.3-rc.1")
	build.Dir, build.Env = work, []string{"PATH=" + bin, "HOME=" + work}
	for _, name := range []string{"PIP_INDEX_URL", "PIP_CERT", "SSL_CERT_FILE", "HTTPS_PROXY", "NO_PROXY"} { // settings with which pip reaches its index
		build.Env = append(build.Env, name+"="+os.Getenv(name))
	}
	out, err := build.CombinedOutput()
	if _, missing := os.Stat(filepath.Join(work, ".build", "packages", "easel_grpc-1.2.3rc1-py3-none-any.whl")); err != nil || missing != nil {
		t.Errorf("%v, %v\n%s", err, missing, out)
	}
}
