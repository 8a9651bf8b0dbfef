package service

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/structpb"
)

func FuzzInputsReachTheCatalogWithTheirValues(f *testing.F) { // fault I2
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
