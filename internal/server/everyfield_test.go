package server_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/reflect/protoreflect"
)

// ofContract reports whether the type of a field is a message of the contract.
func ofContract(field protoreflect.FieldDescriptor) bool {
	return field.Message() != nil && field.Message().ParentFile().Package() == "easel.v1" && !field.IsMap()
}

// answered returns all fields of responses, including nested fields.
func answered() (all []protoreflect.FullName) {
	var walk func(m protoreflect.MessageDescriptor)
	walk = func(m protoreflect.MessageDescriptor) {
		for i := range m.Fields().Len() {
			field := m.Fields().Get(i)
			if slices.Contains(all, field.FullName()) {
				continue
			}
			if all = append(all, field.FullName()); ofContract(field) {
				walk(field.Message())
			}
		}
	}
	for _, method := range contractMethods() {
		walk(method.Output())
	}
	return all
}

func TestEachFieldOfEachAnswerIsFilled(t *testing.T) {
	program := sourceOf(t, "internal/service/*.go")
	initial := regexp.MustCompile(`(?:^|_|\d)[a-z]`)
	for _, field := range answered() {
		name := initial.ReplaceAllStringFunc(string(field.Name()), func(s string) string { return strings.ToUpper(strings.TrimPrefix(s, "_")) })
		if !regexp.MustCompile(`\b` + name + `(?:: |,.*? = | = )`).MatchString(program) {
			t.Errorf("no code fills %s", field)
		}
	}
	if n := len(answered()); n < 100 {
		t.Errorf("%d fields were checked", n)
	}
}
