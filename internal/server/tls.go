package server

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"log/slog"

	"github.com/easel-grpc/easel/internal/reload"
)

// loadCertificates reads the files for the first time; then they must be good.
func loadCertificates(files TLS, logger *slog.Logger) (*reload.Value[*tls.Config], error) {
	names := []string{files.CertFile, files.KeyFile}
	if files.ClientCAFile != "" {
		names = append(names, files.ClientCAFile)
	}
	return reload.Open("TLS certificate", logger, parseCertificates, names...)
}

// parseCertificates makes a configuration of a chain, its key and, where they are asked for, the
// authorities of clients.
func parseCertificates(contents ...[]byte) (*tls.Config, error) {
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
		config.ClientAuth, config.ClientCAs = tls.VerifyClientCertIfGiven, x509.NewCertPool()
		if !config.ClientCAs.AppendCertsFromPEM(contents[2]) {
			return nil, errors.New("no certificate of a client authority")
		}
	}
	return config, nil
}

// newestCertificates is for a listener: each handshake takes the newest certificates.
func newestCertificates(from *reload.Value[*tls.Config]) *tls.Config {
	return &tls.Config{
		MinVersion:         tls.VersionTLS13,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return from.Get(), nil },
	}
}
