package catalog

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

func TestAPIKeyIsRedactedInErrorsInEveryEncoding(t *testing.T) {
	for name, echo := range map[string]string{
		"unchanged":                testKey,
		"upper case":               strings.ToUpper(testKey),
		"lower case":               strings.ToLower(testKey),
		"query escaped":            url.QueryEscape(testKey),
		"percent-encoded":          strings.ReplaceAll(testKey, "_", "%5F"),
		"base64":                   base64.StdEncoding.EncodeToString([]byte(testKey)),
		"base64 for URLs":          base64.RawURLEncoding.EncodeToString([]byte(testKey)),
		"base64 of a header":       base64.StdEncoding.EncodeToString([]byte("Bearer " + testKey)),
		"base64 of basic auth":     base64.StdEncoding.EncodeToString([]byte("ab:" + testKey + ":c")),
		"as a header":              "Authorization: Bearer " + testKey,
		"another key":              "acme_live_Abc123",
		"a different bearer token": "bearer abc.def-ghi",
		"twice":                    testKey + testKey,
		"inside a word":            "x" + testKey + "y",
	} {
		t.Run(name, func(t *testing.T) {
			body, err := json.Marshal(map[string]any{
				"code": echo, "message": "you sent <" + echo + ">, " + echo,
				"details": map[string]string{"field": "prompt", "message": echo},
			})
			if err != nil {
				t.Fatal(err)
			}
			text := fmt.Sprintf("%+v", asError(t, calls[opQuote](t.Context(), newTestClient(t, answeringTransport(400, "application/json", string(body))))))
			for _, secret := range []string{testKey, echo, "Abc123", "abc.def"} {
				if strings.Contains(strings.ToLower(text), strings.ToLower(secret)) {
					t.Errorf("the secret %q is in %s", secret, text)
				}
			}
			if !strings.Contains(text, redacted) {
				t.Errorf("nothing was redacted in %s", text)
			}
		})
	}
}

func TestTheAPIKeyIsRedactedInNetworkErrors(t *testing.T) {
	inner := errors.New(`malformed HTTP response "hello ` + testKey + `"`)
	c := newTestClient(t, roundTrip(func(*http.Request) (*http.Response, error) { return nil, inner })).Polls()
	_, err := c.Account(t.Context(), testCredential)
	if !errors.Is(err, inner) || strings.Contains(err.Error(), testKey) {
		t.Errorf("got %v", err)
	}
}

func TestOrdinaryTextIsNotRedacted(t *testing.T) {
	for key, texts := range map[string][]string{
		testKey: {"Invalid field inputs.prompt: missing", "a live show", "the_live", "ünïcödé 画像", "1 < 2 > 0", "Bearer"},
		"wrong": {"The API key is missing, wrong or revoked."}, // the API key "wrong" is too short to be redacted
	} {
		for _, text := range texts {
			if got := newRedactor(key).cleanText(text); got != text {
				t.Errorf("%q was redacted to %q", text, got)
			}
		}
	}
}

func FuzzRedact(f *testing.F) {
	f.Add("k_live_abc", "K_LIVE_ABC and k_live_abc")
	f.Add("aaaaaaaa", "aaAAaAAAAaaaaaa")
	f.Add("[redacted]", "x[redacted]y")
	f.Add("k_live_abc", "a control character\x01 and k_live_abc")
	f.Fuzz(func(t *testing.T, key, text string) {
		if !isPrintable(key) || len(key) < shortestKey {
			return
		}
		got := newRedactor(key).cleanText(text)
		if len(got) > maxText || !utf8.ValidString(got) {
			t.Errorf("got %d bytes, too long or invalid UTF-8", len(got))
		}
		rest := strings.ReplaceAll(asciiLower(got), redacted, "\n")
		if strings.Contains(rest, asciiLower(key)) {
			t.Errorf("the key %q is still in %q", key, got)
		}
	})
}

