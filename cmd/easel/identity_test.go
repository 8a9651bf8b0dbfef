package main

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"testing"

	"google.golang.org/genproto/googleapis/api/annotations"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/easel-grpc/easel/internal/admin"
	"github.com/easel-grpc/easel/internal/proctest"
	"github.com/easel-grpc/easel/internal/rest/page"
	"github.com/easel-grpc/easel/internal/service"
)

// withoutIdentity contains Authorization headers that the server must reject.
var withoutIdentity = []string{"", "Bearer wrong-token", "Basic d2hvZXZlcjp3cm9uZw=="}

// TestUnauthenticatedRequestsChangeNothing sends requests without a valid identity to all routes of the four listeners,
// and checks that they change nothing. It takes the gRPC methods and the REST routes from the contract, and the paths of
// pages and admin routes from lists in the program.
func TestUnauthenticatedRequestsChangeNothing(t *testing.T) {
	c := startChanging(t, map[string]string{"EASEL_METRICS_ADDR": "127.0.0.1:0"})
	before, lines := c.describeState(), c.countEntries()
	changing := 0
	for _, authorization := range withoutIdentity {
		changing = c.walkGRPC(authorization) + c.walkREST(authorization) + c.walkPages(authorization) + c.walkAdmin(authorization)
	}
	if after := c.describeState(); after != before || c.countEntries() != lines {
		t.Errorf("state changed from %q to %q, with %d new audit lines", before, after, c.countEntries()-lines)
	}
	t.Logf("%d routes with side effects rejected %d unknown clients", changing, len(withoutIdentity))
	if want := 2 + 2 + 5; changing != want { // create and delete over gRPC, create and delete over REST, and five admin routes
		t.Errorf("tried %d routes with side effects, want %d", changing, want)
	}
}

// hasSideEffects reports whether a method of the contract has side effects.
func hasSideEffects(m protoreflect.MethodDescriptor) bool {
	return m.Options().(*descriptorpb.MethodOptions).GetIdempotencyLevel() != descriptorpb.MethodOptions_NO_SIDE_EFFECTS
}

// walkGRPC calls every method in the contract with the given Authorization header, and checks that the server rejects the
// call. It returns the number of methods with side effects. A test in internal/server checks that no method outside the
// contract has side effects.
func (c *changing) walkGRPC(authorization string) (changing int) {
	c.Helper()
	conn := proctest.Dial(c, c.served.addr("grpc"))
	service.Methods(func(m protoreflect.MethodDescriptor) {
		if code := c.callAsNobody(conn, m, authorization); code != codes.Unauthenticated {
			c.Errorf("%s with authorization %q returned %v", m.FullName(), authorization, code)
		}
		if hasSideEffects(m) {
			changing++
		}
	})
	return changing
}

// callAsNobody calls a method with an empty request and the given Authorization header, if any. It returns the status code.
func (c *changing) callAsNobody(conn *grpc.ClientConn, m protoreflect.MethodDescriptor, authorization string) codes.Code {
	c.Helper()
	ctx, cancel := context.WithCancel(c.Context())
	defer cancel()
	if authorization != "" {
		ctx = metadata.AppendToOutgoingContext(ctx, "authorization", authorization)
	}
	stream, err := conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, service.FullMethod(m))
	if err != nil {
		return status.Code(err)
	}
	_ = stream.SendMsg(dynamicpb.NewMessage(m.Input())) // if sending fails, RecvMsg returns the status
	_ = stream.CloseSend()
	return status.Code(stream.RecvMsg(dynamicpb.NewMessage(m.Output())))
}

// walkREST sends a request with the given Authorization header to every REST route in the contract, and returns the number
// of routes with side effects.
func (c *changing) walkREST(authorization string) (changing int) {
	c.Helper()
	fill, addr := strings.NewReplacer("{generation_id}", "gen_3", "{model_id=**}", "studio/poster"), c.served.addr("http")
	service.Methods(func(m protoreflect.MethodDescriptor) {
		rule, _ := proto.GetExtension(m.Options(), annotations.E_Http).(*annotations.HttpRule)
		for _, rule := range append([]*annotations.HttpRule{rule}, rule.GetAdditionalBindings()...) {
			method, path := http.MethodGet, rule.GetGet()
			switch {
			case rule.GetPost() != "":
				method, path = http.MethodPost, rule.GetPost()
			case rule.GetDelete() != "":
				method, path = http.MethodDelete, rule.GetDelete()
			}
			if code := c.sendRequest(addr, method, fill.Replace(path), authorization); code != http.StatusUnauthorized {
				c.Errorf("%s %s with authorization %q returned %d", method, path, authorization, code)
			}
			if hasSideEffects(m) {
				changing++
			}
		}
	})
	return changing
}

// walkPages sends requests to every page, with each HTTP method that can change data, and checks that the page rejects
// them. It returns the number of pages with side effects, which is 0.
func (c *changing) walkPages(authorization string) int {
	c.Helper()
	paths := []string{"/openapi.json"}
	for path := range page.Handlers("127.0.0.1:1") {
		paths = append(paths, path)
	}
	for _, path := range paths {
		for _, method := range writing {
			if code := c.sendRequest(c.served.addr("http"), method, path, authorization); !slices.Contains(untaken, code) {
				c.Errorf("%s %s with authorization %q returned %d", method, path, authorization, code)
			}
		}
	}
	return 0
}

var (
	writing = []string{http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete}
	untaken = []int{http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusNotImplemented}
)

// walkAdmin sends requests to every path at the admin and metrics addresses, with each HTTP method that can change data. The
// servers must reject all these requests. walkAdmin returns the number of routes with side effects.
func (c *changing) walkAdmin(authorization string) (changing int) {
	c.Helper()
	for pattern := range admin.Routes() {
		own, path, _ := strings.Cut(pattern, " ")
		path = strings.TrimSuffix(path, "{$}")
		for _, method := range writing {
			for _, listener := range []string{"admin", "metrics"} {
				code := c.sendRequest(c.served.addr(listener), method, path, authorization)
				if !slices.Contains(untaken, code) {
					c.Errorf("%s %s at the %s address with authorization %q returned %d", method, path, listener, authorization, code)
				}
			}
		}
		if own != http.MethodGet {
			changing++
		}
	}
	return changing
}

// sendRequest sends an HTTP request and returns the status code of the response. The body is a valid request to resolve an
// order, so that the server can reject such a request only because of its authorization.
func (c *changing) sendRequest(addr, method, path, authorization string) int {
	c.Helper()
	header := []string{"Content-Type", "application/json"}
	if authorization != "" {
		header = append(header, "Authorization", authorization)
	}
	answer, _ := proctest.Request(c.T, method, "http://"+addr+path, `{"id":"`+c.unknown+`","refused":true}`, header...)
	return answer.StatusCode
}
