package auth

import (
	"cmp"
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"
)

const (
	maxKeysBytes, maxKeys  = 1 << 20, 200
	minRSABits, maxRSABits = 2048, 8192
	keysTimeout            = 5 * time.Second
)

// parseKeys returns the keys of a JSON Web Key Set that can verify signatures. A key that go-jose cannot decode does not make
// the others unusable.
func parseKeys(text []byte) (keys []jose.JSONWebKey, err error) {
	var set struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := json.Unmarshal(text, &set); err != nil || set.Keys == nil || len(set.Keys) > maxKeys {
		return nil, fmt.Errorf("invalid JSON Web Key Set, or more than %d keys", maxKeys)
	}
	for _, text := range set.Keys {
		var key jose.JSONWebKey
		if key.UnmarshalJSON(text) == nil && verifies(key) {
			keys = append(keys, key)
		}
	}
	return keys, nil
}

// verifies reports whether a key is a public key for signatures. The use jwt-svid is from SPIFFE.
func verifies(key jose.JSONWebKey) bool {
	if !slices.Contains([]string{"", "sig", "jwt-svid"}, key.Use) {
		return false
	}
	switch public := key.Key.(type) {
	case *rsa.PublicKey:
		return public.N.BitLen() >= minRSABits && public.N.BitLen() <= maxRSABits
	case *ecdsa.PublicKey:
		return public.Curve == elliptic.P256() || public.Curve == elliptic.P384()
	case ed25519.PublicKey:
		return true
	}
	return false
}

// Check reads the files that an issuer names, and sends no request. An empty set is valid: the issuer has revoked its keys.
func (i Issuer) Check() error {
	if i.KeysFile == "" {
		_, _, err := i.access()
		return err
	}
	text, err := readFile("jwks_file", i.KeysFile)
	if err != nil {
		return err
	}
	if _, err = parseKeys(text); err != nil {
		return fmt.Errorf("jwks_file: %w", err)
	}
	return nil
}

// keySet reads the key set of an issuer.
func (i Issuer) keySet(ctx context.Context) ([]byte, error) {
	if i.KeysFile != "" {
		return readFile("jwks_file", i.KeysFile)
	}
	text, err := i.get(ctx)
	if failed, ok := errors.AsType[*url.Error](err); ok {
		err = failed.Err // omits the URL
	}
	if err != nil {
		return nil, fmt.Errorf("jwks_url: %w", err)
	}
	return text, nil
}

// get downloads the key set from its URL. It follows no redirects.
func (i Issuer) get(ctx context.Context) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, keysTimeout)
	defer cancel()
	client, header, err := i.access()
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, i.KeysURL, nil)
	if err != nil {
		return nil, err
	}
	req.Header = header
	response, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("unexpected status %d", response.StatusCode)
	}
	text, err := io.ReadAll(http.MaxBytesReader(nil, response.Body, maxKeysBytes))
	return text, cmp.Or(err, ctx.Err()) // after ctx is done, a server may end its response early without an error
}

// access returns a client that trusts the CAs of the issuer, and the header of a request for the key set.
func (i Issuer) access() (*http.Client, http.Header, error) {
	header := http.Header{"Accept": {"application/jwk-set+json, application/json"}}
	var authorities *x509.CertPool
	if i.CAFile != "" {
		text, err := readFile("ca_file", i.CAFile)
		if err != nil {
			return nil, nil, err
		}
		if authorities = x509.NewCertPool(); !authorities.AppendCertsFromPEM(text) {
			return nil, nil, errors.New("ca_file: no certificate found; it must be PEM")
		}
	}
	if i.TokenFile != "" {
		text, err := readFile("token_file", i.TokenFile)
		token := strings.TrimSpace(string(text))
		if err == nil && !visibleForm.MatchString(token) {
			err = errors.New("token_file: invalid token; it must be one line of visible ASCII")
		}
		if err != nil {
			return nil, nil, err
		}
		header.Set("Authorization", "Bearer "+token)
	}
	return &http.Client{
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: &http.Transport{
			Proxy: http.ProxyFromEnvironment, DisableKeepAlives: true, MaxResponseHeaderBytes: maxKeysBytes,
			TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: authorities},
		},
	}, header, nil
}

// readFile reads the file that a member of an issuer names.
func readFile(member, name string) ([]byte, error) {
	text, err := os.ReadFile(name) //nolint:gosec // the operator names it
	if err != nil {
		return nil, fmt.Errorf("%s: %w", member, err)
	}
	return text, nil
}
