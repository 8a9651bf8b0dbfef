package service

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"unicode/utf8"

	"google.golang.org/protobuf/types/known/structpb"
)

const (
	maxExact = 1 << 53 // the largest integer up to which a double holds every one
	maxDepth = 64      // nesting of inputs
)

// inputsBytes gives the inputs of a request as the bytes that go upstream. The same request
// always gives the same bytes, so that a repeated order is recognised.
func inputsBytes(inputs *structpb.Struct, text string) (json.RawMessage, error) {
	if inputs != nil {
		members, err := plainObject(inputs, "inputs", 1)
		if err != nil {
			return nil, err
		}
		return encodeJSON(members)
	}
	if err := checkInputsJSON(text); err != nil {
		return nil, InvalidRequest(Violation{"inputs_json", err.Error()})
	}
	return json.RawMessage(text), nil
}

// encodeJSON writes members in the order of their names. It escapes only what JSON requires, so that
// text stays readable.
func encodeJSON(members any) (json.RawMessage, error) {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(members)
	return bytes.TrimSuffix(out.Bytes(), []byte("\n")), err
}

// plain gives a Value as encoding/json takes it, and refuses a value that would reach the catalog changed.
func plain(v *structpb.Value, path string, depth int) (any, error) {
	switch kind := v.GetKind().(type) {
	case *structpb.Value_NullValue:
		return nil, nil
	case *structpb.Value_BoolValue:
		return kind.BoolValue, nil
	case *structpb.Value_StringValue:
		return kind.StringValue, checkUTF8(kind.StringValue)
	case *structpb.Value_NumberValue:
		return plainNumber(kind.NumberValue, path)
	case *structpb.Value_StructValue:
		return plainObject(kind.StructValue, path, depth+1)
	case *structpb.Value_ListValue:
		return plainList(kind.ListValue.GetValues(), path, depth+1)
	}
	return nil, InvalidRequest(Violation{path, "is a Value without a kind"})
}

// plainObject goes in the order of the names, so that the same request always has the same fault.
func plainObject(s *structpb.Struct, path string, depth int) (members map[string]any, err error) {
	if depth > maxDepth {
		return nil, InvalidRequest(Violation{"inputs", tooDeep().Error()})
	}
	members = make(map[string]any, len(s.GetFields()))
	for _, name := range slices.Sorted(maps.Keys(s.GetFields())) {
		if err := checkUTF8(name); err != nil {
			return nil, err
		}
		if members[name], err = plain(s.Fields[name], path+"."+name, depth); err != nil {
			return nil, err
		}
	}
	return members, nil
}

func plainList(values []*structpb.Value, path string, depth int) (items []any, err error) {
	if depth > maxDepth {
		return nil, InvalidRequest(Violation{"inputs", tooDeep().Error()})
	}
	items = make([]any, len(values))
	for i, v := range values {
		if items[i], err = plain(v, path+"["+strconv.Itoa(i)+"]", depth); err != nil {
			return nil, err
		}
	}
	return items, nil
}

func plainNumber(f float64, path string) (json.Number, error) {
	switch {
	case math.IsNaN(f) || math.IsInf(f, 0):
		return "", InvalidRequest(Violation{path, "is not a number that JSON can hold"})
	case f == math.Trunc(f) && math.Abs(f) >= maxExact:
		return "", InvalidRequest(Violation{path, "is an integer beyond 2^53, which a Struct can't hold exactly: send it in inputs_json"})
	case f == math.Trunc(f):
		return json.Number(strconv.FormatInt(int64(f), 10)), nil
	}
	return json.Number(strconv.FormatFloat(f, 'g', -1, 64)), nil
}

func checkUTF8(text string) error {
	if !utf8.ValidString(text) {
		return InvalidRequest(Violation{"inputs", "is not valid UTF-8"})
	}
	return nil
}

func tooDeep() error { return fmt.Errorf("is nested deeper than %d levels", maxDepth) }

// checkInputsJSON reports why text is not one JSON object that all readers understand alike.
func checkInputsJSON(text string) error {
	if !utf8.ValidString(text) {
		return errors.New("is not valid UTF-8")
	}
	decoder := json.NewDecoder(bytes.NewReader([]byte(text)))
	decoder.UseNumber()
	first, err := decoder.Token()
	if err != nil || first != json.Delim('{') {
		return errors.New("is not a JSON object")
	}
	if err := checkMembers(decoder, '{', 1); err != nil {
		return err
	}
	if _, err := decoder.Token(); err != io.EOF {
		return errors.New("goes on after the JSON object")
	}
	return nil
}

// checkMembers reads the members of an object or array, after its opening.
func checkMembers(decoder *json.Decoder, opening json.Delim, depth int) error {
	if depth > maxDepth {
		return tooDeep()
	}
	names := map[string]bool{}
	for isName := opening == '{'; ; isName = opening == '{' && !isName {
		token, err := decoder.Token()
		if err != nil {
			return fmt.Errorf("is not valid JSON after %d bytes", decoder.InputOffset())
		}
		switch token := token.(type) {
		case json.Delim:
			if token == '}' || token == ']' {
				return nil
			}
			if err := checkMembers(decoder, token, depth+1); err != nil {
				return err
			}
		case string:
			if isName && names[token] {
				return fmt.Errorf("has the member %q twice", clip(token, 64))
			}
			if isName {
				names[token] = true
			}
		}
	}
}
