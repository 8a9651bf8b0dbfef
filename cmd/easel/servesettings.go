package main

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/easel-grpc/easel/internal/catalog"
	"github.com/easel-grpc/easel/internal/cli"
	"github.com/easel-grpc/easel/internal/crossorigin"
	"github.com/easel-grpc/easel/internal/ledger"
	"github.com/easel-grpc/easel/internal/service"
)

type serveCmd struct {
	UpstreamURL      string `name:"upstream-url" group:"upstream" env:"EASEL_UPSTREAM_URL" placeholder:"URL" help:"Base address of the catalog. Required."`
	UpstreamKeyFile  string `group:"upstream" env:"EASEL_UPSTREAM_KEY_FILE" placeholder:"FILE" help:"File with the API key that all callers share. Default: each caller's own API key is forwarded."`
	UpstreamInsecure bool   `group:"upstream" env:"EASEL_UPSTREAM_INSECURE" help:"Allow http to a catalog or a bucket on a host that is not loopback. API keys and results are then sent unencrypted."`
	UpstreamKeyFirst bool   `group:"upstream" env:"EASEL_UPSTREAM_KEY_FIRST" help:"Declare that this catalog checks an order's idempotency key before everything else, and that it reports a repeated order as busy while the first attempt is in progress. If a repeated order is rejected, Easel then knows that the order does not exist."`

	CallersFile    string `group:"callers" env:"EASEL_CALLERS_FILE" placeholder:"FILE" help:"YAML file with the callers that share the API key, and with their tokens, teams and budgets (see docs/operators.md). Use 'easel callers check' to check the file, and 'easel callers token' to create a token."`
	AllowAnonymous bool   `group:"callers" env:"EASEL_ALLOW_ANONYMOUS" help:"With a shared API key, accept calls without authentication from every client that can reach the address."`

	ledgerFlags
	contentFlags
	ContentHosts []string `name:"content-hosts" group:"upstream" env:"EASEL_CONTENT_HOSTS" placeholder:"HOST,..." help:"Hosts to which the catalog may redirect reads of results, such as the host of a bucket. Results are read from these hosts over https, without the API key. Default: redirects are errors."`
	listenFlags
	tuningFlags

	TLSCertFile     string `group:"tls" name:"tls-cert-file" env:"EASEL_TLS_CERT_FILE" placeholder:"FILE" help:"The server's certificate chain."`
	TLSKeyFile      string `group:"tls" name:"tls-key-file" env:"EASEL_TLS_KEY_FILE" placeholder:"FILE" help:"The certificate's private key."`
	TLSClientCAFile string `group:"tls" name:"tls-client-ca-file" env:"EASEL_TLS_CLIENT_CA_FILE" placeholder:"FILE" help:"Certificate authorities that sign client certificates. With a shared API key, a client certificate identifies the caller."`
	TLSClientAuth   string `group:"tls" name:"tls-client-auth" env:"EASEL_TLS_CLIENT_AUTH" enum:",require,verify_if_given" default:"" placeholder:"HOW" help:"Treatment of clients without a certificate: require rejects them, and verify_if_given accepts them. Default: require, if EASEL_TLS_CLIENT_CA_FILE is set."`
	AllowPlaintext  bool   `group:"tls" env:"EASEL_ALLOW_PLAINTEXT" help:"Accept callers' tokens without TLS from other machines. Use this setting only if a service mesh or a private network protects the tokens."`

	// The following fields are set only by 'easel dev'. devKey is a shared API key, which is used instead of a key file.
	// catalogName replaces the catalog's URL in the ledger, because the URL has a different port in each run.
	devKey      string
	catalogName string
}

// listenFlags contains the listen addresses, the host names that the HTTP address accepts, and the URL at which other services
// reach the HTTP address.
type listenFlags struct {
	GRPCAddr  string `name:"grpc-addr" group:"listen" env:"EASEL_GRPC_ADDR" default:":50051" placeholder:"HOST:PORT" help:"Address for gRPC."`
	HTTPAddr  string `name:"http-addr" group:"listen" env:"EASEL_HTTP_ADDR" default:":8080" placeholder:"HOST:PORT" help:"Address for REST, event streams and OpenAPI."`
	AdminAddr string `group:"listen" env:"EASEL_ADMIN_ADDR" default:"127.0.0.1:9464" placeholder:"HOST:PORT" help:"Address for operators: status page, /metrics, /healthz, /readyz, orders, pprof."`

	MetricsAddr string `group:"listen" env:"EASEL_METRICS_ADDR" placeholder:"HOST:PORT" help:"Address for /metrics, /healthz and /readyz only, for scrapers that may see each team's costs. From the admin address, clients that are not operators get metrics without the names of teams and callers."`

	HTTPAllowedHosts []string `name:"http-allowed-hosts" group:"listen" env:"EASEL_HTTP_ALLOWED_HOSTS" placeholder:"HOST,..." help:"Host names that REST requests may use, in addition to localhost and loopback addresses. Default: no other names on a loopback address, and all names on any other address. The admin address accepts these names too. If the admin address is not a loopback address, it also accepts IP addresses."`
	PublicURL        string   `name:"public-url" group:"listen" env:"EASEL_PUBLIC_URL" placeholder:"URL" help:"Base URL at which other services can reach this server over HTTP. Events about finished renders contain the URLs of the results, which begin with this base URL."`
}

