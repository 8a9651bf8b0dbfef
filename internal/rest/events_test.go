package rest

import (
	"bufio"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/server/servertest"
	"github.com/easel-grpc/easel/internal/service"
)

// event is an event in a text/event-stream.
type event struct{ name, id, retry, data string }

func readEvents(t *testing.T, body io.Reader) (events []event) {
	t.Helper()
	current, lines := event{}, bufio.NewScanner(body)
	for lines.Scan() {
		name, value, _ := strings.Cut(lines.Text(), ": ")
		switch name {
		case "event":
			current.name = value
		case "id":
			current.id = value
		case "retry":
			current.retry = value
		case "data":
			current.data = value
			if !json.Valid([]byte(value)) {
				t.Errorf("%s is not JSON", value)
			}
		case "":
			if lines.Text() == "" {
				events, current = append(events, current), event{}
			}
		default:
			t.Errorf("unexpected line: %s", lines.Text())
		}
	}
	return events
}

// wantEvents compares the names, IDs and retry delays of events.
func wantEvents(t *testing.T, events []event, want ...event) {
	t.Helper()
	if len(events) != len(want) {
		t.Fatalf("got events %v", events)
	}
	for n, e := range events {
		if e.data = ""; e != want[n] {
			t.Errorf("event %d is %+v, want %+v", n, e, want[n])
		}
	}
}

func TestAWatchIsAStreamOfServerSentEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		studio := servertest.NewStudio()
		studio.Watch = func(req *easelv1.WatchGenerationRequest, stream servertest.WatchStream) error {
			if req.GetGenerationId() != "g" || req.GetUntil() != easelv1.WatchUntil_WATCH_UNTIL_SETTLED || req.GetHeartbeatInterval().AsDuration() != 5*time.Second {
				t.Errorf("the watch request is %v, want the ID g, SETTLED and 5 s", req)
			}
			for _, m := range []*easelv1.WatchGenerationResponse{
				servertest.UpdateEvent("g", "e1"),
				{Event: &easelv1.WatchGenerationResponse_Heartbeat{Heartbeat: &easelv1.Heartbeat{}}},
				servertest.UpdateEvent("g", "e2"), servertest.ClosingEvent(7 * time.Second),
			} {
				if err := stream.Send(m); err != nil {
					return err
				}
			}
			return nil
		}
		s := serve(t, studio)
		answer, body := servertest.Do(t, s.HTTP, servertest.Request(t, http.MethodGet, "/v1/generations/g:watch?until=WATCH_UNTIL_SETTLED&heartbeatInterval=5s", "",
			"Accept: text/event-stream"))
		for name, want := range map[string]string{"Content-Type": "text/event-stream", "Cache-Control": "no-store", "X-Accel-Buffering": "no"} {
			if got := answer.Header.Get(name); got != want {
				t.Errorf("%s is %q, want %q", name, got, want)
			}
		}
		events := readEvents(t, strings.NewReader(body))
		wantEvents(t, events,
			event{retry: "2000"}, event{name: "update", id: "e1"}, event{name: "heartbeat"}, event{name: "update", id: "e2"},
			event{name: "closing", retry: "7000"}, event{name: "done"})
		if !strings.Contains(events[1].data, `"etag"`) {
			t.Errorf("the first update has no etag: %s", events[1].data)
		}
	})
}

