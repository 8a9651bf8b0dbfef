package cli

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"os"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
)

// maxMessage is the largest answer that the client takes: a page of a thousand generations
// with long texts in them.
const maxMessage = 64 << 20

// connection is how a client command reaches the server.
type connection struct {
	Addr        string `group:"connection" env:"EASEL_ADDR" default:"${addr}" placeholder:"HOST:PORT" help:"The server."`
	APIKeyFile  string `group:"connection" name:"api-key-file" env:"EASEL_API_KEY_FILE" placeholder:"FILE" help:"File with the key. Without it the key is $$EASEL_API_KEY; a key is never a flag, because others can see flags."`
	TLS         bool   `group:"connection" name:"tls" env:"EASEL_TLS" help:"Speak TLS. The flags below say so too."`
	TLSCAFile   string `group:"connection" name:"tls-ca-file" env:"EASEL_TLS_CA_FILE" placeholder:"FILE" help:"Certificates to trust instead of the system's."`
	TLSCertFile string `group:"connection" name:"tls-cert-file" placeholder:"FILE" help:"Own certificate, for mutual TLS."`
	TLSKeyFile  string `group:"connection" name:"tls-key-file" placeholder:"FILE" help:"Key of the own certificate."`
}

// defaultAddr is where a server is when nobody says where.
const defaultAddr = "localhost:50051"

// stubs are the clients of the contract over one connection.
type stubs struct {
	conn        *grpc.ClientConn
	accounts    easelv1.AccountServiceClient
	models      easelv1.ModelServiceClient
	generations easelv1.GenerationServiceClient
}

func newStubs(conn *grpc.ClientConn) *stubs {
	return &stubs{
		conn:        conn,
		accounts:    easelv1.NewAccountServiceClient(conn),
		models:      easelv1.NewModelServiceClient(conn),
		generations: easelv1.NewGenerationServiceClient(conn),
	}
}

// close ends the connection, and with it whatever still runs on it.
func (s *stubs) close() { _ = s.conn.Close() }

// open prepares the connection with the key that the user has named.
func (c connection) open(p *Program) (*stubs, error) {
	key, err := c.key(p)
	if err != nil {
		return nil, err
	}
	return c.openWith(p, key)
}

// openWith prepares the connection. Nothing is sent before the first call.
func (c connection) openWith(p *Program, key string) (*stubs, error) {
	if strings.HasPrefix(c.Addr, "http://") || strings.HasPrefix(c.Addr, "https://") {
		return nil, badUsage(fmt.Sprintf("--addr %q is a web address", c.Addr),
			"Give the gRPC address as HOST:PORT, such as "+defaultAddr+", with --tls where it speaks TLS.")
	}
	transport, err := c.transport()
	if err != nil {
		return nil, err
	}
	options := []grpc.DialOption{
		grpc.WithTransportCredentials(transport),
		grpc.WithDisableServiceConfig(), // a resend by the library would be a try that nobody counts
		grpc.WithDisableRetry(),
		grpc.WithUserAgent("easel/" + p.Build.Version),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessage)),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 30 * time.Second, Timeout: 10 * time.Second}),
		// The default waits up to two minutes between dials, longer than our own back-off.
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: 200 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: 5 * time.Second},
			MinConnectTimeout: 10 * time.Second,
		}),
	}
	if key != "" {
		options = append(options, grpc.WithPerRPCCredentials(bearer(key)))
	}
	target := c.Addr
	if p.Dial != nil {
		target = "passthrough:///" + c.Addr
		options = append(options, grpc.WithContextDialer(p.Dial))
	}
	conn, err := grpc.NewClient(target, options...)
	if err != nil {
		return nil, badUsage(fmt.Sprintf("--addr %q: %v", c.Addr, err), "")
	}
	return newStubs(conn), nil
}

// bearer is a key that travels with every call. It also does so without TLS: inside a
// cluster the mesh, or nobody, encrypts, and whoever runs it has decided that.
type bearer string

