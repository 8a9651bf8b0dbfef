package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/easel-grpc/easel/internal/catalog"
)

type doctorCmd struct {
	UpstreamURL      string        `name:"upstream-url" group:"upstream" env:"EASEL_UPSTREAM_URL" placeholder:"URL" help:"Base address of the catalog. Required."`
	UpstreamKeyFile  string        `group:"upstream" env:"EASEL_UPSTREAM_KEY_FILE" placeholder:"FILE" help:"File with a key of the catalog. Without it the key is $$EASEL_API_KEY."`
	UpstreamInsecure bool          `group:"upstream" env:"EASEL_UPSTREAM_INSECURE" help:"Let the key travel over http to a host that is not loopback."`
	Model            string        `placeholder:"MODEL" help:"Look at this model, and price it. Without it the first one of the list."`
	Inputs           []string      `arg:"" optional:"" sep:"none" name:"key=value" help:"Inputs to price. Without any they are made up from what the model says."`
	Timeout          time.Duration `default:"2m" placeholder:"TIME" help:"Longest time for all of it."`
	Output           string        `group:"output" short:"o" enum:"table,json" default:"table" placeholder:"FORMAT" help:"table or json."`
	Quiet            bool          `group:"output" short:"q" help:"Only what could not be read."`
}

// Help says what it does, and what it never does.
func (*doctorCmd) Help() string {
	return `Reads a catalog directly, without a server between, and says how it spells what its specification leaves open: which shapes were met, what could not be read, and which line of the reading rules would cure it.

It asks for the account, the models, one model, a quote, the list, one render, and one render that does not exist. All of it is free, and nothing else is sent: an order or a deletion can't leave. The key and values of records are never printed.

It ends with 0 where all of it could be read, with 1 where not, and with 5 or 6 where the catalog did not let it look.

Examples:

  EASEL_API_KEY=... easel doctor --upstream-url https://catalog.example/api/v1/api/catalog
  easel doctor --model studio/landscape prompt="a calm sea" -o json
`
}

// AfterApply makes errors follow the format of the output.
func (c *doctorCmd) AfterApply(p *program) error { //nolint:unparam // the parser wants this signature
	p.jsonErrors = c.Output == "json"
	return nil
}

func (c *doctorCmd) faults() []string {
	list := &faultList{}
	serve := serveCmd{UpstreamURL: c.UpstreamURL, UpstreamKeyFile: c.UpstreamKeyFile, UpstreamInsecure: c.UpstreamInsecure}
	serve.upstreamFaults(list)
	list.require(c.Timeout > 0, "--timeout must be above 0")
	return *list
}

// Run looks at everything that is free, and reports.
func (c *doctorCmd) Run(ctx context.Context, p *program) error {
	cred, err := c.credential(p)
	if err != nil {
		return err
	}
	transport := catalog.NewTransport()
	defer transport.CloseIdleConnections()
	eye := &lookingOnly{next: transport}
	client, err := catalog.New(catalog.Config{BaseURL: c.UpstreamURL, AllowInsecure: c.UpstreamInsecure, Transport: eye})
	if err != nil {
		return wrongSetting("EASEL_UPSTREAM_URL", err)
	}
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	d := &doctor{ctx: ctx, client: client, cred: cred, eye: eye, model: c.Model, inputs: c.Inputs}
	d.examine()
	s := &session{console: newConsole(p), json: c.Output == "json", quiet: c.Quiet}
	s.printReport(c.UpstreamURL, d.checks)
	return errors.Join(s.broken(), d.verdict())
}

func (c *doctorCmd) credential(p *program) (catalog.Credential, error) {
	if c.UpstreamKeyFile != "" {
		key, err := openHeldKey(c.UpstreamKeyFile, slog.New(slog.DiscardHandler))
		if err != nil {
			return catalog.Credential{}, wrongSetting("EASEL_UPSTREAM_KEY_FILE", err)
		}
		return catalog.Forwarded(key.Get()), nil
	}
	key, err := connection{}.key(&program{lookup: p.lookup})
	if err == nil && key == "" {
		err = &problem{exit: exitCredential, text: "there is no key to look with", cure: "Set EASEL_API_KEY, or --upstream-key-file."}
	}
	return catalog.Forwarded(catalog.NewSecret(key)), err
}

// lookingOnly lets nothing through that could cost or change anything, and keeps the bodies
// of answers.
type lookingOnly struct {
	next http.RoundTripper
	body []byte // of the last 2xx, nil where the last answer was another
}

var errNotForLooking = errors.New("it could cost or change something, so it does not leave")

// maxLook is the most that is kept of a body, in bytes. The catalog's client reads no more.
const maxLook = 8 << 20

// RoundTrip implements http.RoundTripper.
func (l *lookingOnly) RoundTrip(r *http.Request) (*http.Response, error) {
	l.body = nil
	if r.Method != http.MethodGet && r.Pattern != routeQuote {
		return nil, fmt.Errorf("%s: %w", r.Pattern, errNotForLooking)
	}
	resp, err := l.next.RoundTrip(r)
	if err != nil || resp.StatusCode/100 != 2 {
		return resp, err
	}
	return l.keep(resp)
}
