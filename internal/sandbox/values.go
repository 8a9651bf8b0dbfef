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

// order is a validated request to create or quote a generation.
type order struct {
	model  *model
	inputs string // inputs as sent, without whitespace between the JSON tokens
	values paint.Values
	price  int64
	hash   []byte // hash of the model and the inputs, to detect that an idempotency key is reused for a different order
}

func invalid(field, format string, args ...any) error {
	return &apiError{
		status: http.StatusBadRequest, code: "INVALID_FIELD", field: field,
		message: fmt.Sprintf("Invalid field %s: ", field) + fmt.Sprintf(format, args...),
	}
}

// readOrder parses and validates the body of a quote or an order.
func readOrder(body []byte) (order, error) {
	var top map[string]json.RawMessage
	if !utf8.Valid(body) || decodeJSON(body, &top) != nil || top == nil {
		return order{}, &apiError{status: http.StatusBadRequest, code: "INVALID_JSON", message: "The body is not a JSON object."}
	}
	for name := range top {
		if name != "modelId" && name != "inputs" {
			return order{}, invalid(name, "unknown")
		}
	}
	var id string
	if decodeJSON(top["modelId"], &id) != nil {
		return order{}, invalid("modelId", "must be a string")
	}
	m, found := findModel(id)
	if !found {
		return order{}, invalid("modelId", "no such model")
	}
	var inputs map[string]any
	if decodeJSON(top["inputs"], &inputs) != nil || inputs == nil {
		return order{}, invalid("inputs", "must be an object")
	}
	checked, err := checkObject("inputs.", m.fields, inputs)
	if err != nil {
		return order{}, err
	}
	o := order{model: m, values: checked, price: m.price(checked)}
	canonical, err := json.Marshal(map[string]any{"modelId": id, "inputs": inputs}) // json.Marshal sorts the members of a map
	if err != nil {
		return order{}, err
	}
	o.hash = digest(string(canonical))
	var compact bytes.Buffer
	err = json.Compact(&compact, top["inputs"])
	o.inputs = compact.String()
	return o, err
}

// decodeJSON is like [json.Unmarshal], but stores a number in an interface value as a [json.Number].
func decodeJSON(body []byte, into any) error {
	dec := json.NewDecoder(bytes.NewReader(body))
	dec.UseNumber()
	if err := dec.Decode(into); err != nil {
		return err
	}
	if _, err := dec.Token(); err != io.EOF {
		return fmt.Errorf("body has more than one JSON value")
	}
	return nil
}

func checkObject(path string, fields []field, in map[string]any) (paint.Values, error) {
	for _, name := range slices.Sorted(maps.Keys(in)) { // sorted, so that the same error is always returned
		if !slices.ContainsFunc(fields, func(f field) bool { return f.name == name }) {
			return nil, invalid(path+name, "unknown")
		}
	}
	out := paint.Values{}
	for _, f := range fields {
		given, present := in[f.name]
		switch {
		case present:
			v, err := f.checkValue(path+f.name, given)
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

// checkValue validates a value of the field and converts it to the Go type that the models expect. Errors contain
// path, which is the value's path in the request.
func (f field) checkValue(path string, v any) (any, error) {
	switch v := v.(type) {
	case string:
		if f.kind == "string" {
			return v, f.checkString(path, v)
		}
	case json.Number:
		float, err := v.Float64()
		if number, ok := f.parseNumber(v.String(), float); ok && err == nil {
			return number, f.checkRange(path, float, "")
		}
	case bool:
		if f.kind == "boolean" {
			return v, nil
		}
	case []any:
		if f.kind == "array" {
			return v, f.checkArray(path, v)
		}
	case map[string]any:
		if f.kind == "object" {
			return checkObject(path+".", f.props, v)
		}
	}
	return nil, invalid(path, "must be of type %s", f.kind)
}

var colour = regexp.MustCompile(`^#[0-9a-fA-F]{6}$`)

func (f field) checkString(path, v string) error {
	switch {
	case f.allowed != nil && !slices.Contains(f.allowed, v):
		return invalid(path, "must be one of %q", f.allowed)
	case f.name == "colour" && !colour.MatchString(v):
		return invalid(path, "must be a color such as #1d3557")
	}
	return f.checkRange(path, float64(utf8.RuneCountInString(v)), "characters")
}

// parseNumber converts a JSON number to the type of the field. text is the number as sent, and floatValue is its
// value. A whole number in another notation, such as 20.0, is also a valid integer.
func (f field) parseNumber(text string, floatValue float64) (v any, ok bool) {
	if f.kind == "number" {
		return floatValue, true
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil && floatValue == math.Trunc(floatValue) && math.Abs(floatValue) <= 1<<53 {
		n, err = int64(floatValue), nil
	}
	return n, err == nil && f.kind == "integer"
}

func (f field) checkArray(path string, v []any) error {
	for i, item := range v {
		if _, err := f.items.checkValue(fmt.Sprintf("%s[%d]", path, i), item); err != nil {
			return err
		}
	}
	return f.checkRange(path, float64(len(v)), "items")
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
