package auth

import (
	"strings"
	"testing"

	"github.com/easel-grpc/easel/internal/proctest"
)

func TestParseAcceptsOnlyValidCallersFiles(t *testing.T) {
	team := func(members string) string { return "teams: {a: {" + members + "}}\ncallers: []\n" }
	caller := func(members string) string { return "callers: [{name: a, " + members + "}]\n" }
	issuer := func(members string) string {
		return "issuers: [{issuer: i, audience: a, " + members + "}]\ncallers: [{name: a, subjects: [s, 'spiffe://b/c', 'system:serviceaccount:a:b']}]\n"
	}
	judge := func(text string, want bool) {
		t.Helper()
		if _, err := parse(text); (err == nil) != want {
			t.Errorf("parsing %q returned %v", text, err)
		}
	}
	_, documented, _ := strings.Cut(proctest.Read(t, "docs/operators.md"), "```yaml\nissuers:")
	documented, _, found := strings.Cut("issuers:"+documented, "```")
	if !found || len(documented) < 500 {
		t.Fatalf("docs/operators.md has no example of issuers: %q", documented)
	}
	for _, text := range []string{
		proctest.Read(t, "deploy/callers.yaml"), documented, example[:strings.Index(example, "callers:")] + "callers: []", "callers: []", "teams: {}\ncallers: []",
		team(""), team("weight: 2"), team("weight: 0.01"), team("weight: 100"), team("retention_days: 1"), team("retention_days: 36500"), team("keep_deleted: true"), team("keep_deleted: false"), team("budget: {}"), team("budget: {daily_cents: 0, monthly_cents: 1000000000000}"), team("models: []"),
		team(`models: ["*", "a/**", "**", "a?[^b-c]d", "\\*", "a]", "[\\]]", "/**", "a/b"]`),
		team("events: {url: 'https://a.example/x?y=1', secret_file: s}"), team("events: {url: 'http://localhost:80', secret_file: /a/b}"), team("events: {url: 'http://127.0.0.1:1/', secret_file: s}"),
		team("events: {url: 'http://[::1]:1/', secret_file: s}"), team("events: {url: 'https://[2001:db8::1]/', secret_file: s}"), team("events: {url: 'https://10.0.0.1:8443/a@b', secret_file: s}"),
		team("budget: {thresholds: [50, 80, 100]}"), team("budget: {daily_cents: 1, thresholds: [1]}"), "total: {thresholds: [100, 1], events: {url: 'https://a', secret_file: s}}\ncallers: []",
		team("labels: {}"), team("labels: {required: [project, cost.center_1-a]}"), team("labels: {budgets: {}}"), team("labels: {budgets: {project: {}, job: {daily_cents: 0, monthly_cents: 7}}}"),
		"total: {}\ncallers: []", "total: {daily_cents: 0, monthly_cents: 7}\ncallers: []", caller("budget: {daily_cents: 7}"), caller("budget: {}"),
		caller(""), caller("operator: false"), caller("tokens: []"), caller("certificates: [a, 'spiffe://b/c', '*.internal']"),
		issuer("jwks_file: k"), issuer("jwks_url: 'https://a.example/keys?x=y'"), issuer("jwks_url: 'http://127.0.0.1:1/', ca_file: c, token_file: t"), issuer("jwks_url: 'https://[2001:db8::1]:6443/openid/v1/jwks'"),
		"issuers: []\ncallers: []", caller("subjects: []"), "issuers: [{issuer: i, audience: a, jwks_file: k}, {issuer: j, audience: a, jwks_file: k}]\ncallers: [{name: a, issuer: j, subjects: [s]}]",
		caller("tokens: [<one>]"), "callers: [{name: " + strings.Repeat("a", 63) + "}]", "callers: [{name: 0.a_B-c}]",
	} {
		judge(text, true)
	}
	for _, text := range []string{
		"", "[]", "text", "teams: {}", "callers:", "callers: {}", "callers: [a]", "limits: {}\ncallers: []", "teams:\ncallers: []", "teams: []\ncallers: []",
		"teams: {a: }\ncallers: []", "teams: {'a b': {}}\ncallers: []", "teams: {anonymous: {}}\ncallers: []", team("limit: 1"), team("weight: 0"), team("retention_days: 0"), team("retention_days: 1.5"), team("retention_days: 36501"), team("retention_days: '7'"), team("keep_deleted: 'yes'"), team("keep_deleted: 1"), team("weight: -1"), team("weight: 100.5"), team("weight: '2'"), team("weight: "), team("budget: 7"), team("budget: {weekly_cents: 1}"),
		team("budget: {daily_cents: -1}"), team("budget: {daily_cents: 1.5}"), team("budget: {daily_cents: '1'}"), team("budget: {monthly_cents: 1000000000001}"),
		team("budget: {monthly_cents: }"), team("models: a"), team("models: [7]"), team("models: ['']"), team("models: ['a[']"), team("models: ['[]']"),
		team(`models: ['a\']`), team("models: ['[-a]']"), team("models: ['[a-]']"), team("models: ['a[/**']"),
		team("budget: {thresholds: []}"), team("budget: {thresholds: [0]}"), team("budget: {thresholds: [101]}"), team("budget: {thresholds: [50, 50]}"), team("budget: {thresholds: ['50']}"), team("budget: {thresholds: 50}"), team("budget: {thresholds: [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]}"),
		"total: {events: {}}\ncallers: []", team("labels: "), team("labels: [project]"), team("labels: {project: {}}"), team("labels: {required: []}"), team("labels: {required: [Project]}"), team("labels: {required: [a, a]}"), team("labels: {required: project}"),
		team("labels: {budgets: {project: }}"), team("labels: {budgets: {project: 7}}"), team("labels: {budgets: {project: {daily_cents: -1}}}"), team("labels: {budgets: {project: {thresholds: [50]}}}"), team("labels: {budgets: [project]}"),
		team("events: 7"), team("events: {}"), team("events: {url: 'https://a'}"), team("events: {secret_file: s}"), team("events: {url: 'https://a', secret_file: ''}"), team("events: {url: 'https://a', secret_file: 7}"),
		team("events: {url: 'https://a', secret_file: s, token: t}"), team("events: {url: a, secret_file: s}"), team("events: {url: 'http://a.example/', secret_file: s}"), team("events: {url: 'ftp://localhost/', secret_file: s}"),
		team("events: {url: 'https://', secret_file: s}"), team("events: {url: 'https:///x', secret_file: s}"), team("events: {url: 'https://me:pw@a/', secret_file: s}"), team("events: {url: 'https://a/#b', secret_file: s}"),
		team("events: {url: 'http://127.0.0.2/', secret_file: s}"), team("events: {url: 'https://a b/', secret_file: s}"), team("events: {url: 'http://localhost.a.example/', secret_file: s}"), team("events: {url: 'http://127.0.0.1@a.example/', secret_file: s}"), team("events: {url: 'https://ä/', secret_file: s}"),
		"total: 7\ncallers: []", "total: {weekly_cents: 7}\ncallers: []", "total:\ncallers: []", caller("budget: 7"), caller("budget: {daily_cents: -1}"),
		"teams: {a: {}}\ncallers: [{name: b, team: a, budget: {}}]",
		"callers: [{}]", "callers: [{name: }]", "callers: [{name: 7}]", "callers: [{name: ''}]", "callers: [{name: -a}]", "callers: [{name: anonymous}]",
		"callers: [{name: " + strings.Repeat("a", 64) + "}]", caller("token: a"), caller("team: 7"), caller("team: 'a b'"), caller("operator: 1"), caller("operator: yes"),
		caller("tokens: <one>"), caller("tokens: [7]"), caller("tokens: [secret]"), caller("tokens: [sha256:ab]"), caller("tokens: [<one>, <one>]"), caller("tokens: "),
		caller("certificates: a"), caller("certificates: ['']"), caller("certificates: ['a b']"), caller("certificates: [ä]"), caller("certificates: [a, a]"),
		caller("certificates: [" + strings.Repeat("a", 2049) + "]"),
		issuer(""), issuer("jwks_file: k, jwks_url: 'https://a'"), issuer("jwks_file: ''"), issuer("jwks_file: 7"), issuer("jwks_file: k, ca_file: c"), issuer("jwks_file: k, token_file: t"),
		issuer("jwks_url: 'http://a.example/'"), issuer("jwks_url: 'https://me:pw@a/'"), issuer("jwks_url: 'https://a/#b'"), issuer("jwks_url: 7"), issuer("jwks_url: 'https://a', ca_file: ''"), issuer("jwks_file: k, keys: k"),
		"issuers: 7\ncallers: []", "issuers: [7]\ncallers: []", "issuers: [{}]\ncallers: []", "issuers: [{issuer: i, jwks_file: k}]\ncallers: []", "issuers: [{audience: a, jwks_file: k}]\ncallers: []",
		"issuers: [{issuer: 'a b', audience: a, jwks_file: k}]\ncallers: []", "issuers: [{issuer: '', audience: a, jwks_file: k}]\ncallers: []", "issuers: [{issuer: i, audience: [a], jwks_file: k}]\ncallers: []",
		caller("subjects: a"), caller("subjects: ['']"), caller("subjects: ['a b']"), caller("subjects: [7]"), caller("issuer: 7"), caller("subjects: [" + strings.Repeat("a", 2049) + "]"),
	} {
		judge(text, false)
	}
	for _, text := range []string{ // each text breaks a rule that the schema does not express
		team("labels: {budgets: {Project: {}}}"), team("labels: {budgets: {'a=b': {}}}"), caller("team: nowhere"), "teams: {a: {}}\ncallers: [{name: a}]", "callers: [{name: a}, {name: a}]",
		"callers: [{name: a, tokens: [<one>]}, {name: b, tokens: [<one>]}]", "callers: [{name: a, certificates: [x]}, {name: b, certificates: [X]}]",
		caller("subjects: [s]"), caller("issuer: i"), "issuers: [{issuer: i, audience: a, jwks_file: k}, {issuer: i, audience: b, jwks_file: k}]\ncallers: []",
		"issuers: [{issuer: i, audience: a, jwks_file: k}, {issuer: j, audience: a, jwks_file: k}]\ncallers: [{name: a, subjects: [s]}]",
		"issuers: [{issuer: i, audience: a, jwks_file: k}]\ncallers: [{name: a, subjects: [s]}, {name: b, subjects: [s]}]", issuer("jwks_url: 'https://a/%zz'"),
		"callers: []\n---\ncallers: []", team("events: {url: 'https://a/%zz', secret_file: s}"),
	} {
		judge(text, false)
	}
}
