package server

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// certificateCheck is the least time between two looks at the files.
const certificateCheck = time.Second

// certificates keeps the TLS configuration that the files say. Handshakes look at
// the files; there is no goroutine that watches them.
type certificates struct {
	files   TLS
	logger  *slog.Logger
	current atomic.Pointer[tls.Config]

	mu      sync.Mutex // held by the one handshake that looks; the others go on
	checked time.Time
	loaded  [3]os.FileInfo // as they were when current was read
	failure string         // of the last look, so that it is logged once
}

// loadCertificates reads the files for the first time; then they must be good.
func loadCertificates(files TLS, logger *slog.Logger) (*certificates, error) {
	c := &certificates{files: files, logger: logger, checked: time.Now()}
	infos, err := c.stat()
	if err != nil {
		return nil, err
	}
	return c, c.load(infos)
}

// config is for a listener: each handshake takes the newest certificates.
func (c *certificates) config() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS13,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			c.refresh()
			return c.current.Load(), nil
		},
	}
}

// refresh reads the files again where they have changed. What can't be read is left
// alone, and the old certificates stay in use.
func (c *certificates) refresh() {
	if !c.mu.TryLock() {
		return
	}
	defer c.mu.Unlock()
	if time.Since(c.checked) < certificateCheck {
		return
	}
	c.checked = time.Now()
	infos, err := c.stat()
	if err == nil && c.same(infos) {
		return
	}
	if err == nil {
		err = c.load(infos)
	}
	if err == nil {
		c.failure = ""
		c.logger.Info("TLS certificates reloaded", "cert_file", c.files.CertFile)
		return
	}
	if c.failure != err.Error() {
		c.failure = err.Error()
		c.logger.Warn("TLS certificates can't be reloaded, the old ones stay in use", "error", err)
	}
}

func (c *certificates) stat() (infos [3]os.FileInfo, err error) {
	for n, name := range [3]string{c.files.CertFile, c.files.KeyFile, c.files.ClientCAFile} {
		if name == "" {
			continue
		}
		if infos[n], err = os.Stat(name); err != nil {
			return infos, fmt.Errorf("TLS: %w", err)
		}
	}
	return infos, nil
}

func (c *certificates) same(infos [3]os.FileInfo) bool {
	for n, now := range infos {
		was := c.loaded[n]
		if now == nil && was == nil {
			continue
		}
		// A name may have been moved to another file, as orchestrators do.
		if !os.SameFile(was, now) || !was.ModTime().Equal(now.ModTime()) || was.Size() != now.Size() {
			return false
		}
	}
	return true
}

func (c *certificates) load(infos [3]os.FileInfo) error {
	pair, err := tls.LoadX509KeyPair(c.files.CertFile, c.files.KeyFile)
	if err != nil {
		return fmt.Errorf("TLS certificate %s: %w", c.files.CertFile, err)
	}
	config := &tls.Config{
		MinVersion:   tls.VersionTLS13,
		Certificates: []tls.Certificate{pair},
		NextProtos:   []string{"h2", "http/1.1"},
	}
	if c.files.ClientCAFile != "" {
		if config.ClientCAs, err = readAuthorities(c.files.ClientCAFile); err != nil {
			return err
		}
		config.ClientAuth = tls.VerifyClientCertIfGiven
	}
	c.current.Store(config)
	c.loaded = infos
	return nil
}

func readAuthorities(file string) (*x509.CertPool, error) {
	pem, err := os.ReadFile(file) //nolint:gosec // the operator names the file
	if err != nil {
		return nil, fmt.Errorf("TLS client CA: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("TLS client CA %s: %w", file, errors.New("no certificate in it"))
	}
	return pool, nil
}
