package cluster

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// certify writes a certificate that is its own authority, and its key.
func certify(t *testing.T) (cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		IsCA: true, BasicConstraintsValid: true, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	write := func(kind string, der []byte) string {
		path := filepath.Join(t.TempDir(), kind)
		if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	return write("CERTIFICATE", der), write("PRIVATE KEY", keyDER)
}

func TestTheConnectionIsMutualTLSWhereItsFilesAreNamed(t *testing.T) {
	cert, key := certify(t)
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
