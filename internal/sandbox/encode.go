package sandbox

import (
	"encoding/json"
	"fmt"
	"html"
	"net/http"
	"strings"
	"time"
	"unicode"
)

// record is a JSON object before it is spelled in a dialect.
type record map[string]any

// account is the answer of GET /me.
func (d Dialect) account(who account, balance, spent int64) []byte {
	out := record{"name": who.name, "balanceCents": balance, "currency": "EUR", "spentTodayCents": spent}
	if who.dailyCap > 0 {
		out["dailyCapCents"] = who.dailyCap
	}
	return d.wrap("account", d.spell(out))
}

// models is the answer of GET /models: every model without its input fields.
func (d Dialect) models(list []*model) []byte {
	if d.KeyedModels {
		keyed := record{}
		for _, m := range list {
			keyed[m.id] = d.spell(d.model(m))
		}
		return encode(keyed)
	}
	items := make([]record, 0, len(list))
	for _, m := range list {
		items = append(items, d.spell(d.model(m)))
	}
	return d.wrapList("models", items)
}

func (d Dialect) model(m *model) record {
	return record{"id": m.id, "name": m.name, "description": m.description, "type": m.kind}
}

func (d Dialect) modelDetail(m *model) []byte {
	out := d.model(m)
	out["inputFields"] = d.fields(m.fields)
	return d.wrap("model", d.spell(out))
}

func (d Dialect) fields(fields []field) any {
	keyed, list := record{}, make([]record, 0, len(fields))
	for _, f := range fields {
		one := d.field(f)
		list = append(list, one)
		if d.KeyedFields {
			keyed[f.name] = one
			delete(one, "name")
		}
	}
	if d.KeyedFields {
		return keyed
	}
	return list
}

func (d Dialect) field(f field) record {
	out := record{"name": f.name, "label": f.label, "description": f.help, "type": f.kind, "required": f.required}
	if f.def != nil {
		out["default"] = f.def
	}
	if f.allowed != nil {
		out["enum"] = f.allowed
	}
	low, high := "min", "max"
	switch f.kind {
	case "string":
		low, high = "minLength", "maxLength"
	case "array":
		low, high = "minItems", "maxItems"
	}
	if f.min != nil {
		out[low] = jsonNumber(*f.min)
	}
	if f.max != nil {
		out[high] = jsonNumber(*f.max)
	}
	if f.items != nil {
		out["items"] = d.field(*f.items)
	}
	if f.props != nil {
		out["properties"] = d.fields(f.props)
	}
	return out
}

// jsonNumber keeps large integers free of exponents.
func jsonNumber(v float64) json.Number {
	if v >= 1<<63 {
		return "9223372036854775807"
	}
	return json.Number(strings.TrimSuffix(fmt.Sprintf("%.6g", v), ".0"))
}

func (d Dialect) price(cents int64) []byte {
	switch d.Price {
	case PriceCost:
		return encode(d.spell(record{"costCents": cents, "currency": "EUR"}))
	case PricePlain:
		return encode(record{"price": cents})
	case PriceOnlyCents:
		return encode(record{"cents": cents})
	case PriceNumber:
		return encode(cents)
	}
	return encode(d.spell(record{"priceCents": cents}))
}

func (d Dialect) generation(g generation, base string) []byte {
	return d.wrap("generation", d.generationRecord(g, base, false))
}

func (d Dialect) generations(list []generation, base string) []byte {
	items := make([]record, 0, len(list))
	for _, g := range list {
		items = append(items, d.generationRecord(g, base, d.SparseList))
	}
	return d.wrapList("generations", items)
}

