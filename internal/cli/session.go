package cli

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/alecthomas/kong"
	"google.golang.org/grpc"
	"google.golang.org/grpc/health/grpc_health_v1"

	easel "github.com/easel-grpc/easel/clients/go"
	"github.com/easel-grpc/easel/internal/terminal"
)

// KeyFlags say which key goes to a server.
type KeyFlags struct {
	APIKeyFile     string `group:"connection" name:"api-key-file" env:"EASEL_API_KEY_FILE" placeholder:"FILE" help:"File with the key. Without it the key is $$EASEL_API_KEY; a key is never a flag, because others can see flags."`
	AllowPlaintext bool   `group:"connection" env:"EASEL_ALLOW_PLAINTEXT" help:"Let the key leave in the clear for an http address on another machine, where something else encrypts."`
}

// connection is how a client command reaches the server.
type connection struct {
	Addr string `group:"connection" env:"EASEL_ADDR" default:"${addr}" placeholder:"ADDRESS" help:"The server: host:port, http://host:port or https://host:port. It has TLS, unless it is on this machine or says http."`
	KeyFlags

	TLSCAFile   string `group:"connection" name:"tls-ca-file" env:"EASEL_TLS_CA_FILE" placeholder:"FILE" help:"Certificates to trust instead of the system's."`
	TLSCertFile string `group:"connection" name:"tls-cert-file" placeholder:"FILE" help:"Own certificate, for mutual TLS."`
	TLSKeyFile  string `group:"connection" name:"tls-key-file" placeholder:"FILE" help:"Key of the own certificate."`
}

// callFlags are the flags of every client command.
type callFlags struct {
	connection
	Timeout time.Duration `group:"connection" placeholder:"TIME" help:"Longest time for the command. Without it 30s for a question and 2m for placing an order; watching, waiting and downloading have no limit."`
	Output  string        `group:"output" short:"o" enum:"table,json" default:"table" placeholder:"FORMAT" help:"table or json. With json errors are JSON too."`
	Quiet   bool          `group:"output" short:"q" help:"Only the result: the id, the text or the path."`
}

// AfterApply makes errors follow the format of the output from here on.
func (c *callFlags) AfterApply(p *Program) error { //nolint:unparam // the parser wants this signature
	p.JSONErrors = c.Output == "json"
	return nil
}

// Faults tells a limit that makes no sense.
func (c *callFlags) Faults() []string {
	if c.Timeout < 0 {
		return []string{"--timeout must not be negative"}
	}
	return nil
}

// session is one client command at work.
type session struct {
	*easel.Client
	*terminal.Console
	json        bool
	quiet       bool
	stdin       io.Reader
	commandLine func(words ...string) string // a command that reaches the same server in the same way

	retries sync.Map            // who is told of an attempt that failed, by method and name
	message func(easel.Message) // is told of each message of a watch
}

// limit is the longest time for the command, 0 where it has none.
func (c *callFlags) limit() time.Duration { return c.Timeout }

// questionFlags are those of a command that asks one question.
type questionFlags struct{ callFlags }

func (c *questionFlags) limit() time.Duration { return cmp.Or(c.Timeout, questionLimit) }

// The longest times for a question and for placing an order, where --timeout names none.
const (
	questionLimit = 30 * time.Second
	orderLimit    = 2 * time.Minute
)

// open makes the client. Nothing is sent before the first call. A read is asked again where the server says so: whoever
// has mistyped an address should not have to wait.
func (c *callFlags) open(ctx context.Context, p *Program) (*session, error) {
	s := &session{
		Console: p.Console(), json: c.Output == "json", quiet: c.Quiet, stdin: p.Stdin, commandLine: p.commandLine,
		message: func(easel.Message) {},
	}
	key, err := c.Key(p)
	if err != nil {
		return nil, err
	}
	options := []easel.Option{
		easel.WithAddress(c.Addr), easel.WithAPIKey(key), easel.WithAttempts(1), easel.WithLogger(slog.New(slog.DiscardHandler)), easel.WithHeartbeatInterval(15 * time.Second),
		easel.WithRetryHook(s.retried), easel.WithMessageHook(func(m easel.Message) { s.message(m) }),
		easel.WithDialOptions(grpc.WithUserAgent("easel/"+p.Build.Version), grpc.WithDisableHealthCheck()), // one command is over soon
	}
	if s.ErrStyle.Terminal { // somebody looks at it, and it says how long it may take
		options = append(options, easel.WithHeartbeatInterval(3*time.Second))
	}
	if c.AllowPlaintext {
		options = append(options, easel.WithPlaintextKey())
	}
	if p.Dial != nil {
		options = append(options, easel.WithDialer(p.Dial))
	}
	config, err := c.tls()
	if err != nil {
		return nil, err
	}
	if config != nil {
		options = append(options, easel.WithTLS(config))
	}
	if s.Client, err = easel.New(ctx, options...); err != nil {
		return nil, badUsage(strings.TrimPrefix(err.Error(), "easel: "), "See --addr and --api-key-file.")
	}
	return s, nil
}

