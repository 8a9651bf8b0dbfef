package service

import (
	"math"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/types/known/structpb"
)

func TestTheSameInputsAreAlwaysTheSameBytes(t *testing.T) {
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

func TestNumbersAreWrittenExactly(t *testing.T) { // fault I2
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

func FuzzInputsJSONIsRefusedOrPassedOnAsItIs(f *testing.F) { // fault I2
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

func FuzzAPageTokenIsReadOrRefused(f *testing.F) { // fault I5
	f.Add(writeToken("letters", "a"))
	f.Add("????")
	list := []string{"a", "b", "c"}
	f.Fuzz(func(t *testing.T, token string) {
		items, _, err := pageOf(list, everything, "", 1, token)
		if err == nil && len(items) > 1 || err != nil && reason(err) != "INVALID_REQUEST" {
			t.Errorf("%q: %v %v", token, items, err)
		}
	})
}

func TestPagesCoverTheListOnce(t *testing.T) {
	all := []string{"a", "b", "c", "d", "e"}
	for size := int32(1); size <= 6; size++ {
		var got []string
		token := ""
		for {
			items, next, err := pageOf(all, everything, "", size, token)
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
		t.Error("the page size is not bounded") // fault I5
	}
}

func TestAFileNameIsSafeToCreate(t *testing.T) {
	for _, row := range []struct{ id, contentType, want string }{
		{"g1", "image/png", "g1.png"},
		{"g1", "IMAGE/JPEG; q=1", "g1.jpg"},
		{"../../etc/passwd", "", "______etc_passwd.bin"},
		{"a:b\x00c", "text/html", "a_b_c.bin"},
		{strings.Repeat("x", 300), "video/mp4", strings.Repeat("x", 100) + ".mp4"},
	} {
		if got := fileName(row.id, row.contentType); got != row.want {
			t.Errorf("%q %q: %q, want %q", row.id, row.contentType, got, row.want)
		}
	}
}
