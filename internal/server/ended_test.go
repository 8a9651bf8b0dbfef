package server

import (
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/server/servertest"
)

// certifiedCalls returns one function for each protocol. The function sends a call and reports whether it succeeded. All calls of
// one function use the same connection.
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

func TestAConnectionEndsWithItsCertificate(t *testing.T) {
	const life = 30 * time.Second
	began := time.Date(2000, time.January, 1, 0, 0, 0, 0, time.UTC) // the time at which a synctest bubble starts
	for name, end := range map[string]func(tlsFiles, *site){
		"it has expired": func(tlsFiles, *site) { time.Sleep(life + time.Second) },
		"its authority is taken out": func(files tlsFiles, s *site) {
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
