package systemtest

import (
	"bytes"
	"crypto/tls"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/easel-grpc/easel/internal/proctest"
)

// connectProxy is an HTTP proxy that ignores the address in a CONNECT request, and connects every tunnel to one
// fixed address. It records the headers of all requests, and all bytes that it forwards to that address.
type connectProxy struct {
	*httptest.Server

	mu    sync.Mutex
	asked []*http.Request
	sent  bytes.Buffer
}

func startConnectProxy(t *testing.T, target string) *connectProxy {
	t.Helper()
	p := &connectProxy{}
	p.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.mu.Lock()
		p.asked = append(p.asked, r)
		p.mu.Unlock()
		fmt.Fprintln(p, r.RequestURI, r.Header)
		out, err := net.Dial("tcp", target)
		if err != nil || r.Method != http.MethodConnect {
			return
		}
		defer out.Close()
		conn, in, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		defer conn.Close()
		_, _ = io.WriteString(conn, "HTTP/1.1 200 Connection established\r\n\r\n")
		go func() { defer conn.Close(); _, _ = io.Copy(conn, out) }()
		_, _ = io.Copy(out, io.TeeReader(in, p))
	}))
	t.Cleanup(p.Close)
	return p
}

// Write records the bytes that the proxy forwards.
func (p *connectProxy) Write(data []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.sent.Write(data)
}

func (p *connectProxy) requests() ([]*http.Request, string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.asked, p.sent.String()
}

// catalogFor starts a catalog. If usesTLS is true, the catalog uses TLS with a certificate for localhost, and
// certificateFile is the path of this certificate. Otherwise, it uses plain HTTP.
func catalogFor(t *testing.T, usesTLS bool) (catalog *httptest.Server, certificateFile string) {
	t.Helper()
	catalog = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"balanceCents":5}`)
	}))
	t.Cleanup(catalog.Close)
	if !usesTLS {
		catalog.Start()
		return catalog, ""
	}
	cert, key := proctest.Certificate(t, "localhost")
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	catalog.TLS = &tls.Config{Certificates: []tls.Certificate{pair}}
	catalog.StartTLS()
	return catalog, cert
}

func TestCatalogRequestsFollowProxyEnvironmentVariables(t *testing.T) {
	t.Parallel()
	const apiKey = "key_live_canary_of_the_proxy"
	for name, test := range map[string]struct {
		secure   bool
		upstream string // not a local host, because requests to local hosts do not use a proxy
		noProxy  string
		proxied  bool
		exit     int
	}{
		"https":                   {true, "https://catalog.example", "", true, exitOK},
		"https, host in NO_PROXY": {true, "https://catalog.invalid", "catalog.invalid", false, exitRetry},
		"http on loopback":        {false, "", "", false, exitOK},
		"http to a named host":    {false, "http://catalog.invalid", "", false, exitRetry},
		"https on loopback":       {true, "", "", false, exitOK},
	} {
		t.Run(name, func(t *testing.T) {
			catalog, trust := catalogFor(t, test.secure)
			proxy := startConnectProxy(t, catalog.Listener.Addr().String())
			if test.upstream == "" {
				test.upstream = catalog.URL
			}
			address := proxy.Listener.Addr().String()
			login := "http://me:hunter2@" + address
			served := proctest.Serve(t, map[string]string{
				"HTTPS_PROXY": login, "HTTP_PROXY": login, "ALL_PROXY": login, "NO_PROXY": test.noProxy, "SSL_CERT_FILE": trust,
				"EASEL_UPSTREAM_URL": test.upstream, "EASEL_UPSTREAM_INSECURE": "true",
			})
			got := runProgram(t, map[string]string{"EASEL_API_KEY": apiKey}, "account", "--timeout", "3s", "--addr", served.GRPC)
			logs := served.Stderr.String()
			asked, sent := proxy.requests()
			if got.exit != test.exit || (len(asked) > 0) != test.proxied {
				t.Errorf("exit %d, %d requests to the proxy\n%s%s", got.exit, len(asked), got.stdout, got.stderr)
			}
			if strings.Contains(sent, apiKey) || strings.Contains(sent, base64.StdEncoding.EncodeToString([]byte(apiKey))) {
				t.Errorf("the API key was sent to the proxy: %s", sent)
			}
			for _, r := range asked {
				basic := "Basic " + base64.StdEncoding.EncodeToString([]byte("me:hunter2"))
				if r.Method != http.MethodConnect || r.Host != "catalog.example:443" || r.Header.Get("Proxy-Authorization") != basic || r.Header.Get("Authorization") != "" {
					t.Errorf("the proxy received %s %s, with %v", r.Method, r.Host, r.Header)
				}
			}
			if strings.Contains(logs, `"proxy":"`+address) != test.proxied || strings.Contains(logs, "hunter2") {
				t.Errorf("the logs are\n%s", logs)
			}
		})
	}
}
