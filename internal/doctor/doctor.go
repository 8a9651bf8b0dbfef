// Package doctor examines a catalog: it asks what is free, and says what the reading rules could not
// read and which line would make them.
package doctor

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
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
	routeGeneration  = "GET /generations/{id}"
)

// Config says which catalog to examine, and how.
type Config struct {
	BaseURL       string
	AllowInsecure bool // the API key may travel over http to a host that is not loopback
	Credential    catalog.Credential
	Model         string // to look at and to price; "" is the first one of the list

	// Ledger says in words which book of orders the settings name. It is not opened.
	Ledger string

	// Inputs gives the inputs to price for a model. Nil makes them up from what the model says.
	Inputs func(model string) (json.RawMessage, error)
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
	d := &examination{ctx: ctx, client: client, cred: cfg.Credential, transport: transport, model: cfg.Model, inputs: cfg.Inputs}
	d.examine()
	report := newReport(cfg.BaseURL, d.checks)
	report.Ledger = cfg.Ledger
	return report, nil
}

// examination looks at a catalog.
type examination struct {
	ctx       context.Context
	client    *catalog.Client
	cred      catalog.Credential
	transport *readOnlyTransport
	model     string
	inputs    func(model string) (json.RawMessage, error)

	fields     []catalog.InputField
	generation string // one that the list has shown
	checks     []Check
}

// examine asks everything, unless the catalog does not let it look at all.
func (d *examination) examine() {
	for _, look := range []func(){d.account, d.listModels, d.oneModel, d.quote, d.list, d.oneGeneration, d.missingGeneration} {
		look()
		if k := d.checks[len(d.checks)-1].kind; k == catalog.KindCredentialRejected || k == catalog.KindUnavailable || d.ctx.Err() != nil {
			return
		}
	}
}

// note keeps what a question has brought.
func (d *examination) note(name, route string, err error) {
	c := Check{Name: name, Route: route, kind: catalog.KindOf(err)}
	if d.transport.body != nil {
		c.Findings = Diagnose(route, d.transport.body, d.cred)
	}
	if err != nil {
		c.Error = errorText(err)
	}
	c.OK = err == nil && !slices.ContainsFunc(c.Findings, func(f Finding) bool { return f.Fault != "" && !f.Hint })
	d.checks = append(d.checks, c)
}

func (d *examination) skip(name, route, why string) {
	d.checks = append(d.checks, Check{Name: name, Route: route, OK: true, Skipped: true, Error: why})
}

// errorText is an error of the catalog without the route, which stands beside it.
func errorText(err error) string {
	var e *catalog.Error
	if !errors.As(err, &e) {
		return terminal.OneLine(err.Error())
	}
	text := e.Kind.String()
	if e.Status != 0 {
		text += fmt.Sprintf(" (HTTP %d)", e.Status)
	}
	for _, more := range []string{e.Code, e.Message} {
		if more != "" {
			text += ": " + more
		}
	}
	for _, v := range e.Violations {
		text += "; " + v.Field + " " + v.Description
	}
	if e.Err != nil {
		text += ": " + e.Err.Error()
	}
	return terminal.OneLine(text)
}

func (d *examination) account() {
	_, err := d.client.Account(d.ctx, d.cred)
	d.note("account", routeAccount, err)
}

func (d *examination) listModels() {
	models, err := d.client.Models(d.ctx, d.cred)
	d.note("models", routeModels, err)
	if len(models) > 0 && d.model == "" {
		d.model = models[0].ID
	}
}

func (d *examination) oneModel() {
	if d.model == "" {
		d.skip("model", routeModel, "no model is known: name one with --model")
		return
	}
	m, err := d.client.Model(d.ctx, d.cred, d.model)
	d.fields = m.Fields
	d.note("model", routeModel, err)
}

