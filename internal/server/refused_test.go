package server

import (
	"io"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/server/servertest"
)

func TestFloodOfStrangersFillsNoLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, servertest.NewStudio())
		for range 3 * refusalLines {
			_, err := s.Generations().GetGeneration(t.Context(), &easelv1.GetGenerationRequest{GenerationId: "g"})
			servertest.WantError(t, err, codes.Unauthenticated, "CREDENTIAL_MISSING")
		}
		if lines := s.Lines(t, "call"); len(lines) != refusalLines || lines[0]["code"] != "Unauthenticated" {
			t.Errorf("%d lines", len(lines))
		}
		time.Sleep(time.Second)
		_, _ = s.Generations().GetGeneration(t.Context(), &easelv1.GetGenerationRequest{GenerationId: "g"})
		if lines := s.Lines(t, "call"); len(lines) != refusalLines+1 {
			t.Errorf("a second later there are %d lines", len(lines))
		}
	})
}

func TestStrangerIsRefusedBeforeItsRequestArrives(t *testing.T) { // faults A1, A2
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, servertest.NewStudio())
		stream, err := s.GRPC.NewStream(t.Context(), &easelv1.GenerationService_ServiceDesc.Streams[0], easelv1.GenerationService_WatchGeneration_FullMethodName)
		if err != nil {
			t.Fatal(err)
		}
		servertest.WantError(t, stream.RecvMsg(&easelv1.WatchGenerationResponse{}), codes.Unauthenticated, "CREDENTIAL_MISSING")
		body, unsent := io.Pipe()
		defer unsent.Close()
		r := servertest.Request(t, http.MethodPost, "/v1/generations", "")
		r.Body, r.ContentLength = body, 100
		r.Header.Del("Authorization")
		if answer, body := servertest.Do(t, s.HTTP, r); answer.StatusCode != http.StatusUnauthorized {
			t.Errorf("over REST: %s %s", answer.Status, body)
		}
		if n := s.chain.calls.inUse() + s.chain.streams.inUse(); n != 0 || len(s.Seen()) != 0 {
			t.Errorf("%d rejections are counted, and the service has received %v", n, s.Seen())
		}
	})
}
