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
// always gives the same bytes, so that a repeated order is seen to be the same.
func inputsBytes(inputs *structpb.Struct, text string) (json.RawMessage, error) {
	if inputs != nil {
		w := &inputsWriter{}
		w.object(inputs, "inputs", 1)
		return w.out.Bytes(), w.err
	}
	if err := checkInputsJSON(text); err != nil {
		return nil, InvalidRequest(Violation{"inputs_json", err.Error()})
	}
	return json.RawMessage(text), nil
}

// inputsWriter writes a Struct as JSON with sorted members, and refuses what would reach
// the catalog changed.
type inputsWriter struct {
	out bytes.Buffer
	err error
}

func (w *inputsWriter) refuse(field, description string) {
	if w.err == nil {
		w.err = InvalidRequest(Violation{field, description})
	}
}

func (w *inputsWriter) object(s *structpb.Struct, path string, depth int) {
	if !w.within(depth) {
		return
	}
	w.out.WriteByte('{')
	for i, name := range slices.Sorted(maps.Keys(s.GetFields())) {
		if i > 0 {
			w.out.WriteByte(',')
		}
		w.text(name)
		w.out.WriteByte(':')
		w.value(s.Fields[name], path+"."+name, depth)
	}
	w.out.WriteByte('}')
}

// list writes the members of an array, which may be none.
func (w *inputsWriter) list(items []*structpb.Value, path string, depth int) {
	if !w.within(depth) {
		return
	}
	w.out.WriteByte('[')
	for i, item := range items {
		if i > 0 {
			w.out.WriteByte(',')
		}
		w.value(item, path+"["+strconv.Itoa(i)+"]", depth)
	}
	w.out.WriteByte(']')
}

// within reports whether an object or array may be at this depth.
func (w *inputsWriter) within(depth int) bool {
	if depth > maxDepth {
		w.refuse("inputs", fmt.Sprintf("is nested deeper than %d levels", maxDepth))
	}
	return w.err == nil
}

func (w *inputsWriter) value(v *structpb.Value, path string, depth int) {
	if w.err != nil {
		return
	}
	switch kind := v.GetKind().(type) {
	case *structpb.Value_NullValue:
		w.out.WriteString("null")
	case *structpb.Value_BoolValue:
		w.out.WriteString(strconv.FormatBool(kind.BoolValue))
	case *structpb.Value_StringValue:
		w.text(kind.StringValue)
	case *structpb.Value_NumberValue:
		w.number(kind.NumberValue, path)
	case *structpb.Value_StructValue:
		w.object(kind.StructValue, path, depth+1)
	case *structpb.Value_ListValue:
		w.list(kind.ListValue.GetValues(), path, depth+1)
	default:
		w.refuse(path, "is a Value without a kind")
	}
}

func (w *inputsWriter) number(f float64, path string) {
	switch {
	case math.IsNaN(f) || math.IsInf(f, 0):
		w.refuse(path, "is not a number that JSON can hold")
	case f == math.Trunc(f) && math.Abs(f) >= maxExact:
		w.refuse(path, "is an integer beyond 2^53, which a Struct can't hold exactly: send it in inputs_json")
	case f == math.Trunc(f):
		w.out.WriteString(strconv.FormatInt(int64(f), 10))
	default:
		w.out.Write(strconv.AppendFloat(nil, f, 'g', -1, 64))
	}
}

// text writes a string without escaping what needs no escape, so that it stays readable.
func (w *inputsWriter) text(s string) {
	if !utf8.ValidString(s) {
		w.refuse("inputs", "is not valid UTF-8")
		return
	}
	encoder := json.NewEncoder(&w.out)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(s) // a string can always be encoded
	w.out.Truncate(w.out.Len() - 1)
}

// checkInputsJSON reports why text is not one JSON object that every reader understands
// alike.
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
	if err := checkMembers(decoder, 1); err != nil {
		return err
	}
	if _, err := decoder.Token(); err != io.EOF {
		return errors.New("goes on after the JSON object")
	}
	return nil
}

// checkMembers reads the rest of an object or array whose opening was read.
func checkMembers(decoder *json.Decoder, depth int) error {
	if depth > maxDepth {
		return fmt.Errorf("is nested deeper than %d levels", maxDepth)
	}
	names := map[string]bool{}
	for isName := true; ; isName = !isName {
		token, err := decoder.Token()
		if err != nil {
			return errors.New("is not valid JSON: " + err.Error())
		}
		switch token := token.(type) {
		case json.Delim:
			if token == '}' {
				return nil
			}
			if err := checkNested(decoder, token, depth+1); err != nil {
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

// checkNested reads one nested object or array whose opening was read.
func checkNested(decoder *json.Decoder, open json.Delim, depth int) error {
	if open == '{' {
		return checkMembers(decoder, depth)
	}
	if depth > maxDepth {
		return fmt.Errorf("is nested deeper than %d levels", maxDepth)
	}
	for {
		token, err := decoder.Token()
		if err != nil {
			return errors.New("is not valid JSON: " + err.Error())
		}
		delim, ok := token.(json.Delim)
		if ok && delim == ']' {
			return nil
		}
		if !ok {
			continue
		}
		if err := checkNested(decoder, delim, depth+1); err != nil {
			return err
		}
	}
}
