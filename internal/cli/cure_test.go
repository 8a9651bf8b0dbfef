package cli

import (
	"context"
	"crypto/tls"
	"net"
	"strings"
	"testing"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/proctest"
)

func TestAConnectionThatFailsSaysWhatHelps(t *testing.T) {
	cert, key := proctest.Certificate(t, "localhost")
	other, _ := proctest.Certificate(t, "localhost")
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	secure := listen(t, grpc.Creds(credentials.NewTLS(&tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12})))
	plain := listen(t)
	for name, test := range map[string]struct {
		args []string
		want string
	}{
		"another authority":        {[]string{"--addr", secure, "--tls-ca-file", other}, "--tls-ca-file names"},
		"the system's authorities": {[]string{"--addr", secure, "--tls"}, "--tls-ca-file names"},
		"no TLS there":             {[]string{"--addr", plain, "--tls"}, "leave out --tls"},
		"TLS there":                {[]string{"--addr", secure}, "add --tls"},
		"no such host":             {[]string{"--addr", "no-such-host.invalid:50051"}, "no host of this name"},
		"no port":                  {[]string{"--addr", "127.0.0.1"}, "127.0.0.1:50051"},
		"nobody there":             {[]string{"--addr", "127.0.0.1:1"}, "Is the server running there?"},
	} {
		t.Run(name, func(t *testing.T) {
			got := easel(t.Context(), nil, append([]string{"health"}, test.args...)...)
			if got.exit != ExitRetry || !strings.Contains(got.stderr, test.want) {
				t.Errorf("exit %d\n%s", got.exit, got.stderr)
			}
		})
	}
	elsewhere := func(ctx context.Context, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", secure)
	}
	if got := easel(t.Context(), elsewhere, "health", "--addr", "elsewhere.example:443", "--tls-ca-file", cert); !strings.Contains(got.stderr, "--addr must have") {
		t.Errorf("another name: %s", got.stderr)
	}
	if got := easel(t.Context(), nil, "health", "--addr", secure, "--tls-ca-file", cert); got.exit != ExitOK {
		t.Errorf("what helps does not help: %s", got.stderr)
	}
}

// listen starts a server on this machine.
func listen(t *testing.T, options ...grpc.ServerOption) (addr string) {
	t.Helper()
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer(options...)
	grpc_health_v1.RegisterHealthServer(server, health.NewServer())
	go func() { _ = server.Serve(lis) }()
	t.Cleanup(server.Stop)
	return lis.Addr().String()
}

func TestACallerThatIsUnknownHearsOfTokensAndCertificates(t *testing.T) {
	dial := (&scripted{get: func(*easelv1.GetGenerationRequest) (*easelv1.Generation, error) {
		return nil, failing(codes.Unauthenticated, "CALLER_UNKNOWN")
	}}).serve(t)
	got := easel(t.Context(), dial, "get", "gen_1")
	if got.exit != ExitCredential || !strings.Contains(got.stderr, "service token") || !strings.Contains(got.stderr, "--tls-cert-file") {
		t.Errorf("exit %d\n%s", got.exit, got.stderr)
	}
}

func TestAMistypedModelIsAnsweredWithTheNearestOne(t *testing.T) {
	missing := func(id string) error {
		return failing(codes.NotFound, "MODEL_NOT_FOUND", &errdetails.ResourceInfo{ResourceType: "model", ResourceName: id})
	}
	dial := (&scripted{
		model: func(r *easelv1.GetModelRequest) (*easelv1.Model, error) { return nil, missing(r.ModelId) },
		quote: func(r *easelv1.QuoteGenerationRequest) (*easelv1.Quote, error) { return nil, missing(r.ModelId) },
		models: func() (*easelv1.ListModelsResponse, error) {
			return &easelv1.ListModelsResponse{Models: []*easelv1.Model{{ModelId: "studio/haiku"}, {ModelId: "studio/landscape"}}}, nil
		},
	}).serve(t)
	for typed, meant := range map[string]string{"studio/landscpe": "studio/landscape", "haiku": "studio/haiku", "elsewhere/portrait": ""} {
		for _, command := range []string{"model", "quote", "generate"} {
			got := easel(t.Context(), dial, command, typed)
			if got.exit != ExitNotFound || !strings.Contains(got.stderr, modelCure) || strings.Contains(got.stderr, "Did you mean "+meant+"?") != (meant != "") {
				t.Errorf("%s %s: exit %d\n%s", command, typed, got.exit, got.stderr)
			}
		}
	}
}
