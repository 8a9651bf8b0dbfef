package service

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/tidwall/gjson"
	"google.golang.org/protobuf/types/known/structpb"
)

const (
	maxExact = 1 << 53 // every integer up to this limit can be represented exactly as a double
	maxDepth = 64      // maximum nesting depth of inputs

	otherValues = 5_000 // maximum number of values in a request apart from its inputs, such as the IDs and etags of a watch

	// DefaultMaxInputs is the default maximum size of a request's inputs, in bytes.
	DefaultMaxInputs = 1 << 20
	// LargestMaxInputs is the largest size of a request's inputs that an operator can allow, in bytes.
	LargestMaxInputs = 16 << 20

	// MaxValues is the maximum number of values in a Struct of a request. Each value takes more than a hundred bytes of
	// memory.
	MaxValues = 20_000
)

// Violation descriptions for inputs that are nested too deeply or have too many values.
var (
	TooDeep       = fmt.Sprintf("is nested deeper than %d levels", maxDepth)
	TooManyValues = fmt.Sprintf("has more than %d values; send them in inputs_json", MaxValues)
)

// CheckBody rejects a JSON request body that has too many values. Call it before the body is decoded.
func CheckBody(body []byte) error {
	if values, _ := measure(body); values > MaxValues+otherValues {
		return InvalidRequest(Violation{Field: "inputs", Description: TooManyValues})
	}
	return nil
}

// inputs returns the inputs of a request as the JSON that is sent to the catalog. It rejects inputs that exceed this
// server's limit.
func (s *generations) inputs(req interface {
	GetInputs() *structpb.Struct
	GetInputsJson() string
},
) (json.RawMessage, error) {
	limit := cmp.Or(s.cfg.MaxInputs, DefaultMaxInputs)
	tooLarge := fmt.Sprintf("must have at most %d bytes as JSON (EASEL_MAX_INPUTS of this server); send smaller inputs", limit)
	if len(req.GetInputsJson()) > limit {
		return nil, InvalidRequest(Violation{Field: "inputs_json", Description: tooLarge})
	}
	inputs, err := inputsBytes(req.GetInputs(), req.GetInputsJson())
	if err == nil && len(inputs) > limit {
		err = InvalidRequest(Violation{Field: "inputs", Description: tooLarge})
	}
	return inputs, err
}

// inputsBytes returns the inputs of a request as the JSON that is sent to the catalog. A request contains its inputs
// either as a Struct or as JSON text. Equal Structs always result in equal bytes, so that a repeated order is
// recognized.
func inputsBytes(inputs *structpb.Struct, text string) (json.RawMessage, error) {
	if inputs != nil {
		if valuesIn(inputs) > MaxValues {
			return nil, InvalidRequest(Violation{Field: "inputs", Description: TooManyValues})
		}
		return appendObject(nil, inputs, &position{name: "inputs"}, 1)
	}
	whole := json.RawMessage(text)
	if err := checkInputsJSON(text, whole); err != nil {
		return nil, InvalidRequest(Violation{Field: "inputs_json", Description: err.Error()})
	}
	return whole, nil
}

// valuesIn returns the number of values in an object, including nested values.
func valuesIn(s *structpb.Struct) (n int) {
	for _, v := range s.GetFields() {
		n += 1 + valuesOf(v)
	}
	return n
}

func valuesOf(v *structpb.Value) int {
	n := valuesIn(v.GetStructValue())
	for _, inner := range v.GetListValue().GetValues() {
		n += 1 + valuesOf(inner)
	}
	return n
}

// position is the path of a value in the inputs. It is converted to a string only for an error, because names can be
// long.
type position struct {
	outer *position
	name  string
}

func (p *position) String() string {
	if p.outer == nil {
		return p.name
	}
	return p.outer.String() + p.name
}

// refuse returns the error for a value that is invalid for the given reason.
func (p *position) refuse(why string) error {
	return InvalidRequest(Violation{Field: p.String(), Description: why})
}

// appendValue appends a Value as JSON. It returns an error if JSON can't represent the Value exactly.
func appendValue(dst []byte, v *structpb.Value, at *position, depth int) ([]byte, error) {
	switch kind := v.GetKind().(type) {
	case *structpb.Value_NullValue:
		return append(dst, "null"...), nil
	case *structpb.Value_BoolValue:
		return strconv.AppendBool(dst, kind.BoolValue), nil
	case *structpb.Value_StringValue:
		return appendText(dst, kind.StringValue)
	case *structpb.Value_NumberValue:
		return appendNumber(dst, kind.NumberValue, at)
	case *structpb.Value_StructValue:
		return appendObject(dst, kind.StructValue, at, depth+1)
	case *structpb.Value_ListValue:
		return appendList(dst, kind.ListValue.GetValues(), at, depth+1)
	}
	return nil, at.refuse("is a Value that has no kind")
}

