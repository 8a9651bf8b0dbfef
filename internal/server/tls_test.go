package server

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"log/slog"
	"math/big"
	"net/http"
	"net/url"
	"path/filepath"
	"reflect"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/auth"
	"github.com/easel-grpc/easel/internal/reload"
	"github.com/easel-grpc/easel/internal/server/servertest"
)

// authority is a CA that signs a test's certificates.
type authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{certificate: &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority"},
		NotAfter: time.Now().AddDate(100, 0, 0), IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}}
	var err error
	if a.key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificate(rand.Reader, a.certificate, a.certificate, &a.key.PublicKey, a.key)
	if err != nil {
		t.Fatal(err)
	}
	if a.certificate, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	return a
}

func (a *authority) pem() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.certificate.Raw})
}

func (a *authority) pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.certificate)
	return pool
}

// issue signs a certificate, and returns the certificate and its key in PEM format.
func (a *authority) issue(t *testing.T, template x509.Certificate) (certificate, key []byte) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template.SerialNumber = big.NewInt(2)
	if template.NotAfter.IsZero() {
		template.NotAfter = time.Now().AddDate(100, 0, 0)
	}
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	der, err := x509.CreateCertificate(rand.Reader, &template, a.certificate, &private.PublicKey, a.key)
	if err != nil {
		t.Fatal(err)
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8})
}

// tlsFiles contains the TLS files of a server that accepts clients with and without a certificate.
type tlsFiles struct {
	TLS
	authority *authority
}

func newTLSFiles(t *testing.T, name string) tlsFiles {
	t.Helper()
	dir := t.TempDir()
	f := tlsFiles{authority: newAuthority(t), TLS: TLS{
		CertFile: filepath.Join(dir, "cert.pem"), KeyFile: filepath.Join(dir, "key.pem"), ClientCAFile: filepath.Join(dir, "ca.pem"),
		ClientAuth: VerifyClientCertIfGiven,
	}}
	writeFile(t, f.ClientCAFile, f.authority.pem())
	f.rename(t, name)
	return f
}

// rename replaces the server's certificate with one that has the given common name.
func (f tlsFiles) rename(t *testing.T, name string) {
	t.Helper()
	certificate, key := f.authority.issue(t, x509.Certificate{DNSNames: []string{"easel.test"}, Subject: pkix.Name{CommonName: name}})
	writeFile(t, f.CertFile, certificate)
	writeFile(t, f.KeyFile, key)
}

