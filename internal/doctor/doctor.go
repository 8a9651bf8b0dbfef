// Package doctor examines a catalog with requests that cost nothing. It reports the parts of responses that package catalog
// can't read, and the tables in package catalog that must be extended.
package doctor

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/easel-grpc/easel/internal/catalog"
	"github.com/easel-grpc/easel/internal/terminal"
)

// The routes to which requests are sent. None of the requests costs anything. The only POST request is for a quote, which
// returns a price and does not start a render.
const (
	routeAccount     = "GET /me"
	routeModels      = "GET /models"
	routeModel       = "GET /models/detail"
	routeQuote       = "POST /quote"
	routeGenerations = "GET /generations"
)

// Config describes the catalog to examine.
type Config struct {
	BaseURL       string
	AllowInsecure bool // whether the API key may be sent over http to a host that is not loopback
	Credential    catalog.Credential
	Model         string          // model to read and to request a quote for; empty means the first model in the list
	Inputs        json.RawMessage // inputs to quote; nil means sample values for the model's fields
}

// Report is the result of [Examine].
type Report struct {
	Checks    []Check `json:"checks"`
	OK        bool    `json:"ok"`
	RulesFile string  `json:"rulesFile"`
	Upstream  string  `json:"upstream"`
}

// Check is the result of one request.
type Check struct {
	Name     string            `json:"name"`
	Route    string            `json:"route"`
	OK       bool              `json:"ok"`
	Skipped  bool              `json:"skipped,omitempty"`
	Error    string            `json:"error,omitempty"`
	Findings []catalog.Finding `json:"findings,omitempty"`
	Kind     catalog.Kind      `json:"-"` // kind of the error in the field Error
}

// Text formats the report for display.
func (r *Report) Text() string {
	var text strings.Builder
	fmt.Fprintln(&text, r.Upstream)
	for _, c := range r.Checks {
		mark := map[bool]string{true: "ok ", false: "BAD"}[c.OK]
		fmt.Fprintf(&text, "%s %-9s%s  %s\n", cmp.Or(map[bool]string{true: "-- "}[c.Skipped], mark), c.Name, c.Route, c.Error)
		for _, f := range c.Findings {
			text.WriteString(findingLine(f))
		}
	}
	if !r.OK {
		fmt.Fprintln(&text, "The tables are variables in "+r.RulesFile+".")
	}
	return text.String()
}

// findingLine formats a finding as one line.
func findingLine(f catalog.Finding) string {
	said := slices.DeleteFunc([]string{f.Where, f.Fault}, func(text string) bool { return text == "" })
	times := ""
	if f.Count > 1 {
		times = fmt.Sprintf(" (%d times)", f.Count)
	}
	return fmt.Sprintf("    %-18s  %s%s\n", f.Part, terminal.OneLine(strings.Join(said, ": ")), times)
}

// Examine examines a catalog with requests that cost nothing, and returns the report. It returns an error only if the base URL
// is invalid.
func Examine(ctx context.Context, cfg Config) (*Report, error) {
	network := catalog.NewTransport()
	defer network.CloseIdleConnections()
	transport := &readOnlyTransport{next: network}
	client, err := catalog.New(catalog.Config{BaseURL: cfg.BaseURL, AllowInsecure: cfg.AllowInsecure, Transport: transport})
	if err != nil {
		return nil, err
	}
	report := &Report{OK: true, RulesFile: catalog.RulesFile, Upstream: cfg.BaseURL}
	d := &examination{Config: cfg, Report: report, ctx: ctx, client: client, transport: transport}
	d.sendRequests()
	return report, nil
}

// examination contains the state of one call of [Examine].
type examination struct {
	Config
	*Report
	ctx       context.Context
	client    *catalog.Client
	transport *readOnlyTransport
	fields    []catalog.InputField // input fields of the examined model
}

