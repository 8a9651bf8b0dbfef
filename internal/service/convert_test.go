package service

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/easel-grpc/easel/internal/auth"
	"github.com/easel-grpc/easel/internal/catalog"
	"github.com/easel-grpc/easel/internal/watch"
)

// plainly decodes JSON into a Struct with the standard library. Numbers that a double cannot represent become strings.
func plainly(t *testing.T, text string) *structpb.Struct {
	t.Helper()
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.UseNumber()
	var members map[string]any
	if err := decoder.Decode(&members); err != nil {
		t.Fatal(err)
	}
	out, err := structpb.NewStruct(numbers(members).(map[string]any))
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func numbers(value any) any {
	switch v := value.(type) {
	case map[string]any:
		for name := range v {
			v[name] = numbers(v[name])
		}
	case []any:
		for n := range v {
			v[n] = numbers(v[n])
		}
	case json.Number:
		if f, err := v.Float64(); err == nil && isExact(v.String(), f) {
			return f
		}
		return v.String()
	}
	return value
}

func TestNumbersBeyondDoublePrecisionBecomeStrings(t *testing.T) {
	for number, isText := range map[string]bool{
		"0": false, "-0": false, "0.0e7": false, "1.5": false, "0.1": false, "3.14159265358979323846": false, "1e20": false, "-1E+3": false,
		"9007199254740992": false, "9007199254740993": true, "-9007199254740993": true, "9007199254740993.0": true, "9007199254740993.5": true,
		"9007199254740994.0": false, "900719925474099.3e1": true, "9.007199254740993e15": true, "9.007199254740994E15": false, "1.7976931348623157e308": false,
		"1e-400": true, "-0.1e-323": true, "5e-324": false, "1e999": true, "123456789012345678901234567890": true, "100000000000000000000.0": false,
		"1e-99999999999999999999": true, "0e99999999999999999999": false,
	} {
		value := generationMessage(catalog.Generation{ID: "g", Inputs: catalog.Value(`{"n":` + number + `}`)}, "e").GetInputs().GetFields()["n"].AsInterface()
		if text, got := value.(string); got != isText || got && text != number {
			t.Errorf("%s is %v", number, value)
		}
	}
}

func FuzzCatalogInputsReachCallerWithTheirValues(f *testing.F) {
	f.Add(`{"null":null,"yes":true,"no":false,"":"","text":"\u00e9","long":"` + strings.Repeat("x", 300) + `","number":-0.5,"exact":9007199254740993,
		"huge":1e999,"zero":0,"list":[],"lists":[[null,1],{"a":["b"]}],"empty":{},"object":{"a":{"b":{"c":"` + strings.Repeat("y", 20_000) + `"}}}}`)
	f.Add(`{"a":[1,{"b":null}],"c":{"d":"é","e":1e400,"f":-0}}`)
	f.Add(`{"\ud800":"\u0000","deep":[[[[[[{"a":{"b":{"c":true}}}]]]]]]}`)
	f.Fuzz(func(t *testing.T, text string) {
		if !json.Valid([]byte(text)) || !strings.HasPrefix(strings.TrimSpace(text), "{") || strings.Count(text, "[")+strings.Count(text, "{") > 100 {
			t.Skip()
		}
		got, want := generationMessage(catalog.Generation{ID: "g", Inputs: catalog.Canonical([]byte(text)), Extra: catalog.Value("{}")}, "e"), plainly(t, text)
		if !proto.Equal(got.GetInputs(), want) || got.GetUpstreamFields() == nil || len(got.GetUpstreamFields().GetFields()) != 0 {
			t.Errorf("got\n%v\nwant\n%v", got, want)
		}
	})
}

// largeObject returns an object of slightly more than 11*n bytes. Its only member is a string.
func largeObject(n int) catalog.Value {
	return catalog.Value(`{"a":"` + strings.Repeat("x", 11*n) + `"}`)
}

// digits returns an object whose only member is a list of n numbers.
func digits(n int) catalog.Value {
	return catalog.Value(`{"a":[` + strings.Repeat("0,", n-1) + `0]}`)
}

func TestOversizedGenerationOmitsLargeFields(t *testing.T) {
	const most, half = maxRecord / 11, maxRecord / 22
	text, long := strings.Repeat("x", 3<<20), strings.Repeat("y", 5<<20)
	for name, row := range map[string]struct {
		g    catalog.Generation
		want []string
	}{
		"within the limits":                {catalog.Generation{Inputs: largeObject(half - 100), Extra: largeObject(half - 100)}, nil},
		"large unknown members":            {catalog.Generation{Inputs: largeObject(half + 100), Extra: largeObject(half + 100)}, []string{"upstream_fields"}},
		"large inputs":                     {catalog.Generation{Inputs: largeObject(most), Extra: largeObject(100)}, []string{"inputs"}},
		"large inputs and unknown members": {catalog.Generation{Inputs: largeObject(450_000), Extra: largeObject(2_000_000)}, []string{"inputs", "upstream_fields"}},
		"text, inputs and unknown members": {catalog.Generation{Inputs: largeObject(half), Extra: largeObject(half), Text: &text}, []string{"inputs", "upstream_fields"}},
		"large text":                       {catalog.Generation{Inputs: largeObject(100), Text: &long}, []string{"text"}},
		"many values":                      {catalog.Generation{Inputs: digits(maxDecoded - 3), Extra: largeObject(100)}, nil},
		"too many values":                  {catalog.Generation{Inputs: digits(maxDecoded), Extra: largeObject(100)}, []string{"inputs"}},
	} {
		row.g.ID, row.g.State = "g", catalog.StateSucceeded
		got := generationMessage(row.g, "e")
		if size := proto.Size(got); size > maxRecord+200 || !slices.Equal(got.GetOmittedFields(), row.want) {
			t.Errorf("%s: got omitted fields %q, size %d bytes", name, got.GetOmittedFields(), size)
		}
		for field, is := range map[string]bool{"inputs": got.GetInputs() != nil, "upstream_fields": got.GetUpstreamFields() != nil, "text": got.GetText() != nil} {
			had := map[string]bool{"inputs": row.g.Inputs != nil, "upstream_fields": row.g.Extra != nil, "text": row.g.Text != nil}[field]
			if is != (had && !slices.Contains(row.want, field)) {
				t.Errorf("%s: %s is set: %v", name, field, is)
			}
		}
	}
	if got := accountMessage(catalog.Account{Extra: largeObject(most)}); !slices.Equal(got.GetOmittedFields(), []string{"upstream_fields"}) || got.GetUpstreamFields() != nil {
		t.Errorf("account: got omitted fields %q", got.GetOmittedFields())
	}
}

func TestOversizedModelOmitsLargeFields(t *testing.T) {
	const most = maxRecord / 11
	choices := slices.Repeat([]catalog.Value{catalog.Value(`"a"`)}, maxAllowed)
	for name, row := range map[string]struct {
		m    catalog.Model
		want []string
	}{
		"within the limits":                 {catalog.Model{Fields: []catalog.InputField{{Name: "x", Default: catalog.Value("1"), Allowed: choices, Extra: largeObject(9)}}, Extra: largeObject(9)}, nil},
		"large unknown members":             {catalog.Model{Extra: largeObject(most)}, []string{"upstream_fields"}},
		"too many allowed values":           {catalog.Model{Fields: []catalog.InputField{{Name: "x", Allowed: append(choices, choices...)}}}, []string{"input_fields.allowed_values"}},
		"large default and unknown members": {catalog.Model{Fields: []catalog.InputField{{Name: "x", Default: largeObject(most), Extra: largeObject(most)}}, Extra: largeObject(9)}, []string{"input_fields.default_value", "input_fields.upstream_fields"}},
		"too many fields":                   {catalog.Model{Fields: make([]catalog.InputField, maxFields+1), Extra: largeObject(9)}, []string{"input_fields"}},
		"large fields":                      {catalog.Model{Fields: slices.Repeat([]catalog.InputField{{Description: strings.Repeat("x", maxProse)}}, 100)}, []string{"input_fields"}},
	} {
		got := modelMessage(row.m)
		if size := proto.Size(got); size > maxRecord+200 || !slices.Equal(got.GetOmittedFields(), row.want) {
			t.Errorf("%s: got omitted fields %q, size %d bytes", name, got.GetOmittedFields(), size)
		}
		if name == "within the limits" && (len(got.GetInputFields()[0].GetAllowedValues()) != maxAllowed || got.GetInputFields()[0].GetDefaultValue().GetNumberValue() != 1) {
			t.Errorf("the input field is %v, want all allowed values and the default 1", got.GetInputFields()[0])
		}
	}
}

func TestHeartbeatHidesErrorTextFromOtherOwners(t *testing.T) {
	const secret = "GET /generations/{id}: unavailable (HTTP 500): generation g of another"
	for _, row := range []struct {
		name string
		call auth.Identity
		beat watch.Heartbeat
		want string
	}{
		{"without a callers file", auth.Identity{SeesAccount: true}, watch.Heartbeat{Condition: watch.ConditionUnreachable, LastError: secret}, secret},
		{"operator", auth.Identity{Operator: true, SeesAccount: true}, watch.Heartbeat{Condition: watch.ConditionUnreachable, LastError: secret}, secret},
		{"owner of the generation", auth.Identity{}, watch.Heartbeat{Condition: watch.ConditionUnreachable, LastError: secret, Own: true}, secret},
		{"unreachable", auth.Identity{}, watch.Heartbeat{Condition: watch.ConditionUnreachable, LastError: secret}, "unavailable"},
		{"throttled", auth.Identity{}, watch.Heartbeat{Condition: watch.ConditionThrottled, LastError: secret}, "rate limited"},
		{"rejected", auth.Identity{}, watch.Heartbeat{Condition: watch.ConditionCredentialRejected, LastError: secret}, "credential rejected"},
		{"healthy again", auth.Identity{}, watch.Heartbeat{Condition: watch.ConditionHealthy, LastError: secret}, ""},
		{"healthy", auth.Identity{}, watch.Heartbeat{Condition: watch.ConditionHealthy}, ""},
	} {
		if got := heartbeatMessage(&row.call, row.beat).GetLastError(); got != row.want {
			t.Errorf("%s: %q, want %q", row.name, got, row.want)
		}
	}
}
