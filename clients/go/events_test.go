//go:build go1.25

package easel_test

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	easel "github.com/easel-grpc/easel/clients/go"
	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
)

func TestEventStreamResumesAfterLastMessage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked []string
		then := func(end error, messages ...*easelv1.WatchEventsResponse) func(*easelv1.WatchEventsRequest, eventStream) error {
			return func(request *easelv1.WatchEventsRequest, stream eventStream) error {
				asked = append(asked, request.GetResumeToken())
				if !request.GetStartTime().AsTime().Equal(time.Unix(1, 0)) || request.GetFilter().GetTypes()[0] != "easel.generation.failed" || request.GetFilter().GetOwner() != "studio" {
					t.Errorf("the request does not have the start time and the filter of the query: %v", request)
				}
				return errors.Join(sendAll(stream, messages...), end)
			}
		}
		event := func(token string, e *easelv1.Event) *easelv1.WatchEventsResponse {
			return &easelv1.WatchEventsResponse{Message: &easelv1.WatchEventsResponse_Event{Event: e}, ResumeToken: token}
		}
		heartbeat := &easelv1.WatchEventsResponse{Message: &easelv1.WatchEventsResponse_Heartbeat{Heartbeat: &easelv1.Heartbeat{}}, ResumeToken: "t2"}
		render := event("t1", &easelv1.Event{EventId: "a", Generation: &easelv1.Generation{GenerationId: "gen_1"}})
		budget := event("t3", &easelv1.Event{EventId: "b", Budget: &easelv1.Budget{LimitCents: 100}})
		s := &script{events: []func(*easelv1.WatchEventsRequest, eventStream) error{
			then(status.Error(codes.Unavailable, "scripted"), render, heartbeat),
			then(nil, budget), // the stream ends without an error; the client must reconnect in this case too
			then(serverError(codes.OutOfRange, "RESUME_TOKEN_EXPIRED", "", 0)),
		}}
		query := easel.EventQuery{ResumeToken: "t0", Start: time.Unix(1, 0), Types: []string{"easel.generation.failed"}, Owner: "studio"}
		var got []string
		var last error
		for e, err := range serveScript(t, s).Events(t.Context(), query) {
			if last = err; err != nil {
				continue
			}
			got = append(got, e.ID+" "+e.ResumeToken)
			if (e.Render == nil) == (e.Budget == nil) || e.Render != nil && e.Render.GenerationID != "gen_1" || e.Budget != nil && e.Budget.LimitCents != 100 {
				t.Errorf("the event does not have either the render gen_1 or the budget of 100 cents: %+v", e)
			}
		}
		if text := fmt.Sprint(got, asked); text != "[a t1 b t3] [t0 t2 t3]" {
			t.Errorf("the events and the tokens in the requests are %s, want [a t1 b t3] [t0 t2 t3]", text)
		}
		if easel.ReasonOf(last) != "RESUME_TOKEN_EXPIRED" {
			t.Errorf("the loop ended with %v, want RESUME_TOKEN_EXPIRED", last)
		}
	})
}
