package auth

import (
	"bytes"
	"context"
	"encoding/pem"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/easel-grpc/easel/internal/proctest"
)

// keysServer serves the keys of an issuer over TLS and counts the requests.
type keysServer struct {
	*httptest.Server
	asked  atomic.Int64
	answer atomic.Pointer[http.HandlerFunc]
}

func startKeysServer(t *testing.T, answer http.HandlerFunc) *keysServer {
	t.Helper()
	s := &keysServer{}
	s.answer.Store(&answer)
	s.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.asked.Add(1)
		(*s.answer.Load())(w, r)
	}))
	t.Cleanup(s.Close)
	return s
}

func answerWith(text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, text) }
}

// issuer returns an issuer whose keys this server serves.
func (s *keysServer) issuer(t *testing.T) Issuer {
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	return Issuer{Name: "https://issuer.example", Audience: "easel", KeysURL: s.URL + "/keys", CAFile: proctest.File(t, string(authority))}
}

func TestIssuerKeysAreReadOnlyFromConfiguredURL(t *testing.T) {
	key := newSigning(t, "one", jose.ES256)
	keys := keySet(t, key)
	elsewhere := startKeysServer(t, answerWith(keys))
	server := startKeysServer(t, nil)
	issuer := server.issuer(t)
	issuer.TokenFile = proctest.File(t, "of-the-pod\n")
	read := func(answer http.HandlerFunc, patience time.Duration) error {
		server.answer.Store(&answer)
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		_, err := issuer.readKeys(ctx)
		return err
	}
	if err := read(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer of-the-pod" || r.URL.Path != "/keys" {
			w.WriteHeader(http.StatusForbidden)
		}
		_, _ = io.WriteString(w, keys)
	}, time.Minute); err != nil {
		t.Errorf("valid keys: %v", err)
	}
	for what, row := range map[string]struct {
		answer http.HandlerFunc
		want   string
	}{
		"a redirect to another server": {func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, elsewhere.URL, http.StatusFound) }, "status 302"},
		"a redirect to the same server": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "/other", http.StatusMovedPermanently)
		}, "status 301"},
		"an internal server error": {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) }, "status 500"},
		"no content":               {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }, "status 204"},
		"an HTML page":             {answerWith("<html>log in</html>"), "invalid JSON Web Key Set"},
		"a body that is too large": {answerWith(`{"keys":[],"x":"` + strings.Repeat("a", maxKeysBytes) + `"}`), "too large"},
		"no response":              {func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, "deadline exceeded"},
		"an incomplete body": {func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.WriteString(w, keys[:9])
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		}, "deadline exceeded"},
		"a closed connection": {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, "EOF"},
	} {
		patience := time.Minute
		if row.want == "deadline exceeded" {
			patience = 100 * time.Millisecond
		}
		if err := read(row.answer, patience); err == nil || !strings.Contains(err.Error(), row.want) {
			t.Errorf("%s: %v", what, err)
		} else if strings.Contains(err.Error(), "of-the-pod") || strings.Contains(err.Error(), server.URL) {
			t.Errorf("%s: the error contains the token or the URL: %v", what, err)
		}
	}
	if n := elsewhere.asked.Load(); n > 0 {
		t.Errorf("another server received %d requests", n)
	}
	issuer.CAFile = ""
	if err := read(answerWith(keys), time.Minute); err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("without the server's CA: %v", err)
	}
	server.Close()
	if err := read(nil, time.Minute); err == nil {
		t.Error("keys were read from a closed server")
	}
}

// refreshKeys fetches the issuer's keys now, instead of at the next scheduled time.
func (i *issued) refreshKeys(t *testing.T, name string) {
	i.List().Issuers[name].refreshKeys(t.Context(), i.logger.With("issuer", name))
}

