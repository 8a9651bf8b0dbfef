package orders

import (
	"encoding/json"
	"reflect"
	"testing"
	"time"

	"github.com/easel-grpc/easel/internal/catalog"
	"github.com/easel-grpc/easel/internal/ledger"
)

func TestARecordComesBackAsItWasWithoutInputsAndText(t *testing.T) {
	size, cost, text, at := int64(7), int64(11), "a text", time.Date(2026, 11, 23, 1, 2, 3, 4, time.UTC)
	full := catalog.Generation{
		ID: "g1", ModelID: "studio/poster", State: catalog.StateSucceeded, Status: "succeeded", CostCents: &cost,
		File: &catalog.File{ContentType: "image/png", SizeBytes: &size}, FailureMessage: "none", CreateTime: at, TerminalTime: at, ObserveTime: at,
		Extra: map[string]any{"seed": json.Number("12345678901234567890"), "tags": []any{"a", true, nil}},
	}
	want := full.Version()
	full.Inputs, full.Text = map[string]any{"prompt": "a harbour"}, &text
	got, ok := decodeRecord(encodeRecord(catalog.Version{Generation: full, Etag: want.Etag}))
	if !ok || !reflect.DeepEqual(got, want) || got.Generation.Etag() != want.Etag {
		t.Errorf("it comes back as %+v, %v, and was %+v", got, ok, want)
	}
	for _, text := range []string{"", "{", `{"State":"x"}`} {
		if v, ok := decodeRecord(text); ok {
			t.Errorf("%q is read as %+v", text, v)
		}
	}
}

func TestTheNewestStateOfAGenerationWaitsForTheLedger(t *testing.T) {
	r := newRecorder()
	r.put("g1", ledger.Observation{Status: ledger.Running})
	r.put("g2", ledger.Observation{Status: ledger.Running})
	id, seen, _ := r.take()
	r.put("g1", ledger.Observation{Status: ledger.Succeeded})
	r.giveBack(id, seen) // the ledger has refused it, and there is a newer one
	for _, want := range []struct {
		id     string
		status ledger.Status
	}{{"g2", ledger.Running}, {"g1", ledger.Succeeded}} {
		if id, seen, ok := r.take(); !ok || id != want.id || seen.Status != want.status {
			t.Errorf("it gives %s, %+v, %v, and not %+v", id, seen, ok, want)
		}
	}
	if _, _, ok := r.take(); ok {
		t.Error("there is more")
	}
	for n := range maxUnrecorded + 10 {
		r.put(time.Duration(n).String(), ledger.Observation{})
	}
	if len(r.waiting) != maxUnrecorded || len(r.order) != maxUnrecorded {
		t.Errorf("%d wait", len(r.waiting))
	}
}
