package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/terminal"
)

// serverError returns an error in the format that the real server uses.
func serverError(code codes.Code, reason string, details ...protoadapt.MessageV1) error {
	return failingWith(code, &errdetails.ErrorInfo{Reason: reason, Domain: "easel"}, details...)
}

// unsentError returns the error for an order that the server has not sent to the catalog.
func unsentError(code codes.Code, reason string, details ...protoadapt.MessageV1) error {
	metadata := map[string]string{"order_outcome": "not_placed_by_this_call"}
	return failingWith(code, &errdetails.ErrorInfo{Reason: reason, Domain: "easel", Metadata: metadata}, details...)
}

// notPlaced returns the error for an order that, according to the ledger, was not placed.
func notPlaced(code codes.Code, reason string) error {
	metadata := map[string]string{"order_outcome": "not_placed"}
	return failingWith(code, &errdetails.ErrorInfo{Reason: reason, Domain: "easel", Metadata: metadata})
}

func failingWith(code codes.Code, info *errdetails.ErrorInfo, details ...protoadapt.MessageV1) error {
	s, err := status.New(code, "it failed").WithDetails(append(details, info)...)
	if err != nil {
		panic(err)
	}
	return s.Err()
}

func retryAfter(d time.Duration) *errdetails.RetryInfo {
	return &errdetails.RetryInfo{RetryDelay: durationpb.New(d)}
}

func render(id string, state easelv1.State) *easelv1.Generation {
	terminal := slices.Contains([]easelv1.State{
		easelv1.State_STATE_SUCCEEDED, easelv1.State_STATE_FAILED, easelv1.State_STATE_REFUNDED, easelv1.State_STATE_DELETED,
	}, state)
	return &easelv1.Generation{GenerationId: id, ModelId: "m", State: state, Terminal: terminal, Etag: state.String()}
}

type (
	oneStream      = grpc.ServerStreamingServer[easelv1.WatchGenerationResponse]
	manyStream     = grpc.ServerStreamingServer[easelv1.WatchGenerationsResponse]
	downloadStream = grpc.ServerStreamingServer[easelv1.DownloadGenerationResponse]
)

func sendState(stream oneStream, state easelv1.State) { _ = sendRender(stream, render("gen_1", state)) }

func sendRender(stream oneStream, g *easelv1.Generation) error {
	return stream.Send(&easelv1.WatchGenerationResponse{Event: &easelv1.WatchGenerationResponse_Update{Update: &easelv1.GenerationUpdate{Generation: g}}})
}

// sendAll sends an update about a generation to a watch of all generations.
func sendAll(stream manyStream, g *easelv1.Generation) {
	_ = stream.Send(&easelv1.WatchGenerationsResponse{Event: &easelv1.WatchGenerationsResponse_Update{Update: &easelv1.GenerationUpdate{Generation: g}}})
}

// orderingServer returns a server on which every order creates the generation gen_1. handleWatch and handleDownload handle the
// calls of WatchGeneration and DownloadGeneration.
func orderingServer(handleWatch func(*easelv1.WatchGenerationRequest, oneStream) error, handleDownload func(*easelv1.DownloadGenerationRequest, downloadStream) error) *scripted {
	return &scripted{
		model: func(*easelv1.GetModelRequest) (*easelv1.Model, error) { return describedModel(), nil },
		create: func(*easelv1.CreateGenerationRequest) (*easelv1.Generation, error) {
			return render("gen_1", queued), nil
		},
		watch: handleWatch, download: handleDownload,
	}
}

// watchScript starts a scripted server, and returns a dialer for it. The n-th function in streams handles the n-th watch. Later
// watches fail.
func watchScript(t *testing.T, streams ...func(*easelv1.WatchGenerationRequest, oneStream) error) dialer {
	server := &scripted{}
	server.watch = func(r *easelv1.WatchGenerationRequest, stream oneStream) error {
		if len(streams) == 0 {
			return serverError(codes.InvalidArgument, "SCRIPT_OVER")
		}
		next := streams[0]
		streams = streams[1:]
		return next(r, stream)
	}
	return server.serve(t)
}

const (
	queued    = easelv1.State_STATE_QUEUED
	succeeded = easelv1.State_STATE_SUCCEEDED
	failed    = easelv1.State_STATE_FAILED
)

