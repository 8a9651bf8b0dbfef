package callers_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/easel-grpc/easel/internal/callers"
)

func parsed(t *testing.T, text string) *callers.List {
	t.Helper()
	list, err := callers.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func TestWhatAFileChangesIsNamed(t *testing.T) {
	token := func(n int) string { return fmt.Sprintf("sha256:%064x", n) }
	before := parsed(t, "total: {daily_cents: 5}\nteams: {studio: {weight: 2}, print: {}}\ncallers:\n- {name: a, team: studio, tokens: ['"+token(1)+"']}\n- {name: b, team: print}\n- {name: ops, operator: true}\n")
	for name, test := range map[string]struct {
		after string
		want  callers.Changes
	}{
		"nothing but form": {
			"# a comment\nteams:\n  print: {}\n  studio:\n    weight: 2\ntotal: {daily_cents: 5}\ncallers:\n- {operator: true, name: ops}\n- {team: print, name: b}\n- {name: a, tokens: [\"" + token(1) + "\"], team: studio}\n",
			callers.Changes{},
		},
		"much": {
			"teams: {studio: {weight: 3}, shop: {}}\ncallers:\n- {name: a, team: studio, tokens: ['" + token(2) + "']}\n- {name: c, team: shop}\n- {name: ops, operator: false}\n",
			callers.Changes{Added: []string{"caller c", "team shop"}, Removed: []string{"caller b", "team print", "total"}, Changed: []string{"caller a", "caller ops", "team studio"}},
		},
	} {
		after := parsed(t, test.after)
		if got := before.Changes(after); !reflect.DeepEqual(got, test.want) || got.Count() == 0 != (before.Digest() == after.Digest()) {
			t.Errorf("%s: %+v, digests %s and %s", name, got, before.Digest(), after.Digest())
		}
	}
}

func TestTheNamesOfManyChangesAreBounded(t *testing.T) {
	many := strings.Builder{}
	for n := range 500 {
		_, _ = fmt.Fprintf(&many, "- {name: c%03d}\n", n)
	}
	c := parsed(t, "callers: [{name: a}]").Changes(parsed(t, "callers:\n"+many.String())).Bounded(2)
	if want := (callers.Changes{Added: []string{"caller c000", "caller c001", "and 498 more"}, Removed: []string{"caller a"}}); !reflect.DeepEqual(c, want) {
		t.Errorf("%+v", c)
	}
}
