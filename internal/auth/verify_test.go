package auth

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/easel-grpc/easel/internal/proctest"
)

// signing is a key with which tests sign tokens, as an issuer does.
type signing struct {
	private crypto.Signer
	public  jose.JSONWebKey
}

func newSigning(t testing.TB, id string, algorithm jose.SignatureAlgorithm) signing {
	t.Helper()
	var private crypto.Signer
	var err error
	switch algorithm {
	case jose.ES256:
		private, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	case jose.ES384:
		private, err = ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	case jose.EdDSA:
		_, private, err = ed25519.GenerateKey(rand.Reader)
	default:
		private, err = rsa.GenerateKey(rand.Reader, 2048)
	}
	if err != nil {
		t.Fatal(err)
	}
	return signing{private, jose.JSONWebKey{Key: private.Public(), KeyID: id, Algorithm: string(algorithm), Use: "sig"}}
}

// validClaims returns the claims of a valid token, with the given changes. A nil value removes a claim.
func validClaims(changes map[string]any) map[string]any {
	now := time.Now().Unix()
	all := map[string]any{"iss": "https://issuer.example", "aud": "easel", "sub": "poster", "iat": now, "exp": now + 600}
	maps.Copy(all, changes)
	maps.DeleteFunc(all, func(_ string, value any) bool { return value == nil })
	return all
}

