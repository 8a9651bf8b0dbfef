//go:build go1.25

package easel_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"

	easel "github.com/easel-grpc/easel/clients/go"
	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
)

func TestErrorTypeMatchesItsReason(t *testing.T) {
	var table struct {
		Reasons map[string]struct{ Class string }
	}
	if err := json.Unmarshal([]byte(easelv1.Reasons), &table); err != nil || len(table.Reasons) != len(easelv1.ErrorReason_name)-1 {
		t.Fatal(len(table.Reasons), err)
	}
	for reason, row := range table.Reasons {
		synctest.Test(t, func(t *testing.T) {
			s := &script{creates: createHandlers(failedWith(codes.Unknown, reason, map[string]string{"remaining_cents": "7"}, 0))}
			_, err := serveScript(t, s).Generations.CreateGeneration(t.Context(), &easelv1.CreateGenerationRequest{})
			base := &easel.Error{}
			if got := fmt.Sprintf("%T", err); got != "*easel."+row.Class+"Error" || !errors.As(err, &base) || *base.RemainingCents != 7 || easel.ReasonOf(err) != reason {
				t.Errorf("the reason %s has the error type %s and the fields %+v", reason, got, base)
			}
		})
	}
}

func TestListReadsAllPages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		page := func(token, id string) func(*easelv1.ListGenerationsRequest) (*easelv1.ListGenerationsResponse, error) {
			return func(request *easelv1.ListGenerationsRequest) (*easelv1.ListGenerationsResponse, error) {
				if filter := request.GetFilter(); filter.GetLabels()["campaign"] != "winter" || filter.GetStates()[0] != easelv1.State_STATE_FAILED {
					return nil, serverError(codes.InvalidArgument, "INVALID_REQUEST", "", 0)
				}
				return &easelv1.ListGenerationsResponse{Generations: []*easelv1.Generation{{GenerationId: id}}, NextPageToken: token}, nil
			}
		}
		fail := func(*easelv1.ListGenerationsRequest) (*easelv1.ListGenerationsResponse, error) {
			return nil, serverError(codes.Unavailable, "UPSTREAM_UNAVAILABLE", "", time.Second)
		}
		s := &script{lists: []func(*easelv1.ListGenerationsRequest) (*easelv1.ListGenerationsResponse, error){fail, page("2", "a"), fail, page("", "b")}}
		var ids []string
		for render, err := range serveScript(t, s).List(t.Context(), easel.Filter{Labels: map[string]string{"campaign": "winter"}, States: []easel.State{easel.StateFailed}}) {
			if err != nil {
				t.Fatal(err)
			}
			ids = append(ids, render.GenerationID)
		}
		if fmt.Sprint(ids) != "[a b]" {
			t.Errorf("got %v", ids)
		}
	})
}
