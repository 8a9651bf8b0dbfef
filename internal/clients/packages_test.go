package clients

import (
	"archive/zip"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/easel-grpc/easel/internal/proctest"
)

// built describes the packages that 'make packages' creates in .build/packages, keyed by language.
var built = map[string]struct {
	files string            // pattern for the file name of the package
	holds map[string]string // pattern for the content of each required file, keyed by a pattern for its path
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

func TestEachClientPackageContainsRequiredFiles(t *testing.T) {
	t.Parallel()
	for language, want := range built {
		if !strings.Contains(*languages, language) {
			continue
		}
		path := onlyOne(t, want.files)
		files, version := unpack(t, path), proctest.Find(t, `-(\d+\.\d+\.\d.*?)(?:-py3-none-any\.whl|\.tgz|\.jar)$`, filepath.Base(path))
		for name, text := range want.holds {
			if !containsFile(t, files, regexp.MustCompile(name), regexp.MustCompile(strings.ReplaceAll(text, "VERSION", regexp.QuoteMeta(version)))) {
				t.Errorf("%s has no file %s that contains %q", filepath.Base(path), name, text)
			}
		}
	}
}

// onlyOne returns the path of the only package that matches a pattern. It ignores jars with sources or Javadoc.
func onlyOne(t *testing.T, pattern string) (path string) {
	t.Helper()
	found, err := filepath.Glob(proctest.FromRoot(t, ".build", "packages", pattern))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range found {
		if !strings.HasSuffix(f, "-sources.jar") && !strings.HasSuffix(f, "-javadoc.jar") {
			if path != "" {
				t.Fatalf("more than one package: %s and %s", path, f)
			}
			path = f
		}
	}
	if path == "" {
		t.Fatalf("%s is missing; run make packages", pattern)
	}
	return path
}

// unpack returns the files in an archive.
func unpack(t *testing.T, path string) fs.FS {
	t.Helper()
	if strings.HasSuffix(path, ".tgz") {
		dir := t.TempDir()
		proctest.Run(t, exec.CommandContext(t.Context(), "tar", "-xzf", path, "-C", dir))
		return os.DirFS(dir)
	}
	archive, err := zip.OpenReader(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { archive.Close() })
	return archive
}

// containsFile reports whether there is a file whose path matches the pattern name and whose content matches the
// pattern text.
func containsFile(t *testing.T, files fs.FS, name, text *regexp.Regexp) (found bool) {
	t.Helper()
	err := fs.WalkDir(files, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !name.MatchString(path) {
			return err
		}
		content, err := fs.ReadFile(files, path)
		found = found || text.Match(content)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}
