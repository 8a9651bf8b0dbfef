package auth

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

func TestEveryFaultOfAFileIsToldWithItsLine(t *testing.T) {
	for _, row := range []struct {
		name  string
		text  string
		lines []int
		words []string // a part of the message of each fault
	}{
		{"an empty file", "", []int{1}, []string{"callers is missing"}},
		{"a comment alone", "# nobody\n", []int{1}, []string{"callers is missing"}},
		{"teams alone", "\nteams: {}\n", []int{2}, []string{"callers is missing"}},
		{"no YAML", "callers:\n  - name: a\n - b\n", []int{2}, []string{"invalid YAML"}},
		{"an alias without an anchor", "callers:\n  - name: a\n    tokens: [*secret-token]\n", []int{3}, []string{"no anchor"}},
		{"two documents", "callers: []\n---\ncallers: []\n", []int{2}, []string{"second document"}},
		{"a list", "- name: a\n", []int{1}, []string{"the file must be a mapping"}},
		{"the lines of before", "billing secret-token\n", []int{1}, []string{"the file must be a mapping"}},
		{"a name twice", "callers: []\ncallers: []\n", []int{2}, []string{"line 1 already"}},
		{"callers without a list", "callers: {name: a}\n", []int{1}, []string{"callers must be a list"}},
		{"callers without a value", "callers:\n", []int{1}, []string{"callers must be a list"}},
		{"a caller without a name", "callers:\n  - tokens: []\n", []int{2}, []string{"name is missing: a caller must have it"}},
		{"a caller that is text", "callers:\n  - secret-token\n", []int{2}, []string{"a caller must be a mapping"}},
		{"unknown members", `
limits: {}
teams:
  a:
    secret-token: 7
    budget: {weekly_cents: 1}
callers:
  - name: b
    token: ["<one>"]
`, []int{2, 5, 6, 9}, []string{"issuers, teams, callers", "budget, models", "daily_cents, monthly_cents", "name, team, budget, operator, tokens, certificates, issuer, subjects"}},
		{"events", `
teams:
  a:
    events:
      url: http://secret.example/
      secret_file: whsec_secret
  b: {events: {url: 7, secret_file: ""}}
  c: {events: {url: https://b.example/}}
  d: {events: 7}
  e: {events: {url: "https://b.example/", secret_file: f, secret: secret}}
  f: {events: {url: "https://b.example/%zz?token=secret", secret_file: f}}
callers: []
`, []int{5, 7, 7, 8, 9, 10, 11}, []string{"url must be https", "must be text", "must name a file", "secret_file is missing", "events must be a mapping", "url, secret_file", "such as %20"}},
		{"names", `
teams:
  -a: {}
  7: {}
callers:
  - name: "secret token"
  - name: anonymous
  - name: 12
  - name: ` + strings.Repeat("a", 64) + `
`, []int{3, 4, 6, 7, 8, 9}, []string{"with a letter", "must be text", "63 letters", "not anonymous", "must be text", "63 letters"}},
		{"names of others", `
teams:
  a: {}
callers:
  - name: b
    team: nowhere
  - name: b
    team: a
  - name: a
  - name: c
    team: a
`, []int{6, 7, 9}, []string{"no such team", "line 5 already", "line 3 has the name"}},
		{"tokens", `
callers:
  - name: a
    tokens:
      - secret-token
      - sha256:abcd
      - <one>
  - name: b
    tokens: ["<one>", 7, "md5:00"]
    certificates: [x.internal, "", "a b"]
  - name: c
    tokens: secret-token
    certificates: [X.internal]
`, []int{5, 6, 9, 9, 9, 10, 10, 12, 13}, []string{
			"must be its hash", "must be its hash", "line 7 already", "must be text", "must be its hash",
			"DNS name or URI", "DNS name or URI", "tokens must be a list", "line 10 already",
		}},
		{"issuers", `
issuers:
  - {issuer: "https://a.example", audience: easel, jwks_url: "http://secret.example/"}
  - {issuer: "https://a.example", audience: "two secret words", jwks_file: "", ca_file: secret}
  - {audience: 7}
callers:
  - {name: b, issuer: "https://secret.example", subjects: ["a b"]}
  - {name: c, issuer: "https://a.example", subjects: [x]}
  - {name: d, issuer: "https://a.example", subjects: [x]}
`, []int{3, 4, 4, 4, 4, 4, 5, 5, 5, 7, 7, 9}, []string{
			"jwks_url must be https", "audience must be", "must name a file", "jwks_file or jwks_url", "ca_file and token_file need", "line 3 already", "issuer is missing", "must be text",
			"jwks_file or jwks_url", "no such issuer", "a subject must be", "line 8 already",
		}},
		{"subjects without an issuer", "callers:\n  - {name: a, subjects: [secret]}\n", []int{2}, []string{"subjects need an issuer"}},
		{"subjects of one of two issuers", "issuers: [{issuer: i, audience: a, jwks_file: k}, {issuer: j, audience: a, jwks_file: k}]\ncallers:\n  - {name: a, subjects: [secret]}\n", []int{3}, []string{"subjects need an issuer"}},
		{"budgets and models", `
teams:
  a:
    budget: {daily_cents: -1, monthly_cents: 1.5}
    models: ["a[", "", 7]
  b: {weight: .nan, budget: {daily_cents: "12", monthly_cents: 1000000000001}}
  c: {budget: , models: }
  d:
callers: [{name: x, operator: maybe}]
`, []int{4, 4, 5, 5, 5, 6, 6, 6, 7, 7, 8, 9}, []string{
			"whole number", "whole number", "pattern of models", "pattern of models", "must be text", "a weight must be", "whole number", "whole number",
			"a budget must be", "models must be", "a team must be", "true or false",
		}},
	} {
		_, err := parse(row.text)
		faults, _ := errors.AsType[Faults](err)
		var lines []int
		for n, fault := range faults {
			lines = append(lines, fault.Line)
			if n < len(row.words) && !strings.Contains(fault.Text, row.words[n]) {
				t.Errorf("%s: %v does not say %q", row.name, fault, row.words[n])
			}
		}
		if !slices.Equal(lines, row.lines) {
			t.Errorf("%s: faults in lines %v, want %v:\n%s", row.name, lines, row.lines, strings.ReplaceAll(faults.Error(), "; line", "\nline"))
		}
		if strings.Contains(strings.ReplaceAll(faults.Error(), "secret_file", ""), "secret") {
			t.Errorf("%s: the file is repeated: %v", row.name, err)
		}
	}
}

