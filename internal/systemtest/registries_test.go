package systemtest

import (
	"archive/zip"
	"bytes"
	"crypto/md5"  //nolint:gosec // Maven Central requires MD5 checksums
	"crypto/sha1" //nolint:gosec // Maven Central requires SHA-1 checksums
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Secrets of a publishing job. The last two are the tokens that PyPI and npm issue.
const (
	githubToken, requestToken  = "secret-of-the-draft", "secret-of-the-job"
	portalPassword, passphrase = "secret-of-the-portal", "secret-of-the-key"
	mintedByPyPI, mintedByNPM  = "secret-minted-by-pypi", "secret-minted-by-npm"
)

// registries simulates the job's identity provider, PyPI, the npm registry and Maven Central, as their
// documentation describes them. It records all uploads.
type registries struct {
	*httptest.Server
	signingKey, publicKey string

	mu      sync.Mutex
	refuses bool // whether Maven Central rejects uploads
	wheels  []wheelUpload
	npm     []npmUpload
	bundles []string
	looked  int // number of requests for the status of the last upload to Maven Central
	fault   []string
}

type wheelUpload struct {
	name, content string
	form          map[string][]string
}

type npmUpload struct {
	Name        string            `json:"name"`
	Access      string            `json:"access"`
	Tags        map[string]string `json:"dist-tags"`
	Versions    map[string]any    `json:"versions"`
	Attachments map[string]struct {
		Data []byte `json:"data"`
	} `json:"_attachments"`
}

func startRegistries(t *testing.T) *registries {
	t.Helper()
	r := &registries{}
	r.makeKey(t)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /identity", r.identity)
	mux.HandleFunc("GET /pypi/_/oidc/audience", answers(http.StatusOK, `{"audience": "pypi-audience"}`))
	mux.HandleFunc("POST /pypi/_/oidc/mint-token", r.mintForPyPI)
	mux.HandleFunc("GET /pypi/pypi/easel-grpc/1.2.3rc1/json", r.listWheels)
	mux.HandleFunc("POST /pypi/legacy/", r.takeWheel)
	mux.HandleFunc("POST /-/npm/v1/oidc/token/exchange/package/{name}", r.mintForNPM)
	mux.HandleFunc("GET /{name}", r.listNPM)
	mux.HandleFunc("PUT /{name}", r.takeNPM)
	mux.HandleFunc("GET /api/v1/publisher/published", r.isPublished)
	mux.HandleFunc("POST /api/v1/publisher/upload", r.takeBundle)
	mux.HandleFunc("POST /api/v1/publisher/status", r.status)
	mux.HandleFunc("/", func(w http.ResponseWriter, q *http.Request) { r.refuse(w, q, http.StatusNotFound) })
	r.Server = httptest.NewServer(mux)
	t.Cleanup(r.Close)
	t.Cleanup(func() {
		for _, fault := range r.fault {
			t.Error(fault)
		}
	})
	return r
}

// makeKey creates the key that signs files for Maven Central.
func (r *registries) makeKey(t *testing.T) {
	t.Helper()
	home := gpgHome(t)
	write(t, filepath.Join(home, "gpg-agent.conf"), "s2k-count 65536\n") // a test does not need slow hashing of the passphrase
	r.gpg(t, home, "--passphrase", passphrase, "--quick-gen-key", "Easel <easel@easel.example>", "ed25519", "sign", "never")
	r.signingKey = r.gpg(t, home, "--passphrase", passphrase, "--armor", "--export-secret-keys")
	r.publicKey = r.gpg(t, home, "--armor", "--export")
}

// gpgHome creates a directory for gpg. Its path is short, because gpg creates a socket in it and socket paths must be short.
func gpgHome(t *testing.T) string {
	t.Helper()
	home, err := os.MkdirTemp("", "gpg")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = exec.Command("gpgconf", "--homedir", home, "--kill", "all").Run()
		_ = os.RemoveAll(home)
	})
	return home
}

func (r *registries) gpg(t *testing.T, home string, arguments ...string) string {
	t.Helper()
	command := exec.CommandContext(t.Context(), tool(t, "gpg"), append([]string{"--homedir", home, "--batch", "--quiet", "--pinentry-mode", "loopback"}, arguments...)...)
	var stderr bytes.Buffer
	command.Stderr = &stderr
	out, err := command.Output()
	if err != nil {
		t.Fatalf("gpg %v: %v\n%s", arguments, err, &stderr)
	}
	return string(out)
}

