package cli

import (
	"strings"
	"testing"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/proctest"
)

// describedModel returns a model with an input of each type.
func describedModel() *easelv1.Model {
	m := &easelv1.Model{ModelId: "studio/any"}
	for name, kind := range map[string]easelv1.InputFieldType{
		"prompt": easelv1.InputFieldType_INPUT_FIELD_TYPE_STRING,
		"seed":   easelv1.InputFieldType_INPUT_FIELD_TYPE_INTEGER,
		"weight": easelv1.InputFieldType_INPUT_FIELD_TYPE_NUMBER,
		"draft":  easelv1.InputFieldType_INPUT_FIELD_TYPE_BOOLEAN,
		"frame":  easelv1.InputFieldType_INPUT_FIELD_TYPE_OBJECT,
		"tags":   easelv1.InputFieldType_INPUT_FIELD_TYPE_ARRAY,
		"other":  easelv1.InputFieldType_INPUT_FIELD_TYPE_UNSPECIFIED,
	} {
		m.InputFields = append(m.InputFields, &easelv1.InputField{Name: name, Type: kind})
	}
	return m
}

func TestInputIsConvertedToDeclaredType(t *testing.T) {
	for _, test := range []struct{ argument, want string }{
		{"prompt=a calm sea, at dusk", `{"prompt":"a calm sea, at dusk"}`},
		{"prompt=17", `{"prompt":"17"}`},
		{"prompt=true", `{"prompt":"true"}`},
		{"prompt=", `{"prompt":""}`},
		{"prompt=a=b", `{"prompt":"a=b"}`},
		{"prompt=<\"&\n>", `{"prompt":"<\"&\n>"}`},
		{"seed=7", `{"seed":7}`},
		{"seed=-7", `{"seed":-7}`},
		{"seed=9007199254740993", `{"seed":9007199254740993}`},
		{"seed=123456789012345678901234567890", `{"seed":123456789012345678901234567890}`},
		{"weight=0.10", `{"weight":0.10}`},
		{"weight=1e-7", `{"weight":1e-7}`},
		{"weight=3", `{"weight":3}`},
		{"draft=true", `{"draft":true}`},
		{`frame={"percent": 6.0}`, `{"frame":{"percent": 6.0}}`},
		{`tags=["a", 1]`, `{"tags":["a", 1]}`},
		{"other=7", `{"other":7}`},
		{"other=seven", `{"other":"seven"}`},
	} {
		got, err := TypedInputs(describedModel(), []string{test.argument})
		if err != nil || got != strings.ReplaceAll(test.want, "\n", `\n`) {
			t.Errorf("%s: got %s, %v; want %s", test.argument, got, err, test.want)
		}
	}
}

func TestInvalidInputErrorNamesInputAndReason(t *testing.T) {
	for _, test := range []struct{ argument, name, why string }{
		{"seed=7.5", "inputs.seed", "a whole number"},
		{"seed=seven", "inputs.seed", "a whole number"},
		{"seed=", "inputs.seed", "a whole number"},
		{"seed=+7", "inputs.seed", "a whole number"},
		{"seed=007", "inputs.seed", "a whole number"},
		{"seed=1e3", "inputs.seed", "a whole number"},
		{"weight=NaN", "inputs.weight", "a number"},
		{"weight=Infinity", "inputs.weight", "a number"},
		{"weight=0x10", "inputs.weight", "a number"},
		{"weight=true", "inputs.weight", "a number"},
		{"draft=yes", "inputs.draft", "true or false"},
		{"draft=1", "inputs.draft", "true or false"},
		{"frame=[1]", "inputs.frame", "a JSON object"},
		{"frame={", "inputs.frame", "a JSON object"},
		{"tags={}", "inputs.tags", "a JSON array"},
		{"tags=a,b", "inputs.tags", "a JSON array"},
		{"promt=x", "inputs.promt", "is not an input of studio/any, which has "},
		{"prompt=\xff", "inputs.prompt", "UTF-8"},
		{"prompt", `"prompt"`, "key=value"},
		{"=x", `"=x"`, "key=value"},
	} {
		_, err := TypedInputs(describedModel(), []string{test.argument})
		if err == nil || !strings.Contains(err.Error(), test.name) || !strings.Contains(err.Error(), test.why) {
			t.Errorf("%s: got error %v, want one with %s and %q", test.argument, err, test.name, test.why)
		}
	}
}