// clientConfig returns a TLS configuration that trusts the server. If template is not nil, the client has a certificate
// that is issued from it.
func (f tlsFiles) clientConfig(t *testing.T, template *x509.Certificate) *tls.Config {
	t.Helper()
	config := &tls.Config{RootCAs: f.authority.pool(), ServerName: "easel.test"}
	if template != nil {
		certificate, key := f.authority.issue(t, *template)
		pair, err := tls.X509KeyPair(certificate, key)
		if err != nil {
			t.Fatal(err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config
}

func certificateIn(t *testing.T, text []byte) *x509.Certificate {
	t.Helper()
	block, _ := pem.Decode(text)
	certificate, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	return certificate
}

func TestClientCertificateNameIdentifiesCaller(t *testing.T) {
	t.Parallel()
	files := newTLSFiles(t, "server")
	for _, test := range []struct {
		name     string
		template *x509.Certificate
		want     *auth.Certificate
	}{
		{"URIs before DNS names", &x509.Certificate{
			URIs: []*url.URL{{Scheme: "spiffe", Host: "house", Path: "/shop"}}, DNSNames: []string{"shop.test", "www.shop.test"}, Subject: pkix.Name{CommonName: "shop"},
		}, &auth.Certificate{Names: []string{"spiffe://house/shop", "shop.test", "www.shop.test"}, CommonName: "shop"}},
		{"a DNS name", &x509.Certificate{DNSNames: []string{"shop.test"}}, &auth.Certificate{Names: []string{"shop.test"}}},
		{"the common name", &x509.Certificate{Subject: pkix.Name{CommonName: "lädchen"}}, &auth.Certificate{CommonName: "lädchen"}},
		{"no certificate", nil, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := serve(t, servertest.NewStudio(), func(c *Config) { c.TLS = files.TLS })
			config := files.clientConfig(t, test.template)
			_, err := s.getOverTLS(t.Context(), t, config)
			if denied := status.Code(err) == codes.Unauthenticated; denied != (test.want.Name() == "") {
				t.Errorf("the call returned %v", err)
			}
			transport := s.HTTP.Transport.(*http.Transport)
			transport.TLSClientConfig, transport.ForceAttemptHTTP2 = config, true
			r := servertest.Request(t, http.MethodGet, "/v1/generations/g", "", "Authorization: ")
			r.URL.Scheme = "https"
			answer, _ := servertest.Do(t, s.HTTP, r)
			if answer.ProtoMajor != 2 || answer.TLS.Version != tls.VersionTLS13 {
				t.Errorf("the response arrived over %s and TLS %x", answer.Proto, answer.TLS.Version)
			}
			var want []*auth.Certificate // expected certificates of the two calls; nil if the calls do not reach the service
			if test.want.Name() != "" {
				want = []*auth.Certificate{test.want, test.want}
			}
			seen := s.Certificates()
			for n, one := range seen {
				if one == nil {
					continue
				}
				if one.Name() == "" || one.Until.IsZero() || !one.Counts() {
					t.Errorf("certificate %q is valid until %v", one.Names, one.Until)
				}
				seen[n] = &auth.Certificate{Names: one.Names, CommonName: one.CommonName}
			}
			if !reflect.DeepEqual(seen, want) {
				t.Errorf("the certificates are %+v, want %+v", seen, want)
			}
		})
	}
}

// getOverTLS sends a call over a new connection, and returns the common name in the server's certificate.
func (s *site) getOverTLS(ctx context.Context, t *testing.T, config *tls.Config) (server string, err error) {
	t.Helper()
	config = config.Clone()
	config.VerifyConnection = func(state tls.ConnectionState) error {
		server = state.PeerCertificates[0].Subject.CommonName
		return nil
	}
	conn := servertest.Dial(t, s.GRPCPipe, grpc.WithTransportCredentials(credentials.NewTLS(config)))
	defer conn.Close()
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	_, err = easelv1.NewGenerationServiceClient(conn).GetGeneration(ctx, &easelv1.GetGenerationRequest{GenerationId: "g"})
	return server, err
}

func TestClientCertificateOfUnknownAuthorityIsRejected(t *testing.T) {
	t.Parallel()
	files, others := newTLSFiles(t, "server"), newTLSFiles(t, "other")
	s := serve(t, servertest.NewStudio(), func(c *Config) { c.TLS = files.TLS })
	config := files.clientConfig(t, nil)
	config.Certificates = others.clientConfig(t, &x509.Certificate{Subject: pkix.Name{CommonName: "stranger"}}).Certificates
	if _, err := s.getOverTLS(t.Context(), t, config); status.Code(err) != codes.Unavailable {
		t.Errorf("a call with a stranger's certificate returned %v", err)
	}
}

func TestAttackWithoutClientCertificateIsRejectedIfRequired(t *testing.T) {
	t.Parallel()
	files := newTLSFiles(t, "server")
	for _, test := range []struct {
		auth   ClientAuth
		logged string
		served bool
	}{
		{"", "require", false}, {RequireClientCert, "require", false}, {VerifyClientCertIfGiven, "verify_if_given", true},
	} {
		files.ClientAuth = test.auth
		s := serve(t, servertest.NewStudio(), func(c *Config) { c.TLS = files.TLS })
		for name, template := range map[string]*x509.Certificate{"attacker": nil, "neighbour": {Subject: pkix.Name{CommonName: "neighbour"}}} {
			served, config := test.served || template != nil, files.clientConfig(t, template)
			if _, err := s.getOverTLS(servertest.WithKey(t.Context()), t, config); (err == nil) != served {
				t.Errorf("%q: the %s returned %v over gRPC", test.auth, name, err)
			}
			for form, http2 := range map[string]bool{"HTTP/1.1": false, "HTTP/2": true} {
				transport := &http.Transport{DialContext: servertest.PipeDialer(s.HTTPPipe), TLSClientConfig: config.Clone(), ForceAttemptHTTP2: http2}
				r := servertest.Request(t, http.MethodGet, "/v1/generations/g", "")
				r.URL.Scheme = "https"
				answer, err := transport.RoundTrip(r)
				if err == nil {
					answer.Body.Close()
				}
				if got := err == nil && answer.StatusCode == http.StatusOK; got != served {
					t.Errorf("%q: the %s returned %v, %v over %s", test.auth, name, answer, err, form)
				}
				transport.CloseIdleConnections()
			}
		}
		if lines := s.Lines(t, "TLS enabled"); len(lines) != 1 || lines[0]["client_auth"] != test.logged {
			t.Errorf("%q is logged as %v", test.auth, lines)
		}
	}
}

func TestPlaintextAndOldTLSAreRejected(t *testing.T) {
	t.Parallel()
	files := newTLSFiles(t, "server")
	s := serve(t, servertest.NewStudio(), func(c *Config) { c.TLS = files.TLS })
	config := files.clientConfig(t, nil)
	config.MaxVersion = tls.VersionTLS12
	if _, err := s.getOverTLS(t.Context(), t, config); status.Code(err) != codes.Unavailable {
		t.Errorf("a call over TLS 1.2 returned %v", err)
	}
	if answer, err := s.HTTP.Do(servertest.Request(t, http.MethodGet, "/v1/generations/g", "")); err == nil {
		answer.Body.Close()
		if answer.StatusCode != http.StatusBadRequest {
			t.Errorf("a plaintext request returned %s", answer.Status)
		}
	}
}

func TestClientCertificateNeedsOnlyOneTrustedChain(t *testing.T) {
	const short, long = time.Hour, 3 * time.Hour
	began := time.Date(2000, time.January, 1, 0, 0, 0, 0, time.UTC) // the time at which a synctest bubble starts
	files, other := newTLSFiles(t, "server"), newAuthority(t)
	both := append(files.authority.pem(), other.pem()...)
	writeFile(t, files.ClientCAFile, both)
	signed := func(by *authority, life time.Duration) []*x509.Certificate {
		text, _ := by.issue(t, x509.Certificate{NotAfter: began.Add(life), IsCA: true, BasicConstraintsValid: true})
		return []*x509.Certificate{certificateIn(t, text), by.certificate}
	}
	state := &tls.ConnectionState{VerifiedChains: [][]*x509.Certificate{signed(files.authority, short), signed(other, long)}}
	for name, test := range map[string]struct {
		left []byte // contents of the client CA file after the change
		life time.Duration
	}{
		"CAs of both chains": {both, long}, "CA of the short chain": {files.authority.pem(), short}, "CA of the long chain": {other.pem(), long},
	} {
		t.Run(name, func(t *testing.T) {
			writeFile(t, files.ClientCAFile, both)
			synctest.Test(t, func(t *testing.T) {
				d, err := &chain{}, error(nil)
				if d.certificates, err = loadCertificates(files.TLS, slog.New(slog.DiscardHandler)); err != nil {
					t.Fatal(err)
				}
				counts := func() bool { return d.stillVerified(state) }
				for age := time.Minute; age < long+time.Hour; age += 10 * time.Minute {
					time.Sleep(time.Until(began.Add(age)))
					if got := counts(); got != (age < test.life) {
						t.Errorf("after %v the certificate is accepted: %v", age, got)
					}
					writeFile(t, files.ClientCAFile, test.left)
					d.certificates.Reload()
				}
			})
		})
	}
}

func TestNoHandshakeFailsWhileCertificatesRotate(t *testing.T) {
	files := newTLSFiles(t, "0")
	var handshakes int
	seen := map[string]int{}
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, servertest.NewStudio(), func(c *Config) { c.TLS = files.TLS })
		client := files.clientConfig(t, nil)
		done := make(chan struct{})
		var mu sync.Mutex
		var load sync.WaitGroup
		for n := range 8 {
			load.Go(func() {
				for time.Sleep(time.Duration(n) * 13 * time.Millisecond); ; time.Sleep(100 * time.Millisecond) {
					name, err := s.getOverTLS(t.Context(), t, client)
					if status.Code(err) != codes.Unauthenticated { // the connection must succeed: the call fails only because it has no API key
						t.Errorf("a call returned %v", err)
					}
					mu.Lock()
					seen[name]++
					handshakes++
					mu.Unlock()
					select {
					case <-done:
						return
					default:
					}
				}
			})
		}
		for _, name := range []string{"1", "2", "3"} {
			// The certificate is replaced first, and its key some time later.
			certificate, key := files.authority.issue(t, x509.Certificate{DNSNames: []string{"easel.test"}, Subject: pkix.Name{CommonName: name}})
			writeFile(t, files.CertFile, certificate)
			time.Sleep(3 * reload.Interval / 2)
			writeFile(t, files.KeyFile, key)
			time.Sleep(3 * reload.Interval / 2)
		}
		close(done)
		load.Wait()
	})
	if handshakes < 300 || len(seen) != 4 {
		t.Errorf("got %d handshakes with the certificates %v", handshakes, seen)
	}
}

