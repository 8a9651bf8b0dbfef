package auth

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
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
	// mostKeysBytes and mostKeys bound a set of keys.
	mostKeysBytes, mostKeys = 1 << 20, 200
	// leastRSA and mostRSA are the bits of an RSA key.
	leastRSA, mostRSA = 2048, 8192
	// keysTimeout is how long a read of keys may take.
	keysTimeout = 10 * time.Second
)

// key is a public key of an issuer.
type key struct{ jose.JSONWebKey }

// parseKeys returns the keys of a JSON Web Key Set that verify signatures, and the number of other keys. One key that go-jose
// does not know must not make the others unusable.
func parseKeys(text []byte) (keys []*key, unusable int, err error) {
	var set struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := json.Unmarshal(text, &set); err != nil || set.Keys == nil || len(set.Keys) > mostKeys {
		return nil, 0, fmt.Errorf("invalid JSON Web Key Set, or more than %d keys", mostKeys)
	}
	for _, text := range set.Keys {
		if one := new(key); one.UnmarshalJSON(text) == nil && one.verifies() {
			keys = append(keys, one)
		}
	}
	return keys, len(set.Keys) - len(keys), nil
}

// verifies reports whether a key is public, and made to verify signatures.
func (k *key) verifies() bool {
	if !slices.Contains([]string{"", "sig", "jwt-svid"}, k.Use) { // the last is SPIFFE's
		return false
	}
	switch public := k.Key.(type) {
	case *rsa.PublicKey:
		return public.N.BitLen() >= leastRSA && public.N.BitLen() <= mostRSA
	case *ecdsa.PublicKey:
		return public.Curve == elliptic.P256() || public.Curve == elliptic.P384()
	case ed25519.PublicKey:
		return true
	}
	return false
}

// fits reports whether a key may verify a signature by an algorithm.
func (k *key) fits(algorithm string) bool {
	if k.Algorithm != "" && k.Algorithm != algorithm {
		return false
	}
	switch k.Key.(type) {
	case *rsa.PublicKey:
		return strings.HasPrefix(algorithm, "RS") || strings.HasPrefix(algorithm, "PS")
	case *ecdsa.PublicKey:
		return strings.HasPrefix(algorithm, "ES")
	}
	return algorithm == string(jose.EdDSA)
}

// keyNames are the names of keys for people.
func keyNames(keys []*key) (names []string) {
	for _, one := range keys {
		names = append(names, one.name())
	}
	return names
}

// mostKeyID bounds what a name has of a kid.
const mostKeyID = 100

// name is the kid of a key, if it has one, and its thumbprint (RFC 7638): another key may have the same kid.
func (k *key) name() string {
	sum, err := k.Thumbprint(crypto.SHA256)
	if err != nil { // it is of a kind that verifies
		sum = nil
	}
	return strings.TrimSpace(fmt.Sprintf("%.*s %s", mostKeyID, k.KeyID, base64.RawURLEncoding.EncodeToString(sum)))
}

// Check reads the files that an issuer names, and sends no request. An empty set is valid: the issuer has revoked its keys.
func (i Issuer) Check() error {
	if i.KeysFile != "" {
		text, err := readBounded(i.KeysFile)
		if err == nil {
			err = checkKeys(text)
		}
		return ofMember("jwks_file", err)
	}
	_, err := i.authorities()
	if err == nil {
		_, err = i.token()
	}
	return err
}

func checkKeys(text []byte) error {
	keys, unusable, err := parseKeys(text)
	if err == nil && len(keys) == 0 && unusable > 0 {
		err = errors.New("no public key that verifies signatures: RSA of 2048 to 8192 bits, P-256, P-384 or Ed25519")
	}
	return err
}

// keys reads the keys of an issuer as they stand now.
func (i Issuer) keys(ctx context.Context) ([]byte, error) {
	if i.KeysFile != "" {
		text, err := readBounded(i.KeysFile)
		return text, ofMember("jwks_file", err)
	}
	text, err := i.get(ctx)
	return text, ofMember("jwks_url", err)
}

// get asks the address of the keys, and nobody else: no redirect is followed.
func (i Issuer) get(ctx context.Context) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, keysTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, i.KeysURL, nil)
	if err != nil {
		return nil, err
	}
	authorities, err := i.authorities()
	if err != nil {
		return nil, err
	}
	token, err := i.token()
	if err != nil {
		return nil, err
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	req.Header.Set("Accept", "application/jwk-set+json, application/json")
	client := http.Client{
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: &http.Transport{
			Proxy: http.ProxyFromEnvironment, DisableKeepAlives: true, MaxResponseHeaderBytes: mostKeysBytes,
			TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: authorities},
		},
	}
	answer, err := client.Do(req)
	if err != nil {
		return nil, cause(err)
	}
	defer func() { _ = answer.Body.Close() }()
	if answer.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("it answers with status %d", answer.StatusCode)
	}
	text, err := bounded(answer.Body)
	if err == nil {
		err = ctx.Err() // a server that sees the end of the call may end its answer too
	}
	return text, cause(err)
}

// cause is what is behind the error of a request, without its address.
func cause(err error) error {
	if failed, ok := errors.AsType[*url.Error](err); ok {
		err = failed.Err
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("it has not answered in full within %v", keysTimeout)
	}
	return err
}

// authorities are those of the address of the keys; nil is those of the system.
func (i Issuer) authorities() (*x509.CertPool, error) {
	if i.CAFile == "" {
		return nil, nil
	}
	text, err := readBounded(i.CAFile)
	if err != nil {
		return nil, ofMember("ca_file", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, errors.New("ca_file: it has no certificate")
	}
	return pool, nil
}

// token is what is sent to the address of the keys; "" where nothing is.
func (i Issuer) token() (string, error) {
	if i.TokenFile == "" {
		return "", nil
	}
	text, err := readBounded(i.TokenFile)
	token := strings.TrimSpace(string(text))
	if err == nil && !visibleForm.MatchString(token) {
		err = errors.New("it is no token")
	}
	return token, ofMember("token_file", err)
}

// ofMember adds which member of an issuer an error is of.
func ofMember(member string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", member, err)
}

// readBounded reads a file that is not too large.
func readBounded(name string) ([]byte, error) {
	file, err := os.Open(name) //nolint:gosec // the operator names it
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	return bounded(file)
}

// bounded reads what is not too large.
func bounded(from io.Reader) ([]byte, error) {
	text, err := io.ReadAll(io.LimitReader(from, mostKeysBytes+1))
	if err == nil && len(text) > mostKeysBytes {
		return nil, fmt.Errorf("it is larger than %d bytes", mostKeysBytes)
	}
	return text, err
}
