package cli

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/timestamppb"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
)

func TestWatchOfAllRendersPrintsSummaryAndEachStateChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		send := func(s manyStream, id string, age time.Duration, state easelv1.State) {
			g := render(id, state)
			g.CreateTime = timestamppb.New(began.Add(-age))
			sendAll(s, g)
		}
		streams := 0
		dial := (&scripted{watchAll: func(_ *easelv1.WatchGenerationsRequest, s manyStream) error {
			if streams++; streams > 1 {
				return serverError(codes.InvalidArgument, "SCRIPT_OVER")
			}
			send(s, "gen_new", time.Minute, queued)
			send(s, "gen_old", time.Hour, succeeded)
			send(s, "gen_mid", 2*time.Minute, succeeded)
			_ = s.Send(&easelv1.WatchGenerationsResponse{Event: &easelv1.WatchGenerationsResponse_CaughtUp{CaughtUp: &easelv1.CaughtUp{GenerationCount: 3}}})
			send(s, "gen_new", time.Minute, succeeded)
			send(s, "gen_older", 2*time.Hour, succeeded)
			return serverError(codes.Unavailable, "")
		}}).serve(t)
		got := easelRun(t.Context(), dial, "watch")
		var order []string
		for _, line := range linesOf(got.stdout) {
			order = append(order, strings.Fields(line)[1])
		}
		if want := []string{"gen_new", "gen_old", "gen_mid", "gen_new", "gen_older"}; !slices.Equal(order, want) {
			t.Errorf("got %q, want %q\n%s", order, want, got.stderr)
		}
		if strings.Count(got.stderr, "watching 3 renders, and every new render; each state change is printed") != 1 {
			t.Errorf("printed\n%s", got.stderr)
		}
	})
}

func TestFailedWatchOfAllRendersPrintsReceivedStates(t *testing.T) {
	dial := (&scripted{watchAll: func(_ *easelv1.WatchGenerationsRequest, s manyStream) error {
		sendAll(s, render("gen_1", queued))
		return serverError(codes.Unauthenticated, "")
	}}).serve(t)
	if got := easelRun(t.Context(), dial, "watch"); got.exit != ExitCredential || !strings.Contains(got.stdout, "gen_1") || strings.Contains(got.stderr, "as they come") {
		t.Errorf("exit %d\n%s%s", got.exit, got.stdout, got.stderr)
	}
}