func TestQuoteErrorForInvalidInputDoesNotMentionOrder(t *testing.T) {
	dial := (&scripted{model: func(*easelv1.GetModelRequest) (*easelv1.Model, error) { return describedModel(), nil }}).serve(t)
	for _, inputs := range [][]string{{"seed=seven"}, {"promt=x"}, {"seed=1", "seed=2"}, {"prompt=@/nowhere/file"}} {
		for command, ordering := range map[string]bool{"quote": false, "generate": true} {
			got := easelRun(t.Context(), dial, append([]string{command, "studio/any"}, inputs...)...)
			if got.exit != ExitUsage || strings.Contains(got.stderr, nothingOrdered) != ordering {
				t.Errorf("%s %q: exit %d\n%s", command, inputs, got.exit, got.stderr)
			}
		}
	}
}

func TestDuplicateInputsAreRejected(t *testing.T) {
	got, err := TypedInputs(describedModel(), []string{"seed=1", "prompt=x", "draft=false"})
	if want := `{"seed":1,"prompt":"x","draft":false}`; err != nil || got != want {
		t.Errorf("got %s, %v; want %s", got, err, want)
	}
	if _, err := TypedInputs(describedModel(), []string{"seed=1", "seed=2"}); err == nil || !strings.Contains(err.Error(), "inputs.seed is given twice") {
		t.Errorf("a repeated input is not rejected: %v", err)
	}
}

func TestInputTypeIsInferredWithoutModelFields(t *testing.T) {
	got, err := TypedInputs(&easelv1.Model{ModelId: "m"}, []string{"a=1.50", "b=one", `c={"d":[]}`, "e=null", "f=01"})
	if want := `{"a":1.50,"b":"one","c":{"d":[]},"e":null,"f":"01"}`; err != nil || got != want {
		t.Errorf("got %s, %v; want %s", got, err, want)
	}
}

func TestInputsJSONMustBeOneObject(t *testing.T) {
	const text = `{"seed": 9007199254740993, "weight": 0.10}`
	if got, err := readObject("-", strings.NewReader(text+"\n")); err != nil || got != text {
		t.Errorf("from standard input: %s, %v", got, err)
	}
	if got, err := readObject(" "+text, nil); err != nil || got != text {
		t.Errorf("from an argument: %s, %v", got, err)
	}
	for _, bad := range []string{"[1]", "null", "{} {}", "{", "\xff", `{"a":"` + "\xff" + `"}`} {
		if _, err := readObject("-", strings.NewReader(bad)); err == nil || !strings.Contains(err.Error(), "one JSON object") {
			t.Errorf("%q is not rejected: %v", bad, err)
		}
	}
	if _, err := readObject("/nowhere/inputs.json", nil); err == nil || !strings.Contains(err.Error(), "/nowhere/inputs.json") {
		t.Errorf("the error for a missing file lacks its name: %v", err)
	}
}

func TestInputIsReadFromFile(t *testing.T) {
	path := proctest.File(t, "a calm sea\nat dusk\n")
	got, err := TypedInputs(describedModel(), []string{"prompt=@" + path})
	if want := `{"prompt":"a calm sea\nat dusk"}`; err != nil || got != want {
		t.Errorf("got %s, %v; want %s", got, err, want)
	}
	if got, err := TypedInputs(describedModel(), []string{"prompt=@@home"}); err != nil || got != `{"prompt":"@home"}` {
		t.Errorf("got %s, %v", got, err)
	}
	for argument, want := range map[string]string{
		"prompt=@/nowhere/text": "/nowhere/text", "seed=@" + path: "a whole number",
	} {
		if _, err := TypedInputs(describedModel(), []string{argument}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40s: %v", argument, err)
		}
	}
}

func TestInputsAreNotCheckedWithNoCheckFlag(t *testing.T) {
	o := &orders{}
	got := easelRun(t.Context(), o.serve(t), "generate", "studio/any", "zebra=1", "seed=many", "--no-check")
	if got.exit != ExitOK || len(o.got) != 1 || o.got[0].GetInputsJson() != `{"zebra":1,"seed":"many"}` {
		t.Errorf("exit %d, sent %v\n%s", got.exit, o.got, got.stderr)
	}
	if got := easelRun(t.Context(), o.serve(t), "generate", "studio/any", "zebra=1"); !strings.Contains(got.stderr, "--no-check") {
		t.Errorf("the hint is missing: %s", got.stderr)
	}
}
