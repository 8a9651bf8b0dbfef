package server

import (
	"cmp"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"time"

	"github.com/easel-grpc/easel/internal/auth"
	"github.com/easel-grpc/easel/internal/reload"
)

// TLS contains the paths of PEM files and the rule for client certificates. The files are reloaded when they change. If a file
// is invalid or can't be read, the certificates that were loaded last remain in use.
type TLS struct {
	CertFile, KeyFile string // CertFile is the file with the server's certificate chain, and KeyFile the file with its key; empty means plaintext
	ClientCAFile      string // CAs of client certificates; empty means that no client certificates are requested
	ClientAuth        ClientAuth
}

// ClientAuth is the rule for client certificates. Empty means RequireClientCert.
type ClientAuth string

const (
	// RequireClientCert rejects a connection without a certificate.
	RequireClientCert ClientAuth = "require"
	// VerifyClientCertIfGiven accepts a connection without a certificate, but verifies a certificate if the client sends one.
	VerifyClientCertIfGiven ClientAuth = "verify_if_given"
)

func (t TLS) enabled() bool { return t.CertFile != "" }

// clientAuth returns ClientAuth, or RequireClientCert if ClientAuth is empty. It returns "none" if no client certificates are
// requested.
func (t TLS) clientAuth() ClientAuth {
	if t.ClientCAFile == "" {
		return "none"
	}
	return cmp.Or(t.ClientAuth, RequireClientCert)
}

// loadCertificates reads the files. The [reload.Value] that it returns reads them again when they change.
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

// parse returns the TLS configuration for the contents of the files: the certificate chain, its key and, if client certificates
// are requested, the client CAs.
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
		if !config.ClientCAs.AppendCertsFromPEM(contents[2]) {
			return nil, errors.New("no certificate in the client CA file; the file must be PEM")
		}
	}
	return config, nil
}

// certificate returns a client's verified certificate, or nil.
func (c *chain) certificate(state *tls.ConnectionState) *auth.Certificate {
	if state == nil || len(state.VerifiedChains) == 0 {
		return nil
	}
	leaf := state.PeerCertificates[0]
	client := &auth.Certificate{CommonName: leaf.Subject.CommonName, Counts: func() bool { return c.stillVerified(state) }}
	for _, uri := range leaf.URIs {
		client.Names = append(client.Names, uri.String())
	}
	client.Names = append(client.Names, leaf.DNSNames...)
	for _, chain := range state.VerifiedChains {
		if end := endOf(chain); end.After(client.Until) {
			client.Until = end
		}
	}
	return client
}

// endOf returns the earliest expiry time of the certificates in a chain.
func endOf(chain []*x509.Certificate) time.Time {
	return slices.MinFunc(chain, func(a, b *x509.Certificate) int { return a.NotAfter.Compare(b.NotAfter) }).NotAfter
}

// stillVerified reports whether a client's certificate is still valid. At least one of the chains that the handshake verified
// must be unexpired and end at a CA that is still configured. Without a client certificate, stillVerified returns true.
func (c *chain) stillVerified(state *tls.ConnectionState) bool {
	if state == nil || len(state.VerifiedChains) == 0 {
		return true
	}
	now, authorities := time.Now(), c.certificates.Known().ClientCAs
	return slices.ContainsFunc(state.VerifiedChains, func(chain []*x509.Certificate) bool {
		if now.After(endOf(chain)) {
			return false
		}
		// If the last certificate of the chain is itself in the pool, Verify accepts it without checking a signature.
		_, err := chain[len(chain)-1].Verify(x509.VerifyOptions{Roots: authorities, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}})
		return err == nil
	})
}

// checkCertificate wraps a handler. It closes the connection after the response if the client's certificate is no longer
// accepted.
func (c *chain) checkCertificate(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !c.stillVerified(r.TLS) {
			w.Header().Set("Connection", "close")
		}
		next.ServeHTTP(w, r)
	})
}

// newestCertificates returns the TLS configuration for a listener that uses the current certificates in each handshake.
func newestCertificates(from *reload.Value[*tls.Config]) *tls.Config {
	return &tls.Config{
		MinVersion:         tls.VersionTLS13,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return from.Get(), nil },
	}
}
