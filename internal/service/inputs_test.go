package service

import (
	"bytes"
	"encoding/json"
	"math"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/structpb"
)

// allocatedBytes returns the number of bytes that are allocated while fn runs.
func allocatedBytes(fn func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	fn()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// The paths of all values in this test would take 10 GB in total, so the test shows that the server does not
// build them.
func TestLongFieldNameWithManyValuesUsesLittleMemory(t *testing.T) {
	name, nulls := strings.Repeat("n", 500_000), &structpb.ListValue{}
	for range MaxValues - 1 {
		nulls.Values = append(nulls.Values, structpb.NewNullValue())
	}
	inputs := &structpb.Struct{Fields: map[string]*structpb.Value{name: structpb.NewListValue(nulls)}}
	var out json.RawMessage
	if bytes := allocatedBytes(func() { out, _ = inputsBytes(inputs, "") }); bytes > 64<<20 || len(out) < 500_000 || !json.Valid(out) {
		t.Errorf("%d bytes were allocated for an output of %d bytes", bytes, len(out))
	}
	nulls.Values[100] = structpb.NewNumberValue(1e300)
	if _, err := inputsBytes(inputs, ""); err == nil {
		t.Error("a number that a double can't represent exactly was accepted")
	}
}

func TestTheLargestInputsJSONIsCheckedInLittleMemory(t *testing.T) {
	for name, text := range map[string]string{
		"nulls":                      `{"` + strings.Repeat("n", 500_000) + `":[` + strings.Repeat("null,", 109_000) + `null]}`,
		"numbers":                    `{"a":[` + strings.Repeat("1,", 524_000) + `1]}`,
		"objects":                    `{"a":[` + strings.Repeat("{},", 349_000) + `{}]}`,
		"objects with an empty name": `{"a":[` + strings.Repeat(`{"":0},`, 149_000) + `{}]}`,
		"a string full of brackets":  `{"a":"` + strings.Repeat("{[,", 349_000) + `"}`,
	} {
		var err error
		if bytes := allocatedBytes(func() { err = checkInputsJSON(text, []byte(text)) }); bytes > 16<<20 || err != nil {
			t.Errorf("%s: %d bytes were allocated: %v", name, bytes, err)
		}
	}
}

func TestInputsJSONWithUnpairedSurrogateIsRejected(t *testing.T) {
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

func TestDeeplyNestedInputsAreRejected(t *testing.T) {
	for depth, want := range map[int]string{64: "", 65: "inputs_json: is nested deeper than 64 levels", 20_000: "inputs_json: is nested deeper than 64 levels"} {
		for _, brackets := range [][2]string{{`{"a":`, "}"}, {"[", "]"}} {
			text := `{"a":` + strings.Repeat(brackets[0], depth-1) + "0" + strings.Repeat(brackets[1], depth-1) + "}"
			if _, err := inputsBytes(nil, text); status.Convert(err).Message() != want {
				t.Errorf("depth %d of %s: got %v", depth, brackets[0], err)
			}
		}
	}
	if _, err := inputsBytes(nil, `{"a":"`+strings.Repeat("[", 65)+`"}`); err != nil {
		t.Errorf("brackets in a string count as nesting: %v", err)
	}
}

func TestRequestBodyWithTooManyValuesIsRejected(t *testing.T) {
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

func TestInputsEncodingIsDeterministic(t *testing.T) {
	s, err := structpb.NewStruct(map[string]any{
		"b": 2, "a": "<é\n>", "c": []any{1.5, true, nil, map[string]any{"z": -0.25, "y": 1e21}}, "": "",
	})
	if err == nil {
		_, err = inputsBytes(s, "")
	}
	if err == nil {
		t.Fatal("1e21 is an integer beyond 2^53, but was accepted")
	}
	delete(s.Fields["c"].GetListValue().Values[3].GetStructValue().Fields, "y")
	want := `{"":"","a":"<é\n>","b":2,"c":[1.5,true,null,{"z":-0.25}]}`
	for range 50 {
		got, err := inputsBytes(s, "")
		if err != nil || string(got) != want {
			t.Fatalf("%s %v", got, err)
		}
	}
}

func TestNumericInputsAreEncodedExactly(t *testing.T) {
	for number, want := range map[float64]string{
		0: "0", 1: "1", -7: "-7", 9007199254740991: "9007199254740991", 0.1: "0.1", 1e-7: "1e-07", -2.5e-300: "-2.5e-300",
		math.Copysign(0, -1): "0",
	} {
		s := &structpb.Struct{Fields: map[string]*structpb.Value{"n": structpb.NewNumberValue(number)}}
		got, err := inputsBytes(s, "")
		if err != nil || string(got) != `{"n":`+want+`}` {
			t.Errorf("%v: %s %v", number, got, err)
		}
	}
}

func FuzzInputsJSONIsRejectedOrForwardedUnchanged(f *testing.F) {
	for _, seed := range []string{`{}`, `{"a":1,"b":[{}]}`, `{"a":1,"a":2}`, `[`, `{{`, `{"a":"\ud800"}`, "{\"\xff\":1}", `{"a":{"a":[[]]}}`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, err := inputsBytes(nil, text)
		if err == nil && string(got) != text {
			t.Errorf("%q became %q", text, got)
		}
		if err != nil && reason(err) != "INVALID_REQUEST" {
			t.Errorf("%q: %v", text, err)
		}
	})
}

func FuzzPageTokenErrorIsInvalidRequest(f *testing.F) {
	f.Add(writeToken("letters", "a"))
	f.Add("????")
	list := []string{"a", "b", "c"}
	f.Fuzz(func(t *testing.T, token string) {
		items, _, err := pageOf(list, matchAll, "", 1, token)
		if err == nil && len(items) > 1 || err != nil && reason(err) != "INVALID_REQUEST" {
			t.Errorf("%q: %v %v", token, items, err)
		}
	})
}

func TestPaginationReturnsEachItemOnce(t *testing.T) {
	all := []string{"a", "b", "c", "d", "e"}
	for size := int32(1); size <= 6; size++ {
		var got []string
		token := ""
		for {
			items, next, err := pageOf(all, matchAll, "", size, token)
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, items...)
			if token = next; token == "" {
				break
			}
		}
		if !slices.Equal(got, all) {
			t.Errorf("pages of %d returned %v", size, got)
		}
	}
	if pageSize(math.MaxInt32) != maxPage || pageSize(0) != defaultPage {
		t.Error("the page size is not bounded")
	}
}

func TestFileNameContainsNoUnsafeCharacters(t *testing.T) {
	for _, row := range []struct{ id, contentType, want string }{
		{"g1", "image/png", "g1.png"},
		{"g1", "IMAGE/JPEG; q=1", "g1.jpg"},
		{"../../etc/passwd", "", "______etc_passwd.bin"},
		{"a:b\x00c", "text/html", "a_b_c.bin"},
		{strings.Repeat("x", 300), "video/mp4", strings.Repeat("x", 100) + ".mp4"},
	} {
		if got := fileName(row.id, row.contentType); got != row.want {
			t.Errorf("ID %q, type %q: got the file name %q, want %q", row.id, row.contentType, got, row.want)
		}
	}
}

func FuzzInputsReachTheCatalogWithTheirValues(f *testing.F) {
	for _, seed := range []string{
		`{}`, `{"prompt":"<ü\u2028&>","n":[1,-0.5,1e-7,true,null,{"":{}}]}`, `{"n":9007199254740991}`, `{"n":9007199254740993}`, `{"n":1e300}`,
		`{"n":1e-320}`, `{"a\u0000b":"\u007f"}`, strings.Repeat(`{"a":`, 64) + "1" + strings.Repeat("}", 64), strings.Repeat(`{"a":`, 65) + "1" + strings.Repeat("}", 65),
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		inputs := &structpb.Struct{}
		if protojson.Unmarshal([]byte(text), inputs) != nil {
			return
		}
		sent, err := inputsBytes(inputs, "")
		if err != nil {
			if reason(err) != "INVALID_REQUEST" {
				t.Errorf("%q: %v", text, err)
			}
			return
		}
		var got any
		decoder := json.NewDecoder(bytes.NewReader(sent))
		if err := decoder.Decode(&got); err != nil || checkInputsJSON(string(sent), sent) != nil {
			t.Fatalf("%q became %q: %v, %v", text, sent, err, checkInputsJSON(string(sent), sent))
		}
		if diff := cmp.Diff(any(inputs.AsMap()), got); diff != "" {
			t.Errorf("%q became %q: %s", text, sent, diff)
		}
	})
}
