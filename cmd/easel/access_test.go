package main

import (
	"net/http"
	"testing"

	"github.com/easel-grpc/easel/internal/proctest"
)

// startHeld starts a sandbox and a server, and returns the server. All callers of the server share
// the sandbox's API key.
func startHeld(t *testing.T, settings map[string]string) *running {
	t.Helper()
	return startServe(t, startSandbox(t).sharedSettings().With(settings))
}

func TestClientCertificateAuthenticatesCaller(t *testing.T) {
	serverCert, serverKey := proctest.Certificate(t, "easel")
	clientCert, clientKey := proctest.Certificate(t, "billing")
	for auth, exitWithout := range map[string]int{"": exitRetry, "require": exitRetry, "verify_if_given": exitCredential} {
		addr := startHeld(t, map[string]string{
			"EASEL_TLS_CERT_FILE": serverCert, "EASEL_TLS_KEY_FILE": serverKey, "EASEL_TLS_CLIENT_CA_FILE": clientCert, "EASEL_TLS_CLIENT_AUTH": auth,
		}).addr("grpc")
		for name, test := range map[string]struct {
			args []string
			exit int
		}{
			"with a client certificate":    {[]string{"--tls-ca-file", serverCert, "--tls-cert-file", clientCert, "--tls-key-file", clientKey}, exitOK},
			"without a client certificate": {[]string{"--tls-ca-file", serverCert}, exitWithout},
			"without a CA file":            {[]string{"--addr", "https://" + addr}, exitRetry},
			"without TLS":                  {nil, exitRetry},
			"with a different CA file":     {[]string{"--tls-ca-file", clientCert}, exitRetry},
		} {
			got := easel(t.Context(), nil, append([]string{"account", "--addr", addr}, test.args...)...)
			if got.exit != test.exit {
				t.Errorf("client auth %q, %s: exit %d, want %d\n%s", auth, name, got.exit, test.exit, got.stderr)
			}
		}
	}
}

func TestAttackByDNSRebindingIsRejectedOnAnonymousServer(t *testing.T) {
	for allowed, want := range map[string]map[string]int{
		"":              {"evil.example:8080": http.StatusMisdirectedRequest, "easel.example": http.StatusMisdirectedRequest, "localhost:8080": http.StatusOK},
		"easel.example": {"evil.example:8080": http.StatusMisdirectedRequest, "easel.example": http.StatusOK, "localhost:8080": http.StatusOK},
	} {
		rest := startHeld(t, map[string]string{"EASEL_ALLOW_ANONYMOUS": "true", "EASEL_HTTP_ALLOWED_HOSTS": allowed}).addr("http")
		for host, status := range want {
			order := `{"modelId": "studio/haiku", "inputs": {"prompt": "rain"}, "idempotencyKey": "` + host + `"}`
			answer, _ := proctest.Request(t, http.MethodPost, "http://"+rest+"/v1/generations", order, "Host", host, "Content-Type", "application/json", "Origin", "http://"+host)
			if answer.StatusCode != status {
				t.Errorf("allowed hosts %q, page of %s: got %s, want %d", allowed, host, answer.Status, status)
			}
		}
	}
}
