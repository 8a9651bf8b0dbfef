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
	"time"

	"github.com/alecthomas/kong"
	"google.golang.org/grpc"
	"google.golang.org/grpc/health/grpc_health_v1"

	easel "github.com/easel-grpc/easel/clients/go"
	"github.com/easel-grpc/easel/internal/terminal"
)

// KeyFlags contains the flags for the API key that a command sends to a server.
type KeyFlags struct {
	APIKeyFile     string `group:"connection" name:"api-key-file" env:"EASEL_API_KEY_FILE" placeholder:"FILE" help:"File with the API key. Default: the key in $$EASEL_API_KEY. There is no flag for the key itself, because other processes can see flags."`
	AllowPlaintext bool   `group:"connection" env:"EASEL_ALLOW_PLAINTEXT" help:"Allow the key to be sent without TLS to another machine. Use this flag only if something else encrypts the connection."`
}

// callFlags contains the flags that all client commands have.
type callFlags struct {
	Addr string `group:"connection" env:"EASEL_ADDR" default:"${addr}" placeholder:"ADDRESS" help:"Address of the server: host:port, http://host:port or https://host:port. Without a scheme, the connection uses TLS, unless the server is on this machine."`
	KeyFlags

	TLSCAFile   string        `group:"connection" name:"tls-ca-file" env:"EASEL_TLS_CA_FILE" placeholder:"FILE" help:"File with certificates to trust instead of the system's certificates."`
	TLSCertFile string        `group:"connection" name:"tls-cert-file" env:"EASEL_TLS_CLIENT_CERT_FILE" placeholder:"FILE" help:"Client certificate. Requires --tls-key-file."`
	TLSKeyFile  string        `group:"connection" name:"tls-key-file" env:"EASEL_TLS_CLIENT_KEY_FILE" placeholder:"FILE" help:"Private key of the client certificate."`
	Timeout     time.Duration `group:"connection" placeholder:"TIME" help:"Maximum time for the command. Default: 30s for a query, 2m for an order, and no limit for watch, wait and download."`
	Output      string        `group:"output" short:"o" enum:"table,json" default:"table" placeholder:"FORMAT" help:"Format of the output: table or json. With json, errors are also printed as JSON."`
	Quiet       bool          `group:"output" short:"q" help:"Print only the result: the ID, the text or the path."`
}

// AfterApply sets the format of errors to JSON if the output format is JSON.
func (c *callFlags) AfterApply(p *Program) error { //nolint:unparam // the parser requires this signature
	p.JSONErrors = c.Output == "json"
	return nil
}

// Faults returns a message for each invalid flag or combination of flags.
func (c *callFlags) Faults() []string {
	var faults FaultList
	faults.Require(c.Timeout >= 0, "--timeout must not be negative")
	return faults
}

// flags returns the flags that all client commands have.
func (c *callFlags) flags() *callFlags { return c }

const (
	questionLimit     = 30 * time.Second // default timeout of a call that does not place an order
	orderLimit        = 2 * time.Minute  // default timeout of an order
	heartbeatInterval = 5 * time.Second
)

// session is the state of one running client command.
type session struct {
	*easel.Client
	*terminal.Console
	json, quiet bool
	stdin       io.Reader
	line        string                       // command line, quoted for a shell
	commandLine func(words ...string) string // returns a command line that runs easel with the given words and this command's connection flags
	message     func(easel.Message)          // called with each message of a watch

	lost string // message of the last failed attempt; empty if the server has responded since
}

// openSession creates the command's session. The session's client sends nothing before the first call. It retries a read only
// if the server requests a retry, so that a mistyped address is reported after the first attempt.
func (c *callFlags) openSession(ctx context.Context, p *Program) (*session, error) {
	s := &session{
		Console: p.Console(), json: c.Output == "json", quiet: c.Quiet, stdin: p.Stdin, message: func(easel.Message) {}, line: p.line,
		commandLine: func(words ...string) string { return ShellLine(words) + p.connectionFlags },
	}
	key, err := c.Key(p)
	if err != nil {
		return nil, err
	}
	options := []easel.Option{
		easel.WithAddress(c.Addr), easel.WithAPIKey(key), easel.WithAttempts(1), easel.WithTimeout(questionLimit), easel.WithLogger(slog.New(slog.DiscardHandler)),
		easel.WithHeartbeatInterval(heartbeatInterval), easel.WithRetryHook(s.printRetry), easel.WithMessageHook(func(m easel.Message) { s.recordResponse(); s.message(m) }),
		easel.WithDialOptions(grpc.WithUserAgent("easel/"+p.Build.Version), grpc.WithDisableHealthCheck()), // a command is too short-lived to need health checks
	}
	if c.AllowPlaintext {
		options = append(options, easel.WithPlaintextKey())
	}
	if p.Dial != nil {
		options = append(options, easel.WithDialer(p.Dial))
	}
	if config, err := c.tlsConfig(); err != nil {
		return nil, err
	} else if config != nil {
		options = append(options, easel.WithTLS(config))
	}
	if s.Client, err = easel.New(ctx, options...); err != nil {
		return nil, badUsage("--addr: "+strings.TrimPrefix(err.Error(), "easel: "), "")
	}
	return s, nil
}