func TestFinalStateDeterminesExitCode(t *testing.T) {
	for state, exit := range map[easelv1.State]int{
		succeeded: ExitOK, failed: ExitGenerationFailed, easelv1.State_STATE_REFUNDED: ExitGenerationFailed,
		easelv1.State_STATE_DELETED: ExitNotFound,
	} {
		for _, command := range []string{"watch", "wait"} {
			dial := watchScript(t, func(_ *easelv1.WatchGenerationRequest, s oneStream) error { sendState(s, state); return nil })
			if got := easelRun(t.Context(), dial, command, "gen_1"); got.exit != exit {
				t.Errorf("%s, %v: exit %d, want %d\n%s", command, state, got.exit, exit, got.stderr)
			}
		}
	}
}

func TestInterruptedWatchReportsThatRenderContinues(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, interrupt := context.WithCancel(t.Context())
		dial := watchScript(t, func(_ *easelv1.WatchGenerationRequest, s oneStream) error {
			sendState(s, queued)
			interrupt()
			<-s.Context().Done()
			return s.Context().Err() // OK would mean that the render has reached the requested state
		})
		got := easelRun(ctx, dial, "watch", "gen_1")
		if got.exit != ExitInterrupted || !strings.Contains(got.stderr, "The render continues") || !strings.Contains(got.stderr, "easel watch gen_1") {
			t.Errorf("exit %d\n%s", got.exit, got.stderr)
		}
	})
}

func TestWaitCommandReportsTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dial := watchScript(t, func(_ *easelv1.WatchGenerationRequest, s oneStream) error {
			sendState(s, queued)
			<-s.Context().Done()
			return s.Context().Err() // OK would mean that the render has reached the requested state
		})
		got := easelRun(t.Context(), dial, "wait", "gen_1", "--timeout", "3s")
		if got.exit != ExitRetry || !strings.Contains(got.stderr, "--timeout") || !strings.Contains(got.stdout, "queued") {
			t.Errorf("exit %d\n%s%s", got.exit, got.stdout, got.stderr)
		}
	})
}

func TestWatchAndWaitReportEachConnectionLossOnce(t *testing.T) {
	away := func(*easelv1.WatchGenerationRequest, oneStream) error { return serverError(codes.Unavailable, "") }
	late := func(t *testing.T, args ...string) printed {
		return easelRun(t.Context(), watchScript(t,
			away, away, away,
			func(_ *easelv1.WatchGenerationRequest, s oneStream) error {
				sendState(s, queued)
				began := time.Now()
				<-s.Context().Done()
				if silent := time.Since(began); silent != 3*heartbeatInterval {
					t.Errorf("the client closed a silent stream after %v", silent)
				}
				return s.Context().Err()
			},
			func(r *easelv1.WatchGenerationRequest, s oneStream) error {
				if r.KnownEtag != queued.String() {
					return serverError(codes.InvalidArgument, "")
				}
				sendState(s, queued) // the command must ignore a state that it already knows
				sendState(s, succeeded)
				return nil
			}), args...)
	}
	said := regexp.MustCompile(`^no answer yet \(it failed\); trying again in \S+
the server answers again
no answer yet \(no message from the server for three heartbeat intervals\); trying again in \S+
the server answers again
$`)
	for _, command := range []string{"watch", "wait"} {
		synctest.Test(t, func(t *testing.T) {
			if got := late(t, command, "gen_1"); got.exit != ExitOK || !said.MatchString(got.stderr) || strings.Count(got.stdout, "queued") > 1 {
				t.Errorf("%s: exit %d\n%s%s", command, got.exit, got.stdout, got.stderr)
			}
		})
	}
	synctest.Test(t, func(t *testing.T) {
		if got := late(t, "wait", "gen_1", "-q"); got.exit != ExitOK || got.stdout != "succeeded\n" || got.stderr != "" {
			t.Errorf("-q: exit %d\n%s%s", got.exit, got.stdout, got.stderr)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		got := late(t, "wait", "gen_1", "-o", "json")
		if lines := linesOf(got.stderr); len(lines) != 4 || !strings.HasPrefix(lines[2], `{"note":"no answer yet`) || !json.Valid([]byte(got.stdout)) {
			t.Errorf("-o json: exit %d\n%s%s", got.exit, got.stdout, got.stderr)
		}
	})
}

func TestWatchInPipePrintsPlainLines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dial := watchScript(t, func(_ *easelv1.WatchGenerationRequest, s oneStream) error {
			sendState(s, queued)
			_ = s.Send(&easelv1.WatchGenerationResponse{Event: &easelv1.WatchGenerationResponse_Heartbeat{
				Heartbeat: &easelv1.Heartbeat{UpstreamCondition: easelv1.UpstreamCondition_UPSTREAM_CONDITION_UNREACHABLE, LastError: "no \x1b[31mroute"},
			}})
			sendState(s, succeeded)
			return nil
		})
		got := easelEnv(t.Context(), dial, map[string]string{"LANG": "C.UTF-8", "TERM": "xterm"}, "watch", "gen_1")
		if all := got.stdout + got.stderr; strings.ContainsAny(all, "\x1b\r") || strings.ContainsFunc(all, func(r rune) bool { return r > '~' }) {
			t.Errorf("the output is not plain ASCII lines:\n%q", all)
		}
		if !strings.Contains(got.stderr, "the catalog does not answer") {
			t.Errorf("the state of the catalog is not printed:\n%s", got.stderr)
		}
	})
}

func TestWatchPrintsOneJSONObjectPerLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dial := watchScript(t,
			func(_ *easelv1.WatchGenerationRequest, s oneStream) error {
				sendState(s, queued)
				return serverError(codes.Unavailable, "")
			},
			func(_ *easelv1.WatchGenerationRequest, s oneStream) error {
				_ = s.Send(&easelv1.WatchGenerationResponse{Event: &easelv1.WatchGenerationResponse_Heartbeat{Heartbeat: &easelv1.Heartbeat{}}})
				sendState(s, failed)
				return nil
			})
		got := easelRun(t.Context(), dial, "watch", "gen_1", "-o", "json")
		var kinds []string
		for _, line := range append(linesOf(got.stdout), linesOf(got.stderr)...) {
			var object map[string]any
			if err := json.Unmarshal([]byte(line), &object); err != nil {
				t.Fatalf("%q is not a JSON object: %v", line, err)
			}
			for kind := range object {
				kinds = append(kinds, kind)
			}
		}
		slices.Sort(kinds)
		want := []string{"error", "heartbeat", "note", "note", "update", "update"}
		if !slices.Equal(kinds, want) || got.exit != ExitGenerationFailed {
			t.Errorf("exit %d, got %q, want %q", got.exit, kinds, want)
		}
	})
}

func TestReconnectedWatchSendsEtagsAndFilter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked []*easelv1.WatchGenerationsRequest
		ctx, interrupt := context.WithCancel(t.Context())
		defer interrupt()
		server := &scripted{watchAll: func(r *easelv1.WatchGenerationsRequest, s manyStream) error {
			asked = append(asked, r)
			if len(asked) == 2 {
				interrupt()
				<-s.Context().Done()
				return s.Context().Err()
			}
			for id, state := range map[string]easelv1.State{"gen_1": queued, "gen_2": succeeded, "gen_3": easelv1.State_STATE_DELETED} {
				sendAll(s, render(id, state))
			}
			return serverError(codes.Unavailable, "")
		}}
		got := easelRun(ctx, server.serve(t), "watch", "--model", "studio/haiku", "--label", "a=b", "--owner", "shop")
		if len(asked) != 2 {
			t.Fatalf("got %d streams, want 2\n%s", len(asked), got.stderr)
		}
		if known := asked[1].GetKnownEtags(); len(asked[0].GetKnownEtags()) > 0 || !maps.Equal(known, map[string]string{"gen_1": queued.String()}) {
			t.Errorf("known etags: %q in the first request, %q in the second", asked[0].GetKnownEtags(), known)
		}
		for _, r := range asked {
			if f := r.GetFilter(); f.GetModelId() != "studio/haiku" || f.GetLabels()["a"] != "b" || f.GetOwner() != "shop" {
				t.Errorf("the filter is %v", f)
			}
		}
		if !strings.Contains(got.stderr, "easel watch --model studio/haiku --label a=b --owner shop") {
			t.Errorf("the suggested command lacks the filter:\n%s", got.stderr)
		}
	})
}

func TestProgressLineShowsAgeAndEstimatedTimeLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var screen bytes.Buffer
		s := &session{Console: terminal.NewConsole(&screen, &screen, func(string) string { return "" })}
		s.OutStyle, s.ErrStyle = terminal.Style{Terminal: true}, terminal.Style{Terminal: true}
		v := newWatchView(s, terminal.Style{}, func(string) {})
		g := render("gen_1", queued)
		g.CreateTime = timestamppb.New(time.Now().Add(-6 * time.Second))
		v.generations["gen_1"] = g
		v.showProgress(0)
		v.showProgress(2 * time.Second)
		v.generations["gen_2"] = render("gen_2", succeeded)
		v.showProgress(2 * time.Second)
		const erased = "\r\x1b[J"
		want := "queued 6s" + erased + "queued 6s, about 2s left" + erased + "1 in progress, 1 finished"
		if got := screen.String(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	})
}
