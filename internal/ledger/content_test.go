package ledger_test

import (
	"testing"

	"github.com/easel-grpc/easel/internal/ledger"
	"github.com/easel-grpc/easel/internal/ledger/lifecycle"
)

// A process that does not know a team can't know that it keeps its copies, and what is deleted does not come back.
func TestACopyOfATeamThatIsUnknownHereStays(t *testing.T) {
	for name, row := range map[string]struct {
		owner string
		teams map[string]ledger.Team
		want  ledger.ContentState
	}{
		"unknown here":           {"studio", map[string]ledger.Team{"shop": {}}, ledger.ContentWaiting},
		"without a callers file": {"studio", nil, ledger.ContentDoomed},
		"known":                  {"studio", map[string]ledger.Team{"studio": {}}, ledger.ContentDoomed},
		"known, and keeps":       {"studio", map[string]ledger.Team{"studio": {KeepDeleted: true}}, ledger.ContentWaiting},
		"anonymous":              {"", nil, ledger.ContentDoomed},
		"anonymous beside teams": {"", map[string]ledger.Team{"studio": {}}, ledger.ContentDoomed},
	} {
		t.Run(name, func(t *testing.T) {
			onEach(t, func(t *testing.T, url string) {
				l, err := ledger.Open(t.Context(), ledger.Config{URL: url, Catalog: "c", Contents: true, Outbox: &ledger.Outbox{
					Teams:      func() map[string]ledger.Team { return row.teams },
					Generation: func(ledger.Order, *string) string { return "{}" }, Budget: func(ledger.Budget) string { return "{}" },
				}})
				if err != nil {
					t.Fatal(err)
				}
				defer l.Close()
				for _, id := range []string{"deleted", "discarded"} {
					o, _, err := l.Write(t.Context(), ledger.Request{Namespace: row.owner, Owner: row.owner, Caller: "a", IdempotencyKey: id, UpstreamKey: id, APIKey: "key", ModelID: "m", Inputs: "{}", Digest: id})
					if err == nil {
						_, err = l.Conclude(t.Context(), o.ID, 1, ledger.Conclusion{Outcome: lifecycle.Named, Generation: id})
					}
					if err == nil {
						_, err = l.Observe(t.Context(), id, ledger.Observation{Observation: lifecycle.Observation{Status: lifecycle.Succeeded, Whole: true}})
					}
					if err != nil {
						t.Fatal(err)
					}
				}
				_, err = l.Observe(t.Context(), "deleted", ledger.Observation{Observation: lifecycle.Observation{Deleted: true}})
				if err == nil {
					err = l.DiscardContent(t.Context(), nil, "discarded")
				}
				if err != nil {
					t.Fatal(err)
				}
				for _, id := range []string{"deleted", "discarded"} {
					if c, found, err := l.Content(t.Context(), id); err != nil || !found || c.State != row.want {
						t.Errorf("the copy of what was %s is %v, %v, %v", id, c.State, found, err)
					}
				}
			})
		})
	}
}