func (d Dialect) generationRecord(g generation, base string, sparse bool) record {
	out := record{
		"modelId": g.model, "inputs": json.RawMessage(g.inputs), "costCents": g.cost, "id": g.publicID,
		"status": d.status(g),
	}
	if d.NumericIDs && strings.Trim(g.publicID, "0123456789") == "" {
		out["id"] = json.Number(g.publicID)
	}
	if d.Times != TimeAbsent {
		out["createdAt"] = d.time(g.created)
		if g.finished != 0 {
			out["finishedAt"] = d.time(g.finished)
		}
	}
	if g.contentType != "" {
		out["contentUrl"] = base + "/generations/" + g.publicID + "/content"
	}
	if g.text != "" {
		out["textOutput"] = g.text
	}
	if g.failure != "" {
		out["failureReason"] = g.failure
	}
	if d.ExtraMembers {
		out["region"], out["priority"], out["labels"] = "eu-central", 3.5, []string{"a", "b"}
		out["parent"], out["cached"], out["billing"] = nil, false, record{"vat": 19, "invoice": record{"id": 7}}
	}
	if sparse {
		for _, name := range []string{"inputs", "costCents", "contentUrl", "textOutput", "failureReason"} {
			delete(out, name)
		}
	}
	return d.spell(out)
}

var foreignStates = map[string]string{
	stateQueued: "pending", "running": "processing", stateSucceeded: "completed", stateFailed: "error",
}

func (d Dialect) status(g generation) string {
	state := g.state
	if d.ShowRunning && state == stateQueued && time.Now().UnixNano() >= g.starts {
		state = "running"
	}
	switch d.Status {
	case StatusForeign:
		if word, ok := foreignStates[state]; ok {
			return word
		}
	case StatusUpper:
		return strings.ToUpper(state)
	case StatusPadded:
		return " " + strings.ToUpper(state[:1]) + state[1:] + " "
	}
	return state
}

func (d Dialect) time(nanos int64) any {
	at := time.Unix(0, nanos).UTC()
	switch d.Times {
	case TimeUnix:
		return at.Unix()
	case TimeUnixMilli:
		return at.UnixMilli()
	}
	return at.Format(time.RFC3339Nano)
}

// wrap is the text of a record in its shape.
func (d Dialect) wrap(name string, one record) []byte {
	switch d.Record {
	case ShapeNamed:
		return encode(record{name: one})
	case ShapeData, ShapePage:
		return encode(record{"data": one})
	}
	return encode(one)
}

// wrapList is the text of records in the shape of a list.
func (d Dialect) wrapList(name string, items []record) []byte {
	switch d.List {
	case ShapeNamed:
		return encode(record{name: items})
	case ShapeData:
		return encode(record{"data": items})
	case ShapePage:
		return encode(record{"items": items, "total": len(items)})
	}
	return encode(items)
}

// spell turns the members of a record to snake case where the dialect says so. The inputs inside keep
// the names that the caller gave them.
func (d Dialect) spell(in record) record {
	if !d.SnakeCase {
		return in
	}
	out := make(record, len(in))
	for name, v := range in {
		out[snake(name)] = v
	}
	return out
}

func snake(name string) string {
	var b strings.Builder
	for _, r := range name {
		if unicode.IsUpper(r) {
			b.WriteByte('_')
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}

// failure is an error body with its content type.
func (d Dialect) failure(e *apiError) (contentType string, body []byte) {
	flat := record{"code": e.code, "message": e.message}
	if e.field != "" {
		field := e.field
		if d.ShortFields {
			field = strings.TrimPrefix(field, "inputs.")
		}
		flat["details"] = record{"field": field}
	}
	switch d.Errors {
	case ErrorNested:
		return "application/json", encode(record{"error": flat})
	case ErrorProblem:
		delete(flat, "message")
		flat["type"], flat["title"], flat["status"], flat["detail"] = "about:blank", http.StatusText(e.status), e.status, e.message
		return "application/problem+json", encode(flat)
	case ErrorText:
		return "text/plain; charset=utf-8", []byte(e.code + ": " + e.message + "\n")
	case ErrorHTML:
		page := fmt.Sprintf("<!doctype html><title>%d %s</title><h1>%s</h1><p>%s</p>\n", e.status,
			http.StatusText(e.status), e.code, html.EscapeString(e.message))
		return "text/html; charset=utf-8", []byte(page)
	}
	return "application/json", encode(flat)
}

// encode cannot fail: the records hold strings, numbers and inputs that were JSON when they came.
func encode(v any) []byte {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return text
}
