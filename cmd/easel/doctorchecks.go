package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/catalog"
)

// routeQuote is the one POST that is free: it prices, and starts nothing.
const routeQuote = "POST /quote"

// doctor looks at a catalog.
type doctor struct {
	ctx    context.Context
	client *catalog.Client
	cred   catalog.Credential
	eye    *lookingOnly
	model  string
	inputs []string

	fields []catalog.InputField
	render string // one that the list has shown
	checks []check
}

// check is one question, and what came of it.
type check struct {
	Name     string            `json:"name"`
	Route    string            `json:"route"`
	OK       bool              `json:"ok"`
	Skipped  bool              `json:"skipped,omitempty"`
	Error    string            `json:"error,omitempty"`
	Findings []catalog.Finding `json:"findings,omitempty"`

	kind catalog.Kind // of the error
}

// examine asks everything, unless the catalog does not let it look at all.
func (d *doctor) examine() {
	for _, look := range []func(){d.account, d.listModels, d.oneModel, d.quote, d.list, d.oneRender, d.noRender} {
		look()
		if k := d.checks[len(d.checks)-1].kind; k == catalog.KindCredentialRejected || k == catalog.KindUnavailable || d.ctx.Err() != nil {
			return
		}
	}
}

// note keeps what a question has brought.
func (d *doctor) note(name, route string, err error) {
	c := check{Name: name, Route: route, kind: catalog.KindOf(err)}
	if d.eye.body != nil {
		c.Findings = catalog.Survey(route, d.eye.body, d.cred)
	}
	if err != nil {
		c.Error = errorText(err)
	}
	c.OK = err == nil && !slices.ContainsFunc(c.Findings, func(f catalog.Finding) bool { return f.Fault != "" && !f.Hint })
	d.checks = append(d.checks, c)
}

func (d *doctor) skip(name, route, why string) {
	d.checks = append(d.checks, check{Name: name, Route: route, OK: true, Skipped: true, Error: why})
}

// errorText is an error of the catalog without the route, which stands beside it.
func errorText(err error) string {
	var e *catalog.Error
	if !errors.As(err, &e) {
		return oneLine(err.Error())
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
	return oneLine(text)
}

func (d *doctor) account() {
	_, err := d.client.Account(d.ctx, d.cred)
	d.note("account", "GET /me", err)
}

func (d *doctor) listModels() {
	models, err := d.client.Models(d.ctx, d.cred)
	d.note("models", "GET /models", err)
	if len(models) > 0 && d.model == "" {
		d.model = models[0].ID
	}
}

func (d *doctor) oneModel() {
	if d.model == "" {
		d.skip("model", "GET /models/detail", "no model is known: name one with --model")
		return
	}
	m, err := d.client.Model(d.ctx, d.cred, d.model)
	d.fields = m.Fields
	d.note("model", "GET /models/detail", err)
}

func (d *doctor) quote() {
	if d.model == "" {
		d.skip("quote", routeQuote, "no model is known: name one with --model")
		return
	}
	inputs := madeUp(d.fields)
	if len(d.inputs) > 0 {
		text, err := typedInputs(&easelv1.Model{ModelId: d.model}, d.inputs)
		if err != nil {
			d.note("quote", routeQuote, err)
			return
		}
		inputs = json.RawMessage(text)
	}
	_, err := d.client.Quote(d.ctx, d.cred, d.model, inputs)
	d.note("quote", routeQuote, err)
	if c := &d.checks[len(d.checks)-1]; c.kind == catalog.KindInvalidInput || c.kind == catalog.KindNotFound {
		c.Error += "; it may take other inputs: easel doctor --model " + quoted(d.model) + " key=value"
	}
}

// madeUp are inputs that a model should take: a value for each that it needs.
func madeUp(fields []catalog.InputField) json.RawMessage {
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

func (d *doctor) list() {
	renders, err := d.client.Generations(d.ctx, d.cred)
	d.note("list", "GET /generations", err)
	if len(renders) > 0 {
		d.render = renders[0].ID
	}
}

func (d *doctor) oneRender() {
	if d.render == "" {
		d.skip("render", "GET /generations/{id}", "the list shows no render to look at")
		return
	}
	_, err := d.client.Generation(d.ctx, d.cred, d.render)
	d.note("render", "GET /generations/{id}", err)
}

// noRender asks for a render that is not there, to see an error.
func (d *doctor) noRender() {
	_, err := d.client.Generation(d.ctx, d.cred, "easel-doctor-no-such-render")
	d.note("an error", "GET /generations/{id}", err)
	c := &d.checks[len(d.checks)-1]
	switch {
	case c.kind == catalog.KindNotFound || c.kind == catalog.KindInvalidInput:
		c.OK, c.kind = true, 0
	case err == nil:
		c.OK, c.Error = false, "a render that can't exist is answered with a 2xx"
	}
}

// verdict is the end of the command: the first check that did not go well.
func (d *doctor) verdict() error {
	for _, c := range d.checks {
		if c.OK {
			continue
		}
		p := &problem{exit: exitFailure, text: "the catalog can't be read in full: " + c.Name + " (" + c.Route + ")"}
		switch c.kind {
		case catalog.KindCredentialRejected, catalog.KindForbidden:
			p.exit, p.text, p.cure = exitCredential, "the catalog rejects the key", "Check EASEL_API_KEY or --upstream-key-file, and that it is a key of this catalog."
		case catalog.KindUnavailable, catalog.KindRateLimited:
			p.exit, p.text, p.cure = exitRetry, "the catalog did not answer: "+c.Error, "Is this its base address? See --upstream-url."
		case catalog.KindContract, catalog.KindRedirect:
			p.cure = "Is this the base address of a catalog? See --upstream-url."
		}
		return p
	}
	if d.ctx.Err() != nil {
		return d.ctx.Err()
	}
	return nil
}

// keep gives an answer on with a body that has been read.
func (l *lookingOnly) keep(resp *http.Response) (*http.Response, error) {
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxLook+1))
	_ = resp.Body.Close() // it was only read
	if err != nil {
		return nil, err
	}
	l.body = body
	resp.Body = io.NopCloser(bytes.NewReader(body))
	return resp, nil
}
