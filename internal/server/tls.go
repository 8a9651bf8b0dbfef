package server

import (
	"cmp"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"time"

	"github.com/easel-grpc/easel/internal/auth"
	"github.com/easel-grpc/easel/internal/reload"
)

// TLS names PEM files. They are read again when they change, and the old ones stay
// in use while the new ones can't be read.
type TLS struct {
	// CertFile and KeyFile are the server's certificate chain and its key. Both or
	// neither; neither is plaintext.
	CertFile, KeyFile string
	// ClientCAFile has the authorities that must have signed the certificate of a client.
	// Empty asks for none.
	ClientCAFile string
	// ClientAuth says what becomes of a client without a certificate. Empty is
	// RequireClientCert where there is a ClientCAFile, without which it means nothing.
	ClientAuth ClientAuth
}

// ClientAuth is whether a client must show a certificate.
type ClientAuth string

const (
	// RequireClientCert refuses a connection without one.
	RequireClientCert ClientAuth = "require"
	// VerifyClientCertIfGiven lets the Service decide what a caller without one may do.
	VerifyClientCertIfGiven ClientAuth = "verify_if_given"
)

func (t TLS) enabled() bool { return t.CertFile != "" }

// clientAuth is the effective ClientAuth, "none" where no client certificate is asked for.
func (t TLS) clientAuth() ClientAuth {
	if t.ClientCAFile == "" {
		return "none"
	}
	return cmp.Or(t.ClientAuth, RequireClientCert)
}

// loadCertificates reads the files for the first time; then they must be good.
func loadCertificates(files TLS, logger *slog.Logger) (*reload.Value[*tls.Config], error) {
	names := []string{files.CertFile, files.KeyFile}
	if files.ClientCAFile != "" {
		names = append(names, files.ClientCAFile)
	}
	certificates, err := reload.Open("TLS certificate", logger, files.parse, names...)
	if err == nil {
		certificates.Describe = func(_, after *tls.Config) []any {
			leaf := after.Certificates[0].Leaf
			return []any{"certificate", fmt.Sprintf("%.100s sha256:%x", leaf.Subject, sha256.Sum256(leaf.Raw))}
		}
	}
	return certificates, err
}

// parse makes a configuration of a chain, its key and, where clients are asked for certificates,
// the authorities of these.
func (t TLS) parse(contents ...[]byte) (*tls.Config, error) {
	pair, err := tls.X509KeyPair(contents[0], contents[1])
	if err != nil {
		return nil, err
	}
	config := &tls.Config{
		MinVersion:   tls.VersionTLS13,
		Certificates: []tls.Certificate{pair},
		NextProtos:   []string{"h2", "http/1.1"},
	}
	if len(contents) > 2 {
		config.ClientAuth, config.ClientCAs = tls.RequireAndVerifyClientCert, x509.NewCertPool()
		if t.clientAuth() == VerifyClientCertIfGiven {
			config.ClientAuth = tls.VerifyClientCertIfGiven
		}
		authorities := authoritiesIn(contents[2])
		if len(authorities) == 0 {
			return nil, errors.New("no certificate of a client authority")
		}
		for _, one := range authorities {
			config.ClientCAs.AddCert(one)
		}
	}
	return config, nil
}

// authoritiesIn are the certificates in a PEM file. What is none is passed over.
func authoritiesIn(text []byte) (all []*x509.Certificate) {
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "CERTIFICATE" {
			continue
		}
		if one, err := x509.ParseCertificate(block.Bytes); err == nil {
			all = append(all, one)
		}
	}
	return all
}

// certificate is that of the verified client. A connection without a verified certificate has none.
func (c *chain) certificate(state *tls.ConnectionState) *auth.Certificate {
	if state == nil || len(state.VerifiedChains) == 0 {
		return nil
	}
	client := &auth.Certificate{Counts: func() bool { return c.stillVerified(state) }}
	leaf := state.PeerCertificates[0]
	for _, uri := range leaf.URIs {
		client.Names = append(client.Names, uri.String())
	}
	client.Names = append(client.Names, leaf.DNSNames...)
	client.CommonName = leaf.Subject.CommonName
	for _, chain := range state.VerifiedChains {
		if end := endOf(chain); end.After(client.Until) {
			client.Until = end
		}
	}
	return client
}

// endOf is when the first certificate of a chain ends.
func endOf(chain []*x509.Certificate) time.Time {
	return slices.MinFunc(chain, func(a, b *x509.Certificate) int { return a.NotAfter.Compare(b.NotAfter) }).NotAfter
}

// stillVerified reports whether a handshake would accept the certificate of a client now: a chain has not expired, and its
// authority is configured. A client without a certificate passes.
func (c *chain) stillVerified(state *tls.ConnectionState) bool {
	if state == nil || len(state.VerifiedChains) == 0 {
		return true
	}
	now, authorities := time.Now(), c.certificates.Known().ClientCAs
	return slices.ContainsFunc(state.VerifiedChains, func(chain []*x509.Certificate) bool {
		if now.After(endOf(chain)) {
			return false
		}
		// A certificate of the pool is verified without a look at its signature.
		_, err := chain[len(chain)-1].Verify(x509.VerifyOptions{Roots: authorities, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}})
		return err == nil
	})
}

// certified returns a handler that closes the connections of clients whose certificates are no longer verified. They may
// connect again with newer ones.
func (c *chain) certified(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !c.stillVerified(r.TLS) {
			w.Header().Set("Connection", "close")
		}
		next.ServeHTTP(w, r)
	})
}

// newestCertificates is for a listener: each handshake takes the newest certificates.
func newestCertificates(from *reload.Value[*tls.Config]) *tls.Config {
	return &tls.Config{
		MinVersion:         tls.VersionTLS13,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return from.Get(), nil },
	}
}
