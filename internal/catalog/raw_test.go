package catalog

import (
	"bytes"
	"encoding/json"
	"testing"
)

// jsonOf returns the canonical JSON encoding of value.
func jsonOf(value any) Value {
	text, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	return Canonical(text)
}

// membersOf returns the members of a JSON object.
func membersOf(text Value) map[string]any {
	var members map[string]any
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	_ = decoder.Decode(&members) // the error can be ignored, because text is a valid object or empty
	return members
}

// Etags must not change between releases, because the ledger and callers store them.
func TestEtagMatchesEarlierReleases(t *testing.T) {
	const body = `{"id":"g1","status":"succeeded","textOutput":"a <poem>","inputs":{"z":[1,2.50,-0,1e400,{"y":"\u00e9<&>","x":null}],"a":"\u2028\ud800"},` +
		`"b":{"d":true,"c":{"":"\/"}},"a\u0062":"\"q\\","key":"abc","apiKey":{"dailyCapCents":5,"value":"x"},"list":["live",["x_live_abcdefgh"]]}`
	g, err := readGeneration(answerOf(opGeneration, body), "g1")
	if err != nil || g.Etag() != "461a9a555220c04121105fd0" {
		t.Errorf("got etag %s for inputs %s and extra %s: %v", g.Etag(), g.Inputs, g.Extra, err)
	}
	var again Generation
	if text, err := json.Marshal(g); err != nil || json.Unmarshal(text, &again) != nil || again.Etag() != g.Etag() {
		t.Errorf("after a round trip through JSON the etag is %s: %v", again.Etag(), err)
	}
}
