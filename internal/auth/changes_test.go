package auth_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/easel-grpc/easel/internal/auth"
)

func parsed(t *testing.T, text string) *auth.List {
	t.Helper()
	list, err := auth.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func TestChangesOfAFileAreNamed(t *testing.T) {
	token := func(n int) string { return fmt.Sprintf("sha256:%064x", n) }
	before := parsed(t, "total: {daily_cents: 5}\nteams: {studio: {weight: 2, budget: {daily_cents: 300, monthly_cents: 9000}, models: [a]}, print: {}}\ncallers:\n- {name: a, team: studio, tokens: ['"+token(1)+"']}\n- {name: b, team: print}\n- {name: ops, operator: true}\n")
	for name, test := range map[string]struct {
		after string
		want  []string
	}{
		"nothing but form": {
			"# a comment\nteams:\n  print: {}\n  studio:\n    weight: 2\n    models: [a]\n    budget: {monthly_cents: 9000, daily_cents: 300}\ntotal: {daily_cents: 5}\ncallers:\n- {operator: true, name: ops}\n- {team: print, name: b}\n- {name: a, tokens: [\"" + token(1) + "\"], team: studio}\n",
			nil,
		},
		"much": {
			"issuers: []\nteams: {studio: {weight: 3, budget: {daily_cents: 900}, models: [b], retention_days: 30, keep_deleted: true}, shop: {}}\ncallers:\n- {name: a, team: shop, tokens: ['" + token(2) + "']}\n- {name: c, team: shop}\n- {name: ops, operator: false}\n",
			[]string{
				"caller a team changed", "caller a tokens changed", "caller b removed", "caller c added", "caller ops operator true → false", "issuers added", "team print removed", "team shop added",
				"team studio daily_cents 300 → 900", "team studio keep_deleted none → true", "team studio models changed", "team studio monthly_cents 9000 → none",
				"team studio retention_days none → 30", "team studio weight 2 → 3", "total removed",
			},
		},
	} {
		after := parsed(t, test.after)
		if got := before.Changes(after); !slices.Equal(got, test.want) || len(got) == 0 != (before.Digest() == after.Digest()) {
			t.Errorf("%s: %q, digests %s and %s", name, got, before.Digest(), after.Digest())
		}
	}
}

func TestManyChangesAreBounded(t *testing.T) {
	many := strings.Builder{}
	for n := range 500 {
		_, _ = fmt.Fprintf(&many, "- {name: c%03d}\n", n)
	}
	got := parsed(t, "callers: [{name: a}]").Changes(parsed(t, "callers:\n"+many.String()))
	if len(got) != 101 || got[0] != "caller a removed" || got[100] != "and 401 more" {
		t.Errorf("%q", got)
	}
}

func TestChangesShowNoSecretAndFollowAliases(t *testing.T) {
	models := func(last string) string { return "[" + strings.Repeat("a, ", 3000) + last + "]" }
	events := func(file string) string {
		return "events: {url: 'https://hooks.example/?key=secret', secret_file: " + file + "}"
	}
	before := parsed(t, "teams: {a: {models: &m "+models("b")+", "+events("one")+"}, b: {models: *m}}\ncallers: [{name: c}]")
	after := parsed(t, "teams: {a: {models: &m "+models("c")+", "+events("two")+"}, b: {models: *m}}\ncallers: [{name: c}]")
	want := []string{"team a models changed", "team a secret_file changed", "team b models changed"}
	if got := before.Changes(after); !slices.Equal(got, want) || before.Digest() == after.Digest() {
		t.Errorf("%q", got)
	}
}
