package catalog

import (
	"strings"
	"testing"
)

func TestAnEnvelopeIsNotTakenForTheGeneration(t *testing.T) {
	const render = `{"id":"g1","status":"queued"}`
	for name, body := range map[string]string{
		"with an id and a status":               `{"id":"req_1","status":"ok","generation":` + render + `}`,
		"around data":                           `{"id":"req_1","status":"ok","data":` + render + `}`,
		"with a status that a render has":       `{"id":"req_1","status":"success","data":` + render + `}`,
		"that was accepted":                     `{"id":"req_1","status":"accepted","data":` + render + `}`,
		"around a member that may be a part":    `{"id":"req_1","status":"ok","job":` + render + `}`,
		"around a render without a status":      `{"id":"req_1","status":"queued","render":{"id":"g1"}}`,
		"in an envelope":                        `{"id":"req_1","status":"ok","data":{"id":"batch","status":"done","generation":` + render + `}}`,
		"beside a part of the render":           `{"id":"req_1","status":"ok","generation":{"id":"g1","status":"queued","result":{"id":"f1","status":"done"}}}`,
		"with the id of the render":             `{"id":"g1","status":"success","data":` + render + `}`,
		"that names the render":                 `{"generationId":"g1","status":"queued","data":{"id":"f1","status":"running"}}`,
		"in a list of one":                      `[{"id":"req_1","status":"ok","generation":` + render + `}]`,
		"with a number, around another spelled": `{"_id":7,"state":"ok","Render":{"UUID":"g1","state":"Queued"}}`,
	} {
		t.Run(name, func(t *testing.T) {
			created, err := readCreated(answerOf(OpCreate, body))
			if err != nil || created.ID != "g1" || created.State != StateQueued {
				t.Errorf("an order returns %q in the state %v, %v", created.ID, created.State, err)
			}
			if strings.HasPrefix(body, "{") {
				body = "[" + body + "]"
			}
			list, err := readGenerations(answerOf(opGenerations, body))
			if err != nil || len(list) != 1 || list[0].ID != "g1" {
				t.Errorf("a list has %+v, %v", list, err)
			}
		})
	}
}

func TestAnAnswerToAnOrderWithTwoPossibleIDsIsUnreadable(t *testing.T) {
	for name, body := range map[string]string{
		"the outer says more":            `{"id":"a","status":"queued","data":{"id":"b"}}`,
		"both say nothing":               `{"id":"a","data":{"id":"b"}}`,
		"both say what renders say":      `{"id":"a","status":"queued","job":{"id":"b","status":"queued"}}`,
		"the inner may be a part":        `{"id":"a","status":"succeeded","result":{"id":"b","status":"done"}}`,
		"two are called the render":      `{"generation":{"id":"a","status":"queued"},"render":{"id":"b","status":"queued"}}`,
		"two are beside each other":      `{"data":{"id":"a","status":"queued"},"item":{"id":"b","status":"queued"}}`,
		"the name and the member differ": `{"generationId":"a","status":"queued","generation":{"id":"b","status":"queued"}}`,
		"one object has both":            `{"id":"a","generationId":"b","status":"queued"}`,
		"a word that nobody knows":       `{"id":"a","status":"ok","data":{"id":"b","status":"hibernating"}}`,
	} {
		t.Run(name, func(t *testing.T) {
			if g, err := readCreated(answerOf(OpCreate, body)); KindOf(err) != KindMalformed {
				t.Errorf("got %q, %v, want a malformed response", g.ID, err)
			}
			client := newTestClient(t, answering(201, "application/json", body))
			_, posted, err := client.Post(t.Context(), testCredential, Order{ModelID: "a/b", Inputs: []byte(`{}`), IdempotencyKey: "k"})
			if KindOf(err) != KindOutcomeUnknown || posted != Unknown {
				t.Errorf("the order ends with %v, want an unknown outcome", err)
			}
		})
	}
}

func TestAReadGivesTheRequestedGeneration(t *testing.T) {
	for name, body := range map[string]string{
		"inside an envelope":            `{"id":"req_1","status":"ok","data":{"id":"g1","status":"running"}}`,
		"around a part with a status":   `{"id":"g1","status":"running","job":{"id":"w7","status":"queued"}}`,
		"beside a record of its own":    `{"id":"g1","status":"running","generation":{"id":"g2","status":"queued"}}`,
		"inside, though it may be one":  `{"id":"a","status":"queued","job":{"id":"g1","status":"running"}}`,
		"with two names, and once more": `{"id":17,"generationId":"g1","status":"ok","data":{"id":"g1","status":"running"}}`,
		"by another of its names":       `{"id":17,"generationId":"g1","status":"running","data":{"id":"x","status":"queued"}}`,
	} {
		got, err := readGeneration(answerOf(opGeneration, body), "g1")
		if err != nil || got.ID != "g1" || got.State != StateRunning {
			t.Errorf("%s: got %q in %v, %v", name, got.ID, got.State, err)
		}
	}
}
