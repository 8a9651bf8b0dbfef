package catalog

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestAPriceIsOneWholeNumberOfCents(t *testing.T) {
	for body, want := range map[string]int64{
		`12`: 12, ` 0 `: 0, `9007199254740992`: 1 << 53,
		`{"priceCents":12}`: 12, `{"price_cents":12}`: 12, `{"costCents":12}`: 12, `{"amountCents":12}`: 12, `{"totalCents":12}`: 12,
		`{"cents":12}`: 12, `{"price":12}`: 12, `{"cost":12}`: 12, `{"amount":12}`: 12, `{"total":12}`: 12, `{"quote":12}`: 12,
		`{"data":{"priceCents":12}}`: 12, `{"quote":{"price":12}}`: 12, `{"price":{"cents":12,"currency":"EUR"}}`: 12,
		`{"price":{"amount":12,"unit":"cents"}}`: 12, `{"data":{"quote":{"costCents":12}}}`: 12,
		`{"priceCents":12,"currency":"eur","modelId":"a/b"}`: 12, `{"priceCents":1200,"price":12}`: 1200,
		`{"priceCents":12,"costCents":12}`: 12, `{"priceCents":null,"price":12}`: 12, `{"success":true,"result":{"price":3}}`: 3,
	} {
		got, err := readQuote(answerOf(opQuote, body))
		if err != nil || got.PriceCents != want || !got.ObserveTime.Equal(observed) {
			t.Errorf("%s: got %+v, %v, want %d", body, got, err, want)
		}
	}
}

func TestInvalidOrAmbiguousPriceIsMalformed(t *testing.T) {
	for _, body := range []string{
		``, `null`, `"12"`, `1.5`, `12.0`, `1e3`, `-1`, `9007199254740993`, `[12]`, `{}`, `true`, `<p>12</p>`,
		`{"priceCents":"12"}`, `{"priceCents":1.5}`, `{"priceCents":"12 €"}`, `{"price":"0.12"}`, `{"price":0.12}`,
		`{"priceCents":-5}`, `{"priceEuros":12}`, `{"value":12}`, `{"priceCents":12,"costCents":13}`, `{"price":12,"total":13}`,
		`{"priceCents":"12","price":12}`, `{"price":12,"currency":"USD"}`, `{"price":12,"unit":"euro"}`,
		`{"price":{"amount":12,"currency":"USD"}}`, `{"price":{"cents":[12]}}`, `{"error":{"code":"X"}}`,
	} {
		if got, err := readQuote(answerOf(opQuote, body)); KindOf(err) != KindMalformed {
			t.Errorf("%s: got %+v, %v, want a malformed response", body, got, err)
		}
	}
}

func TestAccountIsParsedInEveryFormat(t *testing.T) {
	for body, want := range map[string]*int64{
		`{"balanceCents":7}`: new(int64(7)), `{"balance_cents":7}`: new(int64(7)), `{"balance":7}`: new(int64(7)), `{"data":{"balanceCents":7}}`: new(int64(7)),
		`{"account":{"balanceCents":7},"key":{"name":"x"}}`: new(int64(7)), `{"status":"ok","data":{"key":{"balanceCents":7}}}`: new(int64(7)),
		`{}`: nil, `{"name":"x"}`: nil, `{"balanceCents":7,"currency":"USD"}`: nil,
	} {
		got, err := readAccount(answerOf(opAccount, body))
		if err != nil || !cmp.Equal(got.BalanceCents, want) {
			t.Errorf("%s: got %v, %v, want %v", body, got.BalanceCents, err, want)
		}
	}
	for _, body := range []string{``, `7`, `[]`, `null`, `<html>`} {
		if _, err := readAccount(answerOf(opAccount, body)); KindOf(err) != KindMalformed {
			t.Errorf("%s: got %v, want a malformed response", body, err)
		}
	}
}

func TestModelListIsParsedInEveryFormat(t *testing.T) {
	want := []Model{{ID: "a/b", Name: "Bee", ObserveTime: observed}, {ID: "c", ObserveTime: observed}}
	for _, body := range []string{
		`[{"id":"a/b","name":"Bee"},{"id":"c"}]`,
		`{"models":[{"modelId":"a/b","displayName":"Bee"},{"slug":"c"}]}`,
		`{"data":[{"model_id":"a/b","title":"Bee"},{"name":"c"}],"total":2}`,
		`{"a/b":{"name":"Bee"},"c":{"id":"c"}}`,
		`{"data":{"a/b":{"name":"Bee"},"c":{"fields":[]}}}`,
		`{"items":[{"model":{"id":"a/b","name":"Bee"}},"c"]}`,
		`[{"id":"a/b","name":"Bee"},{"nothing":1},{"id":"c"}]`,
	} {
		got, err := readModels(answerOf(opModels, body))
		for i := range got {
			if len(got[i].Fields) == 0 {
				got[i].Fields = nil
			}
		}
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%s: %v\n%s", body, err, diff)
		}
	}
	for _, body := range []string{`7`, `{}`, `{"error":{"code":"X","message":"y"}}`, `[{"nothing":1}]`} {
		if got, err := readModels(answerOf(opModels, body)); KindOf(err) != KindMalformed {
			t.Errorf("%s: got %+v, %v, want a malformed response", body, got, err)
		}
	}
}

