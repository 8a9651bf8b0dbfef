package cli

import (
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/timestamppb"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
)

func TestEventsFollowErrorSuggestsWatchCommand(t *testing.T) {
	dial := (&scripted{events: func(*easelv1.WatchEventsRequest, grpc.ServerStreamingServer[easelv1.WatchEventsResponse]) error {
		return serverError(codes.InvalidArgument, "INVALID_REQUEST", &errdetails.BadRequest{FieldViolations: []*errdetails.BadRequest_FieldViolation{
			{Field: "authorization", Description: "orders under your own API key have no events; use WatchGenerations"},
		}})
	}}).serve(t)
	got := easelRun(t.Context(), dial, "events", "follow")
	if got.exit != ExitUsage || !strings.Contains(got.stderr, "\n       easel watch prints the changes of all renders of your API key.\n") {
		t.Errorf("exit %d\n%s", got.exit, got.stderr)
	}
}

func TestEventsFollowCommandResumesAfterLostConnection(t *testing.T) {
	written := time.Date(2026, 11, 30, 6, 0, 0, 0, time.UTC)
	event := func(id, token string) *easelv1.WatchEventsResponse {
		return &easelv1.WatchEventsResponse{ResumeToken: token, Message: &easelv1.WatchEventsResponse_Event{Event: &easelv1.Event{
			EventId: id, Type: "easel.generation.failed", CreateTime: timestamppb.New(written), Owner: "studio", Generation: &easelv1.Generation{GenerationId: "gen_" + id},
		}}}
	}
	for name, tt := range map[string]struct {
		flags []string
		want  string // regular expression for the output of the second event
	}{
		"as a table": {nil, `easel\.generation\.failed, gen_b, studio$`},
		"quiet":      {[]string{"-q"}, `^gen_b$`},
		"as JSON":    {[]string{"-o", "json"}, `^\{"event":\{"eventId":"b",.*\},.*"resumeToken":"t2"\}$`},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var asked []*easelv1.WatchEventsRequest
				dial := (&scripted{events: func(r *easelv1.WatchEventsRequest, s grpc.ServerStreamingServer[easelv1.WatchEventsResponse]) error {
					switch asked = append(asked, r); len(asked) {
					case 1:
						_ = s.Send(event("a", "t1"))
						return serverError(codes.Unavailable, "")
					case 2:
						_ = s.Send(event("b", "t2"))
					}
					return serverError(codes.OutOfRange, "RESUME_TOKEN_EXPIRED")
				}}).serve(t)
				got := easelRun(t.Context(), dial, append([]string{"events", "follow", "--resume-token", "t0", "--since", "2026-11-29", "--type", "x,y", "--owner", "studio"}, tt.flags...)...)
				lines := linesOf(got.stdout)
				if len(lines) != 2 || !regexp.MustCompile(tt.want).MatchString(lines[1]) || len(asked) != 2 || asked[0].GetResumeToken() != "t0" || asked[1].GetResumeToken() != "t1" {
					t.Fatalf("printed %q, want two lines, the second like %s; requests %v, want the resume tokens t0 and t1\n%s", lines, tt.want, asked, got.stderr)
				}
				if f := asked[0].GetFilter(); len(f.GetTypes()) != 2 || f.GetOwner() != "studio" || asked[0].GetStartTime().AsTime().Day() != 29 {
					t.Errorf("the first request is %v", asked[0])
				}
				if got.exit == ExitOK || !strings.Contains(got.stderr, "RESUME_TOKEN_EXPIRED") && !strings.Contains(got.stderr, "scripted") {
					t.Errorf("exit code %d with\n%s", got.exit, got.stderr)
				}
			})
		})
	}
}