func TestUnreadableCertificatesAreRejectedAtStart(t *testing.T) {
	t.Parallel()
	files := newTLSFiles(t, "server")
	for name, tls := range map[string]TLS{
		"missing file":                 {CertFile: files.CertFile + ".not", KeyFile: files.KeyFile},
		"key instead of a certificate": {CertFile: files.KeyFile, KeyFile: files.KeyFile},
		"no CA in the file":            {CertFile: files.CertFile, KeyFile: files.KeyFile, ClientCAFile: files.KeyFile},
	} {
		if _, err := New(newTestConfig(servertest.NewStudio(), func(c *Config) { inPipes(c); c.TLS = tls })); err == nil {
			t.Errorf("%s: no error was returned", name)
		}
	}
}

// certifiedCalls returns one function for each protocol. Each function sends a call and reports whether it succeeded. All calls
// of one function use the same connection.
func certifiedCalls(t *testing.T, s *site, config *tls.Config) map[string]func() bool {
	rest := func(http2 bool) func() bool {
		config := config.Clone()
		if config.NextProtos = []string{"http/1.1"}; http2 {
			config.NextProtos = []string{"h2"}
		}
		client := &http.Client{Transport: &http.Transport{DialContext: servertest.PipeDialer(s.HTTPPipe), TLSClientConfig: config, ForceAttemptHTTP2: http2}}
		t.Cleanup(client.CloseIdleConnections)
		return func() bool {
			r := servertest.Request(t, http.MethodGet, "/v1/generations/g", "")
			r.URL.Scheme = "https"
			answer, err := client.Do(r)
			if err != nil {
				return false
			}
			defer answer.Body.Close()
			if answer.StatusCode != http.StatusOK && answer.StatusCode != http.StatusUnauthorized {
				t.Errorf("the response is %s", answer.Status)
			}
			return answer.StatusCode == http.StatusOK
		}
	}
	conn := servertest.Dial(t, s.GRPCPipe, grpc.WithTransportCredentials(credentials.NewTLS(config.Clone())))
	t.Cleanup(func() { _ = conn.Close() })
	return map[string]func() bool{"HTTP/1.1": rest(false), "HTTP/2": rest(true), "gRPC": func() bool {
		_, err := easelv1.NewGenerationServiceClient(conn).GetGeneration(servertest.WithKey(t.Context()), &easelv1.GetGenerationRequest{GenerationId: "g"})
		if err != nil {
			servertest.WantError(t, err, codes.Unauthenticated, "CALLER_UNKNOWN")
		}
		return err == nil
	}}
}

