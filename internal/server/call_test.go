package server

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/mem"
	reflectionpb "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/gate"
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

// used is how many places are used.
func (s *site) used() int {
	d := s.door
	return d.calls[order].inUse() + d.calls[read].inUse() + d.calls[list].inUse() + d.streams.inUse() + d.generations.inUse() + d.public.inUse() + d.checks.inUse() + d.unprovedKeys.inUse() + d.unprovedAddresses.inUse()
}

func TestAMessageThatDoesNotComeIsGivenUp(t *testing.T) { // L9 A3
	for method, limit := range map[string]time.Duration{
		easelv1.GenerationService_CreateGeneration_FullMethodName:         requestTimeout,
		easelv1.GenerationService_WatchGeneration_FullMethodName:          requestTimeout,
		grpc_health_v1.Health_Check_FullMethodName:                        publicTimeout,
		reflectionpb.ServerReflection_ServerReflectionInfo_FullMethodName: publicTimeout,
	} {
		t.Run(method, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := serve(t, servertest.NewStudio())
				began := time.Now()
				stream := s.openCall(t, servertest.WithKey(t.Context()), method)
				synctest.Wait()
				if s.used() != 1 {
					t.Errorf("%d places are used while it does not come", s.used())
				}
				if err := stream.RecvMsg(&easelv1.CreateGenerationResponse{}); status.Code(err) != codes.DeadlineExceeded {
					t.Errorf("it ends with %v", err)
				}
				if took := time.Since(began); took > limit || took < limit-checkInterval {
					t.Errorf("it was given up after %v", took)
				}
				synctest.Wait()
				if s.used() != 0 {
					t.Errorf("%d places are used", s.used())
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
		synctest.Wait() // the last line is written
		if lines := s.Lines(t, "call"); len(lines) != 3 {
			t.Errorf("logged %v", lines)
		}
	})
}

func TestAnAnswerAfterTheEndOfItsStreamHoldsNoPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, servertest.NewStudio())
		synctest.Wait() // until it serves
		c := &call{door: s.door, method: easelv1.GenerationService_GetGeneration_FullMethodName, start: time.Now(), working: 1}
		if err := c.takePlace(t.Context()); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(c.within(t.Context()))
		ctx = s.door.TagRPC(ctx, nil)
		leaving := c.counted(mem.BufferSlice{mem.SliceBuffer("answer")})
		cancel()
		s.door.HandleRPC(ctx, &stats.OutPayload{Payload: &answer{call: c}})
		if s.used() != 1 {
			t.Errorf("%d places are used while the call is handled", s.used())
		}
		s.door.HandleRPC(ctx, &stats.End{})
		if s.used() != 0 {
			t.Errorf("%d places are used after its end", s.used())
		}
		leaving.Free() // where the library frees it after all
		if s.used() != 0 {
			t.Errorf("%d places are used after its answer", s.used())
		}
	})
}

func TestReflectionThatNobodyReadsHoldsNoPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, servertest.NewStudio())
		stream, err := reflectionpb.NewServerReflectionClient(s.GRPC).ServerReflectionInfo(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		asked := make(chan struct{})
		go func() {
			defer close(asked)
			for range 100_000 {
				if stream.Send(&reflectionpb.ServerReflectionRequest{
					MessageRequest: &reflectionpb.ServerReflectionRequest_FileContainingSymbol{FileContainingSymbol: "easel.v1.GenerationService"},
				}) != nil {
					return
				}
			}
		}()
		time.Sleep(writeTimeout - time.Second)
		synctest.Wait()
		if s.used() != 1 {
			t.Errorf("%d places are used before %v", s.used(), writeTimeout)
		}
		time.Sleep(3 * time.Second)
		synctest.Wait()
		if s.used() != 0 {
			t.Errorf("%d places are used after %v", s.used(), writeTimeout)
		}
		<-asked
	})
}

func TestWhoeverLeavesTheLineIsNotToldThatItIsTooLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, servertest.NewStudio())
		ctx, leave := context.WithCancel(t.Context())
		c := &call{door: s.door, method: easelv1.GenerationService_GetGeneration_FullMethodName}
		for n := 0; ; n++ { // until there are no turns left
			turn, err := s.door.turns.Try(gate.Request{Owner: fmt.Sprint(n), Class: read})
			if err != nil {
				break
			}
			defer turn.End(gate.Answer{})
		}
		go func() { time.Sleep(callWait / 2); leave() }()
		if err := c.await(ctx, read); !errors.Is(err, context.Canceled) {
			t.Errorf("it gets %v", err)
		}
		servertest.WantError(t, service.Status(c.await(t.Context(), read)).Err(), codes.ResourceExhausted, "OVERLOADED")
	})
}
