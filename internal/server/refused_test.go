package server

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/server/servertest"
)

func TestAFloodOfRefusedCallsFillsNoLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, servertest.NewStudio())
		for range 3 * refusedLines {
			_, err := s.Generations().GetGeneration(t.Context(), &easelv1.GetGenerationRequest{GenerationId: "g"})
			servertest.WantError(t, err, codes.Unauthenticated, "CREDENTIAL_MISSING")
		}
		time.Sleep(checkInterval)
		synctest.Wait()
		const many = "more calls were refused than are logged one by one"
		if lines, more := s.Lines(t, "call"), s.Lines(t, many); len(lines) != refusedLines || len(more) != 1 || more[0]["count"] != 2.0*refusedLines {
			t.Errorf("%d lines, and then %v", len(lines), more)
		}
		_, _ = s.Generations().GetGeneration(t.Context(), &easelv1.GetGenerationRequest{GenerationId: "g"})
		time.Sleep(checkInterval)
		if lines, more := s.Lines(t, "call"), s.Lines(t, many); len(lines) != refusedLines+1 || len(more) != 1 {
			t.Errorf("later %d lines, and then %v", len(lines), more)
		}
	})
}

func TestARequestThatBecomesNoCallIsLoggedAsOne(t *testing.T) {
	for name, row := range map[string]struct {
		method, path, body, rpc, code string
		headers                       []string
	}{
		"an unknown parameter": {http.MethodGet, "/v1/generations/g?x=y", "", "GetGeneration", "InvalidArgument", nil},
		"of a watch":           {http.MethodGet, "/v1/generations/g:watch?heartbeatInterval=x", "", "WatchGeneration", "InvalidArgument", nil},
		"of a download":        {http.MethodGet, "/v1/generations/g/content?readOffset=x", "", "DownloadGeneration", "InvalidArgument", nil},
		"a body of no JSON":    {http.MethodPost, "/v1/generations", "{", "CreateGeneration", "InvalidArgument", nil},
		"another media type":   {http.MethodPost, "/v1/generations", "{}", "CreateGeneration", "InvalidArgument", []string{"Content-Type: text/plain"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := serve(t, servertest.NewStudio())
				answer, body := servertest.Do(t, s.HTTP, servertest.Request(t, row.method, row.path, row.body, row.headers...))
				synctest.Wait()
				lines := s.Lines(t, "call")
				if len(lines) != 1 || lines[0]["method"] != "/easel.v1.GenerationService/"+row.rpc || lines[0]["code"] != row.code {
					t.Errorf("answered %s %s; logged %v", answer.Status, body, lines)
				}
				if s.used() != 0 || len(s.door.requests) != 0 {
					t.Errorf("%d places are taken, and %d requests are known", s.used(), len(s.door.requests))
				}
			})
		})
	}
}