func TestSecretIsRedactedInEveryOutputFormat(t *testing.T) {
	secret, cred := NewSecret(testKey), testCredential
	type holder struct {
		Key  Secret
		Cred Credential
		Ptr  *Secret
	}
	all := []any{secret, &secret, cred, &cred, holder{secret, cred, &secret}, &holder{secret, cred, &secret}, []Secret{secret}, map[string]Secret{"k": secret}}
	var out bytes.Buffer
	for _, v := range all {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%t", "%10.3s", "%p"} {
			fmt.Fprintf(&out, verb+"\n", v)
		}
		fmt.Fprintln(&out, v, errors.New(fmt.Sprint(v)))
		text, _ := json.Marshal(v)
		out.Write(text)
		text, _ = xml.Marshal(v)
		out.Write(text)
		slog.New(slog.NewTextHandler(&out, nil)).Info("x", "v", v)
		slog.New(slog.NewJSONHandler(&out, nil)).Info("x", "v", v)
	}
	hexed := fmt.Sprintf("%x", testKey)
	if text := strings.ToLower(out.String()); strings.Contains(text, strings.ToLower(testKey)) || strings.Contains(text, hexed) {
		for line := range strings.Lines(text) {
			if strings.Contains(line, strings.ToLower(testKey)) || strings.Contains(line, hexed) {
				t.Errorf("the key was printed: %s", line)
			}
		}
	}
	if secret.Reveal() != testKey || !secret.Equal(NewSecret(testKey)) || secret.Equal(NewSecret("")) || secret.Equal(Secret{}) {
		t.Error("Reveal does not return the API key, or Equal returns a wrong result")
	}
}

func TestTenantIsDerivedFromForwardedAPIKey(t *testing.T) {
	a, again, b := Forwarded(NewSecret("a_key")), Forwarded(NewSecret("a_key")), Forwarded(NewSecret("b_key"))
	if a.Tenant != again.Tenant || a.Tenant == b.Tenant || a.Shared || strings.Contains(string(a.Tenant), "a_key") {
		t.Errorf("got the tenants %s, %s and %s, want only the first two equal, and no key", a.Tenant, again.Tenant, b.Tenant)
	}
	key := NewSecret("one")
	shared := Shared(func() Secret { return key })
	before := shared.Tenant
	key = NewSecret("two")
	if shared.APIKey().Reveal() != "two" || shared.Tenant != before || !shared.Shared {
		t.Error("a shared credential has an old key or another tenant")
	}
	if (Credential{}).APIKey().Reveal() != "" {
		t.Error("an empty credential has a key")
	}
}

func TestAPIKeyIsRedactedInRecordsHeadersAndErrors(t *testing.T) {
	const key = "ABCDEF_GHIJKL_0123" // an API key that looks like an error code
	cred := Shared(func() Secret { return NewSecret(key) })
	header := http.Header{
		"Content-Type": {"image/" + key}, "Etag": {`"` + key + `"`}, "X-Other": {"kept"},
		"X-Encoded": {base64.StdEncoding.EncodeToString([]byte("Bearer " + key))},
	}
	c := newTestClient(t, roundTrip(func(r *http.Request) (*http.Response, error) {
		if r.Pattern == opQuote {
			return reply(r, 400, http.Header{"Content-Type": {"text/plain"}}, key+": refused"), nil
		}
		return reply(r, 200, header, `{"id":"g1","modelId":"`+key+`","status":"succeeded","textOutput":"a `+key+`, b `+strings.ToLower(key)+`","deep":["`+key+`"]}`), nil
	}))
	g, err := c.Generation(t.Context(), cred, "g1")
	if err != nil || g.ModelID != redacted || *g.Text != "a [redacted], b [redacted]" || g.Extra != nil {
		t.Errorf("got %+v, %v", g, err)
	}
	content, err := c.Content(t.Context(), cred, "g1", 0, "")
	if err != nil || content.ContentType != "" || content.Etag != "" {
		t.Errorf("got %+v, %v", content, err)
	}
	content.Body.Close()
	_, err = c.Quote(t.Context(), cred, "m", []byte(`{}`))
	if e := asError(t, err); strings.Contains(e.Code+e.Error(), key) {
		t.Errorf("got %+v", e)
	}
}

func TestManyAPIKeysInLongTextAreRedactedQuickly(t *testing.T) {
	const many = 500_000 // number of keys in the text; with one pass per key, the test would take minutes
	text := strings.Repeat("Key-of-8 ", many)
	began := time.Now()
	got := newRedactor("key-of-8").redactKey(text)
	if want := strings.Repeat(redacted+" ", many); got != want || time.Since(began) > time.Minute {
		t.Errorf("got %.40q after %v", got, time.Since(began))
	}
}