// printRetry prints the reason for a retry, unless the previous retry had the same reason.
func (s *session) printRetry(r easel.Retry) {
	if why := messageOf(r.Err); s.lost != why {
		s.lost = why
		s.printRemark("no answer yet (" + why + "); trying again in " + formatDuration(r.Delay))
	}
}

// recordResponse records that the server has responded. After a failed attempt, it also prints that the server is responding
// again.
func (s *session) recordResponse() {
	if s.lost != "" {
		s.lost = ""
		s.printRemark("the server answers again")
	}
}

// setProgress shows text in the terminal's live line (see [terminal.Console.ShowLive]), unless --quiet is set.
func (s *session) setProgress(text string) {
	if !s.quiet {
		s.ShowLive(text)
	}
}

// printRemark prints a remark to standard error, unless --quiet is set.
func (s *session) printRemark(text string) {
	if !s.quiet {
		s.writeRemark("", "", text)
	}
}

// writeRemark prints a remark to standard error: as text or, with -o json, as a JSON object. If name is not empty, the object
// also has a member with the given name and value.
func (s *session) writeRemark(name, value, text string) {
	if !s.json {
		s.Hint(text)
		return
	}
	note := map[string]string{"note": text}
	if name != "" {
		note[name] = value
	}
	s.Note(jsonLine(note))
}

// Key returns the API key from --api-key-file or, without this flag, from the environment. It returns "" if there is no key,
// which is valid for a server with a shared API key.
func (c KeyFlags) Key(p *Program) (string, error) {
	key, source := p.APIKey(), apiKeyVariable
	if c.APIKeyFile != "" {
		content, err := os.ReadFile(c.APIKeyFile)
		if err != nil {
			return "", badUsage("--api-key-file: "+err.Error(), "")
		}
		key, source = strings.TrimSpace(string(content)), "--api-key-file"
		if key == "" {
			return "", badUsage(source+": "+c.APIKeyFile+" is empty", "")
		}
	}
	if strings.ContainsFunc(key, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return "", badUsage(source+": the API key contains spaces, line breaks or invalid characters", "")
	}
	return key, nil
}

// APIKey returns the API key in the environment, or "" if it is unset.
func (p *Program) APIKey() string { return strings.TrimSpace(p.env(apiKeyVariable)) }

// tlsConfig returns the TLS configuration that the flags specify, or nil if there are no TLS flags.
func (c *callFlags) tlsConfig() (*tls.Config, error) {
	if c.TLSCAFile+c.TLSCertFile+c.TLSKeyFile == "" {
		return nil, nil
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if c.TLSCAFile != "" {
		pem, err := os.ReadFile(c.TLSCAFile)
		if config.RootCAs = x509.NewCertPool(); err == nil && !config.RootCAs.AppendCertsFromPEM(pem) {
			err = fmt.Errorf("no PEM certificate in %s", c.TLSCAFile)
		}
		if err != nil {
			return nil, badUsage("--tls-ca-file: "+err.Error(), "")
		}
	}
	if c.TLSCertFile+c.TLSKeyFile != "" {
		pair, err := tls.LoadX509KeyPair(c.TLSCertFile, c.TLSKeyFile)
		if err != nil {
			return nil, badUsage("--tls-cert-file, --tls-key-file: "+err.Error(), "")
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}

// ShellLine returns a command line that runs easel with these arguments, quoted for a shell.
func ShellLine(words []string) string {
	line := "easel"
	for _, word := range words {
		line += " " + terminal.ShellQuote(word)
	}
	return line
}

// connectionFlags returns the connection flags that were given on the command line, for use in commands that are suggested to the
// user. It omits --timeout. It also omits settings from the environment, because the suggested command reads them from there.
func connectionFlags(line *kong.Context) (flags string) {
	for _, at := range line.Path {
		if at.Flag == nil || at.Resolved || at.Flag.Group == nil || at.Flag.Group.Key != "connection" || at.Flag.Name == "timeout" {
			continue
		}
		flags += " --" + at.Flag.Name
		if !at.Flag.IsBool() {
			flags += " " + terminal.ShellQuote(fmt.Sprint(line.FlagValue(at.Flag)))
		}
	}
	return flags
}

// Health is the 'easel health' command.
type Health struct {
	callFlags
	Service string `placeholder:"NAME" help:"Service to check, such as easel.v1.GenerationService. Default: the whole server."`
}

// Run checks whether a server is serving.
func (c *Health) Run(ctx context.Context, s *session) error {
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(c.Timeout, questionLimit))
	defer cancel()
	response, err := grpc_health_v1.NewHealthClient(s.Conn()).Check(ctx, &grpc_health_v1.HealthCheckRequest{Service: c.Service})
	if err != nil {
		return err
	}
	status := response.Status.String()
	err = s.printResult(response, status, func() { s.Print(status) })
	if err == nil && response.Status != grpc_health_v1.HealthCheckResponse_SERVING {
		err = &Problem{Exit: ExitRetry, Text: "the server at " + c.Addr + " is not serving"}
	}
	return err
}
