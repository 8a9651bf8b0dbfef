package sandbox

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/easel-grpc/easel/internal/sandbox/paint"
)

// order is a checked request for a render or a quote.
type order struct {
	model  *model
	inputs string // as sent, compact, digit for digit
	values paint.Values
	price  int64
	hash   []byte // of the canonical request, for the idempotency check
}

func invalid(field, format string, args ...any) error {
	return &apiError{
		status: http.StatusBadRequest, code: "INVALID_FIELD", field: field,
		message: fmt.Sprintf("Invalid field %s: ", field) + fmt.Sprintf(format, args...),
	}
}

// readOrder reads and checks the body that quote and create share.
func readOrder(body []byte) (order, error) {
	var top map[string]json.RawMessage
	if !utf8.Valid(body) || decode(body, &top) != nil || top == nil {
		return order{}, &apiError{status: http.StatusBadRequest, code: "INVALID_JSON", message: "The body is not a JSON object."}
	}
	for name := range top {
		if name != "modelId" && name != "inputs" {
			return order{}, invalid(name, "unknown")
		}
	}
	var id string
	if decode(top["modelId"], &id) != nil {
		return order{}, invalid("modelId", "must be a string")
	}
	m, found := findModel(id)
	if !found {
		return order{}, invalid("modelId", "no such model")
	}
	var inputs map[string]any
	if decode(top["inputs"], &inputs) != nil || inputs == nil {
		return order{}, invalid("inputs", "must be an object")
	}
	checked, err := checkObject("inputs.", m.fields, inputs)
	if err != nil {
		return order{}, err
	}
	o := order{model: m, values: checked, price: m.price(checked)}
	canonical, err := json.Marshal(map[string]any{"modelId": id, "inputs": inputs}) // sorts the members
	if err != nil {
		return order{}, err
	}
	o.hash = digest(string(canonical))
	var compact bytes.Buffer
	err = json.Compact(&compact, top["inputs"])
	o.inputs = compact.String()
	return o, err
}

// decode is strict: one value, nothing after it, numbers kept digit for digit.
func decode(body []byte, into any) error {
	dec := json.NewDecoder(bytes.NewReader(body))
	dec.UseNumber()
	if err := dec.Decode(into); err != nil {
		return err
	}
	if _, err := dec.Token(); err != io.EOF {
		return fmt.Errorf("more than one JSON value")
	}
	return nil
}

func checkObject(path string, fields []field, in map[string]any) (paint.Values, error) {
	for _, name := range slices.Sorted(maps.Keys(in)) { // the first fault reported is always the same one
		if !slices.ContainsFunc(fields, func(f field) bool { return f.name == name }) {
			return nil, invalid(path+name, "unknown")
		}
	}
	out := paint.Values{}
	for _, f := range fields {
		given, present := in[f.name]
		switch {
		case present:
			v, err := f.check(path+f.name, given)
			if err != nil {
				return nil, err
			}
			out[f.name] = v
		case f.required:
			return nil, invalid(path+f.name, "missing")
		case f.def != nil:
			out[f.name] = f.def
		case f.kind == "object":
			out[f.name], _ = checkObject("", f.props, nil)
		}
	}
	return out, nil
}

// check checks one value and turns it into the type that the models work with.
func (f field) check(path string, v any) (any, error) {
	switch v := v.(type) {
	case string:
		return f.checkString(path, v)
	case json.Number:
		return f.checkNumber(path, v)
	case bool:
		if f.kind == "boolean" {
			return v, nil
		}
	case []any:
		return f.checkArray(path, v)
	case map[string]any:
		if f.kind == "object" {
			return checkObject(path+".", f.props, v)
		}
	}
	return nil, f.wrongType(path)
}

func (f field) wrongType(path string) error { return invalid(path, "must be of type %s", f.kind) }

func (f field) checkString(path, v string) (any, error) {
	if f.kind != "string" {
		return nil, f.wrongType(path)
	}
	if f.allowed != nil && !slices.Contains(f.allowed, v) {
		return nil, invalid(path, "must be one of %q", f.allowed)
	}
	if f.name == "colour" {
		if !colour.MatchString(v) {
			return nil, invalid(path, "must look like #1d3557")
		}
	}
	return v, f.checkRange(path, float64(utf8.RuneCountInString(v)), "characters")
}

var colour = regexp.MustCompile(`^#[0-9a-fA-F]{6}$`)

func (f field) checkNumber(path string, v json.Number) (any, error) {
	float, err := v.Float64()
	if err != nil || f.kind != "integer" && f.kind != "number" {
		return nil, f.wrongType(path)
	}
	if f.kind == "number" {
		return float, f.checkRange(path, float, "")
	}
	if n, err := strconv.ParseInt(v.String(), 10, 64); err == nil {
		return n, f.checkRange(path, float, "")
	}
	if float != math.Trunc(float) || math.Abs(float) > 1<<53 { // 20.0 is an integer too
		return nil, f.wrongType(path)
	}
	return int64(float), f.checkRange(path, float, "")
}

func (f field) checkArray(path string, v []any) (any, error) {
	if f.kind != "array" {
		return nil, f.wrongType(path)
	}
	for i, item := range v {
		if _, err := f.items.check(fmt.Sprintf("%s[%d]", path, i), item); err != nil {
			return nil, err
		}
	}
	return v, f.checkRange(path, float64(len(v)), "items")
}

func (f field) checkRange(path string, v float64, unit string) error {
	if f.min != nil && v < *f.min {
		return invalid(path, "must be at least %g %s", *f.min, unit)
	}
	if f.max != nil && v > *f.max {
		return invalid(path, "must be at most %g %s", *f.max, unit)
	}
	return nil
}
