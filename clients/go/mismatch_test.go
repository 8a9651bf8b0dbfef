//go:build go1.25

package easel_test

import (
	"net"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"

	easel "github.com/easel-grpc/easel/clients/go"
	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
)

// startServer starts a gRPC server on a free port and returns its address.
func startServer(t *testing.T, options ...grpc.ServerOption) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer(options...)
	easelv1.RegisterGenerationServiceServer(server, &script{})
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	return listener.Addr().String()
}

func TestErrorDescribesAWrongAddress(t *testing.T) {
	web := httptest.NewServer(nil)
	t.Cleanup(web.Close)
	encrypted := httptest.NewTLSServer(nil)
	t.Cleanup(encrypted.Close)
	tls := grpc.Creds(credentials.NewServerTLSFromCert(&encrypted.TLS.Certificates[0]))
	unresolvable := strings.Repeat("x", 64) + ".invalid" // the first label of this host name is longer than the 63 bytes that DNS allows, so the lookup fails without a query
	for address, want := range map[string]string{
		unresolvable + ":50051":                                   unresolvable + " does not resolve",
		"https://" + startServer(t):                               "server does not speak TLS; use http:// in the address",
		"http://" + startServer(t, tls):                           "server closed the connection at its start; use https:// in the address if it speaks TLS",
		"http://" + strings.TrimPrefix(encrypted.URL, "https://"): "server closed the connection at its start; use https:// in the address if it speaks TLS",
		"https://" + strings.TrimPrefix(web.URL, "http://"):       "server does not speak TLS; use http:// in the address",
		web.URL: "server speaks HTTP/1.1 and not gRPC; use the gRPC address of Easel",
	} {
		client, err := easel.New(t.Context(), easel.WithAddress(address), easel.WithAttempts(1))
		if err != nil {
			t.Fatal(err)
		}
		_, err = client.Generations.DeleteGeneration(t.Context(), &easelv1.DeleteGenerationRequest{GenerationId: "gen_1"})
		if err == nil || err.Error() != want || status.Code(err) != codes.Unavailable {
			t.Errorf("a call to %s returned an unexpected error: %v", address, err)
		}
	}
}

func TestErrorContainsAddressOfUnreachableServer(t *testing.T) {
	open := func() net.Listener {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = listener.Close() })
		return listener
	}
	silent, closed := open().Addr().String(), open() // silent is the address of a listener that never calls Accept, so clients can connect but get no response
	if err := closed.Close(); err != nil {
		t.Fatal(err)
	}
	brief := grpc.WithConnectParams(grpc.ConnectParams{Backoff: backoff.DefaultConfig, MinConnectTimeout: 100 * time.Millisecond})
	for name, test := range map[string]struct {
		address string
		option  easel.CallOption
		want    string
	}{
		"closed":                   {closed.Addr().String(), easel.Attempts(1), "connection to ADDRESS failed: dial tcp ADDRESS: connect: connection refused"},
		"silent":                   {silent, easel.Attempts(1), "ADDRESS does not respond"},
		"silent, https":            {"https://" + silent, easel.Attempts(1), "ADDRESS does not respond"},
		"silent until the timeout": {silent, easel.Timeout(50 * time.Millisecond), "timed out; last error: ADDRESS does not respond"},
	} {
		client, err := easel.New(t.Context(), easel.WithAddress(test.address), easel.WithDialOptions(brief))
		if err != nil {
			t.Fatal(err)
		}
		want := strings.ReplaceAll(test.want, "ADDRESS", strings.TrimPrefix(test.address, "https://"))
		if _, err = client.Account(t.Context(), test.option); err == nil || err.Error() != want {
			t.Errorf("%s: unexpected error: %v", name, err)
		}
	}
}
