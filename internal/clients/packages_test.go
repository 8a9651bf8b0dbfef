package clients

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/easel-grpc/easel/internal/proctest"
)

// built describes the packages that `make` creates below .build, by language. holds maps a pattern for the path of a
// required file to a pattern for the file's content.
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
				t.Errorf("%s has no file %s that contains %q", filepath.Base(path), name, text)
			}
		}
	}
}

// onlyOne returns the only package that matches a pattern. It ignores the jars of sources and Javadoc.
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

// unpack returns the contents of the files in an archive, by name.
func unpack(t *testing.T, path string) (files map[string]string) {
	t.Helper()
	data, files := []byte(proctest.Read(t, path)), map[string]string{}
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
