package systemtest

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/easel-grpc/easel/internal/proctest"
)

// commands contains the names of all programs that .ci/publish can find in its PATH. None of them is a compiler,
// so the script cannot build anything. It downloads only from the test's servers.
var commands = strings.Fields("bash env curl jq gpg gpgconf zip unzip node tar gzip openssl base64 sha512sum sha256sum sha1sum md5sum " +
	"sed awk grep cut cat cp tee mkdir mktemp rm seq sleep dirname")

// stubs contains, by program name, the scripts that replace programs whose servers are not simulated. Each
// script records its arguments.
var stubs = map[string]string{
	"gh": `case "$2" in
view) cat "$CALLED.draft" 2>/dev/null || { echo 'release not found' >&2; exit 1; } ;;
create) echo true >"$CALLED.draft" ;;
esac`,
	"skopeo": `echo sha256:image >.build/image/digest`,
	"helm":   `printf 'Pushed: charts/easel\nDigest: sha256:chart\n'`,
}

// publishing is a checkout with the output of .ci/release, together with the simulated registries.
type publishing struct {
	dir, bin, home string
	packages       map[string]string
	registries     *registries
	said           strings.Builder
}

func newPublishing(t *testing.T) *publishing {
	p := &publishing{dir: t.TempDir(), bin: t.TempDir(), home: t.TempDir(), packages: packages(t)}
	npm := proctest.FromRoot(t, ".build", "npm")
	if _, err := os.Stat(npm); err != nil {
		t.Skip(".build/npm is missing (make .build/npm): publishing is NOT checked")
	}
	for _, command := range commands {
		if err := os.Symlink(tool(t, command), filepath.Join(p.bin, command)); err != nil {
			t.Fatal(err)
		}
	}
	for name, script := range stubs {
		write(t, filepath.Join(p.bin, name), "#!/usr/bin/env bash\necho \"${0##*/} $*\" >>\"$CALLED\"\n"+script+"\n")
	}
	for _, name := range []string{"publish", "npm.sha512"} {
		write(t, filepath.Join(p.dir, ".ci", name), proctest.Read(t, ".ci", name))
	}
	for _, name := range []string{"notes.md", "release/easel.tar.gz", "release/easel.sbom.json", "release/checksums.txt", "image/easel.tar", "chart/easel-1.2.3-rc.1.tgz"} {
		write(t, filepath.Join(p.dir, ".build", name), name)
	}
	for name, content := range p.packages {
		write(t, filepath.Join(p.dir, ".build", "packages", name), content)
	}
	if err := os.Symlink(npm, filepath.Join(p.dir, ".build", "npm")); err != nil {
		t.Fatal(err)
	}
	p.registries = startRegistries(t)
	return p
}

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o755); err != nil { //nolint:gosec // some files must be executable
		t.Fatal(err)
	}
}

// packages returns minimal versions of the packages that `make` builds, by file name.
func packages(t *testing.T) map[string]string {
	t.Helper()
	wheel := zipped(t, map[string]string{"easel_grpc-1.2.3rc1.dist-info/METADATA": "Metadata-Version: 2.4\nName: easel-grpc\nVersion: 1.2.3rc1\n" +
		"Summary: A client: it orders\nProject-URL: Homepage, https://easel.example\nClassifier: Typing :: Typed\nRequires-Python: >=3.10\n" +
		"License-File: LICENSE\nLicense-File: NOTICE\nRequires-Dist: grpcio>=1.65.1\nRequires-Dist: types-grpcio; extra == \"types\"\nProvides-Extra: types\n\n# Easel\n\nName: of the text\n"})
	jar := zipped(t, map[string]string{
		"META-INF/maven/io.github.easel-grpc/easel-grpc/pom.properties": "artifactId=easel-grpc\ngroupId=io.github.easel-grpc\nversion=1.2.3-rc.1\n",
		"META-INF/maven/io.github.easel-grpc/easel-grpc/pom.xml":        "<project/>\n",
	})
	return map[string]string{
		"easel_grpc-1.2.3rc1-py3-none-any.whl": wheel,
		"easel-grpc-easel-1.2.3-rc.1.tgz":      tarred(t, "package/package.json", `{"name": "@easel-grpc/easel", "version": "1.2.3-rc.1", "scripts": {"prepublishOnly": "exit 1"}}`),
		"easel-grpc-1.2.3-rc.1.jar":            jar, "easel-grpc-1.2.3-rc.1-sources.jar": "sources", "easel-grpc-1.2.3-rc.1-javadoc.jar": "pages",
		"easel.binpb": "descriptors",
	}
}

