package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"unicode/utf8"

	"google.golang.org/protobuf/types/known/structpb"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/terminal"
)

// inputFlags are the inputs of a quote or an order.
type inputFlags struct {
	Model      string   `arg:"" help:"The model to order from, as easel models lists it."`
	Inputs     []string `arg:"" optional:"" sep:"none" name:"key=value" help:"Inputs, typed by what the model says of each. key=@FILE takes the text of a file; key=@@text begins with @."`
	InputsJSON string   `name:"inputs-json" placeholder:"FILE|-|TEXT" help:"All inputs as one JSON object instead: a file, - for standard input, or the text itself. Passed on digit for digit."`
	NoCheck    bool     `help:"Do not compare key=value with what the model says: each is passed on as JSON where it reads as such, else as text."`
}

// text gives the inputs as the text of one JSON object. Nothing has been ordered yet when it fails.
func (f inputFlags) text(ctx context.Context, s *session) (string, error) {
	if f.InputsJSON != "" {
		if len(f.Inputs) > 0 {
			return "", badUsage("key=value and --inputs-json can't be used together", "")
		}
		return readObject(f.InputsJSON, s.stdin)
	}
	model, err := f.model(ctx, s)
	if err != nil {
		return "", err
	}
	return TypedInputs(model, f.Inputs)
}

// model is the model with its fields, or without where nothing is compared with them.
func (f inputFlags) model(ctx context.Context, s *session) (*easelv1.Model, error) {
	if f.NoCheck {
		return &easelv1.Model{ModelId: f.Model}, nil
	}
	answer, err := s.Catalog.GetModel(ctx, &easelv1.GetModelRequest{ModelId: f.Model})
	return answer.GetModel(), err
}

// readObject reads --inputs-json.
func readObject(from string, stdin io.Reader) (string, error) {
	text, name := []byte(from), "the text"
	var err error
	switch {
	case from == "-":
		name = "standard input"
		text, err = io.ReadAll(stdin)
	case !strings.HasPrefix(strings.TrimSpace(from), "{"):
		name = from
		text, err = os.ReadFile(from) //nolint:gosec // the user names the file
	}
	if err != nil {
		return "", badUsage("--inputs-json: "+err.Error(), "")
	}
	return objectText(bytes.TrimSpace(text), "--inputs-json: "+name)
}

// objectText checks that a text is one JSON object, and leaves it as it is.
func objectText(text []byte, name string) (string, error) {
	var object map[string]json.RawMessage
	if err := json.Unmarshal(text, &object); err != nil || object == nil || !utf8.Valid(text) {
		return "", badUsage(name+" is not one JSON object", "")
	}
	return string(text), nil
}

// TypedInputs turns key=value arguments into one JSON object, in their order. Every
// value keeps its digits: none passes through a number of this program.
func TypedInputs(model *easelv1.Model, arguments []string) (string, error) {
	members, seen := []string{}, map[string]bool{}
	for _, argument := range arguments {
		name, value, found := strings.Cut(argument, "=")
		if !found || name == "" {
			return "", badUsage(fmt.Sprintf("%q is not of the form key=value", argument), "")
		}
		if seen[name] {
			return "", badInput(name, "is given twice", "")
		}
		seen[name] = true
		value, err := fileInput(name, value)
		if err != nil {
			return "", err
		}
		text, err := typedInput(model, name, value)
		if err != nil {
			return "", err
		}
		members = append(members, jsonString(name)+":"+text)
	}
	return "{" + strings.Join(members, ",") + "}", checkRequired(model, seen)
}

// badInput is the error of an input. One that does not fit what the model says has a cure.
func badInput(name, why, cure string) error {
	return badUsage("inputs."+terminal.OneLine(name)+" "+why, cure)
}

// noCheckCure is for inputs that the catalog may take although the model does not say so.
const noCheckCure = "Where the model says too little of itself, --no-check sends the inputs as they are."

// typedInput is one value as JSON.
func typedInput(model *easelv1.Model, name, value string) (string, error) {
	if !utf8.ValidString(value) || !utf8.ValidString(name) {
		return "", badInput(name, "is not valid UTF-8", "")
	}
	kind := easelv1.InputFieldType_INPUT_FIELD_TYPE_UNSPECIFIED
	var described *easelv1.InputField
	if len(model.InputFields) > 0 {
		var err error
		if described, err = fieldOf(model, name); err != nil {
			return "", err
		}
		kind = described.Type
	}
	text, fits := literal(kind, value)
	if !fits {
		return "", badInput(name, fmt.Sprintf("must be %s, not %s", kinds[kind].phrase, jsonString(value)), noCheckCure)
	}
	if described != nil && !allowed(described, text) {
		return "", badInput(name, "must be "+allowedPhrase(described)+", not "+terminal.OneLine(text), noCheckCure)
	}
	return text, nil
}

func fieldOf(model *easelv1.Model, name string) (*easelv1.InputField, error) {
	var names []string
	for _, field := range model.InputFields {
		if field.Name == name {
			return field, nil
		}
		names = append(names, terminal.OneLine(field.Name))
	}
	why := "is no input of " + terminal.OneLine(model.ModelId)
	if meant := closest(name, names); meant != "" {
		why += "; did you mean " + meant + "? It"
	} else {
		why += ", which"
	}
	return nil, badInput(name, why+" takes "+strings.Join(names, ", "), noCheckCure)
}