// signToken returns a token that is signed with the key s. The token has the given claims and additional header members.
func (s signing) signToken(t testing.TB, claims map[string]any, extra map[jose.HeaderKey]any) string {
	t.Helper()
	options := &jose.SignerOptions{ExtraHeaders: extra}
	if s.public.KeyID != "" {
		options = options.WithHeader("kid", s.public.KeyID)
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.SignatureAlgorithm(s.public.Algorithm), Key: s.private}, options)
	if err != nil {
		t.Fatal(err)
	}
	payload, err := json.Marshal(claims)
	if err != nil {
		t.Fatal(err)
	}
	signed, err := signer.Sign(payload)
	if err != nil {
		t.Fatal(err)
	}
	text, err := signed.CompactSerialize()
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// keySet returns a JSON Web Key Set with the public keys.
func keySet(t testing.TB, keys ...signing) string {
	t.Helper()
	var set jose.JSONWebKeySet
	for _, one := range keys {
		set.Keys = append(set.Keys, one.public)
	}
	text, err := json.Marshal(set)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// issuerWith returns an issuer whose key set is in a file.
func issuerWith(t testing.TB, set string) Issuer {
	return Issuer{Name: "https://issuer.example", Audience: "easel", KeysFile: proctest.File(t, set)}
}

// issued is a loaded callers file with token issuers, and the path of this file.
type issued struct {
	*Callers
	path string
}

// loadIssuers loads a new callers file with the given issuers. It writes its log to logs.
func loadIssuers(t testing.TB, logs io.Writer, issuers ...Issuer) *issued {
	t.Helper()
	i := &issued{path: proctest.File(t, "")}
	i.write(t, issuers...)
	var err error
	if i.Callers, err = LoadCallers(i.path, slog.New(slog.NewTextHandler(logs, nil)), nil); err != nil {
		t.Fatal(err)
	}
	return i
}

func (i *issued) write(t testing.TB, issuers ...Issuer) {
	t.Helper()
	text := "callers: [{name: poster}]\nissuers: ["
	for _, issuer := range issuers {
		text += fmt.Sprintf("{issuer: %q, audience: %q", issuer.Name, issuer.Audience)
		for _, member := range [][2]string{{"jwks_file", issuer.KeysFile}, {"jwks_url", issuer.KeysURL}, {"ca_file", issuer.CAFile}, {"token_file", issuer.TokenFile}} {
			if member[1] != "" {
				text += fmt.Sprintf(", %s: %q", member[0], member[1])
			}
		}
		text += "}, "
	}
	proctest.Write(t, i.path, text+"]\n")
}

// editIssuers replaces the issuers in the callers file, and reloads the file.
func (i *issued) editIssuers(t testing.TB, issuers ...Issuer) {
	t.Helper()
	i.write(t, issuers...)
	if i.Reload(); i.Problem() != nil {
		t.Fatal(i.Problem())
	}
}

func (i *issued) verify(token string) (Subject, time.Time, error) { return i.List().verify(token) }

// startIssuers loads a callers file with issuers and follows the issuers' keys until the test ends.
func startIssuers(t testing.TB, issuers ...Issuer) (v *issued, logs *proctest.Output) {
	t.Helper()
	logs = proctest.NewOutput()
	v = loadIssuers(t, logs, issuers...)
	followKeys(t, v.Callers)
	return v, logs
}

// followKeys reads the keys of all issuers once. It then reads them at regular intervals in the background, until
// the test ends.
func followKeys(t testing.TB, callers *Callers) {
	ctx, cancel := context.WithCancel(context.Background())
	callers.ReadKeys(ctx)
	ended := make(chan struct{})
	go func() { defer close(ended); callers.FollowKeys(ctx) }()
	t.Cleanup(func() { cancel(); <-ended })
}

func TestIssuerTokenIdentifiesSubject(t *testing.T) {
	for _, algorithm := range []jose.SignatureAlgorithm{jose.RS256, jose.RS512, jose.PS256, jose.ES256, jose.ES384, jose.EdDSA} {
		key := newSigning(t, "one", algorithm)
		v, _ := startIssuers(t, issuerWith(t, keySet(t, key)))
		for what, changes := range map[string]map[string]any{
			"one audience": nil, "two audiences": {"aud": []string{"other", "easel"}}, "a SPIFFE subject": {"sub": "spiffe://house/poster"},
			"no iat": {"iat": nil}, "a small clock skew": {"exp": time.Now().Unix() - 20, "nbf": time.Now().Unix() + 20},
		} {
			said := validClaims(changes)
			got, until, err := v.verify(key.signToken(t, said, nil))
			want, end := Subject{"https://issuer.example", said["sub"].(string)}, time.Unix(said["exp"].(int64), 0).Add(leeway)
			if got != want || !until.Equal(end) || err != nil {
				t.Errorf("%s, %s: got subject %v until %v, %v", algorithm, what, got, until, err)
			}
		}
	}
}

func TestInvalidIssuerTokensAreRejected(t *testing.T) {
	key, stranger := newSigning(t, "one", jose.RS256), newSigning(t, "one", jose.RS256)
	unlisted := newSigning(t, "../../../../dev/null", jose.RS256)
	v, _ := startIssuers(t, issuerWith(t, keySet(t, key, newSigning(t, "two", jose.ES256))))
	good := key.signToken(t, validClaims(nil), nil)
	parts := strings.Split(good, ".")
	encode := func(value any) string {
		text, _ := json.Marshal(value)
		return base64.RawURLEncoding.EncodeToString(text)
	}
	secret := []byte(fmt.Sprint(key.public.Key.(*rsa.PublicKey).N)) // known to an attacker, because it is part of the public key
	symmetric, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.HS256, Key: secret}, (&jose.SignerOptions{}).WithHeader("kid", "one"))
	if err != nil {
		t.Fatal(err)
	}
	bySecret, err := symmetric.Sign([]byte(`{"iss":"https://issuer.example","aud":"easel","sub":"poster","exp":99999999999}`))
	if err != nil {
		t.Fatal(err)
	}
	hmac, _ := bySecret.CompactSerialize()
	now := time.Now().Unix()
	embedded, _ := json.Marshal(stranger.public)
	for what, row := range map[string]struct {
		token string
		want  error
	}{
		"a token that is not a JWT":          {"easel_0123456789", errNoToken},
		"an empty token":                     {"", errNoToken},
		"three empty parts":                  {"..", errNoToken},
		"alg none":                           {encode(map[string]any{"alg": "none", "kid": "one"}) + "." + parts[1] + ".", errNoToken},
		"alg none with the signature":        {encode(map[string]any{"alg": "none", "kid": "one"}) + "." + parts[1] + "." + parts[2], errNoToken},
		"alg in lower case":                  {encode(map[string]any{"alg": "rs256", "kid": "one"}) + "." + parts[1] + "." + parts[2], errNoToken},
		"HS256 with the public key":          {hmac, errNoToken},
		"no signature":                       {parts[0] + "." + parts[1] + ".", errWrongSigned},
		"a signature by another key":         {stranger.signToken(t, validClaims(nil), nil), errWrongSigned},
		"claims changed after signing":       {parts[0] + "." + encode(validClaims(map[string]any{"sub": "ops"})) + "." + parts[2], errWrongSigned},
		"another algorithm for the key":      {encode(map[string]any{"alg": "PS256", "kid": "one"}) + "." + parts[1] + "." + parts[2], errUnknownKey},
		"the kid of a key of another type":   {encode(map[string]any{"alg": "RS256", "kid": "two"}) + "." + parts[1] + "." + parts[2], errUnknownKey},
		"a kid that is a path":               {unlisted.signToken(t, validClaims(map[string]any{"iat": now - 60}), nil), errUnknownKey},
		"a key in the token (jwk)":           {stranger.signToken(t, validClaims(nil), map[jose.HeaderKey]any{"jwk": json.RawMessage(embedded)}), errWrongSigned},
		"a URL of keys in the token (jku)":   {stranger.signToken(t, validClaims(nil), map[jose.HeaderKey]any{"jku": "https://evil.example/keys"}), errWrongSigned},
		"an unknown critical header (crit)":  {key.signToken(t, validClaims(nil), map[jose.HeaderKey]any{"crit": []string{"x"}, "x": 1}), errWrongSigned},
		"a logout token":                     {key.signToken(t, validClaims(nil), map[jose.HeaderKey]any{"typ": "logout+jwt"}), errKind},
		"another audience":                   {key.signToken(t, validClaims(map[string]any{"aud": "catalog"}), nil), errAudience},
		"no audience":                        {key.signToken(t, validClaims(map[string]any{"aud": nil}), nil), errAudience},
		"an audience that starts with easel": {key.signToken(t, validClaims(map[string]any{"aud": "easel2"}), nil), errAudience},
		"another issuer":                     {key.signToken(t, validClaims(map[string]any{"iss": "https://issuer.example/"}), nil), errIssuer},
		"no issuer":                          {key.signToken(t, validClaims(map[string]any{"iss": nil}), nil), errIssuer},
		"no subject":                         {key.signToken(t, validClaims(map[string]any{"sub": nil}), nil), errNoSubject},
		"expired":                            {key.signToken(t, validClaims(map[string]any{"exp": now - 31}), nil), errExpired},
		"no expiration time":                 {key.signToken(t, validClaims(map[string]any{"exp": nil}), nil), errEndless},
		"not yet valid":                      {key.signToken(t, validClaims(map[string]any{"nbf": now + 60}), nil), errNotYet},
		"issued in the future":               {key.signToken(t, validClaims(map[string]any{"iat": now + 86400}), nil), errNotYet},
		"an expiration time of 1e300":        {key.signToken(t, validClaims(map[string]any{"exp": json.Number("1e300")}), nil), errNoToken},
		"a numeric subject":                  {key.signToken(t, validClaims(map[string]any{"sub": 7}), nil), errNoToken},
		"claims in an array":                 {parts[0] + "." + encode([]int{1}) + "." + parts[2], errNoToken},
		"a duplicate claim":                  {parts[0] + "." + base64.RawURLEncoding.EncodeToString([]byte(`{"sub":"a","sub":"poster"}`)) + "." + parts[2], errNoToken},
		"a megabyte without dots":            {strings.Repeat("a", 1<<20), errNoToken},
		"a megabyte of dots":                 {strings.Repeat(".", 1<<20), errNoToken},
		"a megabyte of claims":               {parts[0] + "." + strings.Repeat("A", 1<<20) + "." + parts[2], errNoToken},
	} {
		if subject, _, err := v.verify(row.token); subject != (Subject{}) || !errors.Is(err, row.want) {
			t.Errorf("%s: got subject %v, error %v", what, subject, err)
		}
	}
	if _, _, err := v.verify(good); err != nil {
		t.Errorf("the valid token: %v", err)
	}
}