func zipped(t *testing.T, files map[string]string) string {
	t.Helper()
	var out bytes.Buffer
	archive := zip.NewWriter(&out)
	for name, content := range files {
		if w, err := archive.Create(name); err != nil {
			t.Fatal(err)
		} else if _, err := w.Write([]byte(content)); err != nil {
			t.Fatal(err)
		}
	}
	if err := archive.Close(); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func tarred(t *testing.T, name, content string) string {
	t.Helper()
	var out bytes.Buffer
	packed := gzip.NewWriter(&out)
	archive := tar.NewWriter(packed)
	if err := archive.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(content))}); err != nil {
		t.Fatal(err)
	}
	if _, err := archive.Write([]byte(content)); err != nil {
		t.Fatal(err)
	}
	if err := archive.Close(); err != nil {
		t.Fatal(err)
	}
	if err := packed.Close(); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// run runs .ci/publish with the given variables in addition to the usual environment. It returns the output of
// the script, and whether the script succeeded.
func (p *publishing) run(t *testing.T, environment map[string]string) (said string, ok bool) {
	t.Helper()
	script := exec.CommandContext(t.Context(), filepath.Join(p.dir, ".ci", "publish"))
	script.Env = slices.Concat(proctest.Environ(environment), proctest.Environ(map[string]string{
		"PATH": p.bin, "HOME": p.home, "CALLED": filepath.Join(p.home, "called"), "VERSION": "v1.2.3-rc.1", "REGISTRY": "images.example/easel-grpc",
		"GITHUB_ACTIONS": "true", "GH_TOKEN": githubToken,
		"ACTIONS_ID_TOKEN_REQUEST_URL": p.registries.URL + "/identity?version=2", "ACTIONS_ID_TOKEN_REQUEST_TOKEN": requestToken,
	}))
	out, err := script.CombinedOutput()
	p.said.Write(out)
	return string(out), err == nil
}

// addresses returns environment variables for the publishing job: the addresses of the simulated registries, and
// the secrets for Maven Central. The other registries need no secrets in the environment.
func (p *publishing) addresses() map[string]string {
	url := p.registries.URL
	return map[string]string{
		"PYPI_URL": url + "/pypi", "PYPI_UPLOAD_URL": url + "/pypi/legacy/", "NPM_URL": url, "CENTRAL_URL": url,
		"CENTRAL_USERNAME": "portal", "CENTRAL_PASSWORD": portalPassword, "CENTRAL_SIGNING_KEY": p.registries.signingKey, "CENTRAL_SIGNING_PASSPHRASE": passphrase,
	}
}

// calledCommands returns the command lines that were recorded by the stubs for gh, helm and other programs.
func (p *publishing) calledCommands(t *testing.T) string {
	t.Helper()
	return proctest.Read(t, p.home, "called")
}

func TestRepeatedPublishingCompletesPartialRelease(t *testing.T) {
	t.Parallel()
	p := newPublishing(t)
	p.registries.refuseBundles(true)
	if said, ok := p.run(t, p.addresses()); ok || p.registries.uploads() != "PyPI 1, npm 1, Central 0" {
		t.Fatalf("Central rejects the bundle; succeeded: %v, uploads: %s\n%s", ok, p.registries.uploads(), said)
	}
	p.registries.refuseBundles(false)
	for range 2 {
		if said, ok := p.run(t, p.addresses()); !ok || p.registries.uploads() != "PyPI 1, npm 1, Central 1" {
			t.Fatalf("Central accepts the bundle; succeeded: %v, uploads: %s\n%s", ok, p.registries.uploads(), said)
		}
	}
	p.registries.checkUploads(t, p.packages)
	const files = " .build/release/easel.tar.gz .build/release/easel.sbom.json .build/release/checksums.txt .build/packages/easel"
	called := p.calledCommands(t)
	for call, times := range map[string]int{
		"gh release create v1.2.3-rc.1 --draft --verify-tag --prerelease --title v1.2.3-rc.1 --notes-file .build/notes.md" + files:                     1,
		"gh release upload v1.2.3-rc.1 --clobber" + files:                                                                                              2,
		"skopeo copy --all --digestfile .build/image/digest oci-archive:.build/image/easel.tar docker://images.example/easel-grpc/easel:v1.2.3-rc.1\n": 3,
		"helm push .build/chart/easel-1.2.3-rc.1.tgz oci://images.example/easel-grpc/charts\n":                                                         3,
	} {
		if strings.Count(called, call) != times {
			t.Errorf("%q does not occur %d times in\n%s", call, times, called)
		}
	}
	if !strings.Contains(p.said.String(), "image=sha256:image\nchart=sha256:chart\n") {
		t.Errorf("the output lacks the digests of the image and the chart:\n%s", &p.said)
	}
	p.checkSecrets(t)
}

