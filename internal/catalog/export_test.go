package catalog

import (
	"crypto/tls"
	"crypto/x509"
)

// TrustElsewhere sets the CAs that the client trusts for results on other hosts.
func (c *Client) TrustElsewhere(roots *x509.CertPool) {
	c.upstream.elsewhere.pool.base.TLSClientConfig = &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
}