func TestCallsFailOnceClientCertificateBecomesInvalid(t *testing.T) {
	const life = 30 * time.Second
	began := time.Date(2000, time.January, 1, 0, 0, 0, 0, time.UTC) // the time at which a synctest bubble starts
	for name, end := range map[string]func(tlsFiles, *site){
		"expired certificate": func(tlsFiles, *site) { time.Sleep(life + time.Second) },
		"removed CA": func(files tlsFiles, s *site) {
			writeFile(t, files.ClientCAFile, newAuthority(t).pem())
			s.Server.Certificates().Reload()
		},
	} {
		for _, form := range []string{"HTTP/1.1", "HTTP/2", "gRPC"} {
			t.Run(name+" over "+form, func(t *testing.T) {
				files := newTLSFiles(t, "server")
				files.ClientAuth = RequireClientCert
				config := files.clientConfig(t, &x509.Certificate{DNSNames: []string{"shop.test"}, NotAfter: began.Add(life)})
				synctest.Test(t, func(t *testing.T) {
					s := serve(t, servertest.NewStudio(), func(c *Config) { c.TLS = files.TLS })
					call := certifiedCalls(t, s, config)[form]
					for range 2 {
						if !call() {
							t.Fatal("a valid certificate is rejected")
						}
					}
					end(files, s)
					for range 2 {
						if call() {
							t.Error("a call succeeds with a certificate that a new handshake would reject")
						}
					}
				})
			})
		}
	}
}
