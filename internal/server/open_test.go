package server

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	reflectionpb "google.golang.org/grpc/reflection/grpc_reflection_v1"
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

// served returns the names of the services that the server's reflection service lists.
func (s *site) served(t *testing.T) (services []string) {
	t.Helper()
	stream, err := reflectionpb.NewServerReflectionClient(s.GRPC).ServerReflectionInfo(t.Context())
	if err == nil {
		err = stream.Send(&reflectionpb.ServerReflectionRequest{MessageRequest: &reflectionpb.ServerReflectionRequest_ListServices{}})
	}
	if err != nil {
		t.Fatal(err)
	}
	answer, err := stream.Recv()
	if err != nil {
		t.Fatal(err)
	}
	for _, one := range answer.GetListServicesResponse().GetService() {
		services = append(services, one.GetName())
	}
	return services
}

// callsOf returns the full names of a service's methods.
func callsOf(t *testing.T, service string) (names []string) {
	t.Helper()
	d, err := protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName(service))
	if err != nil {
		t.Fatal(err)
	}
	all := d.(protoreflect.ServiceDescriptor).Methods()
	for n := range all.Len() {
		names = append(names, "/"+service+"/"+string(all.Get(n).Name()))
	}
	return names
}

func TestNoCallIsOpenByAccident(t *testing.T) {
	s := serve(t, servertest.NewStudio())
	var open []string
	refused := 0
	for _, service := range s.served(t) {
		for _, name := range callsOf(t, service) {
			stream, err := s.GRPC.NewStream(t.Context(), &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, name)
			if err != nil {
				t.Fatal(err)
			}
			_ = stream.SendMsg(&emptypb.Empty{}) // fails if the call is already rejected
			_ = stream.CloseSend()
			if err = stream.RecvMsg(&emptypb.Empty{}); status.Code(err) != codes.Unauthenticated {
				open = append(open, name)
				continue
			}
			servertest.WantError(t, err, codes.Unauthenticated, "CREDENTIAL_MISSING")
			refused++
		}
	}
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
	for _, service := range s.served(t) {
		if strings.Contains(service, "channelz") {
			t.Errorf("the public port serves %s", service)
		}
	}
}
