package auth

import (
	"slices"
	"strings"
	"testing"
)

// withHashes replaces each placeholder <token> in a text, such as <one>, with the hash of the token.
func withHashes(text string) string {
	for _, token := range []string{"one", "two", "three", "ops"} {
		text = strings.ReplaceAll(text, "<"+token+">", Hash(token))
	}
	return text
}

func parse(text string) (*List, error) { return Parse([]byte(withHashes(text))) }

const example = `
# who may call
teams:
  studio:
    budget: {daily_cents: 2000, monthly_cents: 30000}
    models: ["studio/*", "vendor/draw"]
    events: {url: "https://studio.example/events", secret_file: studio.secret}
  idle: {models: []}
callers:
  - name: poster-service
    team: studio
    tokens: ["<one>", "<two>"]
    certificates: ["poster.internal", "spiffe://house/poster"]
  - name: ops
    operator: true
    tokens: ["<ops>"]
  - {name: locked-out}
`

func mustParse(t *testing.T, text string) *List {
	t.Helper()
	list, err := parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// callerByToken returns the caller that has a token, or nil.
func callerByToken(list *List, token string) *Caller { return list.tokens[hashOf(token)] }

// nameOf returns the name of a caller, or "" for nil.
func nameOf(caller *Caller) string {
	if caller == nil {
		return ""
	}
	return caller.Name
}

func TestCallersFileMapsTokensToCallers(t *testing.T) {
	list := mustParse(t, example)
	for token, want := range map[string]string{"one": "poster-service", "two": "poster-service", "ops": "ops", "three": "", "": ""} {
		if got := nameOf(callerByToken(list, token)); got != want {
			t.Errorf("the token %q belongs to %q", token, got)
		}
	}
	poster := callerByToken(list, "one")
	if poster.Operator || poster.Owner() != "studio" || *poster.Team.DailyCents != 2000 || *poster.Team.MonthlyCents != 30000 || !poster.Team.Allows("vendor/draw") || poster.Team.Allows("any/model") {
		t.Errorf("the first caller is %+v", poster)
	}
	if poster.Team.Events == nil || *poster.Team.Events != (Events{"https://studio.example/events", "studio.secret"}) {
		t.Errorf("the events of the first caller's team go to %+v", poster.Team.Events)
	}
	if teams := list.Teams; len(teams) != 2 || teams["studio"].Name != "studio" || teams["idle"].Events != nil || teams["idle"].Allows("any/model") {
		t.Errorf("the teams are %+v", teams)
	}
	ops := callerByToken(list, "ops")
	if !ops.Operator || ops.Owner() != "ops" || ops.Team.DailyCents != nil || !ops.Team.Allows("any/model") {
		t.Errorf("the second caller is %+v", ops)
	}
	if names := list.Callers; len(names) != 3 || names[2].Name != "locked-out" {
		t.Errorf("the callers are %+v", names)
	}
}

func TestCallersFileMapsCertificatesToCallers(t *testing.T) {
	list := mustParse(t, example+"  - {name: mail, certificates: [Mail.Internal]}\n")
	for _, row := range []struct {
		names []string
		want  string
	}{
		{[]string{"poster.internal"}, "poster-service"},
		{[]string{"POSTER.internal"}, "poster-service"},
		{[]string{"mail.internal"}, "mail"},
		{[]string{"elsewhere", "spiffe://house/poster"}, "poster-service"},
		{[]string{"spiffe://house/poster", "poster.internal"}, "poster-service"},
		{[]string{"spiffe://HOUSE/poster"}, ""},
		{[]string{"poster.internal", "mail.internal"}, ""},
		{[]string{"mail.internal", "poster.internal"}, ""},
		{[]string{"poster-service"}, ""},
		{nil, ""},
	} {
		if got := nameOf(list.callerOfCertificate(row.names)); got != row.want {
			t.Errorf("the certificate %q belongs to %q, want %q", row.names, got, row.want)
		}
	}
}

func TestCallersFileMapsSubjectsToCallers(t *testing.T) {
	issuers := "issuers: [{issuer: i, audience: a, jwks_file: k}, {issuer: j, audience: a, jwks_file: k}]\n"
	list := mustParse(t, issuers+"callers: [{name: poster, issuer: i, subjects: [s, 'spiffe://b/c']}, {name: flyer, issuer: j, subjects: [s]}]\n")
	for subject, want := range map[Subject]string{{"i", "s"}: "poster", {"i", "spiffe://b/c"}: "poster", {"j", "s"}: "flyer", {"j", "spiffe://b/c"}: "", {"", "s"}: "", {}: ""} {
		if got := nameOf(list.subjects[subject]); got != want {
			t.Errorf("the subject %v belongs to %q", subject, got)
		}
	}
}

func TestTeamMayUseOnlyMatchingModels(t *testing.T) {
	for _, row := range []struct {
		patterns []string
		allowed  []string
		refused  []string
	}{
		{nil, []string{"a", "a/b/c"}, nil},
		{[]string{}, nil, []string{"a", "a/b"}},
		{[]string{"studio/*", "vendor/draw"}, []string{"studio/poster", "vendor/draw"}, []string{"studio", "studio/a/b", "vendor/drawing", "x/studio/a"}},
		{[]string{"studio/*", "studio/*/*"}, []string{"studio/a", "studio/a/b"}, []string{"studio", "studios/a", "studio/a/b/c"}},
		{[]string{"*/v2/*"}, []string{"a/v2/b"}, []string{"a/b/v2/c", "a/v2", "a/v2/b/c"}},
		{[]string{"**"}, []string{"a"}, []string{"a/b"}},
		{[]string{"a[0-9]?"}, []string{"a1b"}, []string{"ab1"}},
	} {
		team := Team{Models: row.patterns}
		for _, model := range slices.Concat(row.allowed, row.refused) {
			if got := team.Allows(model); got != slices.Contains(row.allowed, model) {
				t.Errorf("%q allows %q: %v", row.patterns, model, got)
			}
		}
	}
}

func TestCallersFileSetsCallerAndTotalBudgets(t *testing.T) {
	list := mustParse(t, "total: {daily_cents: 70}\ncallers: [{name: alone, tokens: [<one>], budget: {monthly_cents: 7}}]")
	alone := callerByToken(list, "one")
	if alone.Owner() != "alone" || alone.Team.DailyCents != nil || *alone.Team.MonthlyCents != 7 || *list.owners["alone"].MonthlyCents != 7 {
		t.Errorf("the caller is %+v", alone)
	}
	if total := list.Total; *total.DailyCents != 70 || total.MonthlyCents != nil {
		t.Errorf("the total budget is %+v", total)
	}
}

func TestNewTokenIsUniqueAndIdentifiesCaller(t *testing.T) {
	token := NewToken()
	if token == NewToken() || len(token) != len("easel_")+43 {
		t.Errorf("the token is %q", token)
	}
	list := mustParse(t, "callers: [{name: a, tokens: ["+Hash(token)+"]}]")
	if got := nameOf(callerByToken(list, token)); got != "a" {
		t.Errorf("the token belongs to %q", got)
	}
}
