package catalog

import (
	"encoding/json"
	"strings"
	"testing"
)

// printsNoKey checks that a value does not contain the call's API key when it is encoded as JSON for callers. The
// second argument describes the value in failure messages.
func printsNoKey(t *testing.T, what string, value any) {
	t.Helper()
	text, err := json.Marshal(value)
	if err != nil {
		t.Errorf("%s can't be encoded: %v", what, err)
	}
	if strings.Contains(string(text), testKey) {
		t.Errorf("%s contains the key: %s", what, text)
	}
}

func FuzzReadModels(f *testing.F) {
	f.Add(`[{"id":"a/b","name":"B","output":"video","fields":[{"name":"seed","type":"integer","minimum":0,"enum":[1,2.5,"x"]}]}]`)
	f.Add(`{"data":{"models":["a",{"model":{"id":7}},null,[[]]]}}`)
	f.Add(`{"models":{"a":{"fields":{"prompt":{"required":"yes","default":` + strings.Repeat("[", 40) + strings.Repeat("]", 40) + `}}}}}`)
	f.Add(`{"data":{"":["0",{"model":{}}]}}`)
	f.Add(`[{"id":"` + testKey + `","description":"` + testKey + `"}]`)
	f.Fuzz(func(t *testing.T, body string) {
		models, _ := readModels(answerOf(opModels, body))
		if one, err := readModel(answerOf(opModel, body), "asked"); err == nil {
			models = append(models, one)
		}
		for _, m := range models {
			if m.ID == "" {
				t.Errorf("a model without an id: %+v", m)
			}
			printsNoKey(t, "a model", m)
		}
	})
}

func FuzzReadAccountAndQuote(f *testing.F) {
	for _, seed := range []string{
		`{"balanceCents":500,"currency":"EUR"}`, `{"me":{"balance_cents":"7"},"note":"` + testKey + `"}`, `{"balance":1.5}`, `12`, `12.0`, `1e2`, `"12"`, `-1`,
		`{"priceCents":12,"price":12}`, `{"priceCents":12,"costCents":13}`, `{"price":9007199254740993}`, `{"price":5,"currency":"USD"}`, `{"quote":{"cost_cents":0}}`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, body string) {
		if account, err := readAccount(answerOf(opAccount, body)); err == nil {
			if b := account.BalanceCents; b != nil && (*b > maxExact || *b < -maxExact) {
				t.Errorf("got balance %d, out of range", *b)
			}
			printsNoKey(t, "an account", account)
		}
		quote, err := readQuote(answerOf(opQuote, body))
		if err == nil && (quote.PriceCents < 0 || quote.PriceCents > maxExact) {
			t.Errorf("got price %d, out of range", quote.PriceCents)
		}
	})
}

func FuzzContentRange(f *testing.F) {
	for _, seed := range []string{
		"bytes 5-9/10", " bytes 0-0/1 ", "bytes */10", "bytes 5-9/*", "bytes 9-5/10", "bytes 5-10/10", "bytes 5-9/99999999999999999999",
		"bytes -1-9/10", "bytes +5-9/10", "bytes 5-9/10/11", "octets 5-9/10", "bytes 9223372036854775807-9223372036854775807/9223372036854775807",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, header string) {
		first, last, total, isPart := parseContentRange(header)
		if isPart && (first < 0 || last < first || total <= last || last+1 <= 0) {
			t.Errorf("%q was parsed as the invalid range %d-%d/%d", header, first, last, total)
		}
		if total, isNone := parseUnsatisfied(header); isNone && (total < 0 || isPart) {
			t.Errorf("%q was parsed as an unsatisfied range of %d bytes; also parsed as a satisfied range: %v", header, total, isPart)
		}
	})
}