func TestInvalidIssuerFilesAreRejected(t *testing.T) {
	keys := proctest.File(t, keySet(t, newSigning(t, "one", jose.ES256)))
	text := proctest.File(t, "two words")
	for what, row := range map[string]struct {
		issuer Issuer
		want   string
	}{
		"a valid key set":                 {Issuer{KeysFile: keys}, ""},
		"a URL":                           {Issuer{KeysURL: "https://nowhere.example"}, ""},
		"a file without a key set":        {Issuer{KeysFile: text}, "jwks_file: invalid JSON Web Key Set"},
		"an empty key set":                {Issuer{KeysFile: proctest.File(t, `{"keys":[]}`)}, ""},
		"a missing key file":              {Issuer{KeysFile: "/nowhere/keys"}, "jwks_file: open /nowhere/keys"},
		"a missing CA file":               {Issuer{KeysURL: "https://a", CAFile: "/nowhere/ca"}, "ca_file: open /nowhere/ca"},
		"a CA file without a certificate": {Issuer{KeysURL: "https://a", CAFile: text}, "ca_file: no certificate found"},
		"a missing token file":            {Issuer{KeysURL: "https://a", TokenFile: "/nowhere/token"}, "token_file: open /nowhere/token"},
		"an invalid token file":           {Issuer{KeysURL: "https://a", TokenFile: text}, "token_file: invalid token"},
	} {
		if err := row.issuer.Check(); (err == nil) != (row.want == "") || err != nil && !strings.Contains(err.Error(), row.want) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func TestUnknownSigningKeyTriggersKeyReload(t *testing.T) {
	old, next := newSigning(t, "old", jose.ES256), newSigning(t, "next", jose.ES256)
	server := startKeysServer(t, answerWith(keySet(t, old)))
	v := loadIssuers(t, io.Discard, server.issuer(t))
	v.ReadKeys(t.Context())
	for range 100 {
		if _, _, err := v.verify(next.signToken(t, validClaims(nil), nil)); !errors.Is(err, errUnknownKey) {
			t.Fatalf("a token with an unknown key: %v", err)
		}
	}
	if n := server.asked.Load(); n != 1 {
		t.Errorf("the keys were requested %d times, want 1", n)
	}
	v.ReadKeys(t.Context())
	if n := server.asked.Load(); n != 1 {
		t.Errorf("the keys were requested again immediately: %d times", n)
	}
	answer := answerWith(keySet(t, old, next))
	server.answer.Store(&answer)
	keys := v.List().Issuers["https://issuer.example"].keys
	keys.begin = keys.begin.Add(-keysRetryInterval)
	v.ReadKeys(t.Context())
	if _, _, err := v.verify(next.signToken(t, validClaims(nil), nil)); err != nil {
		t.Errorf("after the key was loaded: %v", err)
	}
	if n := server.asked.Load(); n != 2 {
		t.Errorf("the keys were requested %d times, want 2", n)
	}
}

func TestKeySetWithoutSigningKeysRevokesPreviousKeys(t *testing.T) {
	key, private := newSigning(t, "one", jose.ES256), newSigning(t, "one", jose.ES256)
	encrypting := private
	encrypting.public.Use = "enc"
	for name, emptied := range map[string]string{"an empty key set": `{"keys":[]}`, "a key set with only an encryption key": keySet(t, encrypting)} {
		server := startKeysServer(t, answerWith(keySet(t, key)))
		issuer := server.issuer(t)
		logs := proctest.NewOutput()
		v := loadIssuers(t, logs, issuer)
		v.ReadKeys(t.Context())
		token := key.signToken(t, validClaims(nil), nil)
		if _, _, err := v.verify(token); err != nil {
			t.Fatal(err)
		}
		answer := answerWith(emptied)
		server.answer.Store(&answer)
		v.refreshKeys(t, issuer.Name)
		for _, sent := range []string{token, key.signToken(t, validClaims(map[string]any{"sub": "other"}), nil)} {
			if _, _, err := v.verify(sent); !errors.Is(err, errUnknownKey) {
				t.Errorf("%s: a token of the revoked key: %v", name, err)
			}
		}
		if len(v.KeyProblems()) > 0 || strings.Count(logs.String(), "keys=0") != 1 {
			t.Errorf("%s: key problems %v, or no single log line with keys=0", name, v.KeyProblems())
		}
	}
}

func TestIssuerKeysSurviveConfigurationChange(t *testing.T) {
	key := newSigning(t, "one", jose.ES256)
	server := startKeysServer(t, answerWith(keySet(t, key)))
	issuer := server.issuer(t)
	v := loadIssuers(t, io.Discard, issuer)
	v.ReadKeys(t.Context())
	verify := func(audience string) error {
		_, _, err := v.verify(key.signToken(t, validClaims(map[string]any{"aud": audience}), nil))
		return err
	}
	if err := verify("easel"); err != nil {
		t.Fatal(err)
	}
	away := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) })
	server.answer.Store(&away)
	edited := issuer
	edited.Audience, edited.TokenFile, edited.CAFile = "easel2", proctest.File(t, "another"), proctest.File(t, "no certificate")
	v.editIssuers(t, edited)
	if err := verify("easel2"); err != nil {
		t.Errorf("after the edit: %v", err)
	}
	if err := verify("easel"); !errors.Is(err, errAudience) {
		t.Errorf("a token for the previous audience: %v", err)
	}
	v.refreshKeys(t, issuer.Name)
	if err := verify("easel2"); err != nil || v.KeyProblems()[issuer.Name] == nil {
		t.Errorf("after a failed read: %v, %v", err, v.KeyProblems())
	}
	moved := edited
	moved.KeysURL += "/elsewhere"
	v.editIssuers(t, moved)
	if err := verify("easel2"); !errors.Is(err, errNoKeys) {
		t.Errorf("after a change of the URL of the keys: %v", err)
	}
}

