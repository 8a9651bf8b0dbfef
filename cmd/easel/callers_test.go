package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/easel-grpc/easel/internal/auth"
	"github.com/easel-grpc/easel/internal/proctest"
)

func TestCallersFileErrorsAreReportedWithLineNumber(t *testing.T) {
	for text, want := range map[string][]string{
		"callers:\n  - name: billing\n    tokens: [hunter2]\n  - name: billing\n": {":3: wrong tokens: A list of hashes of its service tokens", "has 1 fault\n"},
		"callers:\n  - name: billing\n  - name: billing\n    team: hunter2\n":     {":3: this name is listed twice", ":4: unknown team", "has 2 faults"},
		"callers: []\n":          {"lists no callers"},
		"callers: [{name: x}]\n": nil,
	} {
		file := proctest.File(t, text)
		got := easel(t.Context(), nil, "callers", "check", file)
		if want == nil {
			if got.exit != exitOK || got.stdout != file+": 1 caller of 1 owner\n"+file+": warning: no budget limits x; set a budget for the caller, for its team or for all teams (total)\n" || got.stderr != "" {
				t.Errorf("%q: exit %d\n%s%s", text, got.exit, got.stdout, got.stderr)
			}
			continue
		}
		if got.exit != exitUsage || strings.Contains(got.stdout+got.stderr, "hunter2") || len(linesOf(got.stderr)) != 1 {
			t.Errorf("%q: exit %d\n%s%s", text, got.exit, got.stdout, got.stderr)
		}
		for _, words := range want {
			if !strings.Contains(got.stdout+got.stderr, words) {
				t.Errorf("%q: %q is not in\n%s%s", text, words, got.stdout, got.stderr)
			}
		}
	}
	limited := proctest.File(t, "total: {daily_cents: 7}\ncallers: [{name: x}]\n")
	if got := easel(t.Context(), nil, "callers", "check", limited); got.exit != exitOK || got.stdout != limited+": 1 caller of 1 owner\n" {
		t.Errorf("callers with a limit: exit %d\n%s", got.exit, got.stdout)
	}
	missing := proctest.File(t, "issuers:\n  - {issuer: i, audience: a, jwks_file: /nowhere/keys}\ncallers: [{name: x, subjects: [s]}]\n")
	if got := easel(t.Context(), nil, "callers", "check", missing); got.exit != exitUsage || !strings.Contains(got.stderr, ": the issuer i: jwks_file: open /nowhere/keys") {
		t.Errorf("an issuer whose keys are missing: exit %d\n%s", got.exit, got.stderr)
	}
	if got := easel(t.Context(), nil, "callers", "check", "/nowhere/callers"); got.exit != exitUsage || !strings.Contains(got.stderr, "/nowhere/callers") {
		t.Errorf("a missing file: exit %d\n%s", got.exit, got.stderr)
	}
	if got := easel(t.Context(), nil, "callers", "check", filepath.Join("..", "..", "deploy", "callers.yaml")); got.exit != exitOK {
		t.Errorf("example callers file: exit %d\n%s%s", got.exit, got.stdout, got.stderr)
	}
}

func TestTokenCommandPrintsTokenAndCallersFileEntry(t *testing.T) {
	got := easel(t.Context(), nil, "callers", "token", "poster-service")
	token, line := proctest.Find(t, `(?m)^token  (\S+)$`, got.stdout), proctest.Find(t, `(?m)^line   (.+)$`, got.stdout)
	list, err := auth.Parse([]byte("callers:\n  " + line))
	if err != nil || got.exit != exitOK {
		t.Fatalf("exit %d, %v\n%s%s", got.exit, err, got.stdout, got.stderr)
	}
	if list.Callers[0].Name != "poster-service" || !strings.Contains(line, auth.Hash(token)) {
		t.Errorf("the printed line is %s", line)
	}
	inTeam := easel(t.Context(), nil, "callers", "token", "poster-service", "--team", "studio")
	list, err = auth.Parse([]byte("teams: {studio: {budget: {daily_cents: 7}}}\ncallers:\n  " + proctest.Find(t, `(?m)^line   (.+)$`, inTeam.stdout)))
	if err != nil || list.Callers[0].Owner() != "studio" || inTeam.stderr != "" || !strings.Contains(got.stderr, "no budget limits the caller") {
		t.Errorf("%v\n%s%s%s", err, inTeam.stdout, inTeam.stderr, got.stderr)
	}
	if got := easel(t.Context(), nil, "callers", "token", "poster-service", "--team", "a b"); got.exit != exitUsage || got.stdout != "" {
		t.Errorf("an invalid team: exit %d\n%s", got.exit, got.stdout)
	}
	for _, name := range []string{"a b", "anonymous", "", `a", team: "b`, strings.Repeat("a", 64)} {
		if got := easel(t.Context(), nil, "callers", "token", name); got.exit != exitUsage || got.stdout != "" {
			t.Errorf("%q: exit %d\n%s%s", name, got.exit, got.stdout, got.stderr)
		}
	}
}

func TestCallersWithoutBudgetLimitAreListed(t *testing.T) {
	callers := "teams: {a: {budget: {monthly_cents: 7}}, b: {}}\ncallers: [{name: v, team: a}, {name: w, team: b}, {name: x}, {name: y, budget: {daily_cents: 0}}, {name: z, operator: true}]\n"
	for text, want := range map[string]string{callers: "w, x", "total: {monthly_cents: 7}\n" + callers: ""} {
		list, err := auth.Parse([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		if got := unlimitedCallers(list); got != want {
			t.Errorf("got callers without a limit %q, want %q", got, want)
		}
	}
}