func TestAnAliasStandsForItsAnchor(t *testing.T) {
	list := mustParse(t, "teams:\n  a: &limits {budget: {daily_cents: 7}}\n  b: *limits\ncallers: [{name: x, team: b, tokens: [\"<one>\"]}]\n")
	if caller := list.ByToken("one"); caller.Team.Name != "b" || *caller.Team.DailyCents != 7 {
		t.Errorf("the caller is %+v", caller)
	}
	for _, endless := range []string{"callers: &a [*a]", "teams: &a {x: *a}\ncallers: []", "&a {callers: *a}"} {
		if _, err := parse(endless); err == nil {
			t.Errorf("%q is a callers file", endless)
		}
	}
}

func FuzzAFileLetsInNobodyElse(f *testing.F) {
	for _, text := range []string{"", "callers: []", "callers: [{name: a, tokens: [sha256:" + strings.Repeat("ab", 32) + "]}]", "callers: [{name: token-in-the-clear}]", "a: *token-in-the-clear"} {
		f.Add(text, "token-in-the-clear")
	}
	f.Add("callers: [{name: a, tokens: ["+Hash("known")+"]}]", "known")
	f.Fuzz(func(t *testing.T, text, token string) {
		list, err := Parse([]byte(text))
		if err != nil {
			if faults, ok := errors.AsType[Faults](err); !ok || len(faults) == 0 || faults[0].Line < 1 || strings.Contains(text, "token-in-the-clear") && strings.Contains(err.Error(), "token-in-the-clear") {
				t.Errorf("%q: %v", text, err)
			}
			return
		}
		if caller := list.ByToken(token); caller != nil && !strings.Contains(strings.ToLower(text), Hash(token)) && !strings.Contains(text, `\`) {
			t.Errorf("%q lets in %q as %q", text, token, caller.Name)
		}
	})
}