func TestModelInputFieldsAreParsedInEveryFormat(t *testing.T) {
	yes, no := true, false
	low, high := 1.0, 9.5
	want := []InputField{
		{Name: "prompt", Type: FieldString, Required: &yes, DisplayName: "Prompt", Description: "what"},
		{
			Name: "steps", Type: FieldInteger, Required: &no, Default: jsonOf(3), Minimum: &low, Maximum: &high,
			Allowed: []Value{jsonOf(1), jsonOf(3)},
		},
	}
	prompt, steps := `"type":"string","label":"Prompt","description":"what"`, `"type":"integer","default":3,"minimum":1,"max":9.5,"enum":[1,3]`
	for name, body := range map[string]string{
		"a list":                   `{"id":"m","fields":[{"name":"prompt","required":true,` + prompt + `},{"key":"steps","required":false,` + steps + `}]}`,
		"a list next to the model": `{"model":{"id":"m"},"inputFields":[{"name":"prompt","required":true,` + prompt + `},{"field":"steps","optional":true,` + steps + `}]}`,
		"an object":                `{"id":"m","inputs":{"prompt":{"required":true,` + prompt + `},"steps":{"required":false,` + steps + `}}}`,
		"a JSON schema":            `{"id":"m","inputSchema":{"type":"object","required":["prompt"],"properties":{"steps":{` + steps + `},"prompt":{` + prompt + `}}}}`,
		"without an id":            `{"data":{"fields":[{"name":"prompt","required":true,` + prompt + `},{"name":"steps","required":false,` + steps + `}]}}`,
		"in a model member":        `{"model":{"model_id":"m","input_fields":[{"name":"prompt","required":true,` + prompt + `},{"name":"steps","required":false,` + steps + `}]}}`,
	} {
		got, err := readModel(answerOf(opModel, body), "m")
		if err != nil || got.ID != "m" {
			t.Errorf("%s: got %+v, %v", name, got, err)
		}
		if diff := cmp.Diff(want, got.Fields); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
	for _, body := range []string{``, `{}`, `7`, `[]`, `{"error":{"code":"X"}}`} {
		if got, err := readModel(answerOf(opModel, body), "m"); KindOf(err) != KindMalformed {
			t.Errorf("%s: got %+v, %v, want a malformed response", body, got, err)
		}
	}
}

func TestMalformedInputFieldsAreKeptUnparsed(t *testing.T) {
	got, err := readModel(answerOf(opModel, `{"id":"m","fields":[7]}`), "m")
	if err != nil || got.Fields != nil || membersOf(got.Extra)["fields"] == nil {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestInputFieldTypeIsMappedToKnownType(t *testing.T) {
	for sent, want := range map[string]FieldType{
		`"string"`: FieldString, `"Text"`: FieldString, `"textarea"`: FieldString, `"select"`: FieldString,
		`"integer"`: FieldInteger, `"int"`: FieldInteger, `"number"`: FieldNumber, `"float"`: FieldNumber,
		`"boolean"`: FieldBoolean, `"bool"`: FieldBoolean, `"object"`: FieldObject, `"array"`: FieldArray,
		`["string","null"]`: FieldString, `["string","integer"]`: FieldUnknown, `"quaternion"`: FieldUnknown, `7`: FieldUnknown, `null`: FieldUnknown,
	} {
		got, err := readModel(answerOf(opModel, `{"id":"m","fields":[{"name":"x","type":`+sent+`}]}`), "m")
		if err != nil || got.Fields[0].Type != want {
			t.Errorf("%s: got %v, %v, want %v", sent, got.Fields[0].Type, err, want)
		}
	}
}

func TestUnknownMembersOfAFieldAreKept(t *testing.T) {
	got, err := readModel(answerOf(opModel, `{"id":"m","fields":[{"name":"x","type":"textarea","maxLength":9,"min":2,
		"options":[{"value":"a","label":"A"},{"value":"b","label":"B"}],"default":null}]}`), "m")
	if err != nil {
		t.Fatal(err)
	}
	want := InputField{Name: "x", Type: FieldString, Allowed: []Value{jsonOf("a"), jsonOf("b")}, Extra: jsonOf(map[string]any{
		"type": "textarea", "maxLength": json.Number("9"), "min": json.Number("2"), "default": nil,
		"options": []any{map[string]any{"value": "a", "label": "A"}, map[string]any{"value": "b", "label": "B"}},
	})}
	if diff := cmp.Diff(want, got.Fields[0]); diff != "" {
		t.Error(diff)
	}
}

func TestModelOutputKindIsInferredFromResponse(t *testing.T) {
	for member, want := range map[string]OutputKind{
		`"output":"image"`: OutputFile, `"output_kind":"TEXT"`: OutputText, `"outputType":"video"`: OutputFile, `"kind":"audio"`: OutputFile,
		`"type":"image"`: OutputFile, `"category":"text"`: OutputText, `"modality":"text-to-image"`: OutputFile, `"modality":"image-to-text"`: OutputText,
		`"modality":"text2video"`: OutputFile, `"type":"image_generation"`: OutputFile, `"output":["text"]`: OutputText,
		`"output":{"type":"image","format":"png"}`: OutputFile, `"outputType":"image/png"`: OutputFile, `"outputType":"text/plain"`: OutputText,
		`"type":"model","category":"text"`: OutputText, `"type":"file"`: OutputFile,
		`"type":"model"`: OutputUnknown, `"output":7`: OutputUnknown, `"output":["text","image"]`: OutputUnknown, `"x":1`: OutputUnknown,
	} {
		got, err := readModel(answerOf(opModel, `{"id":"m",`+member+`}`), "m")
		if err != nil || got.Output != want || len(got.Extra) == 0 {
			t.Errorf("%s: got %v with %v, %v, want %v", member, got.Output, got.Extra, err, want)
		}
	}
}
