package rawjson

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
)

// decoded is JSON decoded and encoded again by encoding/json.
func decoded(t *testing.T, text []byte) []byte {
	t.Helper()
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	var value any
	if err := decoder.Decode(&value); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		t.Fatal(err)
	}
	return bytes.TrimSpace(out.Bytes())
}

func FuzzTheCanonicalFormIsThatOfEncodingJSON(f *testing.F) {
	for _, text := range []string{
		`{}`, `[]`, `null`, `-0.50e+3`, `"a\u0041\/<&>"`, "\"\u2028\"", "\"\xff\xfe\"", `"\ud800"`, "\t[ 1 ,\n[ ] , { } ]",
		`{"b":1,"a":{"y":[true,false,null],"x":"\""},"b":{"c":2}}`, `{"a":1,"a":2,"a":3}`, `{"\u0062":1,"a":2,"b":3}`, `{"":{"":[""]}}`,
		`{"a":"\\","b":"\\\"","c":["}","]",",",":"]}`,
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if !json.Valid([]byte(text)) || Depth([]byte(text)) >= deepestSorted {
			t.Skip()
		}
		got, want := Canonical([]byte(text)), decoded(t, []byte(text))
		if !bytes.Equal(got, want) {
			t.Errorf("%q became\n%q and not\n%q", text, got, want)
		}
		if again := Canonical(got); !bytes.Equal(again, got) {
			t.Errorf("%q became %q", got, again)
		}
		if count := Count(got); count < values(got) || count > 2*values(got) {
			t.Errorf("%q has %d values, and %d are counted", got, values(got), count)
		}
	})
}

// values counts the values of a text.
func values(text []byte) (count int) {
	var walk func(c *Cursor)
	walk = func(c *Cursor) {
		count++
		switch c.Kind() {
		case '{':
			c.Members(func([]byte) bool { walk(c); return true })
		case '[':
			c.Items(func() bool { walk(c); return true })
		default:
			c.Token()
		}
	}
	walk(NewCursor(text))
	return count
}

func TestADeepTextIsRewrittenInGoodTime(t *testing.T) {
	const levels = 9_000
	text := []byte(strings.Repeat(`{"b":`, levels) + `"` + strings.Repeat("x", 1<<20) + `"` + strings.Repeat(`,"a":1}`, levels))
	if got := Canonical(text); len(got) != len(text) || !json.Valid(got) {
		t.Errorf("%d bytes became %d", len(text), len(got))
	}
	if got := Filtered(text, nil, 24); Depth(got) != 25 || !json.Valid(got) {
		t.Errorf("%d levels are left", Depth(got))
	}
}

func TestANullInARecordIsNone(t *testing.T) {
	var record struct{ A, B, C Value }
	if err := json.Unmarshal([]byte(`{"A":null,"B":{"b":1, "a":2}}`), &record); err != nil || record.A != nil || string(record.B) != `{"a":2,"b":1}` {
		t.Errorf("it is %s: %v", record, err)
	}
	if text, err := json.Marshal(record); err != nil || string(text) != `{"A":null,"B":{"a":2,"b":1},"C":null}` {
		t.Errorf("it becomes %s: %v", text, err)
	}
}
