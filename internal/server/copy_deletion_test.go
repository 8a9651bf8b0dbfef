package server_test

import (
	"net/http"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/ledger"
	"github.com/easel-grpc/easel/internal/ledger/lifecycle"
)

func TestDeletingExpiredGenerationDiscardsCopy(t *testing.T) {
	t.Parallel()
	overTeams(t, func(t *testing.T, s *stack, as func(string) caller) {
		state := func(id string) ledger.ContentState {
			t.Helper()
			c, found, err := s.ledger.Content(t.Context(), id)
			if err != nil || !found {
				t.Fatal(found, err)
			}
			return c.State
		}
		remove := func(by string, req *easelv1.DeleteGenerationRequest) error {
			return as(by).call(t.Context(), "GenerationService/DeleteGeneration", req, &easelv1.DeleteGenerationResponse{})
		}
		for name, row := range map[string]struct {
			by                        string
			force, missing, isDeleted bool
		}{
			"by another caller of the team": {by: "banner"},
			"with force":                    {by: "poster", force: true},
			"with allow_missing":            {by: "poster", missing: true},
			"by an operator":                {by: "ops"},
			"already deleted in the ledger": {by: "poster", isDeleted: true},
		} {
			id := create(t, as("poster"), order(t, text, strings.ReplaceAll(name, " ", "-"), "a lake")).GetGenerationId()
			awaitGeneration(t, as("poster"), id, easelv1.WatchUntil_WATCH_UNTIL_TERMINAL)
			eventually(t, "its copy is requested", func() bool {
				_, found, err := s.ledger.Content(t.Context(), id)
				return found && err == nil
			})
			s.askedElsewhere(http.MethodDelete, "/generations/"+id, "", "") // simulates a generation that has expired in the catalog
			if row.isDeleted {
				if _, err := s.ledger.Observe(t.Context(), id, ledger.Observation{Observation: lifecycle.Observation{NotFound: true, Deleted: true}}); err != nil {
					t.Fatal(err)
				}
			}
			wantStatus(t, remove("shop", &easelv1.DeleteGenerationRequest{GenerationId: id, Force: true}), codes.NotFound, "GENERATION_NOT_FOUND", 404)
			if got := state(id); got != ledger.ContentWaiting {
				t.Errorf("%s: after another owner's rejected deletion, the copy is %v", name, got)
			}
			err := remove(row.by, &easelv1.DeleteGenerationRequest{GenerationId: id, Force: row.force, AllowMissing: row.missing})
			if !row.missing {
				wantStatus(t, err, codes.NotFound, "GENERATION_NOT_FOUND", 404)
			} else if err != nil {
				t.Errorf("%s: %v", name, err)
			}
			if got := state(id); got != ledger.ContentDoomed {
				t.Errorf("%s: after the deletion, the copy of the result is %v, want ContentDoomed", name, got)
			}
			lines, err := s.ledger.AuditLines(t.Context(), ledger.Position{}, 10)
			if err != nil || row.by == "ops" && (len(lines) == 0 || lines[len(lines)-1].Subject != id) {
				t.Errorf("%s: the audit is %+v, %v", name, lines, err)
			}
		}
	}, func(o *options) { o.copied, o.sandbox.Speed = true, usualSpeed })
}
