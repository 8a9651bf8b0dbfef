package cli

import (
	"encoding/json"
	"slices"
	"strings"

	"google.golang.org/protobuf/types/known/structpb"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/terminal"
)

// What is refused here the catalog would refuse too, but only after the way there. Where
// the model leaves room for doubt, the catalog decides.

// missing tells the inputs that the model needs and that were not given. One that has a
// default is not needed, whatever the model calls it.
func missing(model *easelv1.Model, given map[string]bool) error {
	var names []string
	for _, field := range model.InputFields {
		if field.GetRequired() && field.DefaultValue == nil && !given[field.Name] {
			names = append(names, "inputs."+terminal.OneLine(field.Name))
		}
	}
	switch len(names) {
	case 0:
		return nil
	case 1:
		return badUsage(names[0]+" is missing; "+terminal.OneLine(model.ModelId)+" needs it", noCheckCure)
	}
	return badUsage(strings.Join(names, ", ")+" are missing; "+terminal.OneLine(model.ModelId)+" needs them", noCheckCure)
}

// permitted reports whether a value, written as JSON, is one that the model allows.
func permitted(field *easelv1.InputField, text string) bool {
	if len(field.AllowedValues) > 0 {
		return slices.ContainsFunc(field.AllowedValues, func(allowed *structpb.Value) bool { return same(allowed, text) })
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

// same compares an allowed value with one written as JSON. Where one of them is a text
// and the other is not, what they look like counts: catalogs write 2 for "2".
func same(allowed *structpb.Value, text string) bool {
	var value any
	if json.Unmarshal([]byte(text), &value) != nil {
		return true
	}
	given, err := structpb.NewValue(value)
	return err != nil || valueText(given) == valueText(allowed)
}

func permittedPhrase(field *easelv1.InputField) string {
	if len(field.AllowedValues) > 0 {
		return "one of " + strings.Join(allowedWords(field), ", ")
	}
	return allowedText(field)
}
