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

// parseKeys returns the keys of a JSON Web Key Set that can verify signatures. It skips keys that go-jose can't decode.
func parseKeys(text []byte) (keys []jose.JSONWebKey, err error) {
	var set struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := json.Unmarshal(text, &set); err != nil || set.Keys == nil || len(set.Keys) > maxKeys {
		return nil, fmt.Errorf("invalid JSON Web Key Set, or more than %d keys", maxKeys)
	}
	for _, text := range set.Keys {
		var key jose.JSONWebKey
		if key.UnmarshalJSON(text) == nil && isVerificationKey(key) {
			keys = append(keys, key)
		}
	}
	return keys, nil
}

// isVerificationKey reports whether a key is a public key that can be used to verify tokens. SPIFFE key sets mark such a key
// with the use "jwt-svid".
func isVerificationKey(key jose.JSONWebKey) bool {
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

// Check reads the files in the issuer's settings, and returns an error if one of them is invalid. It sends no request. An empty
// key set is valid, because an issuer can revoke all its keys.
func (i *Issuer) Check() error {
	if i.KeysFile == "" {
		_, _, err := i.newRequest(context.Background())
		return err
	}
	_, err := i.readKeys(context.Background())
	return err
}

// readKeys reads the keys of an issuer from its file or its URL. Its errors do not contain the URL.
func (i *Issuer) readKeys(ctx context.Context) (keys []jose.JSONWebKey, err error) {
	member, text := "jwks_file", []byte(nil)
	if i.KeysFile != "" {
		text, err = os.ReadFile(i.KeysFile)
	} else {
		member = "jwks_url"
		text, err = i.downloadKeys(ctx)
	}
	if err == nil {
		keys, err = parseKeys(text)
	}
	if failed, ok := errors.AsType[*url.Error](err); ok {
		err = failed.Err // omits the URL
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", member, err)
	}
	return keys, nil
}

// downloadKeys downloads the key set from its URL. It does not follow redirects.
func (i *Issuer) downloadKeys(ctx context.Context) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, keysTimeout)
	defer cancel()
	client, req, err := i.newRequest(ctx)
	if err != nil {
		return nil, err
	}
	response, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("unexpected status %d", response.StatusCode)
	}
	text, err := io.ReadAll(http.MaxBytesReader(nil, response.Body, maxKeysBytes))
	return text, cmp.Or(err, ctx.Err()) // a read that is interrupted by ctx may end without an error
}

// newRequest returns the request for the key set, and a client that trusts the CAs in CAFile.
func (i *Issuer) newRequest(ctx context.Context) (*http.Client, *http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, i.KeysURL, nil)
	if err != nil {
		return nil, nil, err
	}
	req.Header.Set("Accept", "application/jwk-set+json, application/json")
	var authorities *x509.CertPool
	if i.CAFile != "" {
		text, err := os.ReadFile(i.CAFile)
		if authorities = x509.NewCertPool(); err == nil && !authorities.AppendCertsFromPEM(text) {
			err = errors.New("no certificate found; the file must be PEM")
		}
		if err != nil {
			return nil, nil, fmt.Errorf("ca_file: %w", err)
		}
	}
	if i.TokenFile != "" {
		text, err := os.ReadFile(i.TokenFile)
		token := strings.TrimSpace(string(text))
		if err == nil && !visibleForm.MatchString(token) {
			err = errors.New("invalid token; it must be one line of visible ASCII")
		}
		if err != nil {
			return nil, nil, fmt.Errorf("token_file: %w", err)
		}
		req.Header.Set("Authorization", "Bearer "+token)
	}
	return &http.Client{
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: &http.Transport{
			Proxy: http.ProxyFromEnvironment, DisableKeepAlives: true, MaxResponseHeaderBytes: maxKeysBytes,
			TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: authorities},
		},
	}, req, nil
}
