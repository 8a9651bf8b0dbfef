package systemtest

import (
	"bufio"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/easel-grpc/easel/internal/proctest"
)

// issuerTools is the directory in which 'make test-system' installs the token issuers.
const issuerTools = ".build/issuers"

// issuerTool returns the path of an issuer's program. If the program is missing, it skips the test.
func issuerTool(t *testing.T, name string) string {
	t.Helper()
	path := filepath.Join(proctest.FromRoot(t, issuerTools), name)
	if _, err := os.Stat(path); err != nil {
		t.Skipf("%s is not installed (make %s): tokens of real issuers are NOT checked", name, issuerTools)
	}
	return path
}

// asked is a process that answers each line of its input with one line of output.
type asked struct {
	t     *testing.T
	in    io.Writer
	lines *bufio.Reader
}

func startAsked(t *testing.T, words ...string) *asked {
	t.Helper()
	command := exec.CommandContext(t.Context(), words[0], words[1:]...)
	in, err := command.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = in.Close(); _ = command.Wait() })
	return &asked{t, in, bufio.NewReader(out)}
}

func (a *asked) read() string {
	a.t.Helper()
	line, err := a.lines.ReadString('\n')
	if err != nil {
		a.t.Fatal(err)
	}
	return strings.TrimSpace(line)
}

func (a *asked) ask(format string, args ...any) string {
	a.t.Helper()
	if _, err := fmt.Fprintf(a.in, format+"\n", args...); err != nil {
		a.t.Fatal(err)
	}
	return a.read()
}

// startBehindIssuers starts a server with a callers file that consists of the given lines. Its callers authenticate
// with tokens from issuers.
func startBehindIssuers(t *testing.T, lines ...string) facility {
	t.Helper()
	f, callers := newCatalog(t, 1), proctest.File(t, strings.Join(lines, "\n")+"\n")
	if got := runProgram(t, nil, "callers", "check", callers); got.exit != exitOK {
		t.Fatalf("easel callers check: exit %d\n%s%s", got.exit, got.stdout, got.stderr)
	}
	f.Sharing(callers, sqliteLedger(t)).Serve()
	return f
}

// listGenerations lists generations over gRPC and over REST, and checks that both calls succeed or both fail. It
// returns "ok" or the reason for the rejection.
func (f facility) listGenerations(token string) string {
	f.Helper()
	over, answer := f.overGRPC(token), f.overREST(token)
	if (over.exit == exitOK) != (answer == "ok") {
		f.Errorf("gRPC: exit %d, REST: %s:\n%s", over.exit, answer, over.stderr)
	}
	return answer
}

func (f facility) overGRPC(token string) printed {
	f.Helper()
	return runProgram(f.T, f.caller(token), "list", "-o", "json")
}

func (f facility) overREST(token string) string {
	f.Helper()
	answer, body := proctest.Request(f, http.MethodGet, "http://"+f.Server.HTTP+"/v1/generations", "", "Authorization", "Bearer "+token)
	if answer.StatusCode == http.StatusOK {
		return "ok"
	}
	for _, reason := range []string{"CALLER_UNKNOWN", "ISSUER_UNAVAILABLE"} {
		if strings.Contains(string(body), reason) {
			return reason
		}
	}
	return string(body)
}

func (f facility) wantAnswer(what, token, want string) {
	f.Helper()
	if got := f.listGenerations(token); got != want {
		f.Errorf("%s: got %s, want %s", what, got, want)
	}
}

// awaitAnswer waits until a token is accepted over gRPC and REST. It repeats both calls together, because the server
// may load new issuer keys between them. The first argument describes the token in the failure message.
func (f facility) awaitAnswer(what, token string) {
	f.Helper()
	waitFor(f.T, "response for "+what, func() bool { return f.overGRPC(token).exit == exitOK && f.overREST(token) == "ok" }, f.Server.Output.String)
}