// onRetry tells somebody of each attempt that fails, until its result is called.
func (s *session) onRetry(method, name string, tell func(easel.Retry)) (stop func()) {
	s.retries.Store(method+" "+name, tell)
	return func() { s.retries.Delete(method + " " + name) }
}

// retried tells why a call is made again, and when.
func (s *session) retried(r easel.Retry) {
	if tell, ok := s.retries.Load(r.Method + " " + cmp.Or(r.IdempotencyKey, r.GenerationID)); ok {
		tell.(func(easel.Retry))(r)
		return
	}
	s.aside("no answer yet (" + messageOf(r.Err) + "), asking again in " + formatDuration(r.Delay))
}

// aside writes a remark, never between the results.
func (s *session) aside(text string) {
	if !s.quiet {
		s.remark("", "", text)
	}
}

// remark tells something on the way that a person or a program may need later, with a value by its name.
func (s *session) remark(name, value, text string) {
	if !s.json {
		s.Hint(text)
		return
	}
	note := map[string]string{"note": text}
	if name != "" {
		note[name] = value
	}
	s.Tell(jsonLine(note))
}

// Key finds the key. No key is no fault, because the server may hold one.
func (c KeyFlags) Key(p *Program) (string, error) {
	if c.APIKeyFile == "" {
		return p.env(apiKeyVariable), nil
	}
	content, err := os.ReadFile(c.APIKeyFile)
	if err != nil {
		return "", badUsage("--api-key-file: "+err.Error(), "")
	}
	if strings.TrimSpace(string(content)) == "" {
		return "", badUsage("--api-key-file "+c.APIKeyFile+": the file is empty", "")
	}
	return string(content), nil
}

// APIKey is the key of the environment; "" where there is none.
func (p *Program) APIKey() string { return strings.TrimSpace(p.env(apiKeyVariable)) }

// tls is nil where no flag asks for more than the address does.
func (c connection) tls() (*tls.Config, error) {
	if c.TLSCAFile == "" && c.TLSCertFile == "" && c.TLSKeyFile == "" {
		return nil, nil
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
	return config, nil
}

// commandLine is a command line that reaches the same server in the same way.
func (p *Program) commandLine(words ...string) string {
	return ShellLine(words) + p.connectionFlags
}

// ShellLine is a command line of this program, as a shell takes it.
func ShellLine(words []string) string {
	line := "easel"
	for _, word := range words {
		line += " " + terminal.ShellQuote(word)
	}
	return line
}

// connectionFlagsOf repeats the flags of the connection that were given on the command line. What
// the environment says is there the next time too.
func connectionFlagsOf(line *kong.Context) string {
	var flags strings.Builder
	for _, at := range line.Path {
		if at.Flag == nil || at.Resolved || at.Flag.Group == nil || at.Flag.Group.Key != "connection" || at.Flag.Name == "timeout" {
			continue
		}
		flags.WriteString(" --" + at.Flag.Name)
		if !at.Flag.IsBool() {
			flags.WriteString(" " + terminal.ShellQuote(fmt.Sprint(line.FlagValue(at.Flag))))
		}
	}
	return flags.String()
}

// Health is the command that asks whether a server serves.
type Health struct {
	questionFlags
	Service string `placeholder:"NAME" help:"Ask for one service, such as easel.v1.GenerationService, instead of the whole server."`
}

// Run asks a server whether it serves.
func (c *Health) Run(ctx context.Context, s *session) error {
	answer, err := grpc_health_v1.NewHealthClient(s.Conn()).Check(ctx, &grpc_health_v1.HealthCheckRequest{Service: c.Service})
	if err != nil {
		return err
	}
	err = s.answer(answer, answer.Status.String(), func() { s.Print(answer.Status.String()) })
	if err == nil && answer.Status != grpc_health_v1.HealthCheckResponse_SERVING {
		err = &Problem{Exit: ExitRetry, Text: c.Addr + " does not serve"}
	}
	return err
}
