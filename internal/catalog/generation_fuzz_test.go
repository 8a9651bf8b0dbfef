package catalog

import (
	"encoding/json"
	"strings"
	"testing"
)

func FuzzReadGeneration(f *testing.F) {
	f.Add(`{"id":"g1","status":"succeeded","inputs":{"a":[1,{"b":null}]},"costCents":1,"createdAt":"2023-11-14T22:13:20Z","error":{"message":"x"}}`)
	f.Add(`{"data":{"generation":[{"id":1}]}}`)
	f.Add(`[[[[{}]]]]`)
	f.Add("-")
	f.Add(`{"id":"g1","createdAt":"2023-11-14T22:13:2!Z"}`)
	f.Add("{\"id\":\"g1\xf8\",\"createdAt\":\"2023-11-14\x9022:13\"}")
	f.Fuzz(func(t *testing.T, body string) {
		all, _ := readGenerations(answerOf(opGenerations, body))
		if g, err := readGeneration(answerOf(opGeneration, body), "g1"); err == nil {
			all = append(all, g)
		}
		if g, err := readCreated(answerOf(OpCreate, body)); err == nil {
			all = append(all, g)
		}
		for _, g := range all {
			if g.ID == "" || g.Etag() == "" || g.State == 0 || g.State == StateDeleted {
				t.Errorf("got %+v", g)
			}
			if text, err := json.Marshal(g.Extra); err != nil || strings.Contains(string(text), testKey) {
				t.Errorf("the extra members contain the API key or can't be encoded: %s, %v", text, err)
			}
		}
	})
}