// tuningFlags contains the settings that rarely need to be changed.
type tuningFlags struct {
	PollMinInterval time.Duration `group:"poll" env:"EASEL_POLL_MIN_INTERVAL" default:"1s" placeholder:"TIME" help:"Shortest time between two polls of a render."`
	PollMaxInterval time.Duration `group:"poll" env:"EASEL_POLL_MAX_INTERVAL" default:"10s" placeholder:"TIME" help:"Longest time between two polls of a render."`
	PollRate        float64       `group:"poll" env:"EASEL_POLL_RATE" default:"5" placeholder:"N" help:"Maximum number of polls per second for each API key."`
	RefundWindow    time.Duration `group:"poll" env:"EASEL_REFUND_WINDOW" default:"10m" placeholder:"TIME" help:"Time after a render's failure during which the catalog may refund it."`

	ResendWindow time.Duration `group:"life" env:"EASEL_RESEND_WINDOW" default:"12h" placeholder:"TIME" help:"Time after the first attempt during which an order whose outcome is unknown may be resent. After this time, the catalog may have forgotten the idempotency key."`
	MaxStreamAge time.Duration `group:"life" env:"EASEL_MAX_STREAM_AGE" default:"1h" placeholder:"TIME" help:"Age of a stream at which its client is asked to reconnect, so that streams are spread over the replicas (0 for never)."`
	DrainTimeout time.Duration `group:"life" env:"EASEL_DRAIN_TIMEOUT" default:"10s" placeholder:"TIME" help:"Maximum time for a graceful shutdown. Most of it is reserved for open calls, and the rest for orders in flight and the last traces."`

	CallerStreams int `group:"limits" env:"EASEL_CALLER_STREAMS" default:"1000" placeholder:"N" help:"Maximum number of concurrent watches, waits and downloads of one caller. Further calls are rejected."`
	MaxStreams    int `group:"limits" env:"EASEL_MAX_STREAMS" default:"50000" placeholder:"N" help:"Maximum number of concurrent watches, waits and downloads across all callers. Further calls are rejected."`
	CallerCalls   int `group:"limits" env:"EASEL_CALLER_CALLS" default:"320" placeholder:"N" help:"Maximum number of concurrent calls of one caller, not counting watches, waits and downloads. Further calls are rejected."`
	MaxCalls      int `group:"limits" env:"EASEL_MAX_CALLS" default:"480" placeholder:"N" help:"Maximum number of concurrent calls across all callers, not counting watches, waits and downloads. Further calls are rejected."`
	MaxConns      int `group:"limits" env:"EASEL_MAX_CONNS" default:"10000" placeholder:"N" help:"Maximum number of connections to each of the gRPC and HTTP addresses. Further connections wait."`
	MaxInputs     int `group:"limits" env:"EASEL_MAX_INPUTS" default:"1048576" placeholder:"BYTES" help:"Maximum size of a request's inputs as JSON, at most 16777216 (16 MiB). 50 concurrent orders of that size need 6 GB of memory."`

	LogLevel  string `group:"logs" env:"EASEL_LOG_LEVEL" enum:",debug,info,warn,error" default:"" placeholder:"LEVEL" help:"Lowest level of the messages to log: debug, info, warn or error. Default: info, or warn for easel dev on a terminal."`
	LogFormat string `group:"logs" env:"EASEL_LOG_FORMAT" enum:",json,text" default:"" placeholder:"FORMAT" help:"Format of the log: json or text. Default: json, or text for easel dev on a terminal."`

	unknown []string // names of unknown environment variables, which are logged as soon as there is a logger
}

// Faults returns a message for each invalid setting.
func (c *serveCmd) Faults() []string {
	list := &cli.FaultList{}
	c.upstreamFaults(list)
	c.callerFaults(list)
	c.ledgerFaults(list)
	c.contentFaults(list)
	c.addressFaults(list)
	c.listenFaults(list)
	c.tuningFaults(list)
	return *list
}