// appendObject appends an object as JSON. It sorts the members by name, so that equal objects always result in equal
// bytes and equal errors.
func appendObject(dst []byte, s *structpb.Struct, at *position, depth int) (out []byte, err error) {
	if depth > maxDepth {
		return nil, InvalidRequest(Violation{Field: "inputs", Description: TooDeep})
	}
	dst = append(dst, '{')
	for n, name := range slices.Sorted(maps.Keys(s.GetFields())) {
		if n > 0 {
			dst = append(dst, ',')
		}
		if dst, err = appendText(dst, name); err != nil {
			return nil, err
		}
		if dst, err = appendValue(append(dst, ':'), s.GetFields()[name], &position{&position{at, "."}, name}, depth); err != nil {
			return nil, err
		}
	}
	return append(dst, '}'), nil
}

func appendList(dst []byte, values []*structpb.Value, at *position, depth int) (out []byte, err error) {
	if depth > maxDepth {
		return nil, InvalidRequest(Violation{Field: "inputs", Description: TooDeep})
	}
	dst = append(dst, '[')
	for n, v := range values {
		if n > 0 {
			dst = append(dst, ',')
		}
		if dst, err = appendValue(dst, v, &position{at, "[" + strconv.Itoa(n) + "]"}, depth); err != nil {
			return nil, err
		}
	}
	return append(dst, ']'), nil
}

func appendNumber(dst []byte, f float64, at *position) ([]byte, error) {
	switch {
	case math.IsNaN(f) || math.IsInf(f, 0):
		return nil, at.refuse("is NaN or infinite, which JSON can't represent")
	case f == math.Trunc(f) && math.Abs(f) >= maxExact:
		return nil, at.refuse("is an integer beyond 2^53, which a Struct can't represent exactly; send it in inputs_json")
	case f == math.Trunc(f):
		return strconv.AppendInt(dst, int64(f), 10), nil
	}
	return strconv.AppendFloat(dst, f, 'g', -1, 64), nil
}

func appendText(dst []byte, text string) ([]byte, error) {
	if !utf8.ValidString(text) {
		return nil, InvalidRequest(Violation{Field: "inputs", Description: "is not valid UTF-8"})
	}
	var quoted bytes.Buffer
	encoder := json.NewEncoder(&quoted)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(text)
	return append(dst, bytes.TrimSuffix(quoted.Bytes(), []byte("\n"))...), err
}

// checkInputsJSON returns an error unless text is a single JSON object that all parsers interpret in the same way. The
// parameter whole must contain the same bytes as text, so that a large text is not converted a second time.
func checkInputsJSON(text string, whole []byte) error {
	switch {
	case !utf8.ValidString(text):
		return errors.New("is not valid UTF-8")
	case !strings.HasPrefix(strings.TrimLeft(text, " \t\r\n"), "{"):
		return errors.New("is not a JSON object")
	}
	if _, depth := measure(whole); depth > maxDepth { // the depth is checked first, because encoding/json would report very deep nesting as a syntax error
		return errors.New(TooDeep)
	}
	if !json.Valid(whole) {
		wrong, _ := errors.AsType[*json.SyntaxError](json.Unmarshal(whole, new(json.RawMessage)))
		return fmt.Errorf("is not valid JSON: syntax error at byte %d", wrong.Offset)
	}
	if hasLoneSurrogate(whole) {
		return errors.New(`has half of a surrogate pair, such as \ud800, which is not a character`)
	}
	return checkNames(gjson.Parse(text))
}

// hasLoneSurrogate reports whether valid JSON contains an escape for only half of a surrogate pair. Some parsers reject
// such an escape. Others replace it with U+FFFD, so that different strings become equal.
func hasLoneSurrogate(text []byte) bool {
	for at := bytes.IndexByte(text, '\\'); at >= 0 && at < len(text); at++ { // only strings contain backslashes
		if text[at] != '\\' {
			continue
		}
		first := escapedCodeUnit(text[at:])
		switch second := escapedCodeUnit(text[min(at+6, len(text)):]); {
		case utf16.DecodeRune(first, second) != utf8.RuneError:
			at += 6
		case utf16.IsSurrogate(first):
			return true
		}
		at++ // skip the escaped character
	}
	return false
}

// escapedCodeUnit returns the code unit of an escape such as \ud800 at the start of text, or -1 if text does not start
// with such an escape.
func escapedCodeUnit(text []byte) rune {
	if len(text) < 6 || text[0] != '\\' || text[1] != 'u' {
		return -1
	}
	number, _ := strconv.ParseUint(string(text[2:6]), 16, 32) // cannot fail for valid JSON
	return rune(number)
}

// checkNames returns an error if an object, or an object nested in it, has two members with the same name.
func checkNames(v gjson.Result) (err error) {
	names := map[string]bool{}
	v.ForEach(func(quoted, inner gjson.Result) bool {
		if name := quoted.String(); v.IsObject() {
			if names[name] {
				err = fmt.Errorf("has the member %q twice", clip(name, 64))
			}
			names[name] = true
		}
		if err == nil && (inner.IsObject() || inner.IsArray()) {
			err = checkNames(inner)
		}
		return err == nil
	})
	return err
}
