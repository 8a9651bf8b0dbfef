package sandbox

import (
	"cmp"
	"encoding/json"
	"net/http"
	"strings"
	"time"
)

// record is a JSON object. Its members have their default names until a dialect renames them.
type record map[string]any

// encodeAccount returns the body of GET /me.
func (d Dialect) encodeAccount(who account, balance, spent int64) []byte {
	out := record{"name": who.name, "balanceCents": balance, "currency": "EUR", "spentTodayCents": spent}
	if who.dailyCap > 0 {
		out["dailyCapCents"] = who.dailyCap
	}
	if d.ExtraMembers {
		out["accountId"], out["organization"] = who.id, record{"id": "org_7", "name": "Studio"}
	}
	return d.wrapRecord("account", d.renameMembers(out))
}

// encodeModels returns the body of GET /models, which contains all models without their input fields.
func (d Dialect) encodeModels(list []*model) []byte {
	keyed, items := record{}, make([]record, 0, len(list))
	for _, m := range list {
		one := record{"id": m.id, "name": m.name, d.Word("description"): m.description, "type": m.kind}
		keyed[m.id], items = one, append(items, one)
	}
	if d.Keyed {
		return encodeJSON(keyed)
	}
	return d.wrapList("models", items)
}

// modelDetail returns the body of the response to GET /models/detail.
func (d Dialect) modelDetail(m *model) []byte {
	return d.wrapRecord("model", record{
		"id": m.id, "name": m.name, d.Word("description"): m.description, "type": m.kind, d.Word("inputFields"): d.fields(m.fields),
	})
}

func (d Dialect) fields(fields []field) any {
	keyed, list := record{}, make([]record, 0, len(fields))
	for _, f := range fields {
		one := d.field(f)
		keyed[f.name], list = one, append(list, one)
		if d.Keyed {
			delete(one, "name")
		}
	}
	if d.Keyed {
		return keyed
	}
	return list
}

func (d Dialect) field(f field) record {
	out := record{"name": f.name, "label": f.label, "description": f.help, "type": f.kind, "required": f.required}
	if d.Word("required") == "optional" {
		out["required"] = !f.required
	}
	if f.def != nil {
		out["default"] = f.def
	}
	if f.allowed != nil {
		out["enum"] = d.allowed(f.allowed)
	}
	low, high := "min", "max"
	switch f.kind {
	case "string":
		low, high = "minLength", "maxLength"
	case "array":
		low, high = "minItems", "maxItems"
	}
	if f.min != nil {
		out[low] = *f.min
	}
	if f.max != nil {
		out[high] = *f.max
	}
	if f.items != nil {
		out["items"] = d.field(*f.items)
	}
	if f.props != nil {
		out["properties"] = d.fields(f.props)
	}
	return d.renameMembers(out)
}

func (d Dialect) allowed(values []string) any {
	if !d.Keyed {
		return values
	}
	objects := make([]record, len(values))
	for i, value := range values {
		objects[i] = record{"value": value, "label": strings.ToUpper(value)}
	}
	return objects
}

// encodePrice returns the body of the response to POST /quote.
func (d Dialect) encodePrice(cents int64) []byte {
	switch d.Price {
	case PriceUnit:
		return encodeJSON(record{"price": cents, "unit": "cents", "currencyCode": "EUR"})
	case PriceNumber:
		return encodeJSON(cents)
	}
	return d.wrapRecord("quote", d.renameMembers(record{"priceCents": cents}))
}

func (d Dialect) generation(g generation, base string) []byte {
	return d.wrapRecord("generation", d.renameMembers(d.defaultMembers(g, base)))
}

func (d Dialect) generations(list []generation, base string) []byte {
	items := make([]record, 0, len(list))
	for _, g := range list {
		one := d.defaultMembers(g, base)
		if d.SparseList {
			for _, name := range []string{"inputs", "costCents", "contentUrl", "textOutput", "failureReason"} {
				delete(one, name)
			}
		}
		items = append(items, d.renameMembers(one))
	}
	return d.wrapList("generations", items)
}

// defaultMembers returns a generation as a JSON object whose members have their default names. The member contentUrl
// starts with base, the catalog's base URL.
func (d Dialect) defaultMembers(g generation, base string) record {
	out := record{
		"modelId": g.model, "inputs": json.RawMessage(g.inputs), "costCents": g.cost, "id": g.publicID, "status": d.status(g),
	}
	if d.NumericIDs && strings.Trim(g.publicID, "0123456789") == "" { // IDs that another dialect created may not be numeric
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
		if g.contentType != "" {
			out["contentType"], out["sizeBytes"] = g.contentType, g.contentSize
		}
	}
	return out
}

func (d Dialect) status(g generation) string {
	if d.ShowRunning && g.state == stateQueued && time.Now().UnixNano() >= g.starts {
		return d.Word("running")
	}
	return d.Word(g.state)
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

// wrapRecord encodes a record in the dialect's shape for records. In ShapeNamed, the record is the value of a member
// with the given default name.
func (d Dialect) wrapRecord(name string, one record) []byte {
	switch d.Record {
	case ShapeNamed:
		return encodeJSON(record{name: one})
	case ShapeData, ShapePage:
		return encodeJSON(record{"data": one})
	}
	return encodeJSON(one)
}

// wrapList encodes records in the dialect's shape for lists.
func (d Dialect) wrapList(name string, items []record) []byte {
	switch d.List {
	case ShapeNamed:
		return encodeJSON(record{name: items})
	case ShapeData:
		return encodeJSON(record{"data": items})
	case ShapePage:
		return encodeJSON(record{"items": items, "total": len(items)})
	}
	return encodeJSON(items)
}

// renameMembers returns a copy of a record in which the members have the dialect's names. It does not rename members of
// nested values, such as the caller's inputs.
func (d Dialect) renameMembers(in record) record {
	out := make(record, len(in))
	for name, v := range in {
		out[d.Word(name)] = v
	}
	return out
}

// encodeFailure returns the body of the response for an error, and the body's content type.
func (d Dialect) encodeFailure(e *apiError) (contentType string, body []byte) {
	out := record{"code": e.code, "message": e.message}
	detail := func(name string, value any) {
		if e.field != "" {
			out[name] = value
		}
	}
	switch d.Errors {
	case ErrorNested:
		detail("fields", []string{strings.TrimPrefix(e.field, "inputs.")})
		out = record{"error": out}
	case ErrorProblem:
		out = record{"code": e.code, "type": "about:blank", "title": http.StatusText(e.status), "status": e.status, "detail": e.message}
		detail("errors", []record{{"field": e.field, "message": e.message}})
		return "application/problem+json", encodeJSON(out)
	case ErrorKeyed:
		out = record{"errorCode": e.code, "title": e.message}
		detail("errors", record{"body." + e.field: e.message})
	case ErrorText:
		return "text/plain; charset=utf-8", []byte(e.code + ": " + e.message + "\n")
	default:
		detail("details", record{"field": e.field})
	}
	return "application/json", encodeJSON(out)
}

// encodeJSON encodes a value as JSON. Encoding cannot fail: every value passed to encodeJSON has a type that JSON
// supports, and inputs are valid JSON from the request.
func encodeJSON(v any) []byte {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return text
}

// listLimit returns the maximum number of generations in a list.
func (d Dialect) listLimit() int { return cmp.Or(d.ListLimit, 100) }
