package cluster

import (
	"crypto/tls"
	"crypto/x509"
	"os"
	"testing"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/easel-grpc/easel/internal/proctest"
)

func TestTheConnectionIsMutualTLSWhereItsFilesAreNamed(t *testing.T) {
	cert, key := proctest.Certificate(t, "nats")
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(cert)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(text)
	s := startNATS(t, 0, func(o *server.Options) {
		o.TLSConfig = &tls.Config{Certificates: []tls.Certificate{pair}, ClientCAs: pool, ClientAuth: tls.RequireAndVerifyClientCert}
		o.TLS, o.TLSTimeout = true, 5
	})
	network := connect(t, Config{URL: s.ClientURL(), TLS: TLS{CAFile: cert, CertFile: cert, KeyFile: key}})
	if _, err := network.leases().put(t.Context(), "k", nil, 0); err != nil {
		t.Error(err)
	}
	for name, files := range map[string]TLS{"no certificate of ours": {CAFile: cert}, "an authority that we do not know": {CertFile: cert, KeyFile: key}} {
		unauthorized, err := dial(Config{URL: s.ClientURL(), TLS: files, Logger: discard})
		if err != nil {
			continue // it is refused at once
		}
		if unauthorized.up() {
			t.Errorf("connected with %s", name)
		}
		unauthorized.close()
	}
}