// checkSecrets checks that neither the output of the script nor the files that it leaves behind contain a secret.
func (p *publishing) checkSecrets(t *testing.T) {
	t.Helper()
	places := map[string]string{"the output": p.said.String()}
	for _, dir := range []string{p.dir, p.home} {
		err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
			if err != nil || !entry.Type().IsRegular() {
				return err
			}
			text, err := os.ReadFile(path)
			places[path] = string(text)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	secrets := p.registries.secrets()
	for place, text := range places {
		for _, secret := range secrets {
			if strings.Contains(text, secret) {
				t.Errorf("%s contains the secret %s", place, secret)
			}
		}
	}
	if len(secrets) < 8 || len(places) < 10 {
		t.Errorf("searched for only %d secrets in %d places", len(secrets), len(places))
	}
}

func TestPublishingRejectsChangedBytesOfPublishedPackage(t *testing.T) {
	t.Parallel()
	for name, other := range map[string]string{
		"easel_grpc-1.2.3rc1-py3-none-any.whl": packages(t)["easel_grpc-1.2.3rc1-py3-none-any.whl"] + " ",
		"easel-grpc-easel-1.2.3-rc.1.tgz":      tarred(t, "package/package.json", `{"name": "@easel-grpc/easel", "version": "1.2.3-rc.1"}`),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPublishing(t)
			if said, ok := p.run(t, p.addresses()); !ok {
				t.Fatal(said)
			}
			write(t, filepath.Join(p.dir, ".build", "packages", name), other)
			if said, ok := p.run(t, p.addresses()); ok || !strings.Contains(said, "has other bytes of v1.2.3-rc.1") || p.registries.uploads() != "PyPI 1, npm 1, Central 1" {
				t.Errorf("succeeded: %v, uploads: %s\n%s", ok, p.registries.uploads(), said)
			}
		})
	}
}

func TestPublishingReportsSkippedRegistries(t *testing.T) {
	t.Parallel()
	p := newPublishing(t)
	said, ok := p.run(t, map[string]string{"CENTRAL_URL": p.registries.URL, "CENTRAL_USERNAME": ""})
	for _, sentence := range []string{"PYPI_URL is not set: the wheel", "NPM_URL is not set: the package", "CENTRAL_USERNAME is not set: the jars"} {
		if !ok || strings.Count(said, sentence) != 1 {
			t.Errorf("succeeded: %v, output without %q:\n%s", ok, sentence, said)
		}
	}
	if p.registries.uploads() != "PyPI 0, npm 0, Central 0" {
		t.Error(p.registries.uploads())
	}
}

func TestPublishingRejectsNpmWithWrongChecksum(t *testing.T) {
	t.Parallel()
	p := newPublishing(t)
	write(t, filepath.Join(p.dir, ".ci", "npm.sha512"), strings.Replace(proctest.Read(t, ".ci", "npm.sha512"), "e", "f", 1))
	if said, ok := p.run(t, p.addresses()); ok || !strings.Contains(said, "did NOT match") || p.registries.uploads() != "PyPI 1, npm 0, Central 0" {
		t.Errorf("succeeded: %v, uploads: %s\n%s", ok, p.registries.uploads(), said)
	}
}