func answers(status int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

// refuse responds to an unexpected request with an error status, and records it as a fault.
func (r *registries) refuse(w http.ResponseWriter, q *http.Request, status int) {
	r.mu.Lock()
	r.fault = append(r.fault, fmt.Sprintf("%s %s by %q was answered %d", q.Method, q.RequestURI, q.UserAgent(), status))
	r.mu.Unlock()
	w.WriteHeader(status)
}

// identityFor returns an identity token whose claims can be decoded. The claims declare the repository private, because
// a public repository would need a provenance statement, which only GitHub can sign.
func identityFor(audience string) string {
	claims := base64.RawURLEncoding.EncodeToString([]byte(`{"aud": "` + audience + `", "repository_visibility": "private"}`))
	return "e30." + claims + ".secret-signature"
}

func (r *registries) identity(w http.ResponseWriter, q *http.Request) {
	if q.Header.Get("Authorization") != "Bearer "+requestToken || q.FormValue("version") != "2" {
		r.refuse(w, q, http.StatusUnauthorized)
		return
	}
	answers(http.StatusOK, `{"value": "`+identityFor(q.FormValue("audience"))+`"}`)(w, q)
}

func (r *registries) mintForPyPI(w http.ResponseWriter, q *http.Request) {
	var asked struct{ Token string }
	if err := json.NewDecoder(q.Body).Decode(&asked); err != nil || asked.Token != identityFor("pypi-audience") {
		r.refuse(w, q, http.StatusUnprocessableEntity)
		return
	}
	answers(http.StatusOK, `{"success": true, "token": "`+mintedByPyPI+`"}`)(w, q)
}

func (r *registries) listWheels(w http.ResponseWriter, q *http.Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.wheels) == 0 {
		answers(http.StatusNotFound, `{"message": "Not Found"}`)(w, q)
		return
	}
	answers(http.StatusOK, fmt.Sprintf(`{"urls": [{"filename": "another.tar.gz", "digests": {"sha256": "0"}}, {"filename": %q, "digests": {"sha256": "%x"}}]}`,
		r.wheels[0].name, sha256.Sum256([]byte(r.wheels[0].content))))(w, q)
}

func (r *registries) takeWheel(w http.ResponseWriter, q *http.Request) {
	user, password, _ := q.BasicAuth()
	file, header, err := q.FormFile("content")
	if err != nil || user != "__token__" || password != mintedByPyPI {
		r.refuse(w, q, http.StatusForbidden)
		return
	}
	content, err := io.ReadAll(file)
	if err != nil || q.FormValue("sha256_digest") != fmt.Sprintf("%x", sha256.Sum256(content)) {
		r.refuse(w, q, http.StatusBadRequest)
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.wheels = append(r.wheels, wheelUpload{header.Filename, string(content), q.MultipartForm.Value})
}

func (r *registries) mintForNPM(w http.ResponseWriter, q *http.Request) {
	if q.PathValue("name") != "@easel-grpc/easel" || q.Header.Get("Authorization") != "Bearer "+identityFor("npm:127.0.0.1") {
		r.refuse(w, q, http.StatusUnauthorized)
		return
	}
	answers(http.StatusCreated, `{"token": "`+mintedByNPM+`"}`)(w, q)
}

func (r *registries) listNPM(w http.ResponseWriter, q *http.Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.npm) == 0 {
		answers(http.StatusNotFound, `{"error": "Not found"}`)(w, q)
		return
	}
	body, _ := json.Marshal(map[string]any{"name": r.npm[0].Name, "versions": r.npm[0].Versions, "dist-tags": r.npm[0].Tags})
	answers(http.StatusOK, string(body))(w, q)
}

