package systemtest

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/easel-grpc/easel/internal/proctest"
)

// cluster is an API server of Kubernetes, which has no nodes: it checks and stores what a cluster would run.
type cluster struct {
	dir, url, token string
	client          *http.Client
}

// startCluster starts one that `make test-cluster` has built.
func startCluster(t *testing.T) *cluster {
	t.Helper()
	program, dir := tool(t, "apiserver"), t.TempDir()
	p := proctest.Start(t, nil, program, dir)
	c := &cluster{dir: dir}
	waitFor(t, "API server", func() bool { return c.connect() }, p.Stderr.String)
	return c
}

// connect reads what the server has written for its administrator, and reports whether it is ready.
func (c *cluster) connect() bool {
	text, errText := os.ReadFile(filepath.Join(c.dir, "kubeconfig"))
	authorities, errAuthorities := os.ReadFile(filepath.Join(c.dir, "apiserver.crt"))
	pool := x509.NewCertPool()
	if errText != nil || errAuthorities != nil || !pool.AppendCertsFromPEM(authorities) {
		return false
	}
	_, rest, _ := strings.Cut(string(text), `server: "`)
	c.url, _, _ = strings.Cut(rest, `"`)
	_, rest, _ = strings.Cut(string(text), "token: ")
	c.token, _, _ = strings.Cut(rest, "}")
	c.client = &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}}}
	status, _, err := c.ask(http.MethodGet, "/readyz", "")
	return err == nil && status == http.StatusOK
}

func (c *cluster) ask(method, path, body string) (status int, text string, err error) {
	request, err := http.NewRequest(method, c.url+path, strings.NewReader(body)) //nolint:noctx // it is on this machine
	if err != nil {
		return 0, "", err
	}
	request.Header.Set("Authorization", "Bearer "+c.token)
	request.Header.Set("Content-Type", "application/json")
	answer, err := c.client.Do(request)
	if err != nil {
		return 0, "", err
	}
	defer answer.Body.Close()
	all, err := io.ReadAll(answer.Body)
	return answer.StatusCode, string(all), err
}

// must asks, and wants an answer of 200 or 201.
func (c *cluster) must(t *testing.T, method, path, body string) string {
	t.Helper()
	status, text, err := c.ask(method, path, body)
	if err != nil || status != http.StatusOK && status != http.StatusCreated {
		t.Fatalf("%s %s: %d, %v\n%s", method, path, status, err, text)
	}
	return text
}

// helm runs it against the cluster. A warning of the server is a failure.
func (c *cluster) helm(t *testing.T, arguments ...string) {
	t.Helper()
	command := exec.CommandContext(t.Context(), tool(t, "helm"), arguments...)
	command.Env = append(os.Environ(), "KUBECONFIG="+filepath.Join(c.dir, "kubeconfig"), "HELM_CACHE_HOME="+c.dir)
	var stderr bytes.Buffer
	command.Stderr = &stderr
	if out, err := command.Output(); err != nil || strings.Contains(stderr.String(), "arning") {
		t.Fatalf("helm %s: %v\n%s%s", strings.Join(arguments, " "), err, out, &stderr)
	}
}

func TestAClusterTakesTheChart(t *testing.T) {
	t.Parallel()
	c := startCluster(t)
	c.must(t, http.MethodPost, "/api/v1/namespaces", `{"metadata": {"name": "renders", "labels": {
		"pod-security.kubernetes.io/enforce": "restricted", "pod-security.kubernetes.io/warn": "restricted"}}}`)
	const account, network, budget = "/api/v1/namespaces/renders/serviceaccounts/easel", "/apis/networking.k8s.io/v1/namespaces/renders/networkpolicies/easel", "/apis/policy/v1/namespaces/renders/poddisruptionbudgets/easel"
	const service, scaler, deployment = "/api/v1/namespaces/renders/services/easel", "/apis/autoscaling/v2/namespaces/renders/horizontalpodautoscalers/easel", "/apis/apps/v1/namespaces/renders/deployments/easel"
	for _, step := range []struct {
		verb, values string
		stored       []string
	}{
		{"install", "least.yaml", []string{account, network, budget, service, service + "-headless", deployment}},
		{"upgrade", "all.yaml", []string{account, network, budget, service, service + "-headless", deployment, scaler}},
	} {
		// A PodMonitor is of an operator that is not there.
		c.helm(t, step.verb, "easel", chart, "-n", "renders", "-f", filepath.Join(chart, "ci", step.values), "--set", "podMonitor.enabled=false")
		for _, path := range step.stored {
			c.must(t, http.MethodGet, path, "")
		}
		c.admits(t, deployment)
	}
	c.helm(t, "uninstall", "easel", "-n", "renders")
	if status, _, err := c.ask(http.MethodGet, deployment, ""); err != nil || status != http.StatusNotFound {
		t.Errorf("after helm uninstall the Deployment is answered with %d, %v", status, err)
	}
}