func TestWatchOfManyGenerationsIsStreamOfJSONLines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		studio := servertest.NewStudio()
		studio.WatchAll = func(req *easelv1.WatchGenerationsRequest, stream grpc.ServerStreamingServer[easelv1.WatchGenerationsResponse]) error {
			if got := strings.Join(req.GetGenerationIds(), " "); got != "a b" {
				t.Errorf("got IDs %q, want a and b", got)
			}
			_ = stream.Send(&easelv1.WatchGenerationsResponse{Event: &easelv1.WatchGenerationsResponse_CaughtUp{CaughtUp: &easelv1.CaughtUp{GenerationCount: 2}}})
			return servertest.Draining()
		}
		s := serve(t, studio)
		for _, accept := range []string{"Accept: application/x-ndjson", "Accept: */*", "Accept: "} {
			answer, body := servertest.Do(t, s.HTTP, servertest.Request(t, http.MethodGet, "/v1/generations:watch?generationIds=a&generationIds=b", "", accept))
			if got := answer.Header.Get("Content-Type"); got != "application/x-ndjson" {
				t.Errorf("Content-Type is %q, want application/x-ndjson", got)
			}
			lines := strings.Split(body, "\n")
			if len(lines) != 3 || lines[2] != "" || !strings.Contains(lines[0], "caughtUp") {
				t.Fatalf("got the lines %q, want two, the first with caughtUp", lines)
			}
			var last struct{ Error json.RawMessage }
			if err := json.Unmarshal([]byte(lines[1]), &last); err != nil {
				t.Fatal(err)
			}
			servertest.WantError(t, servertest.RESTStatus(t, string(last.Error)).Err(), codes.Unavailable, "SERVER_DRAINING")
		}
		_, body := servertest.Do(t, s.HTTP, servertest.Request(t, http.MethodGet, "/v1/generations:watch?generationIds=a&generationIds=b", "", "Accept: text/event-stream"))
		events := readEvents(t, strings.NewReader(body))
		if len(events) != 3 || events[1].name != "caughtUp" || events[1].id != "" || events[2].name != "failure" {
			t.Fatalf("got events %v", events)
		}
		servertest.WantError(t, servertest.RESTStatus(t, events[2].data).Err(), codes.Unavailable, "SERVER_DRAINING")
	})
}

func TestErrorBeforeFirstUpdateIsReturnedAsHTTPStatus(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		studio := servertest.NewStudio()
		studio.Watch = func(*easelv1.WatchGenerationRequest, servertest.WatchStream) error {
			time.Sleep(firstMessageWait * 4 / 5) // simulates a slow catalog
			return service.Fail(easelv1.ErrorReason_GENERATION_NOT_FOUND, "no such render")
		}
		s := serve(t, studio)
		answer, body := servertest.Do(t, s.HTTP, servertest.Request(t, http.MethodGet, "/v1/generations/g:watch", "", "Accept: text/event-stream"))
		if answer.StatusCode != http.StatusNotFound {
			t.Errorf("the response is %s, want 404", answer.Status)
		}
		servertest.WantError(t, servertest.RESTStatus(t, body).Err(), codes.NotFound, "GENERATION_NOT_FOUND")
	})
}

func TestWatchHeadersAreSentBeforeFirstState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		studio := servertest.NewStudio()
		studio.Watch = func(_ *easelv1.WatchGenerationRequest, stream servertest.WatchStream) error {
			time.Sleep(20 * time.Second)
			return service.Fail(easelv1.ErrorReason_GENERATION_NOT_FOUND, "no such render")
		}
		s := serve(t, studio)
		for _, accept := range []string{"text/event-stream", "application/x-ndjson"} {
			began := time.Now()
			answer, err := s.HTTP.Do(servertest.Request(t, http.MethodGet, "/v1/generations/g:watch", "", "Accept: "+accept))
			if err != nil {
				t.Fatal(err)
			}
			if took := time.Since(began); took != firstMessageWait {
				t.Errorf("%s: the headers arrived after %v", accept, took)
			}
			body, err := io.ReadAll(answer.Body)
			if err != nil {
				t.Fatal(err)
			}
			answer.Body.Close()
			if !strings.Contains(string(body), "GENERATION_NOT_FOUND") {
				t.Errorf("%s: the error is missing: %s", accept, body)
			}
		}
	})
}

func TestLastEventIDHeaderOverridesKnownETag(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		studio := servertest.NewStudio()
		var known string
		studio.Watch = func(req *easelv1.WatchGenerationRequest, _ servertest.WatchStream) error {
			known = req.GetKnownEtag()
			return nil
		}
		s := serve(t, studio)
		for _, test := range []struct{ name, query, header, want string }{
			{"the first connection", "", "", ""},
			{"a known ETag in the URL", "?knownEtag=e1", "", "e1"},
			{"a Last-Event-ID header", "", "e2", "e2"},
			{"a Last-Event-ID header and an older ETag in the URL", "?knownEtag=e1", "e2", "e2"},
			{"a Last-Event-ID header that is not UTF-8", "?knownEtag=e1", "\xff", "e1"},
		} {
			servertest.Do(t, s.HTTP, servertest.Request(t, http.MethodGet, "/v1/generations/g:watch"+test.query, "", "Last-Event-ID: "+test.header))
			if known != test.want {
				t.Errorf("%s: known_etag is %q, want %q", test.name, known, test.want)
			}
		}
	})
}

func TestStreamEndsIfClientDoesNotRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		studio := servertest.NewStudio()
		ended := make(chan struct{})
		studio.Watch = func(_ *easelv1.WatchGenerationRequest, stream servertest.WatchStream) error {
			defer close(ended)
			for stream.Send(servertest.UpdateEvent("g", strings.Repeat("e", 1<<10))) == nil {
			}
			return stream.Context().Err()
		}
		s := serve(t, studio)
		conn, err := s.HTTPPipe.Dial()
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		began := time.Now()
		if err := servertest.Request(t, http.MethodGet, "/v1/generations/g:watch", "").Write(conn); err != nil {
			t.Fatal(err)
		}
		<-ended
		if took := time.Since(began); took != service.DefaultSendTimeout {
			t.Errorf("the stream ended after %v", took)
		}
	})
}

func TestIdleStreamOutlivesSendTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		studio := servertest.NewStudio()
		studio.Watch = func(_ *easelv1.WatchGenerationRequest, stream servertest.WatchStream) error {
			_ = stream.Send(servertest.UpdateEvent("g", "e1"))
			time.Sleep(10 * service.DefaultSendTimeout)
			return stream.Send(servertest.UpdateEvent("g", "e2"))
		}
		s := serve(t, studio)
		_, body := servertest.Do(t, s.HTTP, servertest.Request(t, http.MethodGet, "/v1/generations/g:watch", "", "Accept: text/event-stream"))
		if !strings.Contains(body, "e2") || !strings.Contains(body, "event: done") {
			t.Errorf("the stream is %s", body)
		}
	})
}

func TestIDOfStreamedEventIsResumeToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		studio := servertest.NewStudio()
		var asked []string
		studio.Events = func(req *easelv1.WatchEventsRequest, stream grpc.ServerStreamingServer[easelv1.WatchEventsResponse]) error {
			asked = append(asked, req.GetResumeToken())
			if req.GetFilter().GetTypes()[0] != "easel.generation.failed" {
				t.Errorf("the watch request is %v, want the filter easel.generation.failed", req)
			}
			for _, m := range []*easelv1.WatchEventsResponse{
				{Message: &easelv1.WatchEventsResponse_Event{Event: &easelv1.Event{EventId: "evt_1"}}, ResumeToken: "t1"},
				{Message: &easelv1.WatchEventsResponse_CaughtUp{CaughtUp: &easelv1.CaughtUp{}}, ResumeToken: "t1"},
				{Message: &easelv1.WatchEventsResponse_Heartbeat{Heartbeat: &easelv1.Heartbeat{}}, ResumeToken: "t2"},
				{Message: &easelv1.WatchEventsResponse_Closing{Closing: servertest.ClosingEvent(7 * time.Second).GetClosing()}, ResumeToken: "t2"},
			} {
				if err := stream.Send(m); err != nil {
					return err
				}
			}
			return nil
		}
		s := serve(t, studio)
		const path = "/v1/events:watch?resumeToken=url&filter.types=easel.generation.failed"
		_, body := servertest.Do(t, s.HTTP, servertest.Request(t, http.MethodGet, path, "", "Accept: text/event-stream", "Last-Event-ID: t0"))
		wantEvents(t, readEvents(t, strings.NewReader(body)),
			event{retry: "2000"}, event{name: "event", id: "t1"}, event{name: "caughtUp", id: "t1"}, event{name: "heartbeat", id: "t2"},
			event{name: "closing", id: "t2", retry: "7000"}, event{name: "done"})
		_, body = servertest.Do(t, s.HTTP, servertest.Request(t, http.MethodGet, path, ""))
		if lines := strings.Split(strings.TrimSpace(body), "\n"); len(lines) != 4 || !strings.Contains(lines[0], `"eventId":"evt_1"`) || !strings.Contains(lines[0], `"resumeToken":"t1"`) {
			t.Errorf("the body is %s, want 4 lines, the first with evt_1 and t1", body)
		}
		if strings.Join(asked, " ") != "t0 url" {
			t.Errorf("got resume tokens %q", asked)
		}
	})
}