func (r *registries) takeNPM(w http.ResponseWriter, q *http.Request) {
	var upload npmUpload
	if err := json.NewDecoder(q.Body).Decode(&upload); err != nil || q.Header.Get("Authorization") != "Bearer "+mintedByNPM {
		r.refuse(w, q, http.StatusForbidden)
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.npm = append(r.npm, upload)
	answers(http.StatusOK, `{"ok": true}`)(w, q)
}

// portalCredentials returns the Base64 encoding of the publisher's user name and password for Maven Central.
func portalCredentials() string {
	return base64.StdEncoding.EncodeToString([]byte("portal:" + portalPassword))
}

func (r *registries) isPublished(w http.ResponseWriter, q *http.Request) {
	if q.Header.Get("Authorization") != "Bearer "+portalCredentials() || q.URL.RawQuery != "namespace=io.github.easel-grpc&name=easel-grpc&version=1.2.3-rc.1" {
		r.refuse(w, q, http.StatusUnauthorized)
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	answers(http.StatusOK, fmt.Sprintf(`{"published": %v}`, len(r.bundles) > 0))(w, q)
}

func (r *registries) takeBundle(w http.ResponseWriter, q *http.Request) {
	file, _, err := q.FormFile("bundle")
	if err != nil || q.Header.Get("Authorization") != "Bearer "+portalCredentials() || q.FormValue("publishingType") != "AUTOMATIC" || q.FormValue("name") != "easel-grpc-1.2.3-rc.1" {
		r.refuse(w, q, http.StatusUnauthorized)
		return
	}
	content, err := io.ReadAll(file)
	if err != nil {
		r.refuse(w, q, http.StatusBadRequest)
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.refuses {
		answers(http.StatusInternalServerError, `{"error": "out of order"}`)(w, q)
		return
	}
	r.bundles, r.looked = append(r.bundles, string(content)), 0
	w.WriteHeader(http.StatusCreated)
	_, _ = io.WriteString(w, "deployment-1")
}

func (r *registries) status(w http.ResponseWriter, q *http.Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	state := "VALIDATING"
	if r.looked++; r.looked > 1 {
		state = "PUBLISHING"
	}
	answers(http.StatusOK, fmt.Sprintf(`{"deploymentId": %q, "deploymentState": %q}`, q.FormValue("id"), state))(w, q)
}

// refuseBundles sets whether Maven Central rejects uploads.
func (r *registries) refuseBundles(refuses bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.refuses = refuses
}

// uploads returns the number of uploads to each registry, as text.
func (r *registries) uploads() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return fmt.Sprintf("PyPI %d, npm %d, Central %d", len(r.wheels), len(r.npm), len(r.bundles))
}

// secrets returns every secret of a publishing job. None of them may occur in the script's output or files.
func (r *registries) secrets() []string {
	lines := strings.Split(strings.TrimSpace(r.signingKey), "\n")
	return append(lines[2:len(lines)-2], githubToken, requestToken, portalPassword, portalCredentials(), passphrase, mintedByPyPI, mintedByNPM, "secret-signature")
}

// checkUploads checks that the uploads to each registry match packages, a map from file names to contents.
func (r *registries) checkUploads(t *testing.T, packages map[string]string) {
	t.Helper()
	want := wheelUpload{"easel_grpc-1.2.3rc1-py3-none-any.whl", packages["easel_grpc-1.2.3rc1-py3-none-any.whl"], map[string][]string{
		":action": {"file_upload"}, "protocol_version": {"1"}, "filetype": {"bdist_wheel"}, "pyversion": {"py3"}, "sha256_digest": r.wheels[0].form["sha256_digest"],
		"metadata_version": {"2.4"}, "name": {"easel-grpc"}, "version": {"1.2.3rc1"}, "summary": {"A client: it orders"},
		"project_urls": {"Homepage, https://easel.example"}, "classifiers": {"Typing :: Typed"}, "requires_python": {">=3.10"}, "license_file": {"LICENSE", "NOTICE"},
		"requires_dist": {"grpcio>=1.65.1", `types-grpcio; extra == "types"`}, "provides_extra": {"types"}, "description": {"# Easel\n\nName: of the text\n"},
	}}
	if diff := cmp.Diff(want, r.wheels[0], cmp.AllowUnexported(wheelUpload{})); diff != "" {
		t.Errorf("PyPI: %s", diff)
	}
	taken := r.npm[0]
	if data := taken.Attachments["@easel-grpc/easel-1.2.3-rc.1.tgz"].Data; string(data) != packages["easel-grpc-easel-1.2.3-rc.1.tgz"] ||
		taken.Access != "public" || !maps.Equal(taken.Tags, map[string]string{"next": "1.2.3-rc.1"}) || len(taken.Attachments) != 1 {
		t.Errorf("npm: got %d bytes of %s, access %s, tags %v", len(data), taken.Name, taken.Access, taken.Tags)
	}
	r.checkBundle(t, packages)
}

// checkBundle checks the files that Maven Central has received: their paths, contents, signatures and checksums.
func (r *registries) checkBundle(t *testing.T, packages map[string]string) {
	t.Helper()
	archive, err := zip.NewReader(strings.NewReader(r.bundles[0]), int64(len(r.bundles[0])))
	if err != nil {
		t.Fatal(err)
	}
	files, home := map[string]string{}, gpgHome(t)
	for _, entry := range archive.File {
		if name, inPlace := strings.CutPrefix(entry.Name, "io/github/easel-grpc/easel-grpc/1.2.3-rc.1/"); inPlace && name != "" {
			text, err := fs.ReadFile(archive, entry.Name)
			if err != nil {
				t.Fatal(err)
			}
			files[name] = string(text)
		}
	}
	want := map[string]string{"easel-grpc-1.2.3-rc.1.pom": "<project/>\n"}
	for _, kind := range []string{"", "-sources", "-javadoc"} {
		want["easel-grpc-1.2.3-rc.1"+kind+".jar"] = packages["easel-grpc-1.2.3-rc.1"+kind+".jar"]
	}
	write(t, filepath.Join(home, "public"), r.publicKey)
	r.gpg(t, home, "--import", filepath.Join(home, "public"))
	for name, content := range want {
		write(t, filepath.Join(home, name), files[name])
		write(t, filepath.Join(home, name+".asc"), files[name+".asc"])
		r.gpg(t, home, "--verify", filepath.Join(home, name+".asc"), filepath.Join(home, name))
		//nolint:gosec // Maven Central requires MD5 and SHA-1 checksums
		if files[name] != content || files[name+".md5"] != fmt.Sprintf("%x\n", md5.Sum([]byte(content))) || files[name+".sha1"] != fmt.Sprintf("%x\n", sha1.Sum([]byte(content))) {
			t.Errorf("Central has different content or checksums for %s", name)
		}
	}
	if len(files) != 4*len(want) {
		t.Errorf("Central has the files %v", slices.Sorted(maps.Keys(files)))
	}
}