// sendRequests sends the requests in order. It stops if the catalog rejects the API key or is unavailable, or if ctx is done.
func (d *examination) sendRequests() {
	for _, question := range []struct {
		name, route string
		ask         func() error
	}{
		{"account", routeAccount, func() error { _, err := d.client.Account(d.ctx, d.Credential); return err }},
		{"models", routeModels, d.models},
		{"model", routeModel, d.model},
		{"quote", routeQuote, d.quote},
		{"list", routeGenerations, func() error { _, err := d.client.List(d.ctx, d.Credential, time.Now()); return err }},
	} {
		d.transport.body = nil
		err := errNoModel
		if d.Model != "" || question.route != routeModel && question.route != routeQuote {
			err = question.ask()
		}
		c := Check{Name: question.name, Route: question.route, Kind: catalog.KindOf(err), Skipped: errors.Is(err, errNoModel)}
		if err != nil {
			c.Error = terminal.OneLine(err.Error())
		}
		if d.transport.body != nil {
			c.Findings = catalog.Explain(question.route, d.transport.body.Bytes(), d.Credential)
		}
		c.OK = c.Skipped || err == nil && !slices.ContainsFunc(c.Findings, func(f catalog.Finding) bool { return f.Fault != "" && !f.Hint })
		d.Checks, d.OK = append(d.Checks, c), d.OK && c.OK
		if c.Kind == catalog.KindCredentialRejected || c.Kind == catalog.KindUnavailable || d.ctx.Err() != nil {
			return
		}
	}
}

var errNoModel = errors.New("no model to check; specify one with --model")

func (d *examination) models() error {
	models, err := d.client.Models(d.ctx, d.Credential)
	if len(models) > 0 && d.Model == "" {
		d.Model = models[0].ID
	}
	return err
}

func (d *examination) model() error {
	m, err := d.client.Model(d.ctx, d.Credential, d.Model)
	d.fields = m.Fields
	return err
}

func (d *examination) quote() error {
	inputs := d.Inputs
	if inputs == nil {
		inputs = sampleInputs(d.fields)
	}
	_, err := d.client.Quote(d.ctx, d.Credential, d.Model, inputs)
	if kind := catalog.KindOf(err); kind == catalog.KindInvalidInput || kind == catalog.KindNotFound {
		return fmt.Errorf("%w; try other inputs: easel doctor --model %s key=value", err, terminal.ShellQuote(d.Model))
	}
	return err
}

// sampleInputs returns inputs that a model should accept. They contain a value for each required input without a default. They
// also contain a prompt if the catalog does not report whether the prompt is required, or if it reports no inputs.
func sampleInputs(fields []catalog.InputField) json.RawMessage {
	inputs := map[string]any{}
	for _, f := range fields {
		switch needed := f.Required != nil && *f.Required && f.Default == nil || f.Required == nil && f.Name == "prompt"; {
		case needed && len(f.Allowed) > 0:
			inputs[f.Name] = f.Allowed[0]
		case needed && f.Minimum != nil:
			inputs[f.Name] = *f.Minimum
		case needed:
			inputs[f.Name] = json.RawMessage(cmp.Or(samples[f.Type], samples[catalog.FieldString]))
		}
	}
	if len(fields) == 0 {
		inputs["prompt"] = json.RawMessage(samples[catalog.FieldString])
	}
	text, _ := json.Marshal(inputs) // cannot fail, because all values are valid in JSON
	return text
}

// samples contains a sample value for each input type, as JSON.
var samples = map[catalog.FieldType]string{
	catalog.FieldString: `"a calm sea at dusk"`, catalog.FieldInteger: "1", catalog.FieldNumber: "1",
	catalog.FieldBoolean: "false", catalog.FieldObject: "{}", catalog.FieldArray: "[]",
}

// readOnlyTransport rejects requests that could cost money or change data. It records the body of each 2xx response.
type readOnlyTransport struct {
	next http.RoundTripper
	body *bytes.Buffer // the bytes read so far from the body of the last response; nil if its status is not 2xx
}

// RoundTrip implements http.RoundTripper.
func (l *readOnlyTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	l.body = nil
	if r.Method != http.MethodGet && r.Pattern != routeQuote {
		return nil, fmt.Errorf("%s not sent, because it could cost money or change data", r.Pattern)
	}
	resp, err := l.next.RoundTrip(r)
	if err == nil && resp.StatusCode/100 == 2 {
		l.body = &bytes.Buffer{}
		resp.Body = struct {
			io.Reader
			io.Closer
		}{io.TeeReader(resp.Body, l.body), resp.Body}
	}
	return resp, err
}