func TestSlowIssuerDelaysNoOtherIssuers(t *testing.T) {
	key := newSigning(t, "one", jose.ES256)
	began, end := make(chan struct{}), make(chan struct{})
	slow := startKeysServer(t, func(http.ResponseWriter, *http.Request) { close(began); <-end })
	first, second := slow.issuer(t), issuerWith(t, keySet(t, key))
	first.Name = "https://slow.example"
	v := loadIssuers(t, io.Discard, first, second)
	ended := make(chan struct{})
	go func() { defer close(ended); v.ReadKeys(t.Context()) }()
	<-began
	proctest.Eventually(t, time.Minute, "the keys of the second issuer are loaded", func() bool {
		_, _, err := v.verify(key.signToken(t, validClaims(nil), nil))
		if err != nil && !errors.Is(err, errNoKeys) {
			t.Fatalf("a token of the second issuer: %v", err)
		}
		return err == nil
	})
	if _, _, err := v.verify(key.signToken(t, validClaims(map[string]any{"iss": first.Name}), nil)); !errors.Is(err, errNoKeys) {
		t.Errorf("a token of the slow issuer: %v", err)
	}
	close(end)
	<-ended
}

func TestChangesOfIssuerKeysAreLogged(t *testing.T) {
	one, two, unnamed := newSigning(t, "one", jose.ES256), newSigning(t, "one", jose.ES256), newSigning(t, "", jose.ES256)
	issuer := issuerWith(t, keySet(t, one))
	var log bytes.Buffer
	v := loadIssuers(t, &log, issuer)
	for _, keys := range []string{keySet(t, one), keySet(t, two), keySet(t, two), keySet(t, two, unnamed)} {
		proctest.Write(t, issuer.KeysFile, keys)
		v.refreshKeys(t, issuer.Name)
	}
	want := `^.* keys=1 before=\[\] after=\[one\]\n.* keys=1 before=\[one\] after=\[one\]\n.* keys=2 before=\[one\] after="\[one \]"\n$`
	if !regexp.MustCompile(want).MatchString(log.String()) {
		t.Errorf("the log is\n%s", &log)
	}
}
