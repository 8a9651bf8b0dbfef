package service

import (
	"encoding/json"
	"runtime"
	"strings"
	"testing"

	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/structpb"
)

// allocated returns the number of bytes that do allocates.
func allocated(do func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	do()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// The paths of all values in this test would have a hundred gigabytes in total, so the server must not build
// them.
func TestALongNameOverManyValuesTakesNoLonger(t *testing.T) {
	name, nulls := strings.Repeat("n", 500_000), &structpb.ListValue{}
	for range MaxValues - 1 {
		nulls.Values = append(nulls.Values, structpb.NewNullValue())
	}
	inputs := &structpb.Struct{Fields: map[string]*structpb.Value{name: structpb.NewListValue(nulls)}}
	var out json.RawMessage
	if bytes := allocated(func() { out, _ = inputsBytes(inputs, "") }); bytes > 64<<20 || len(out) < 500_000 || !json.Valid(out) {
		t.Errorf("D2: %d bytes were allocated for %d", bytes, len(out))
	}
	nulls.Values[100] = structpb.NewNumberValue(1e300)
	if _, err := inputsBytes(inputs, ""); err == nil {
		t.Error("a number that a double can't represent exactly was accepted")
	}
}

func TestTheLargestInputsJSONIsCheckedInLittleMemory(t *testing.T) {
	for name, text := range map[string]string{
		"nulls":                   `{"` + strings.Repeat("n", 500_000) + `":[` + strings.Repeat("null,", 109_000) + `null]}`,
		"numbers":                 `{"a":[` + strings.Repeat("1,", 524_000) + `1]}`,
		"objects":                 `{"a":[` + strings.Repeat("{},", 349_000) + `{}]}`,
		"objects with a name":     `{"a":[` + strings.Repeat(`{"":0},`, 149_000) + `{}]}`,
		"a text full of brackets": `{"a":"` + strings.Repeat("{[,", 349_000) + `"}`,
	} {
		var err error
		if bytes := allocated(func() { err = checkInputsJSON(text, []byte(text)) }); bytes > 16<<20 || err != nil {
			t.Errorf("%s: %d bytes were allocated: %v", name, bytes, err)
		}
	}
}

func TestInputsJSONWithHalfACharacterAreRefused(t *testing.T) { // fault I2
	for text, refused := range map[string]bool{
		`{"a":"\\ud800"}`: false, `{"a":"\\\ud800"}`: true, `{"a":"\ud83d\ude00 \u00e9 é"}`: false, `{"a":"\ud83d"}`: true, `{"a":"\ude00"}`: true,
		`{"a":"\uD83D\uDE00\uD83D"}`: true, `{"a":"\ud83d\n"}`: true, `{"a":"\ud83d\u0041"}`: true, `{"\ud83d":1}`: true, `{"a":[{"b":"x\\"},"\udfff"]}`: true,
		`{"a":"\ud83d\ud83d\ude00"}`: true,
	} {
		if _, err := inputsBytes(nil, text); (err != nil) != refused {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestNestedInputsJSONErrorNamesFieldAndLimit(t *testing.T) {
	for depth, want := range map[int]string{64: "", 65: "inputs_json: is nested deeper than 64 levels", 20_000: "inputs_json: is nested deeper than 64 levels"} {
		for _, brackets := range [][2]string{{`{"a":`, "}"}, {"[", "]"}} {
			text := `{"a":` + strings.Repeat(brackets[0], depth-1) + "0" + strings.Repeat(brackets[1], depth-1) + "}"
			if _, err := inputsBytes(nil, text); status.Convert(err).Message() != want {
				t.Errorf("%d of %s: %v", depth, brackets[0], err)
			}
		}
	}
	if _, err := inputsBytes(nil, `{"a":"`+strings.Repeat("[", 65)+`"}`); err != nil {
		t.Errorf("brackets in a text: %v", err)
	}
}

func TestABodyWithTooManyValuesIsRefusedAsItStands(t *testing.T) {
	for text, want := range map[string]bool{
		`{"inputs":{"a":[` + strings.Repeat("0,", 19_000) + `0]}}`:    true,
		`{"inputs":{"a":[` + strings.Repeat("0,", 26_000) + `0]}}`:    false,
		`{"inputs":{"a":[` + strings.Repeat("{},", 26_000):            false,
		`{"inputsJson":"[` + strings.Repeat(`0,\",`, 26_000) + `0]"}`: true,
	} {
		if got := CheckBody([]byte(text)) == nil; got != want {
			t.Errorf("%.40s is accepted: %v", text, got)
		}
	}
}