func (c *serveCmd) upstreamFaults(list *cli.FaultList) {
	if c.UpstreamURL == "" {
		list.Add("EASEL_UPSTREAM_URL is missing; set it to the base address of the catalog")
	} else {
		_, err := catalog.ParseBaseURL(c.UpstreamURL, c.UpstreamInsecure)
		list.AddError("EASEL_UPSTREAM_URL", err)
	}
	if c.UpstreamKeyFile != "" {
		_, err := openHeldKey(c.UpstreamKeyFile, slog.New(slog.DiscardHandler), nil)
		list.AddError("EASEL_UPSTREAM_KEY_FILE", err)
	}
}

func (c *serveCmd) ledgerFaults(list *cli.FaultList) {
	if err := ledger.Check(c.LedgerURL); err != nil {
		list.Add(err.Error())
	}
	list.Require(c.CallersFile == "" || ledger.IsDurable(c.LedgerURL), "EASEL_CALLERS_FILE needs EASEL_LEDGER_URL=sqlite:FILE or postgres://…: the owners of orders must outlive this process")
}

func (c *serveCmd) callerFaults(list *cli.FaultList) {
	if c.CallersFile != "" {
		list.AddError("EASEL_CALLERS_FILE", checkCallers(c.CallersFile))
	}
	if c.UpstreamKeyFile == "" && (c.CallersFile != "" || c.AllowAnonymous) {
		list.Add("EASEL_CALLERS_FILE and EASEL_ALLOW_ANONYMOUS need EASEL_UPSTREAM_KEY_FILE: without a shared API key, callers use their own API keys")
	}
	if (c.TLSCertFile == "") != (c.TLSKeyFile == "") {
		list.Add("EASEL_TLS_CERT_FILE and EASEL_TLS_KEY_FILE must be set together")
	} else if c.TLSCertFile != "" {
		_, err := tls.LoadX509KeyPair(c.TLSCertFile, c.TLSKeyFile)
		list.AddError("EASEL_TLS_CERT_FILE, EASEL_TLS_KEY_FILE", err)
	} else if c.TLSClientCAFile != "" {
		list.Add("EASEL_TLS_CLIENT_CA_FILE needs EASEL_TLS_CERT_FILE and EASEL_TLS_KEY_FILE")
	}
	list.Require(c.TLSClientAuth == "" || c.TLSClientCAFile != "", "EASEL_TLS_CLIENT_AUTH needs EASEL_TLS_CLIENT_CA_FILE: without authorities no client is asked for a certificate")
}

func (c *serveCmd) addressFaults(list *cli.FaultList) {
	for _, a := range c.callerAddresses() {
		list.Require(!c.isUnguarded() || strings.HasPrefix(*a.addr, ":") || crossorigin.IsLoopback(*a.addr), a.name+": with EASEL_UPSTREAM_KEY_FILE and without a list of callers, "+
			"only loopback is allowed; set EASEL_CALLERS_FILE or EASEL_TLS_CLIENT_CA_FILE, or EASEL_ALLOW_ANONYMOUS=true")
	}
	list.Require(c.CallersFile == "" || c.AllowPlaintext || !c.beyondLoopbackInClear(), "EASEL_CALLERS_FILE: callers on other machines would send their tokens unencrypted; "+
		"set EASEL_TLS_CERT_FILE and EASEL_TLS_KEY_FILE, or EASEL_GRPC_ADDR and EASEL_HTTP_ADDR to loopback addresses behind a proxy with TLS, or EASEL_ALLOW_PLAINTEXT=true if the network protects them")
}

// beyondLoopbackInClear reports whether callers on other machines can reach the server without TLS.
func (c *serveCmd) beyondLoopbackInClear() bool {
	return c.TLSCertFile == "" && slices.ContainsFunc(c.callerAddresses(), func(a address) bool { return !crossorigin.IsLoopback(*a.addr) })
}

