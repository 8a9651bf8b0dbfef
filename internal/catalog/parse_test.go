package catalog

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
)

// FuzzABodyIsReadAsEncodingJSONReadsIt holds the fast reader to the slow one.
func FuzzABodyIsReadAsEncodingJSONReadsIt(f *testing.F) { // U11 I2
	for _, body := range []string{
		usual, " \t\r\n" + usual + "\n ", usual + "x", "[" + usual + "," + usual + "]", `{}`, `[]`, `[ ]`, `{ }`, ``, ` `, `{"a":1,"a":2}`,
		`{"a":1,}`, `{,}`, `[1,]`, `[,]`, `{"a"}`, `{"a":}`, `{"a" 1}`, `{a:1}`, `{"a":1 "b":2}`, `[1 2]`, `[`, `{`, `{"a":[1,{"b":null}]}`,
		`0`, `-0`, `01`, `-`, `1.`, `.5`, `1.50e+08`, `1E-7`, `1e`, `12345678901234567890.5`, `+1`, `1a`, `[-]`, `[0,-1,10]`, `[00]`,
		`true`, `false`, `null`, `tru`, `nulll`, `[t`, `"a`, `"`, `"\u00e9\n\/"`, `"\ud800"`, `"\x"`, `"\"`, "\"\x01\"", "\"\xff\"", `"é"`, "\"\xe2\x82\"",
		`"` + strings.Repeat("long ", 1000) + `"`, strings.Repeat("[", 101) + strings.Repeat("]", 101), "\uFEFF{}", `{"é":"ü","\u0061":1}`,
	} {
		f.Add(body)
	}
	f.Fuzz(func(t *testing.T, body string) {
		got, ok := parse(body, nil)
		want, err := decodeSlowly(body)
		if ok && (err != nil || !reflect.DeepEqual(got, want)) {
			t.Errorf("%q is read as %#v, and by encoding/json as %#v, %v", body, got, want, err)
		}
	})
}

func TestWhatIsUsualIsReadFast(t *testing.T) {
	for _, body := range []string{usual, "[" + usual + "," + usual + "]", `{"error":{"code":"A","message":"two\nlines, \"quoted\""}}`, `{"a":[],"b":{},"c":[true,false,null,-1.5e3]}`} {
		if _, ok := parse(body, nil); !ok || !json.Valid([]byte(body)) {
			t.Errorf("%s is left to the slow reader", body)
		}
	}
}

// FuzzAnEtagIsTheDigestOfAllThatJSONTells holds the writer of etags to encoding/json.
func FuzzAnEtagIsTheDigestOfAllThatJSONTells(f *testing.F) {
	for _, body := range []string{
		usual, `{"id":"<g&1>","status":"succeeded","contentType":"image/png","sizeBytes":7,"inputs":{},"a":[1,{"b":null,"\u2028":"\u0007"}],"é":true,"x":-0}`,
		`{"id":"g1","status":"succeeded","textOutput":"a \"text\"\n\\","createdAt":1700000000.5}`,
		`{"id":"g1","status":"refunded","reason":"out of <paint>","finishedAt":"2026-11-20T23:35:21+02:00"}`,
	} {
		f.Add(body)
	}
	f.Fuzz(func(t *testing.T, body string) {
		for _, g := range fuzzedGenerations(body) {
			want, err := json.Marshal(g)
			if err != nil {
				t.Fatal(err)
			}
			if got := appendGeneration(nil, g); string(got) != string(want) {
				t.Errorf("%s is written as\n%s", want, got)
			}
		}
	})
}
