package server

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/known/emptypb"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/server/servertest"
)

// openCalls lists the methods that need no credential. All other methods must reject calls without a
// credential.
var openCalls = []string{
	"/grpc.health.v1.Health/Check",
	"/grpc.health.v1.Health/List",
	"/grpc.health.v1.Health/Watch",
	"/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
	"/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
}

// The test calls every method of every service in the program without a credential. Only the methods in openCalls may
// accept such a call. The server returns UNIMPLEMENTED for services that it does not serve.
func TestOnlyListedMethodsAcceptMissingCredential(t *testing.T) {
	s := serve(t, servertest.NewStudio())
	var open []string
	refused := 0
	protoregistry.GlobalFiles.RangeFiles(func(file protoreflect.FileDescriptor) bool {
		for n := range file.Services().Len() {
			service := file.Services().Get(n)
			for m := range service.Methods().Len() {
				name := fmt.Sprintf("/%s/%s", service.FullName(), service.Methods().Get(m).Name())
				stream, err := s.GRPC.NewStream(t.Context(), &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, name)
				if err != nil {
					t.Fatal(err)
				}
				_ = stream.SendMsg(&emptypb.Empty{}) // sending fails if the call has already been rejected
				_ = stream.CloseSend()
				switch err = stream.RecvMsg(&emptypb.Empty{}); status.Code(err) {
				case codes.Unauthenticated:
					servertest.WantError(t, err, codes.Unauthenticated, "CREDENTIAL_MISSING")
					refused++
				case codes.Unimplemented:
				default:
					open = append(open, name)
				}
			}
		}
		return true
	})
	slices.Sort(open)
	if !slices.Equal(open, openCalls) || refused != 14 {
		t.Errorf("%d calls reject a caller without a credential; these do not:\n%s", refused, strings.Join(open, "\n"))
	}
}

func TestPublicPortServesNoAdminPaths(t *testing.T) {
	s := serve(t, servertest.NewStudio())
	for _, path := range []string{"/metrics", "/healthz", "/readyz", "/debug/pprof/", "/debug/pprof/heap", "/debug/pprof/cmdline"} {
		if answer, _ := servertest.Do(t, s.HTTP, servertest.Request(t, http.MethodGet, path, "")); answer.StatusCode != http.StatusNotFound {
			t.Errorf("the public port responds to %s with %s", path, answer.Status)
		}
	}
}

func TestLogRateOfUnauthenticatedCallsIsLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, servertest.NewStudio())
		for range 3 * refusalLines {
			_, err := s.Generations().GetGeneration(t.Context(), &easelv1.GetGenerationRequest{GenerationId: "g"})
			servertest.WantError(t, err, codes.Unauthenticated, "CREDENTIAL_MISSING")
		}
		if lines := s.Lines(t, "call"); len(lines) != refusalLines || lines[0]["code"] != "Unauthenticated" {
			t.Errorf("logged %d calls", len(lines))
		}
		time.Sleep(time.Second)
		_, _ = s.Generations().GetGeneration(t.Context(), &easelv1.GetGenerationRequest{GenerationId: "g"})
		if lines := s.Lines(t, "call"); len(lines) != refusalLines+1 {
			t.Errorf("a second after the limit was reached, %d calls are logged, want one more", len(lines))
		}
	})
}

func TestUnauthenticatedCallIsRejectedBeforeRequestArrives(t *testing.T) {
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
			t.Errorf("%d calls and streams are in use, and the service received %v", n, s.Seen())
		}
	})
}