// admits has the cluster admit a pod of a Deployment, which no controller makes here.
func (c *cluster) admits(t *testing.T, deployment string) {
	t.Helper()
	var stored struct {
		Spec struct {
			Template struct {
				Metadata map[string]any  `json:"metadata"`
				Spec     json.RawMessage `json:"spec"`
			} `json:"template"`
		} `json:"spec"`
	}
	if err := json.Unmarshal([]byte(c.must(t, http.MethodGet, deployment, "")), &stored); err != nil {
		t.Fatal(err)
	}
	template := stored.Spec.Template
	template.Metadata["name"] = "easel-0"
	pod, err := json.Marshal(map[string]any{"apiVersion": "v1", "kind": "Pod", "metadata": template.Metadata, "spec": template.Spec})
	if err != nil {
		t.Fatal(err)
	}
	c.must(t, http.MethodPost, "/api/v1/namespaces/renders/pods?dryRun=All", string(pod))
	privileged := strings.Replace(string(pod), `"allowPrivilegeEscalation":false`, `"allowPrivilegeEscalation":true`, 1)
	if status, text, err := c.ask(http.MethodPost, "/api/v1/namespaces/renders/pods?dryRun=All", privileged); err != nil || status != http.StatusForbidden {
		t.Errorf("the cluster admits anything: %d, %v\n%s", status, err, text)
	}
}

func TestTheTokenOfAServiceAccountProvesACaller(t *testing.T) {
	t.Parallel()
	c := startCluster(t)
	c.must(t, http.MethodPost, "/api/v1/namespaces", `{"metadata": {"name": "media"}}`)
	for _, account := range []string{"poster", "stranger"} {
		c.must(t, http.MethodPost, "/api/v1/namespaces/media/serviceaccounts", `{"metadata": {"name": "`+account+`"}}`)
	}
	token := func(account, audience string) string {
		text := c.must(t, http.MethodPost, "/api/v1/namespaces/media/serviceaccounts/"+account+"/token",
			`{"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"audiences": ["`+audience+`"]}}`)
		return proctest.Find(t, `"token":\s*"([^"]+)"`, text)
	}
	const key = "sandbox_live_of_the_cluster_0123456789"
	sandbox := start(t, map[string]string{"EASEL_SANDBOX_ADDR": "127.0.0.1:0", "EASEL_SANDBOX_KEY": key}, printsKey, "sandbox")
	work := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(work, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	served := serve(t, map[string]string{
		"EASEL_UPSTREAM_URL":      proctest.Find(t, `(http://127\.0\.0\.1:\d+/\S+)`, sandbox.Stdout.String()),
		"EASEL_UPSTREAM_KEY_FILE": write("key", key), "EASEL_LEDGER_URL": "sqlite:" + filepath.Join(work, "ledger.db"),
		"EASEL_CALLERS_FILE": write("callers.yaml", `
issuers:
  - issuer: https://kubernetes.default.svc
    audience: easel
    jwks_url: `+c.url+`/openid/v1/jwks
    ca_file: `+filepath.Join(c.dir, "apiserver.crt")+`
    token_file: `+write("token", c.token)+`
callers:
  - name: poster
    subjects: ["system:serviceaccount:media:poster"]
`),
	})
	for name, test := range map[string]struct {
		token string
		exit  int
	}{
		"its own":            {token("poster", "easel"), exitOK},
		"of another":         {token("stranger", "easel"), exitCredential},
		"for another":        {token("poster", "elsewhere"), exitCredential},
		"of an impersonator": {signedByAnother(token("poster", "easel"), token("stranger", "easel")), exitCredential},
	} {
		got := easel(t, map[string]string{"EASEL_ADDR": address(t, served, "grpc"), "EASEL_API_KEY": test.token}, "models")
		if got.exit != test.exit || strings.Contains(got.stdout+got.stderr, test.token) {
			t.Errorf("a token %s: exit %d, and not %d, or the token is told\n%s%s", name, got.exit, test.exit, got.stdout, got.stderr)
		}
	}
}

// signedByAnother is a token with the signature of another one.
func signedByAnother(token, other string) string {
	return token[:strings.LastIndex(token, ".")] + other[strings.LastIndex(other, "."):]
}