func TestTokenIsVerifiedOnlyWithKeysOfItsIssuer(t *testing.T) {
	here, there := newSigning(t, "one", jose.ES256), newSigning(t, "one", jose.ES256)
	first, second := issuerWith(t, keySet(t, here)), issuerWith(t, keySet(t, there))
	second.Name = "https://other.example"
	v, _ := startIssuers(t, first, second)
	if _, _, err := v.verify(there.signToken(t, validClaims(nil), nil)); !errors.Is(err, errWrongSigned) {
		t.Errorf("a token signed by another issuer's key: %v", err)
	}
	subject, _, err := v.verify(there.signToken(t, validClaims(map[string]any{"iss": "https://other.example"}), nil))
	if err != nil || subject != (Subject{"https://other.example", "poster"}) {
		t.Errorf("a token of the second issuer: got subject %v, error %v", subject, err)
	}
}

func TestTokenIsRejectedAfterSigningKeyIsRemoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		old, next := newSigning(t, "old", jose.ES256), newSigning(t, "next", jose.ES256)
		issuer := issuerWith(t, keySet(t, old))
		v, logs := startIssuers(t, issuer)
		token := old.signToken(t, validClaims(nil), nil)
		verify := func(when, token string, want error) {
			t.Helper()
			if _, _, err := v.verify(token); !errors.Is(err, want) {
				t.Errorf("%s: %v, want %v", when, err, want)
			}
		}
		rotate := func(keys ...signing) {
			proctest.Write(t, issuer.KeysFile, keySet(t, keys...))
			time.Sleep(2 * time.Second)
			synctest.Wait()
		}
		verify("at first", token, nil)
		time.Sleep(5 * time.Minute)
		verify("later", token, nil)
		rotate(old, next)
		verify("after a new key was added", token, nil)
		verify("signed with the new key", next.signToken(t, validClaims(nil), nil), nil)
		rotate(next)
		time.Sleep(time.Minute)
		verify("a new token after its key was removed", old.signToken(t, validClaims(map[string]any{"iat": time.Now().Unix() - 120}), nil), errUnknownKey)
		verify("a verified token after its key was removed", token, errUnknownKey)
		rotate(old, next)
		verify("after its key was added again", token, nil)
		time.Sleep(5 * time.Minute)
		verify("after it has expired", token, errExpired)
		fresh := old.signToken(t, validClaims(nil), nil)
		verify("a new token", fresh, nil)
		v.editIssuers(t)
		verify("after its issuer was removed", fresh, errIssuer)
		if n := strings.Count(logs.String(), "issuer keys changed"); n != 4 {
			t.Errorf("changes of keys were logged %d times, want 4", n)
		}
	})
}