func (d *examination) quote() {
	if d.model == "" {
		d.skip("quote", routeQuote, "no model is known: name one with --model")
		return
	}
	inputs := sampleInputs(d.fields)
	if d.inputs != nil {
		var err error
		if inputs, err = d.inputs(d.model); err != nil {
			d.note("quote", routeQuote, err)
			return
		}
	}
	_, err := d.client.Quote(d.ctx, d.cred, d.model, inputs)
	d.note("quote", routeQuote, err)
	if c := &d.checks[len(d.checks)-1]; c.kind == catalog.KindInvalidInput || c.kind == catalog.KindNotFound {
		c.Error += "; it may take other inputs: easel doctor --model " + terminal.ShellQuote(d.model) + " key=value"
	}
}

// sampleInputs are inputs that a model should take: a value for each that it needs.
func sampleInputs(fields []catalog.InputField) json.RawMessage {
	inputs := map[string]any{}
	for _, f := range fields {
		if f.Required != nil && *f.Required && f.Default == nil || f.Required == nil && f.Name == "prompt" {
			inputs[f.Name] = sample(f)
		}
	}
	if len(fields) == 0 {
		inputs["prompt"] = samplePrompt
	}
	text, err := json.Marshal(inputs)
	if err != nil { // a value that came from JSON
		return json.RawMessage("{}")
	}
	return text
}

const samplePrompt = "a calm sea at dusk"

func sample(f catalog.InputField) any {
	if len(f.Allowed) > 0 {
		return f.Allowed[0]
	}
	switch f.Type {
	case catalog.FieldInteger, catalog.FieldNumber:
		switch {
		case f.Minimum != nil:
			return *f.Minimum
		case f.Maximum != nil:
			return min(*f.Maximum, 1)
		}
		return 1
	case catalog.FieldBoolean:
		return false
	case catalog.FieldObject:
		return map[string]any{}
	case catalog.FieldArray:
		return []any{}
	}
	return samplePrompt
}

func (d *examination) list() {
	listed, err := d.client.List(d.ctx, d.cred, time.Now())
	d.note("list", routeGenerations, err)
	if err == nil && len(listed.Records) > 0 {
		d.generation = listed.Records[0].ID
	}
}

func (d *examination) oneGeneration() {
	if d.generation == "" {
		d.skip("render", routeGeneration, "the list shows no render to look at")
		return
	}
	_, err := d.client.Generation(d.ctx, d.cred, d.generation)
	d.note("render", routeGeneration, err)
}

// missingGeneration asks for a generation that is not there, to see an error.
func (d *examination) missingGeneration() {
	_, err := d.client.Generation(d.ctx, d.cred, "easel-doctor-no-such-render")
	d.note("an error", routeGeneration, err)
	c := &d.checks[len(d.checks)-1]
	switch {
	case c.kind == catalog.KindNotFound || c.kind == catalog.KindInvalidInput:
		c.OK, c.kind = true, 0
	case err == nil:
		c.OK, c.Error = false, "a render that can't exist is answered with a 2xx"
	}
}

// readOnlyTransport lets nothing through that could cost or change anything, and keeps the bodies
// of answers.
type readOnlyTransport struct {
	next http.RoundTripper
	body []byte // of the last 2xx, nil where the last answer was another
}

var errNotForLooking = errors.New("it could cost or change something, so it does not leave")

// maxLook is the most that is kept of a body, in bytes. The catalog's client reads no more.
const maxLook = 8 << 20

// RoundTrip implements http.RoundTripper.
func (l *readOnlyTransport) RoundTrip(r *http.Request) (*http.Response, error) {
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

// keep gives an answer on with a body that has been read.
func (l *readOnlyTransport) keep(resp *http.Response) (*http.Response, error) {
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxLook+1))
	_ = resp.Body.Close() // it was only read
	if err != nil {
		return nil, err
	}
	l.body = body
	resp.Body = io.NopCloser(bytes.NewReader(body))
	return resp, nil
}