// kinds are how a value of each kind is called and told. One that is not listed is a text.
var kinds = map[easelv1.InputFieldType]struct {
	phrase string
	is     func(value string) bool
}{
	easelv1.InputFieldType_INPUT_FIELD_TYPE_UNSPECIFIED: {"JSON", func(v string) bool { return json.Valid([]byte(v)) }},
	easelv1.InputFieldType_INPUT_FIELD_TYPE_INTEGER:     {"a whole number", func(v string) bool { return isNumber(v) && !strings.ContainsAny(v, ".eE") }},
	easelv1.InputFieldType_INPUT_FIELD_TYPE_NUMBER:      {"a number", isNumber},
	easelv1.InputFieldType_INPUT_FIELD_TYPE_BOOLEAN:     {"true or false", func(v string) bool { return v == "true" || v == "false" }},
	easelv1.InputFieldType_INPUT_FIELD_TYPE_OBJECT:      {"a JSON object", func(v string) bool { return strings.HasPrefix(v, "{") && json.Valid([]byte(v)) }},
	easelv1.InputFieldType_INPUT_FIELD_TYPE_ARRAY:       {"a JSON array", func(v string) bool { return strings.HasPrefix(v, "[") && json.Valid([]byte(v)) }},
}

// literal is value as JSON of a kind, and whether it can be one. Where the model does not say the kind, it is JSON where it
// reads as such, else a text.
func literal(kind easelv1.InputFieldType, value string) (text string, fits bool) {
	trimmed := strings.TrimSpace(value)
	if k, listed := kinds[kind]; listed && (k.is(trimmed) || kind != easelv1.InputFieldType_INPUT_FIELD_TYPE_UNSPECIFIED) {
		return trimmed, k.is(trimmed)
	}
	return jsonString(value), true
}

// isNumber reports whether text is a number as JSON writes them: no +, no leading 0.
func isNumber(text string) bool {
	return text != "" && (text[0] == '-' || text[0] >= '0' && text[0] <= '9') && json.Valid([]byte(text))
}

// jsonString quotes text. Unlike the default it leaves <, > and & as they are.
func jsonString(text string) string {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(text) // a text can be written
	return strings.TrimSuffix(out.String(), "\n")
}

// maxInputFile is the most that an input takes from a file, in bytes: no server takes more for all inputs together.
const maxInputFile = 1 << 20

// fileInput gives the value of an argument. One that begins with @ names a file, whose text it is, less a line break at
// the end; one that begins with @@ is itself without the first.
func fileInput(name, value string) (string, error) {
	path, isFile := strings.CutPrefix(value, "@")
	if !isFile || strings.HasPrefix(path, "@") {
		return path, nil
	}
	var text []byte
	file, err := os.Open(path) //nolint:gosec // the user names the file
	if err == nil {
		defer func() { _ = file.Close() }()
		text, err = io.ReadAll(io.LimitReader(file, maxInputFile+1)) // a device never ends
	}
	if err == nil && len(text) > maxInputFile {
		err = errors.New("it is larger than 1 MiB")
	}
	if err != nil {
		return "", badInput(name, fmt.Sprintf("can't be read from the file %s: %s; a text that begins with @ is written with @@", terminal.OneLine(path), reasonOf(err)), "")
	}
	return strings.TrimSuffix(strings.TrimSuffix(string(text), "\n"), "\r"), nil
}

// What is refused here the catalog would refuse too, but only after the way there. Where
// the model leaves room for doubt, the catalog decides.

// checkRequired tells the inputs that the model needs and that were not given. One that has a
// default is not needed, whatever the model calls it.
func checkRequired(model *easelv1.Model, given map[string]bool) error {
	var names []string
	for _, field := range model.InputFields {
		if field.GetRequired() && field.DefaultValue == nil && !given[field.Name] {
			names = append(names, "inputs."+terminal.OneLine(field.Name))
		}
	}
	if len(names) == 0 {
		return nil
	}
	return badUsage("missing for "+terminal.OneLine(model.ModelId)+": "+strings.Join(names, ", "), noCheckCure)
}

// allowed reports whether a value, written as JSON, is one that the model allows.
func allowed(field *easelv1.InputField, text string) bool {
	if len(field.AllowedValues) > 0 {
		return slices.ContainsFunc(field.AllowedValues, func(allowed *structpb.Value) bool { return equalsAllowed(allowed, text) })
	}
	switch field.Type {
	case easelv1.InputFieldType_INPUT_FIELD_TYPE_INTEGER, easelv1.InputFieldType_INPUT_FIELD_TYPE_NUMBER:
		var value float64
		if json.Unmarshal([]byte(text), &value) != nil {
			return true // larger than such a number can be
		}
		return (field.Minimum == nil || value >= field.GetMinimum()) && (field.Maximum == nil || value <= field.GetMaximum())
	}
	return true // the limits are those of a number; of other values the catalog knows what they mean
}

// equalsAllowed compares an allowed value with one written as JSON. Where one of them is a text
// and the other is not, what they look like counts: catalogs write 2 for "2".
func equalsAllowed(allowed *structpb.Value, text string) bool {
	var value any
	if json.Unmarshal([]byte(text), &value) != nil {
		return true
	}
	given, err := structpb.NewValue(value)
	return err != nil || valueText(given) == valueText(allowed)
}

func allowedPhrase(field *easelv1.InputField) string {
	if len(field.AllowedValues) > 0 {
		return "one of " + strings.Join(allowedWords(field), ", ")
	}
	return allowedText(field)
}

// closest is the word of a list that somebody may have meant, or nothing where none has nearly the same letters: for a
// third of its length they may differ.
func closest(word string, list []string) string {
	best, least := "", 0
	for _, candidate := range list {
		more, differ := map[rune]int{}, 0 // letters of the word than of the candidate
		for _, letter := range strings.ToLower(word) {
			more[letter]++
		}
		for _, letter := range strings.ToLower(candidate) {
			more[letter]--
		}
		for _, n := range more {
			differ += max(n, -n)
		}
		if differ <= max(len(candidate)/3, 1) && (best == "" || differ < least) {
			best, least = candidate, differ
		}
	}
	return best
}
