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

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/terminal"
)

// inputFlags contains the arguments of 'easel quote' and 'easel generate' that specify the model and its inputs.
type inputFlags struct {
	Model      string   `arg:"" help:"The model to order, as listed by 'easel models'."`
	Inputs     []string `arg:"" optional:"" sep:"none" name:"key=value" help:"Inputs of the model, as 'easel model' lists them. key=@FILE reads the value from a file. key=@@text passes the value @text."`
	InputsJSON string   `name:"inputs-json" placeholder:"FILE|-|TEXT" help:"All inputs as one JSON object, instead of key=value: a file, - for standard input, or the JSON text itself. The object is sent unchanged."`
	NoCheck    bool     `help:"Do not check key=value against the model's description. A value is sent as JSON if it is valid JSON, otherwise as text."`
}

// inputsJSON returns the inputs as one JSON object. To learn the types of the inputs, it may read the model from
// the server.
func (f inputFlags) inputsJSON(ctx context.Context, s *session) (string, error) {
	switch {
	case f.InputsJSON != "" && len(f.Inputs) > 0:
		return "", badUsage("key=value and --inputs-json can't be used together", "")
	case f.InputsJSON != "":
		return readObject(f.InputsJSON, s.stdin)
	case f.NoCheck:
		return TypedInputs(&easelv1.Model{}, f.Inputs)
	}
	model, err := s.Model(ctx, f.Model)
	if err != nil {
		return "", err
	}
	return TypedInputs(model.Raw, f.Inputs)
}

// readObject returns the JSON object that --inputs-json specifies.
func readObject(from string, stdin io.Reader) (string, error) {
	text, err := []byte(from), error(nil)
	switch {
	case from == "-":
		text, err = io.ReadAll(stdin)
	case !strings.HasPrefix(strings.TrimSpace(from), "{"):
		text, err = os.ReadFile(from) //nolint:gosec // the user may choose any path
	}
	var object map[string]json.RawMessage
	if err == nil && (json.Unmarshal(text, &object) != nil || object == nil || !utf8.Valid(text)) {
		err = errors.New("the inputs are not exactly one JSON object")
	}
	if err != nil {
		return "", badUsage("--inputs-json: "+err.Error(), "")
	}
	return string(bytes.TrimSpace(text)), nil
}

// TypedInputs converts key=value arguments to one JSON object, in the order of the arguments. Numbers keep all digits, because
// they are not parsed. If the model has no fields, the types are unknown: a value that is valid JSON is sent as JSON, and every
// other value as a string.
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
		text, err := typedInput(model, name, value)
		if err != nil {
			return "", err
		}
		members = append(members, jsonString(name)+":"+text)
	}
	return "{" + strings.Join(members, ",") + "}", nil
}

func badInput(name, why, cure string) error {
	return badUsage("inputs."+terminal.OneLine(name)+" "+why, cure)
}

// typedInput converts a value to JSON of the input's type. It checks neither whether required inputs are missing nor whether a
// value is allowed, because the catalog checks this before it charges.
func typedInput(model *easelv1.Model, name, value string) (string, error) {
	const cure = "If the description of the model is incomplete, use --no-check to skip this check."
	value, err := fileInput(name, value)
	if err != nil {
		return "", err
	}
	if !utf8.ValidString(value) || !utf8.ValidString(name) {
		return "", badInput(name, "is not valid UTF-8", "")
	}
	kind := easelv1.InputFieldType_INPUT_FIELD_TYPE_UNSPECIFIED
	if len(model.InputFields) > 0 {
		at := slices.IndexFunc(model.InputFields, func(field *easelv1.InputField) bool { return field.Name == name })
		if at < 0 {
			return "", badInput(name, "is not an input of "+terminal.OneLine(model.ModelId)+", which has "+strings.Join(inputNames(model), ", "), cure)
		}
		kind = model.InputFields[at].Type
	}
	trimmed := strings.TrimSpace(value)
	k, listed := kinds[kind]
	switch {
	case listed && k.is(trimmed):
		return trimmed, nil
	case listed && kind != easelv1.InputFieldType_INPUT_FIELD_TYPE_UNSPECIFIED:
		return "", badInput(name, fmt.Sprintf("must be %s, not %s", k.phrase, jsonString(value)), cure)
	}
	return jsonString(value), nil
}

func inputNames(model *easelv1.Model) (names []string) {
	for _, field := range model.InputFields {
		names = append(names, terminal.OneLine(field.Name))
	}
	return names
}

// kinds maps input types to a description of their values and a function that checks a value. Values of other types, such as
// string, are sent as strings. A value of unspecified type is sent as JSON if it is valid JSON, and otherwise as a string.
var kinds = map[easelv1.InputFieldType]struct {
	phrase string
	is     func(value string) bool
}{
	easelv1.InputFieldType_INPUT_FIELD_TYPE_UNSPECIFIED: {"JSON", isJSON},
	easelv1.InputFieldType_INPUT_FIELD_TYPE_INTEGER:     {"a whole number", func(v string) bool { return isNumber(v) && !strings.ContainsAny(v, ".eE") }},
	easelv1.InputFieldType_INPUT_FIELD_TYPE_NUMBER:      {"a number", isNumber},
	easelv1.InputFieldType_INPUT_FIELD_TYPE_BOOLEAN:     {"true or false", func(v string) bool { return v == "true" || v == "false" }},
	easelv1.InputFieldType_INPUT_FIELD_TYPE_OBJECT:      {"a JSON object", func(v string) bool { return strings.HasPrefix(v, "{") && isJSON(v) }},
	easelv1.InputFieldType_INPUT_FIELD_TYPE_ARRAY:       {"a JSON array", func(v string) bool { return strings.HasPrefix(v, "[") && isJSON(v) }},
}

func isJSON(text string) bool { return json.Valid([]byte(text)) }

// isNumber reports whether a text is a number in JSON, such as -1.5, but not +1 or 01.
func isNumber(text string) bool {
	return text != "" && (text[0] == '-' || text[0] >= '0' && text[0] <= '9') && isJSON(text)
}

// jsonString quotes a text as JSON, without escapes for <, > and &.
func jsonString(text string) string {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(text) // cannot fail for a string
	return strings.TrimSuffix(out.String(), "\n")
}

// fileInput returns the value that an argument specifies. For "@FILE", that is the file's content without a final line break.
// For "@@text", it is "@text".
func fileInput(name, value string) (string, error) {
	path, isFile := strings.CutPrefix(value, "@")
	if !isFile || strings.HasPrefix(path, "@") {
		return path, nil
	}
	text, err := os.ReadFile(path) //nolint:gosec // the user may choose any path
	if err != nil {
		return "", badInput(name, fmt.Sprintf("can't be read from the file %s: %s", terminal.OneLine(path), reasonOf(err)), "For a text that begins with @, write @@.")
	}
	return strings.TrimSuffix(strings.TrimSuffix(string(text), "\n"), "\r"), nil
}
