package auth

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-jose/go-jose/v4"
	"google.golang.org/grpc/metadata"

	"github.com/easel-grpc/easel/internal/catalog"
	"github.com/easel-grpc/easel/internal/proctest"
)

// callersText returns the text of a callers file without teams. Each argument contains a caller's name and token. The
// caller may also use a certificate, whose DNS name is the caller's name followed by .internal.
func callersText(callers ...[2]string) string {
	lines := []string{"callers:"}
	for _, c := range callers {
		lines = append(lines, fmt.Sprintf("  - {name: %s, tokens: [%s], certificates: [%s.internal]}", c[0], Hash(c[1]), c[0]))
	}
	return strings.Join(lines, "\n") + "\n"
}

// hasToken reloads the callers file and returns the name of the caller that has the token, or "" if no caller has it.
func hasToken(callers *Callers, token string) string {
	callers.Reload() // a server calls Reload every second
	return nameOf(callerByToken(callers.List(), token))
}

func TestInitialCallersFileWithoutCallersIsRejected(t *testing.T) {
	_, err := LoadCallers(proctest.File(t, "callers: []\n"), slog.New(slog.DiscardHandler), nil)
	if err == nil || !strings.Contains(err.Error(), "lists no callers") {
		t.Errorf("the error is %v", err)
	}
}

func TestInvalidCallersFileIsNotApplied(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := proctest.File(t, callersText([2]string{"shop", "one"}, [2]string{"blog", "two"}))
		var logs strings.Builder
		var applied []int // number of callers in each applied version of the callers file
		callers, err := LoadCallers(path, slog.New(slog.NewTextHandler(&logs, nil)), func(list *List) { applied = append(applied, len(list.Callers)) })
		if err != nil {
			t.Fatal(err)
		}
		change := func(text string) {
			proctest.Write(t, path, text)
			time.Sleep(time.Second)
		}
		change("callers: [{name: blog, team: nowhere}]\n")
		for range 3 {
			time.Sleep(time.Second)
			if hasToken(callers, "one") != "shop" {
				t.Error("a rejected callers file was applied")
			}
		}
		if n := strings.Count(logs.String(), "unknown team"); n != 1 {
			t.Errorf("the rejection was logged %d times, want 1", n)
		}
		change(callersText([2]string{"blog", "two"}))
		if got := hasToken(callers, "one"); got != "" {
			t.Errorf("after the file is applied, the removed token belongs to %q", got)
		}
		change("callers: [] # all removed\n")
		if hasToken(callers, "two") != "" {
			t.Error("a caller is accepted although the file has no callers")
		}
		if !slices.Equal(applied, []int{2, 1, 0}) {
			t.Errorf("the applied callers files have %v callers, want [2 1 0]", applied)
		}
	})
}

func TestAuthenticationDoesNotReadCallersFile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := proctest.File(t, callersText([2]string{"shop", "one"}))
		var logs strings.Builder
		callers, err := LoadCallers(path, slog.New(slog.NewTextHandler(&logs, nil)), nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		shared := catalog.Shared(func() catalog.Secret { return catalog.NewSecret("held-key") })
		s := New(Config{SharedKey: &shared, Callers: callers})
		ctx := metadata.NewIncomingContext(t.Context(), metadata.Pairs("authorization", "Bearer one"))
		if _, err := s.Authenticate(ctx, nil); err != nil || callers.Problem() != nil || logs.Len() > 0 {
			t.Errorf("a call returned %v; the callers file has problem %v; logged %q", err, callers.Problem(), logs.String())
		}
	})
}

