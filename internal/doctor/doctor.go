// Package doctor examines a catalog: it asks what is free, and says what the reading rules could not
// read and which line would make them.
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

// The routes that are free to ask. The quote is the one POST among them: it prices, and starts nothing.
const (
	routeAccount     = "GET /me"
	routeModels      = "GET /models"
	routeModel       = "GET /models/detail"
	routeQuote       = "POST /quote"
	routeGenerations = "GET /generations"
)

// Config says which catalog to examine, and how.
type Config struct {
	BaseURL       string
	AllowInsecure bool // the API key may travel over http to a host that is not loopback
	Credential    catalog.Credential
	Model         string          // to look at and to price; "" is the first one of the list
	Ledger        string          // which book of orders the settings name, in words; it is not opened
	Inputs        json.RawMessage // to price; nil makes them up from what the model says
}

// Report is what an examination has shown.
type Report struct {
	Checks    []Check `json:"checks"`
	OK        bool    `json:"ok"`
	RulesFile string  `json:"rulesFile"`
	Upstream  string  `json:"upstream"`
	Ledger    string  `json:"ledger,omitempty"`
}

// Check is one question, and what came of it.
type Check struct {
	Name     string       `json:"name"`
	Route    string       `json:"route"`
	OK       bool         `json:"ok"`
	Skipped  bool         `json:"skipped,omitempty"`
	Error    string       `json:"error,omitempty"`
	Findings []Finding    `json:"findings,omitempty"`
	Kind     catalog.Kind `json:"-"` // of the error
}

// Text is the report for a person; brief leaves out what could be read.
func (r *Report) Text(brief bool) string {
	var text strings.Builder
	if !brief {
		fmt.Fprintln(&text, r.Upstream)
		fmt.Fprintln(&text, "the ledger of the settings, which is not opened here, is", r.Ledger)
	}
	for _, c := range r.Checks {
		if !brief || !c.OK {
			mark := map[bool]string{true: "ok ", false: "BAD"}[c.OK]
			fmt.Fprintf(&text, "%s %-9s%s  %s\n", cmp.Or(map[bool]string{true: "-- "}[c.Skipped], mark), c.Name, c.Route, c.Error)
		}
		for _, f := range c.Findings {
			if f.Fault != "" || !brief {
				fmt.Fprint(&text, f)
			}
		}
	}
	return text.String()
}

// Examine asks a catalog everything that is free, and reports. Its error is one of the base URL.
func Examine(ctx context.Context, cfg Config) (*Report, error) {
	network := catalog.NewTransport()
	defer network.CloseIdleConnections()
	transport := &readOnlyTransport{next: network}
	client, err := catalog.New(catalog.Config{BaseURL: cfg.BaseURL, AllowInsecure: cfg.AllowInsecure, Transport: transport})
	if err != nil {
		return nil, err
	}
	report := &Report{OK: true, RulesFile: catalog.RulesFile, Upstream: cfg.BaseURL, Ledger: cfg.Ledger}
	d := &examination{Config: cfg, Report: report, ctx: ctx, client: client, transport: transport}
	d.examine()
	return report, nil
}

// examination looks at a catalog.
type examination struct {
	Config
	*Report
	ctx       context.Context
	client    *catalog.Client
	transport *readOnlyTransport
	fields    []catalog.InputField // of the model
}

// examine asks one thing after the other, unless the catalog does not let it look at all.
func (d *examination) examine() {
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
			c.Findings = Diagnose(question.route, d.transport.body.Bytes(), d.Credential)
		}
		c.OK = c.Skipped || err == nil && !slices.ContainsFunc(c.Findings, func(f Finding) bool { return f.Fault != "" && !f.Hint })
		d.Checks, d.OK = append(d.Checks, c), d.OK && c.OK
		if c.Kind == catalog.KindCredentialRejected || c.Kind == catalog.KindUnavailable || d.ctx.Err() != nil {
			return
		}
	}
}

var errNoModel = errors.New("no model is known: name one with --model")

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
		return fmt.Errorf("%w; it may take other inputs: easel doctor --model %s key=value", err, terminal.ShellQuote(d.Model))
	}
	return err
}

// sampleInputs are inputs that a model should take: a value for each that it needs.
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
	text, _ := json.Marshal(inputs) // values that came from JSON
	return text
}

// samples are values of the types, as JSON.
var samples = map[catalog.FieldType]string{
	catalog.FieldString: `"a calm sea at dusk"`, catalog.FieldInteger: "1", catalog.FieldNumber: "1",
	catalog.FieldBoolean: "false", catalog.FieldObject: "{}", catalog.FieldArray: "[]",
}

// readOnlyTransport lets nothing through that could cost or change anything, and keeps what is read of an answer.
type readOnlyTransport struct {
	next http.RoundTripper
	body *bytes.Buffer // of the last 2xx, nil where the last answer was another
}

// RoundTrip implements http.RoundTripper.
func (l *readOnlyTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	l.body = nil
	if r.Method != http.MethodGet && r.Pattern != routeQuote {
		return nil, fmt.Errorf("%s could cost or change something, so it does not leave", r.Pattern)
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
