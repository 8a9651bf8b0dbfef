package systemtest

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"encoding/base64"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/easel-grpc/easel/internal/proctest"
)

// connectProxy is an HTTP proxy that connects every CONNECT request to the same address. It records all bytes that
// it forwards.
type connectProxy struct {
	addr string

	mu    sync.Mutex
	asked []*http.Request
	sent  bytes.Buffer
}

func startConnectProxy(t *testing.T, target string) *connectProxy {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &connectProxy{addr: l.Addr().String()}
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			serving.Go(func() { p.serve(conn, target) })
		}
	})
	t.Cleanup(func() { l.Close(); serving.Wait() })
	return p
}

func (p *connectProxy) serve(conn net.Conn, target string) {
	defer conn.Close()
	in := bufio.NewReader(io.TeeReader(conn, p))
	r, err := http.ReadRequest(in)
	if err != nil {
		return
	}
	p.mu.Lock()
	p.asked = append(p.asked, r)
	p.mu.Unlock()
	out, err := net.Dial("tcp", target)
	if err != nil || r.Method != http.MethodConnect {
		return
	}
	defer out.Close()
	_, _ = io.WriteString(conn, "HTTP/1.1 200 Connection established\r\n\r\n")
	go func() { defer conn.Close(); _, _ = io.Copy(conn, out) }()
	_, _ = io.Copy(out, in)
}

// Write records forwarded bytes.
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

// catalogFor starts a catalog. If secure is set, the catalog uses TLS and a host name. Otherwise, it uses plain HTTP.
func catalogFor(t *testing.T, secure bool) (catalog *httptest.Server, trust string) {
	t.Helper()
	catalog = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"balanceCents":5}`)
	}))
	t.Cleanup(catalog.Close)
	if !secure {
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

func TestTheCatalogIsReachedThroughTheProxyOfTheEnvironment(t *testing.T) {
	t.Parallel()
	const apiKey = "key_live_canary_of_the_proxy"
	for name, test := range map[string]struct {
		secure   bool
		upstream string // not a local host, because requests to local hosts do not use a proxy
		noProxy  string
		proxied  bool
		exit     int
	}{
		"over https":                    {true, "https://catalog.example", "", true, exitOK},
		"over https, and in NO_PROXY":   {true, "https://catalog.invalid", "catalog.invalid", false, exitRetry},
		"over http on loopback":         {false, "", "", false, exitOK},
		"over http to a host of a name": {false, "http://catalog.invalid", "", false, exitRetry},
		"over https on loopback":        {true, "", "", false, exitOK},
	} {
		t.Run(name, func(t *testing.T) {
			catalog, trust := catalogFor(t, test.secure)
			proxy := startConnectProxy(t, catalog.Listener.Addr().String())
			if test.upstream == "" {
				test.upstream = catalog.URL
			}
			login := "http://me:hunter2@" + proxy.addr
			served := proctest.Serve(t, map[string]string{
				"HTTPS_PROXY": login, "HTTP_PROXY": login, "ALL_PROXY": login, "NO_PROXY": test.noProxy, "SSL_CERT_FILE": trust,
				"EASEL_UPSTREAM_URL": test.upstream, "EASEL_UPSTREAM_INSECURE": "true",
			})
			got := easel(t, map[string]string{"EASEL_API_KEY": apiKey}, "account", "--timeout", "3s", "--addr", served.GRPC)
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
			if strings.Contains(logs, `"proxy":"`+proxy.addr) != test.proxied || strings.Contains(logs, "hunter2") {
				t.Errorf("the logs are\n%s", logs)
			}
		})
	}
}
