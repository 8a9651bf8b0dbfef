package server

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/known/emptypb"

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

// A service that is linked into the program but not served returns UNIMPLEMENTED.
func TestNoCallIsOpenByAccident(t *testing.T) {
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
				_ = stream.SendMsg(&emptypb.Empty{}) // fails if the call is already rejected
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

func TestWhatIsForOperatorsIsOnTheAdminPortAlone(t *testing.T) {
	s := serve(t, servertest.NewStudio())
	for _, path := range []string{"/metrics", "/healthz", "/readyz", "/debug/pprof/", "/debug/pprof/heap", "/debug/pprof/cmdline"} {
		if answer, _ := servertest.Do(t, s.HTTP, servertest.Request(t, http.MethodGet, path, "")); answer.StatusCode != http.StatusNotFound {
			t.Errorf("the public port responds to %s with %s", path, answer.Status)
		}
	}
}