func TestLastReadIssuerKeysStayValidForOneDay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		key := newSigning(t, "one", jose.EdDSA)
		issuer := issuerWith(t, keySet(t, key))
		v, logs := startIssuers(t, issuer)
		if err := os.Remove(issuer.KeysFile); err != nil {
			t.Fatal(err)
		}
		token := key.signToken(t, validClaims(map[string]any{"exp": time.Now().Add(48 * time.Hour).Unix()}), nil)
		if _, _, err := v.verify(token); err != nil {
			t.Fatal(err)
		}
		known := &v.List().Issuers[issuer.Name].keys.known
		age := func(by time.Duration) {
			before := known.Load()
			known.Store(&knownKeys{before.set, before.time.Add(-by), before.problem})
		}
		time.Sleep(time.Minute)
		age(keysTTL - 2*time.Minute)
		if _, _, err := v.verify(token); err != nil || v.KeyProblems()[issuer.Name] == nil {
			t.Errorf("within a day: %v; key problem %v", err, v.KeyProblems())
		}
		age(2 * time.Minute)
		if _, _, err := v.verify(token); !errors.Is(err, errOldKeys) {
			t.Errorf("after a day: %v", err)
		}
		if n := strings.Count(logs.String(), "issuer keys unreadable"); n != 1 {
			t.Errorf("the read error was logged %d times, want 1", n)
		}
		proctest.Write(t, issuer.KeysFile, keySet(t, key))
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if _, _, err := v.verify(token); err != nil || len(v.KeyProblems()) > 0 || strings.Count(logs.String(), "issuer keys readable") != 1 {
			t.Errorf("when the keys are available again: %v, %v", err, v.KeyProblems())
		}
	})
}

func TestUnusableIssuerKeysAreIgnored(t *testing.T) {
	weak, err := rsa.GenerateKey(rand.Reader, 1024) //nolint:gosec // a key of 1024 bits is too short to be accepted
	if err != nil {
		t.Fatal(err)
	}
	good := newSigning(t, "good", jose.ES256)
	text := func(key jose.JSONWebKey) string {
		text, err := json.Marshal(key)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	slow, err := ecdsa.GenerateKey(elliptic.P521(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	forEncryption := good.public
	forEncryption.Use = "enc"
	left := []string{
		text(jose.JSONWebKey{Key: &weak.PublicKey, KeyID: "weak"}), text(jose.JSONWebKey{Key: []byte("secret"), KeyID: "secret"}),
		text(jose.JSONWebKey{Key: slow.Public(), KeyID: "slow"}), text(jose.JSONWebKey{Key: good.private, KeyID: "private"}), text(forEncryption), `{"kty":"later","kid":"x"}`, `{}`, `7`, `null`,
		`{"kty":"EC","crv":"P-256","x":"AA","y":"AA"}`, `{"kty":"RSA","n":"AQAB","e":"AQAB"}`,
	}
	keys, err := parseKeys([]byte(`{"keys":[` + strings.Join(left, ",") + `,` + text(good.public) + `]}`))
	if err != nil || len(keys) != 1 || keys[0].KeyID != "good" {
		t.Errorf("the parsed keys are %v, %v", keys, err)
	}
	for _, bad := range []string{"", "7", "[]", "{}", `{"keys":7}`, `{"keys":null}`, `{"keys":[` + strings.Repeat("{},", maxKeys) + `{}]}`} {
		if keys, err := parseKeys([]byte(bad)); err == nil {
			t.Errorf("%.60q: got keys %v, want an error", bad, keys)
		}
	}
}
