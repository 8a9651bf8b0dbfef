package catalog

import (
	"strings"
	"testing"
)

func TestGenerationIsDistinguishedFromEnvelope(t *testing.T) {
	const render = `{"id":"g1","status":"queued"}`
	for name, body := range map[string]string{
		"envelope with an ID and a status": `{"id":"req_1","status":"ok","generation":` + render + `}`,
		"render in data":                   `{"id":"req_1","status":"ok","data":` + render + `}`,
		"envelope with a render status":    `{"id":"req_1","status":"success","data":` + render + `}`,
		"envelope with status accepted":    `{"id":"req_1","status":"accepted","data":` + render + `}`,
		"render in job":                    `{"id":"req_1","status":"ok","job":` + render + `}`,
		"render without a status":          `{"id":"req_1","status":"queued","render":{"id":"g1"}}`,
		"envelope in an envelope":          `{"id":"req_1","status":"ok","data":{"id":"batch","status":"done","generation":` + render + `}}`,
		"render with a nested part":        `{"id":"req_1","status":"ok","generation":{"id":"g1","status":"queued","result":{"id":"f1","status":"done"}}}`,
		"envelope with the render's ID":    `{"id":"g1","status":"success","data":` + render + `}`,
		"envelope with generationId":       `{"generationId":"g1","status":"queued","data":{"id":"f1","status":"running"}}`,
		"list of one envelope":             `[{"id":"req_1","status":"ok","generation":` + render + `}]`,
		"numeric ID, other member names":   `{"_id":7,"state":"ok","Render":{"UUID":"g1","state":"Queued"}}`,
	} {
		t.Run(name, func(t *testing.T) {
			created, err := readCreated(answerOf(OpCreate, body))
			if err != nil || created.ID != "g1" || created.State != StateQueued {
				t.Errorf("order response: got %q in state %v, %v", created.ID, created.State, err)
			}
			if strings.HasPrefix(body, "{") {
				body = "[" + body + "]"
			}
			list, err := readGenerations(answerOf(opGenerations, body))
			if err != nil || len(list) != 1 || list[0].ID != "g1" {
				t.Errorf("list response: got %+v, %v", list, err)
			}
		})
	}
}

func TestOrderResponseWithTwoPossibleIDsIsMalformed(t *testing.T) {
	for name, body := range map[string]string{
		"status only in the outer object":           `{"id":"a","status":"queued","data":{"id":"b"}}`,
		"no status in either object":                `{"id":"a","data":{"id":"b"}}`,
		"render status in both objects":             `{"id":"a","status":"queued","job":{"id":"b","status":"queued"}}`,
		"inner object may be a part":                `{"id":"a","status":"succeeded","result":{"id":"b","status":"done"}}`,
		"generation and render":                     `{"generation":{"id":"a","status":"queued"},"render":{"id":"b","status":"queued"}}`,
		"two sibling objects":                       `{"data":{"id":"a","status":"queued"},"item":{"id":"b","status":"queued"}}`,
		"generationId differs from the member's ID": `{"generationId":"a","status":"queued","generation":{"id":"b","status":"queued"}}`,
		"two IDs in one object":                     `{"id":"a","generationId":"b","status":"queued"}`,
		"unknown inner status":                      `{"id":"a","status":"ok","data":{"id":"b","status":"hibernating"}}`,
	} {
		t.Run(name, func(t *testing.T) {
			if g, err := readCreated(answerOf(OpCreate, body)); KindOf(err) != KindMalformed {
				t.Errorf("got %q, %v, want a malformed response", g.ID, err)
			}
			client := newTestClient(t, answeringTransport(201, "application/json", body))
			_, posted, err := client.Post(t.Context(), testCredential, Order{ModelID: "a/b", Inputs: []byte(`{}`), IdempotencyKey: "k"})
			if KindOf(err) != KindOutcomeUnknown || posted != Unknown {
				t.Errorf("the order returned %v, want an unknown outcome", err)
			}
		})
	}
}

func TestAReadGivesTheRequestedGeneration(t *testing.T) {
	for name, body := range map[string]string{
		"render in an envelope":                `{"id":"req_1","status":"ok","data":{"id":"g1","status":"running"}}`,
		"render with a part that has a status": `{"id":"g1","status":"running","job":{"id":"w7","status":"queued"}}`,
		"render with a nested render":          `{"id":"g1","status":"running","generation":{"id":"g2","status":"queued"}}`,
		"render in an object like a render":    `{"id":"a","status":"queued","job":{"id":"g1","status":"running"}}`,
		"ID in the envelope and the render":    `{"id":17,"generationId":"g1","status":"ok","data":{"id":"g1","status":"running"}}`,
		"requested ID in generationId":         `{"id":17,"generationId":"g1","status":"running","data":{"id":"x","status":"queued"}}`,
	} {
		got, err := readGeneration(answerOf(opGeneration, body), "g1")
		if err != nil || got.ID != "g1" || got.State != StateRunning {
			t.Errorf("%s: got %q in %v, %v", name, got.ID, got.State, err)
		}
	}
}