// GetRequestMetadata is the key as a call carries it.
func (b bearer) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	return map[string]string{"authorization": "Bearer " + string(b)}, nil
}

// RequireTransportSecurity is false, see the type.
func (bearer) RequireTransportSecurity() bool { return false }

// key finds the key. No key is no fault, because the server may hold one.
func (c connection) key(p *Program) (string, error) {
	name, text, err := c.findKey(p)
	if err != nil {
		return "", err
	}
	key := strings.TrimSpace(text)
	if p.addr = c.Addr; key != "" {
		p.keyFrom = name
	}
	if strings.ContainsFunc(key, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return "", badUsage(name+" holds more than one API key: spaces, line breaks or characters that no API key has", "")
	}
	return key, nil
}

// APIKey is the key of the environment; "" where there is none.
func (p *Program) APIKey() (string, error) {
	return connection{}.key(&Program{Lookup: p.Lookup})
}

// findKey gives the key, and says where it was: in the file that is named, else in the variable.
func (c connection) findKey(p *Program) (from, text string, err error) {
	if c.APIKeyFile == "" {
		return apiKeyVariable, p.env(apiKeyVariable), nil
	}
	content, err := os.ReadFile(c.APIKeyFile)
	if err != nil {
		return "", "", badUsage("--api-key-file: "+err.Error(), "")
	}
	from = "--api-key-file " + c.APIKeyFile
	if strings.TrimSpace(string(content)) == "" {
		return "", "", badUsage(from+": the file is empty", "")
	}
	return from, string(content), nil
}

func (c connection) transport() (credentials.TransportCredentials, error) {
	if !c.TLS && c.TLSCAFile == "" && c.TLSCertFile == "" && c.TLSKeyFile == "" {
		return insecure.NewCredentials(), nil
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if c.TLSCAFile != "" {
		pem, err := os.ReadFile(c.TLSCAFile)
		if err != nil {
			return nil, badUsage("--tls-ca-file: "+err.Error(), "")
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return nil, badUsage("--tls-ca-file "+c.TLSCAFile+": there is no PEM certificate in it", "")
		}
	}
	if c.TLSCertFile != "" || c.TLSKeyFile != "" {
		pair, err := tls.LoadX509KeyPair(c.TLSCertFile, c.TLSKeyFile)
		if err != nil {
			return nil, badUsage("--tls-cert-file, --tls-key-file: "+err.Error(), "")
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return credentials.NewTLS(config), nil
}

// Dialer is what tests put in the place of the network.
type Dialer = func(ctx context.Context, addr string) (net.Conn, error)

// Health is the command that asks whether a server serves.
type Health struct {
	callFlags
	Service string `placeholder:"NAME" help:"Ask for one service, such as easel.v1.GenerationService, instead of the whole server."`
}

// Help implements kong.HelpProvider.
func (*Health) Help() string {
	return `Asks grpc.health.v1, for which no key is needed. It ends with 0 where the server serves, with 3 where it knows no such service, and with 6 where it does not serve or is not there, so that it does for a probe.

Examples:

  easel health -q --timeout 2s
  easel health --addr easel.example:443 --tls --service easel.v1.GenerationService
`
}

// Run asks a server whether it serves.
func (c *Health) Run(ctx context.Context, p *Program) error {
	return c.call(ctx, p, questionLimit, func(ctx context.Context, s *session) error {
		health := grpc_health_v1.NewHealthClient(s.conn)
		answer, err := health.Check(ctx, &grpc_health_v1.HealthCheckRequest{Service: c.Service})
		if err != nil {
			return err
		}
		s.answer(answer, answer.Status.String(), func() { s.Print(answer.Status.String()) })
		if answer.Status != grpc_health_v1.HealthCheckResponse_SERVING {
			return &Problem{Exit: ExitRetry, Text: c.Addr + " does not serve"}
		}
		return nil
	})
}
