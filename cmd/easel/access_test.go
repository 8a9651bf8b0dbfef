package main

import (
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/easel-grpc/easel/internal/proctest"
)

// startHeld starts a sandbox and a server that shares the sandbox's API key. It returns the server's address.
func startHeld(t *testing.T, settings map[string]string) string {
	t.Helper()
	return proctest.Find(t, `"server":"grpc","addr":"([^"]+)"`, startHeldServer(t, settings).stderr.String())
}

func startHeldServer(t *testing.T, settings map[string]string) *running {
	t.Helper()
	box := start(t, nil, func(stdout, _ string) bool { return strings.Contains(stdout, "easel serve") }, "sandbox", "--addr", "127.0.0.1:0")
	env := map[string]string{
		"EASEL_UPSTREAM_URL":      proctest.Find(t, `(http://\S+/catalog)`, box.stdout.String()),
		"EASEL_UPSTREAM_KEY_FILE": write(t, proctest.Find(t, `(sandbox_live_\w+)`, box.stdout.String())+"\n"),
		"EASEL_GRPC_ADDR":         "127.0.0.1:0", "EASEL_HTTP_ADDR": "127.0.0.1:0", "EASEL_ADMIN_ADDR": "127.0.0.1:0",
	}
	maps.Copy(env, settings)
	return start(t, env, func(_, stderr string) bool { return strings.Count(stderr, `"listening"`) == 3 }, "serve")
}

func TestAServiceTokenSaysWhoCalls(t *testing.T) {
	hash := sha256.Sum256([]byte("token-of-billing"))
	addr := startHeld(t, map[string]string{
		"EASEL_CALLERS_FILE": write(t, "callers: [{name: billing, tokens: [\"sha256:"+hex.EncodeToString(hash[:])+"\"]}]\n"),
		"EASEL_LEDGER_URL":   "sqlite:" + filepath.Join(t.TempDir(), "book.db"),
	})
	for token, exit := range map[string]int{"token-of-billing": exitOK, "another": exitCredential, "": exitCredential} {
		got := easelEnv(t.Context(), nil, map[string]string{"EASEL_API_KEY": token}, "account", "--addr", addr)
		if got.exit != exit {
			t.Errorf("token %q: exit %d, want %d\n%s", token, got.exit, exit, got.stderr)
		}
	}
	if got := easel(t.Context(), nil, "account", "--addr", addr, "--api-key-file", write(t, "token-of-billing\n")); got.exit != exitOK {
		t.Errorf("from a file: exit %d\n%s", got.exit, got.stderr)
	}
}

func TestACertificateSaysWhoCalls(t *testing.T) {
	serverCert, serverKey := proctest.Certificate(t, "easel")
	clientCert, clientKey := proctest.Certificate(t, "billing")
	for auth, exitWithout := range map[string]int{"": exitRetry, "require": exitRetry, "verify_if_given": exitCredential} {
		addr := startHeld(t, map[string]string{
			"EASEL_TLS_CERT_FILE": serverCert, "EASEL_TLS_KEY_FILE": serverKey, "EASEL_TLS_CLIENT_CA_FILE": clientCert, "EASEL_TLS_CLIENT_AUTH": auth,
		})
		for name, test := range map[string]struct {
			args []string
			exit int
		}{
			"with the certificate":    {[]string{"--tls-ca-file", serverCert, "--tls-cert-file", clientCert, "--tls-key-file", clientKey}, exitOK},
			"without":                 {[]string{"--tls-ca-file", serverCert}, exitWithout},
			"without trust":           {[]string{"--addr", "https://" + addr}, exitRetry},
			"without TLS":             {nil, exitRetry},
			"with another's as trust": {[]string{"--tls-ca-file", clientCert}, exitRetry},
		} {
			got := easel(t.Context(), nil, append([]string{"account", "--addr", addr}, test.args...)...)
			if got.exit != test.exit {
				t.Errorf("%q, %s: exit %d, want %d\n%s", auth, name, got.exit, test.exit, got.stderr)
			}
			if name == "without" {
				t.Logf("%q: %s", auth, got.stderr)
			}
		}
	}
}

func TestAttackByDNSRebindingWhereAnybodyMayCall(t *testing.T) { // fault A14
	for allowed, want := range map[string]map[string]int{
		"":              {"evil.example:8080": http.StatusMisdirectedRequest, "easel.example": http.StatusMisdirectedRequest, "localhost:8080": http.StatusOK},
		"easel.example": {"evil.example:8080": http.StatusMisdirectedRequest, "easel.example": http.StatusOK, "localhost:8080": http.StatusOK},
	} {
		served := startHeldServer(t, map[string]string{"EASEL_ALLOW_ANONYMOUS": "true", "EASEL_HTTP_ALLOWED_HOSTS": allowed})
		rest := proctest.Find(t, `"server":"http","addr":"([^"]+)"`, served.stderr.String())
		for host, status := range want {
			order := `{"modelId": "studio/haiku", "inputs": {"prompt": "rain"}, "idempotencyKey": "` + host + `"}`
			r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+rest+"/v1/generations", strings.NewReader(order))
			if err != nil {
				t.Fatal(err)
			}
			r.Host = host
			r.Header.Set("Content-Type", "application/json")
			r.Header.Set("Origin", "http://"+host)
			answer, err := http.DefaultClient.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			answer.Body.Close()
			if answer.StatusCode != status {
				t.Errorf("with %q allowed, a page of %s is answered %s, want %d", allowed, host, answer.Status, status)
			}
		}
	}
}
