package catalog

import (
	"bytes"
	"encoding/json"
	"testing"
)

// FuzzCanonical compares the canonical form of a value with the form that encoding/json produces.
func FuzzCanonical(f *testing.F) {
	for _, text := range []string{
		` { "b" : [ 1 , 2.50e+3 , -0 ] , "a" : null } `, "\t[\n true ,false\r] ", `{"a":1,"a":{"b":2},"a":3}`, `"h\u0061rbour"`,
		`{"\u0061":1,"a":2}`, `"<&>\u2028` + "\u2028" + `\ud83d\ude00\ud800 é \"\\ \/"`, "\"\xff\"", "{\"\xff\":{\"\\ufffd\":[]}}", `[[],{},"",0,1e400]`, "\"\x7f\"",
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if !json.Valid(text) {
			t.Skip()
		}
		var value any
		decoder := json.NewDecoder(bytes.NewReader(text))
		decoder.UseNumber()
		_ = decoder.Decode(&value)
		var buffer bytes.Buffer
		encoder := json.NewEncoder(&buffer)
		encoder.SetEscapeHTML(false)
		_ = encoder.Encode(value)
		want := bytes.TrimSuffix(buffer.Bytes(), []byte("\n"))
		if got := Canonical(text); !bytes.Equal(got, want) {
			t.Errorf("the canonical form of %q is %q, want %q", text, got, want)
		}
	})
}
