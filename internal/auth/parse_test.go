package auth

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

func TestErrorsInCallersFileHaveLineNumbers(t *testing.T) {
	for _, row := range []struct {
		name  string
		text  string
		lines []int
		words []string // words that the error messages must contain
	}{
		{"an empty file", "", []int{1}, []string{"wrong file: A mapping with the callers"}},
		{"only a comment", "# nobody\n", []int{1}, []string{"wrong file"}},
		{"only teams", "\nteams: {}\n", []int{2}, []string{"callers is missing"}},
		{"invalid YAML", "callers:\n  - name: a\n - b\n", []int{2}, []string{"invalid YAML: did not find expected key"}},
		{"an alias without an anchor", "callers:\n  - name: a\n    tokens: [*hunter2-token]\n", []int{1}, []string{"invalid YAML: unknown anchor …"}},
		{"two documents", "callers: []\n---\ncallers: []\n", []int{2}, []string{"second document"}},
		{"a list", "- name: a\n", []int{1}, []string{"wrong file"}},
		{"a plain string", "billing hunter2-token\n", []int{1}, []string{"wrong file"}},
		{"a duplicate key", "callers: []\nhunter2: []\nhunter2: []\n", []int{3}, []string{"mapping key … already defined at line 2"}},
		{"callers without a list", "callers: {name: a}\n", []int{1}, []string{"wrong callers: A list of the services"}},
		{"callers without a value", "callers:\n", []int{1}, []string{"wrong callers"}},
		{"a caller without a name", "callers:\n  - tokens: []\n", []int{2}, []string{"name is missing"}},
		{"a caller that is text", "callers:\n  - hunter2-token\n", []int{2}, []string{"wrong callers: A caller is a mapping"}},
		{"unknown members", `
limits: {}
teams:
  a:
    hunter2-token: 7
    budget: {weekly_cents: 1}
callers:
  - name: b
    token: ["<one>"]
`, []int{2, 5, 6, 9}, []string{"unknown member limits; the members here are callers, issuers, teams, total", "unknown member; the members here are budget, events", "unknown member weekly_cents; the members here are daily_cents, monthly_cents", "unknown member token; the members here are budget, certificates, issuer, name"}},
		{"events", `
teams:
  a:
    events:
      url: http://hunter2.example/
      secret_file: [whsec_hunter2]
  b: {events: {url: 7, secret_file: f}}
  c: {events: {url: https://b.example/}}
  d: {events: 7}
  e: {events: {url: "https://b.example/", secret_file: "", hunter2: hunter2}}
  f: {events: {url: "https://b.example/%zz?token=hunter2", secret_file: f}}
callers: []
`, []int{5, 6, 7, 8, 9, 10, 10, 11}, []string{"wrong url: The address of the receiver: https", "wrong secret_file: The name of a file", "wrong url", "secret_file is missing", "wrong events", "unknown member", "wrong secret_file", "wrong url"}},
		{"names", `
teams:
  -a: {}
  hunter2 token: {}
callers:
  - name: "hunter2 token"
  - name: anonymous
  - name: 12
  - name: ` + strings.Repeat("a", 64) + `
    team: hunter2 token
`, []int{3, 4, 6, 7, 8, 9, 10}, []string{"wrong teams: A mapping of names to teams. A name is text of 1 to 63 letters", "wrong teams", "wrong name: The name", "not anonymous", "wrong name", "63 letters", "wrong team: "}},
		{"a name that is a number", "teams: {7: {}}\ncallers: []", []int{1}, []string{"wrong teams: A mapping of names to teams. A name is text"}},
		{"unknown teams and duplicate names", `
teams:
  a: {}
callers:
  - name: b
    team: nowhere
  - name: b
    team: a
  - name: a
  - name: c
    team: b
`, []int{6, 7, 9, 11}, []string{"unknown team; add it", "this name is listed twice", "a team has this name", "unknown team"}},
		{"credentials", `
callers:
  - name: a
    tokens:
      - hunter2-token
      - sha256:abcd
  - name: b
    tokens: [7, "<one>", "<one>"]
    certificates: ["", "a b"]
  - name: c
    tokens: hunter2-token
`, []int{5, 6, 8, 8, 9, 9, 11}, []string{"wrong tokens: A list of hashes of its service tokens, each sha256:<64 hex", "wrong tokens", "wrong tokens", "wrong tokens", "wrong certificates: A list of DNS names or URIs", "wrong certificates", "wrong tokens"}},
		{"duplicate credentials", `
issuers: [{issuer: i, audience: a, jwks_file: k}]
callers:
  - {name: a, tokens: ["<one>"], certificates: [x.internal], subjects: [x]}
  - {name: b, tokens: ["<two>",
      "<one>"]}
  - {name: c, certificates: [X.internal]}
  - {name: d, subjects: [x]}
`, []int{6, 7, 8}, []string{"this token is listed twice", "this certificate is listed twice", "this subject is listed twice"}},
		{"issuers", `
issuers:
  - {issuer: "https://a.example", audience: easel, jwks_url: "http://hunter2.example/"}
  - {issuer: "https://a.example", audience: "two hunter2 words", jwks_file: "", ca_file: hunter2}
  - {audience: 7}
callers:
  - {name: b, subjects: ["a b"]}
`, []int{3, 4, 4, 4, 5, 5, 5, 7}, []string{
			"wrong jwks_url: The address of its public keys", "wrong audience", "wrong issuers: An issuer has jwks_file or jwks_url, and not both. ca_file and token_file need jwks_url", "wrong jwks_file",
			"issuer is missing", "wrong audience", "wrong issuers", "wrong subjects",
		}},
		{"a duplicate issuer", "issuers:\n  - {issuer: i, audience: a, jwks_file: k}\n  - {issuer: i, audience: b, jwks_file: k}\ncallers: [{name: a, issuer: hunter2}]\n", []int{3, 4}, []string{"this issuer is listed twice", "unknown issuer of subjects"}},
		{"subjects without an issuer", "callers:\n  - {name: a, subjects: [hunter2]}\n", []int{2}, []string{"unknown issuer of subjects; add one"}},
		{"subjects of an ambiguous issuer", "issuers: [{issuer: i, audience: a, jwks_file: k}, {issuer: j, audience: a, jwks_file: k}]\ncallers:\n  - {name: a, subjects: [hunter2]}\n", []int{3}, []string{"set the caller's issuer"}},
		{"labels and thresholds", `
teams:
  a:
    budget: {daily_cents: "12", thresholds: [0]}
    labels:
      required: [hunter2 project]
      budgets:
        project: {monthly_cents: -1, thresholds: [50]}
total: {events: {url: hunter2}}
callers: []
`, []int{4, 4, 6, 8, 8, 9, 9}, []string{
			"wrong daily_cents: A whole number of cents", "wrong thresholds: A list of 1 to 10 whole percentages", "wrong required: A list of 1 to 16 names", "unknown member thresholds; the members here are daily_cents, monthly_cents",
			"wrong monthly_cents: A whole number of cents", "secret_file is missing", "wrong url: The address",
		}},
		{"an invalid label name", "teams:\n  a:\n    labels:\n      budgets:\n        Project: {}\ncallers: []\n", []int{5}, []string{"invalid label name; use up to 63"}},
		{"budgets and models", `
teams:
  a:
    budget: {daily_cents: -1, monthly_cents: 1.5}
    models: ["a[", "", 7]
  b: {weight: .nan, budget: {daily_cents: "12", monthly_cents: 1000000000001}}
  c: {budget: , models: }
  d:
  e: {budget: {daily_cents: 7}}
callers: [{name: x, operator: maybe},
  {name: y, team: e, budget: {}}]
`, []int{4, 4, 5, 5, 5, 6, 6, 6, 7, 7, 8, 10, 11}, []string{
			"wrong daily_cents: A whole number of cents", "wrong monthly_cents: A whole number of cents", "wrong models: A list of patterns", "wrong models", "wrong models", "wrong daily_cents", "wrong monthly_cents", "wrong weight: A number from 0.01 to 100",
			"wrong budget: The budget of the team", "wrong models", "wrong teams: A team is a mapping", "wrong operator: true or false", "A caller with a team has the budget of its team",
		}},
	} {
		_, err := parse(row.text)
		faults, _ := errors.AsType[Faults](err)
		var lines []int
		for n, fault := range faults {
			lines = append(lines, fault.Line)
			if n < len(row.words) && !strings.Contains(fault.Text, row.words[n]) {
				t.Errorf("%s: %v does not contain %q", row.name, fault, row.words[n])
			}
		}
		if !slices.Equal(lines, row.lines) {
			t.Errorf("%s: faults in lines %v, want %v:\n%s", row.name, lines, row.lines, strings.ReplaceAll(faults.Error(), "; line", "\nline"))
		}
		if strings.Contains(faults.Error(), "hunter2") {
			t.Errorf("%s: the error repeats the file's content: %v", row.name, err)
		}
	}
}

func TestYAMLAliasResolvesToItsAnchor(t *testing.T) {
	list := mustParse(t, "teams:\n  a: &limits {budget: {daily_cents: 7}}\n  b: *limits\ncallers: [{name: x, team: b, tokens: [\"<one>\"]}]\n")
	if caller := callerByToken(list, "one"); caller.Team.Name != "b" || *caller.Team.DailyCents != 7 {
		t.Errorf("the caller is %+v", caller)
	}
	for _, endless := range []string{"callers: &a [*a]", "teams: &a {x: *a}\ncallers: []", "&a {callers: *a}"} {
		if _, err := parse(endless); err == nil {
			t.Errorf("%q is accepted as a callers file", endless)
		}
	}
}

func FuzzCallersFileAcceptsOnlyListedTokens(f *testing.F) {
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
		if caller := callerByToken(list, token); caller != nil && !strings.Contains(strings.ToLower(text), Hash(token)) && !strings.Contains(text, `\`) {
			t.Errorf("the file %q accepts the token %q as %q", text, token, caller.Name)
		}
	})
}