// The test creates the tokens and the key set with code from the Kubernetes API server.
func TestKubernetesServiceAccountTokensAuthenticateCallers(t *testing.T) {
	t.Parallel()
	const name = "https://kubernetes.default.svc.cluster.local"
	cluster := startAsked(t, issuerTool(t, "kubeissuer"), name)
	var keys atomic.Value
	keys.Store(cluster.ask("keys 1"))
	api := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer of-this-pod" || r.URL.Path != "/openid/v1/jwks" {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		_, _ = io.WriteString(w, keys.Load().(string))
	}))
	defer api.Close()
	authority := proctest.File(t, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: api.Certificate().Raw})))
	pod := proctest.File(t, "of-this-pod")
	f := startBehindIssuers(t, "total: {daily_cents: 100}",
		fmt.Sprintf("issuers: [{issuer: %q, audience: easel, jwks_url: %q, ca_file: %q, token_file: %q}]", name, api.URL+"/openid/v1/jwks", authority, pod),
		"teams: {studio: {}}", "callers: [{name: poster, team: studio, subjects: ['system:serviceaccount:media:poster']}]")
	f.wantAnswer("the caller's token", cluster.ask("token 1 media poster easel 10m"), "ok")
	f.wantAnswer("another account's token", cluster.ask("token 1 media flyer easel 10m"), "CALLER_UNKNOWN")
	f.wantAnswer("another namespace's token", cluster.ask("token 1 other poster easel 10m"), "CALLER_UNKNOWN")
	f.wantAnswer("a token for the API server", cluster.ask("token 1 media poster https://kubernetes.default.svc 10m"), "CALLER_UNKNOWN")
	f.wantAnswer("an expired token", cluster.ask("token 1 media poster easel -5m"), "CALLER_UNKNOWN")
	before, after := cluster.ask("token 1 media poster easel 10m"), cluster.ask("token 2 media poster easel 10m")
	f.wantAnswer("a token signed with an unpublished key", after, "CALLER_UNKNOWN")
	keys.Store(cluster.ask("keys 1"))
	f.awaitAnswer("a token signed with the new key of another type", after)
	f.wantAnswer("a token signed with the old key", before, "ok")
}

// The test's OpenID server is oidc-provider, which is certified by the OpenID Foundation.
func TestOpenIDTokenAuthenticatesOperator(t *testing.T) {
	t.Parallel()
	server := startAsked(t, tool(t, "node"), issuerTool(t, "provider.js"))
	issuer := server.read()
	token := func(audience string) string {
		form := url.Values{"grant_type": {"client_credentials"}, "resource": {audience}}
		login := base64.StdEncoding.EncodeToString([]byte("poster:of-poster"))
		text := proctest.Fetch(t, http.MethodPost, issuer+"/token", form.Encode(), "Content-Type", "application/x-www-form-urlencoded", "Authorization", "Basic "+login)
		var made struct {
			Token string `json:"access_token"`
		}
		if err := json.Unmarshal([]byte(text), &made); err != nil || made.Token == "" {
			t.Fatalf("no token: %v", err)
		}
		return made.Token
	}
	f := startBehindIssuers(t, fmt.Sprintf("issuers: [{issuer: %q, audience: 'urn:easel', jwks_url: %q}]", issuer, issuer+"/jwks"),
		"callers: [{name: ops, operator: true, subjects: [poster]}]")
	good := token("urn:easel")
	f.wantAnswer("the operator's token", good, "ok")
	account := runProgram(t, f.caller(good), "account", "-o", "json")
	if !strings.Contains(account.stdout, "balance") {
		t.Errorf("an operator does not see the balance: exit %d\n%s%s", account.exit, account.stdout, account.stderr)
	}
	f.wantAnswer("a token for another server", token("urn:other"), "CALLER_UNKNOWN")
	server.ask("new")
	rotated := token("urn:easel")
	f.awaitAnswer("a token signed with the new key", rotated)
	f.wantAnswer("the old token after the new key was added", good, "ok")
	server.ask("new")
	server.ask("forget")
	f.awaitAnswer("a token signed with the only key left", token("urn:easel"))
	f.wantAnswer("the first token after its key was removed", good, "CALLER_UNKNOWN")
	if strings.Contains(f.Server.Output.String(), good) {
		t.Error("a token is logged")
	}
}
