package main

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"time"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/catalog"
	"github.com/easel-grpc/easel/internal/cli"
	"github.com/easel-grpc/easel/internal/doctor"
)

type doctorCmd struct {
	UpstreamURL      string        `name:"upstream-url" group:"upstream" env:"EASEL_UPSTREAM_URL" placeholder:"URL" help:"Base address of the catalog. Required."`
	UpstreamKeyFile  string        `group:"upstream" env:"EASEL_UPSTREAM_KEY_FILE" placeholder:"FILE" help:"File with an API key for the catalog. Default: the key in $$EASEL_API_KEY."`
	UpstreamInsecure bool          `group:"upstream" env:"EASEL_UPSTREAM_INSECURE" help:"Allow http to a catalog on a host that is not loopback. The API key is then sent unencrypted."`
	Model            string        `placeholder:"MODEL" help:"Model to check and to quote. Default: the first model in the list."`
	Inputs           []string      `arg:"" optional:"" sep:"none" name:"key=value" help:"Inputs to quote. Default: sample values for the model's fields."`
	Timeout          time.Duration `default:"2m" placeholder:"TIME" help:"Timeout of the whole check."`
	Output           string        `group:"output" short:"o" enum:"table,json" default:"table" placeholder:"FORMAT" help:"Format of the output: table or json."`
}

// AfterApply selects JSON for error messages if the report is printed as JSON.
func (c *doctorCmd) AfterApply(p *cli.Program) error { //nolint:unparam // the parser requires this signature
	p.JSONErrors = c.Output == "json"
	return nil
}

func (c *doctorCmd) Faults() []string {
	list := &cli.FaultList{}
	serve := serveCmd{UpstreamURL: c.UpstreamURL, UpstreamKeyFile: c.UpstreamKeyFile, UpstreamInsecure: c.UpstreamInsecure}
	serve.upstreamFaults(list)
	list.Require(c.Timeout > 0, "--timeout must be above 0")
	return *list
}

// Run examines the catalog with requests that cost nothing, and prints a report.
func (c *doctorCmd) Run(ctx context.Context, p *cli.Program) error {
	cred, err := c.credential(p)
	if err != nil {
		return err
	}
	var inputs json.RawMessage // nil if there are no inputs
	if len(c.Inputs) > 0 {
		text, err := cli.TypedInputs(&easelv1.Model{}, c.Inputs)
		if err != nil {
			return err
		}
		inputs = json.RawMessage(text)
	}
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	report, err := doctor.Examine(ctx, doctor.Config{
		BaseURL: c.UpstreamURL, AllowInsecure: c.UpstreamInsecure, Credential: cred, Model: c.Model, Inputs: inputs,
	})
	if err != nil {
		return wrongSetting("EASEL_UPSTREAM_URL", err)
	}
	console := p.Console()
	if c.Output == "json" {
		console.PrintText(cli.JSONText(report))
	} else {
		console.PrintText(report.Text())
	}
	return errors.Join(console.Err(), c.verdict(ctx, report))
}

// verdict returns an error for the first failed check. If all checks passed, it returns ctx.Err(). It adds a remedy for
// failures that the report's findings do not explain.
func (*doctorCmd) verdict(ctx context.Context, report *doctor.Report) error {
	bad := slices.IndexFunc(report.Checks, func(c doctor.Check) bool { return !c.OK })
	if bad < 0 {
		return ctx.Err()
	}
	check := report.Checks[bad]
	p := &cli.Problem{Exit: cli.ExitFailure, Text: "the catalog can't be read in full: " + check.Name + " (" + check.Route + ")"}
	switch check.Kind {
	case catalog.KindCredentialRejected, catalog.KindForbidden:
		p.Exit, p.Text, p.Cure = cli.ExitCredential, "the catalog rejects the API key", "Check EASEL_API_KEY or --upstream-key-file, and that it is an API key of this catalog."
	case catalog.KindUnavailable, catalog.KindRateLimited:
		p.Exit, p.Text, p.Cure = cli.ExitRetry, "the catalog did not answer: "+check.Error, "Check that --upstream-url is the catalog's base address."
	case catalog.KindContract, catalog.KindRedirect:
		p.Cure = "Check that --upstream-url is the catalog's base address."
	}
	return p
}

func (c *doctorCmd) credential(p *cli.Program) (catalog.Credential, error) {
	if c.UpstreamKeyFile != "" {
		key, err := openHeldKey(c.UpstreamKeyFile, slog.New(slog.DiscardHandler), nil)
		if err != nil {
			return catalog.Credential{}, wrongSetting("EASEL_UPSTREAM_KEY_FILE", err)
		}
		return catalog.Forwarded(key.Get()), nil
	}
	key := p.APIKey()
	if key == "" {
		return catalog.Credential{}, &cli.Problem{Exit: cli.ExitCredential, Text: "there is no API key", Cure: "Set EASEL_API_KEY, or --upstream-key-file."}
	}
	return catalog.Forwarded(catalog.NewSecret(key)), nil
}