func (f *listenFlags) listenFaults(list *cli.FaultList) {
	metrics := cmp.Or(f.MetricsAddr, ":0") // EASEL_METRICS_ADDR may be empty, so an empty value is replaced with ":0", which is valid
	for _, a := range append(f.callerAddresses(), address{"EASEL_ADMIN_ADDR", &f.AdminAddr}, address{"EASEL_METRICS_ADDR", &metrics}) {
		_, _, err := net.SplitHostPort(*a.addr)
		list.AddError(a.name, err)
	}
	if f.PublicURL != "" {
		u, err := url.Parse(f.PublicURL)
		list.Require(err == nil && u.Host != "" && (u.Scheme == "http" || u.Scheme == "https") && u.User == nil && u.RawQuery == "" && u.Fragment == "",
			"EASEL_PUBLIC_URL must be an absolute http or https address without a user, a query and a fragment")
	}
	for _, host := range f.HTTPAllowedHosts {
		_, err := netip.ParseAddr(host)
		list.Require(err == nil || hostName.MatchString(host), fmt.Sprintf("EASEL_HTTP_ALLOWED_HOSTS: %q is not a host name: write it without scheme and port", host))
	}
}

// hostName matches a host name.
var hostName = regexp.MustCompile(`^[A-Za-z0-9_]([A-Za-z0-9_-]*[A-Za-z0-9_])?(\.[A-Za-z0-9_]([A-Za-z0-9_-]*[A-Za-z0-9_])?)*$`)

// address is a listen address and the name of its setting.
type address struct {
	name string
	addr *string
}

// callerAddresses returns the addresses that callers use: the gRPC address and the HTTP address.
func (f *listenFlags) callerAddresses() []address {
	return []address{{"EASEL_GRPC_ADDR", &f.GRPCAddr}, {"EASEL_HTTP_ADDR", &f.HTTPAddr}}
}

// isUnguarded reports whether the server has a shared API key, but no setting specifies who may use it: no callers file, no
// client CAs, and no permission for anonymous callers. Every client that reaches the server could then spend the key's money.
func (c *serveCmd) isUnguarded() bool {
	return c.UpstreamKeyFile != "" && c.CallersFile == "" && c.TLSClientCAFile == "" && !c.AllowAnonymous
}

// guardAddresses prevents other machines from reaching an unguarded server (see isUnguarded): if the gRPC address or the HTTP
// address has no host, guardAddresses adds the host 127.0.0.1. Web pages in a local browser could still reach the HTTP server,
// but the server checks the Host and Origin headers and rejects their requests.
func (c *serveCmd) guardAddresses() {
	if !c.isUnguarded() {
		return
	}
	for _, a := range c.callerAddresses() {
		if strings.HasPrefix(*a.addr, ":") {
			*a.addr = "127.0.0.1" + *a.addr
		}
	}
}

func (f *tuningFlags) tuningFaults(list *cli.FaultList) {
	list.Require(f.PollMinInterval > 0, "EASEL_POLL_MIN_INTERVAL must be above 0")
	list.Require(f.PollMaxInterval >= f.PollMinInterval, "EASEL_POLL_MAX_INTERVAL must not be below EASEL_POLL_MIN_INTERVAL")
	list.Require(f.PollRate > 0, "EASEL_POLL_RATE must be above 0")
	list.Require(f.RefundWindow > 0, "EASEL_REFUND_WINDOW must be above 0")
	list.Require(f.ResendWindow > 0, "EASEL_RESEND_WINDOW must be above 0")
	list.Require(f.MaxStreamAge >= 0, "EASEL_MAX_STREAM_AGE must not be negative")
	list.Require(f.DrainTimeout > 0, "EASEL_DRAIN_TIMEOUT must be above 0")
	list.Require(f.MaxInputs > 0 && f.MaxInputs <= service.LargestMaxInputs, fmt.Sprintf("EASEL_MAX_INPUTS must be from 1 to %d", service.LargestMaxInputs))
	for _, limit := range []struct {
		name  string
		value int
	}{
		{"EASEL_CALLER_STREAMS", f.CallerStreams},
		{"EASEL_MAX_STREAMS", f.MaxStreams},
		{"EASEL_CALLER_CALLS", f.CallerCalls},
		{"EASEL_MAX_CALLS", f.MaxCalls},
		{"EASEL_MAX_CONNS", f.MaxConns},
	} {
		list.Require(limit.value > 0 && limit.value <= 1_000_000, limit.name+" must be from 1 to 1000000")
	}
}

// LogLater stores the names of unknown environment variables, which are logged when the logger exists.
func (f *tuningFlags) LogLater(unknown []string) { f.unknown = unknown }

// logUnknown logs a warning for each unknown environment variable.
func (f *tuningFlags) logUnknown(logger *slog.Logger) {
	for _, name := range f.unknown {
		logger.Warn("unknown setting ignored", "variable", name)
	}
}

// Run serves until a signal stops it.
func (c *serveCmd) Run(ctx context.Context, p *cli.Program) error {
	return runFacade(ctx, p.Stderr, c, nil)
}
