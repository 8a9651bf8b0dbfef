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

// Examine asks a catalog everything that is free, and reports. Its error is one of the base URL.
func Examine(ctx context.Context, cfg Config) (*Report, error) {
	network := catalog.NewTransport()
	defer network.CloseIdleConnections()
	transport := &readOnlyTransport{next: network}
	client, err := catalog.New(catalog.Config{BaseURL: cfg.BaseURL, AllowInsecure: cfg.AllowInsecure, Transport: transport})
	if err != nil {
		return nil, err
	}
	d := &examination{Config: cfg, ctx: ctx, client: client, transport: transport}
	d.examine()
	failed := slices.ContainsFunc(d.checks, func(c Check) bool { return !c.OK })
	return &Report{Checks: d.checks, OK: !failed, RulesFile: catalog.RulesFile, Upstream: cfg.BaseURL, Ledger: cfg.Ledger}, nil
}

// examination looks at a catalog.
type examination struct {
	Config
	ctx       context.Context
	client    *catalog.Client
	transport *readOnlyTransport
	fields    []catalog.InputField // of the model
	checks    []Check
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
		c := Check{Name: question.name, Route: question.route, kind: catalog.KindOf(err), Skipped: errors.Is(err, errNoModel)}
		if err != nil {
			c.Error = terminal.OneLine(err.Error())
		}
		if d.transport.body != nil {
			c.Findings = Diagnose(question.route, d.transport.body, d.Credential)
		}
		c.OK = c.Skipped || err == nil && !slices.ContainsFunc(c.Findings, func(f Finding) bool { return f.Fault != "" && !f.Hint })
		d.checks = append(d.checks, c)
		if c.kind == catalog.KindCredentialRejected || c.kind == catalog.KindUnavailable || d.ctx.Err() != nil {
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
	const prompt = "a calm sea at dusk"
	inputs := map[string]any{}
	for _, f := range fields {
		switch needed := f.Required != nil && *f.Required && f.Default == nil || f.Required == nil && f.Name == "prompt"; {
		case !needed:
		case len(f.Allowed) > 0:
			inputs[f.Name] = f.Allowed[0]
		case f.Minimum != nil:
			inputs[f.Name] = *f.Minimum
		default:
			inputs[f.Name] = map[catalog.FieldType]any{
				catalog.FieldUnknown: prompt, catalog.FieldString: prompt, catalog.FieldInteger: 1, catalog.FieldNumber: 1,
				catalog.FieldBoolean: false, catalog.FieldObject: map[string]any{}, catalog.FieldArray: []any{},
			}[f.Type]
		}
	}
	if len(fields) == 0 {
		inputs["prompt"] = prompt
	}
	text, _ := json.Marshal(inputs) // values that came from JSON
	return text
}

// readOnlyTransport lets nothing through that could cost or change anything, and keeps the bodies
// of answers.
type readOnlyTransport struct {
	next http.RoundTripper
	body []byte // of the last 2xx, nil where the last answer was another
}

const maxLook = 8 << 20 // bytes of a body; the catalog's client reads no more

// RoundTrip implements http.RoundTripper.
func (l *readOnlyTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	l.body = nil
	if r.Method != http.MethodGet && r.Pattern != routeQuote {
		return nil, fmt.Errorf("%s could cost or change something, so it does not leave", r.Pattern)
	}
	resp, err := l.next.RoundTrip(r)
	if err != nil || resp.StatusCode/100 != 2 {
		return resp, err
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxLook+1))
	_ = resp.Body.Close() // it was only read
	if err != nil {
		return nil, err
	}
	l.body, resp.Body = body, io.NopCloser(bytes.NewReader(body))
	return resp, nil
}
