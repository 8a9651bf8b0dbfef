package server

import (
	"context"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/server/servertest"
	"github.com/easel-grpc/easel/internal/service"
)

// openCall opens a call that sends nothing.
func (s *site) openCall(t *testing.T, ctx context.Context, method string) grpc.ClientStream {
	t.Helper()
	stream, err := s.GRPC.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true}, method)
	if err != nil {
		t.Fatal(err)
	}
	return stream
}

// taken is how many places are taken.
func (s *site) taken() int {
	d := s.door
	return d.calls[order].inUse() + d.calls[read].inUse() + d.calls[list].inUse() + d.streams.inUse() + d.generations.inUse() + d.public.inUse() + d.unprovedKeys.inUse() + d.unprovedAddresses.inUse()
}

func TestAMessageThatDoesNotComeIsGivenUp(t *testing.T) { // L9 A3
	for _, method := range []string{
		easelv1.GenerationService_CreateGeneration_FullMethodName,
		easelv1.GenerationService_WatchGeneration_FullMethodName,
		grpc_health_v1.Health_Check_FullMethodName,
		"/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
	} {
		t.Run(method, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := serve(t, servertest.NewStudio())
				began := time.Now()
				stream := s.openCall(t, servertest.WithKey(t.Context()), method)
				synctest.Wait()
				if s.taken() != 1 {
					t.Errorf("%d places are taken while it does not come", s.taken())
				}
				if err := stream.RecvMsg(&easelv1.CreateGenerationResponse{}); status.Code(err) != codes.DeadlineExceeded {
					t.Errorf("it ends with %v", err)
				}
				if took := time.Since(began); took > requestTimeout || took < requestTimeout-checkInterval {
					t.Errorf("it was given up after %v", took)
				}
				synctest.Wait()
				if s.taken() != 0 {
					t.Errorf("%d places are taken", s.taken())
				}
				if lines := s.Lines(t, "call"); len(lines) != 1 || lines[0]["code"] != "DeadlineExceeded" {
					t.Errorf("logged %v", lines)
				}
			})
		})
	}
}

func TestACallWithoutACredentialIsDeniedAtItsHeaders(t *testing.T) { // A1 A2
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, servertest.NewStudio())
		began := time.Now()
		for _, method := range []string{
			easelv1.GenerationService_CreateGeneration_FullMethodName, easelv1.GenerationService_WatchGeneration_FullMethodName,
		} {
			err := s.openCall(t, t.Context(), method).RecvMsg(&easelv1.CreateGenerationResponse{})
			servertest.WantError(t, err, codes.Unauthenticated, "CREDENTIAL_MISSING")
		}
		answer, body := servertest.Do(t, s.HTTP, servertest.Request(t, http.MethodPost, "/v1/generations", "no JSON", "Authorization: "))
		if answer.StatusCode != http.StatusUnauthorized || answer.Header.Get("WWW-Authenticate") == "" {
			t.Errorf("over REST it is answered %s", answer.Status)
		}
		st := servertest.WantError(t, servertest.RESTStatus(t, body).Err(), codes.Unauthenticated, "CREDENTIAL_MISSING")
		if got := service.Detail[*errdetails.ErrorInfo](st).GetMetadata()["order_outcome"]; got != "not_placed_by_this_call" {
			t.Errorf("of the order is known: %q", got)
		}
		if took := time.Since(began); took != 0 {
			t.Errorf("the denials took %v", took)
		}
		if lines := s.Lines(t, "call"); len(lines) != 3 {
			t.Errorf("logged %v", lines)
		}
	})
}