func TestAuthenticationModeDeterminesAcceptedCredentials(t *testing.T) {
	callers, err := LoadCallers(proctest.File(t, "teams: {studio: {}}\n"+callersText([2]string{"shop", "token"})+
		"  - {name: poster, team: studio, tokens: ["+Hash("of-poster")+"]}\n"), slog.New(slog.DiscardHandler), nil)
	if err != nil {
		t.Fatal(err)
	}
	shared := catalog.Shared(func() catalog.Secret { return catalog.NewSecret("held-key") })
	client, err := catalog.New(catalog.Config{BaseURL: "https://catalog.example"})
	if err != nil {
		t.Fatal(err)
	}
	forward, hold := Config{Catalog: client}, Config{SharedKey: &shared}
	known, anybody := Config{SharedKey: &shared, Callers: callers}, Config{SharedKey: &shared, Callers: callers, AllowAnonymous: true}
	for _, row := range []struct {
		name   string
		cfg    Config
		auth   []string
		cert   string
		caller string // expected identity in the form CALLER/OWNER; empty if the call is rejected
		reason string // expected reason for the rejection; empty if the call is accepted
	}{
		{"forwarded: a key", forward, []string{"Bearer key"}, "", "/", ""},
		{"forwarded: a scheme in mixed case", forward, []string{"bEARER key"}, "", "/", ""},
		{"forwarded: no key", forward, nil, "", "", "CREDENTIAL_MISSING"},
		{"forwarded: a certificate instead of a key", forward, nil, "shop", "", "CREDENTIAL_MISSING"},
		{"forwarded: another scheme", forward, []string{"Basic key"}, "", "", "CREDENTIAL_MALFORMED"},
		{"forwarded: an empty key", forward, []string{"Bearer "}, "", "", "CREDENTIAL_MALFORMED"},
		{"forwarded: a key with a space", forward, []string{"Bearer a b"}, "", "", "CREDENTIAL_MALFORMED"},
		{"forwarded: two keys", forward, []string{"Bearer a", "Bearer b"}, "", "", "CREDENTIAL_MALFORMED"},
		{"forwarded: a key of 5 KB", forward, []string{"Bearer " + strings.Repeat("k", 5000)}, "", "", "CREDENTIAL_MALFORMED"},
		{"shared: a token without a callers file", hold, []string{"Bearer held-key"}, "", "", "CALLER_UNKNOWN"},
		{"shared: no credentials", known, nil, "", "", "CALLER_UNKNOWN"},
		{"shared: a known token", known, []string{"Bearer token"}, "", "shop/shop", ""},
		{"shared: a known token of a team", known, []string{"Bearer of-poster"}, "", "poster/studio", ""},
		{"shared: a wrong token", known, []string{"Bearer wrong"}, "", "", "CALLER_UNKNOWN"},
		{"shared: the API key as a token", known, []string{"Bearer held-key"}, "", "", "CALLER_UNKNOWN"},
		{"shared: a certificate", known, nil, "shop.internal", "shop/shop", ""},
		{"shared: an unlisted certificate", known, nil, "shop", "", "CALLER_UNKNOWN"},
		{"shared: a token and a certificate of different callers", known, []string{"Bearer of-poster"}, "shop.internal", "poster/studio", ""},
		{"shared: a certificate without a callers file", hold, nil, "billing", "billing/billing", ""},
		{"shared: a wrong token with a listed certificate", known, []string{"Bearer wrong"}, "shop.internal", "", "CALLER_UNKNOWN"},
		{"anonymous: no credentials", anybody, nil, "", "anonymous/", ""},
		{"anonymous: an unlisted certificate", anybody, nil, "shop", "", "CALLER_UNKNOWN"},
		{"anonymous: a wrong token", anybody, []string{"Bearer wrong"}, "", "", "CALLER_UNKNOWN"},
	} {
		t.Run(row.name, func(t *testing.T) {
			ctx := metadata.NewIncomingContext(t.Context(), metadata.MD{"authorization": row.auth})
			ctx, err := New(row.cfg).Authenticate(ctx, certificateOf(row.cert))
			if row.reason != "" {
				if got := reasonOf(err); got != row.reason {
					t.Errorf("got %v with reason %q, want %q", err, got, row.reason)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			id := Of(ctx)
			owner := id.Owner
			if row.cfg.SharedKey == nil {
				owner = strings.TrimPrefix(owner, id.APIKey.APIKeySum()) // with a forwarded API key, the hash of the key identifies the owner
			}
			if got := id.Caller + "/" + owner; got != row.caller || id.SharesAPIKey() != (row.cfg.SharedKey != nil) {
				t.Errorf("the caller and owner are %q; uses a shared API key: %v", got, id.SharesAPIKey())
			}
		})
	}
}

func TestIssuerTokenAuthenticatesCaller(t *testing.T) {
	key, stranger := newSigning(t, "one", jose.EdDSA), newSigning(t, "two", jose.EdDSA)
	issuers := "issuers:\n  - {issuer: i, audience: easel, jwks_file: " + proctest.File(t, keySet(t, key)) + "}\n  - {issuer: away, audience: easel, jwks_file: /nowhere/keys}\n"
	file := proctest.File(t, issuers+"callers: [{name: poster, issuer: i, subjects: [s]}, {name: ops, operator: true, tokens: ["+Hash("of-ops")+"]}]\n")
	known, err := LoadCallers(file, slog.New(slog.DiscardHandler), nil)
	if err != nil {
		t.Fatal(err)
	}
	followKeys(t, known)
	if problems := known.KeyProblems(); len(problems) != 1 || problems["away"] == nil {
		t.Errorf("the key problems are %v, want only that of the issuer \"away\"", problems)
	}
	token := func(issuer, subject string) string {
		return key.signToken(t, validClaims(map[string]any{"iss": issuer, "sub": subject}), nil)
	}
	shared := catalog.Shared(func() catalog.Secret { return catalog.NewSecret("held-key") })
	s := New(Config{SharedKey: &shared, Callers: known})
	for bearer, want := range map[string]string{
		stranger.signToken(t, validClaims(map[string]any{"iss": "i"}), nil): "CALLER_UNKNOWN", token("i", "s"): "poster", "of-ops": "ops", token("i", "other"): "CALLER_UNKNOWN", token("j", "s"): "CALLER_UNKNOWN", token("away", "s"): "ISSUER_UNAVAILABLE",
		"unknown": "CALLER_UNKNOWN", token("i", strings.Repeat("s", 5000)): "CALLER_UNKNOWN", token("i", strings.Repeat("s", 9000)): "CREDENTIAL_MALFORMED",
	} {
		ctx, err := s.Authenticate(metadata.NewIncomingContext(t.Context(), metadata.Pairs("authorization", "Bearer "+bearer)), nil)
		if err == nil && Of(ctx).Caller != want || err != nil && reasonOf(err) != want {
			t.Errorf("%.40q: got %v, %v; want %s", bearer, ctx, err, want)
		}
	}

	ctx, err := s.Authenticate(metadata.NewIncomingContext(t.Context(), metadata.Pairs("authorization", "Bearer "+token("i", "s"))), nil)
	if err != nil {
		t.Fatal(err)
	}
	still := s.StillKnown(ctx)
	for text, want := range map[string]bool{
		issuers + "callers: [{name: other}, {name: poster, issuer: i, subjects: [s]}]": true, issuers + "callers: [{name: poster, issuer: i, subjects: [t]}]": false,
		issuers + "callers: [{name: poster, issuer: away, subjects: [s]}]": false, issuers + "callers: [{name: other, issuer: i, subjects: [s]}]": false,
	} {
		proctest.Write(t, file, text)
		known.Reload()
		if err := still(); (err == nil) != want || known.Problem() != nil {
			t.Errorf("with %s: an open stream gets error %v; the file has problem %v", text, err, known.Problem())
		}
	}
}

// certificateOf returns a certificate with the given name. A name that contains a dot becomes a DNS name. Any other
// name becomes the common name.
func certificateOf(name string) *Certificate {
	if strings.Contains(name, ".") {
		return &Certificate{Names: []string{"elsewhere.internal", name}, CommonName: "anybody"}
	}
	return &Certificate{CommonName: name}
}

// reasonOf returns the reason in an authentication error.
func reasonOf(err error) string {
	denied, ok := errors.AsType[*Error](err)
	if !ok {
		return "no reason"
	}
	return denied.Reason.String()
}

func TestTeamDeterminesRequestWeight(t *testing.T) {
	shared := catalog.Shared(func() catalog.Secret { return catalog.NewSecret("any") })
	text := "teams: {studio: {weight: 2.5}, print: {}}\ncallers: [{name: a, team: studio, tokens: [<one>]}, {name: b, team: print, tokens: [<two>]}, {name: c, tokens: [<three>]}]"
	callers, err := LoadCallers(proctest.File(t, withHashes(text)), slog.New(slog.DiscardHandler), nil)
	if err != nil {
		t.Fatal(err)
	}
	a := New(Config{SharedKey: &shared, Callers: callers, AllowAnonymous: true})
	for token, want := range map[string]float64{"one": 2.5, "two": 1, "three": 1, "": 1} {
		if i, err := a.identify(token, nil); err != nil || i.APIKey.Weight != want {
			t.Errorf("token %q: got weight %v, %v", token, i.APIKey.Weight, err)
		}
	}
	if i, err := a.Renewed(Of(t.Context())); i != unauthenticated || err != nil {
		t.Errorf("renewing a call without an identity returned %v, %v", i, err)
	}
}

func TestUnauthenticatedCallHasNoRights(t *testing.T) {
	i := Of(t.Context())
	if i.Owner == "" || i.SeesAll() || i.SeesAccount || i.APIKey.APIKey().Reveal() != "" {
		t.Errorf("the call has the owner %q; sees all: %v, sees the account: %v", i.Owner, i.SeesAll(), i.SeesAccount)
	}
}
