package orders

import (
	"reflect"
	"testing"
	"time"

	"github.com/easel-grpc/easel/internal/catalog"
	"github.com/easel-grpc/easel/internal/ledger"
	"github.com/easel-grpc/easel/internal/ledger/lifecycle"
)

func TestEncodedRecordOmitsInputsAndResultText(t *testing.T) {
	size, cost, text, at := int64(7), int64(11), "a text", time.Date(2026, 11, 23, 1, 2, 3, 4, time.UTC)
	full := catalog.Generation{
		ID: "g1", ModelID: "studio/poster", State: catalog.StateSucceeded, Status: "succeeded", CostCents: &cost,
		File: &catalog.File{ContentType: "image/png", SizeBytes: &size}, FailureMessage: "none", CreateTime: at, TerminalTime: at, ObserveTime: at,
	}
	want := full.Version()
	full.Inputs, full.Text, full.Extra = catalog.Value(`{"prompt":"a harbour"}`), &text, catalog.Value(`{"request":{"prompt":"a harbour"}}`)
	got, ok := decodeRecord(encodeRecord(catalog.Version{Generation: full, Etag: want.Etag}))
	if !ok || !reflect.DeepEqual(got, want) || got.Generation.Etag() != want.Etag {
		t.Errorf("the record decodes to %+v, %v, want %+v", got, ok, want)
	}
	for _, text := range []string{"", "{", `{"State":"x"}`} {
		if v, ok := decodeRecord(text); ok {
			t.Errorf("%q decodes to %+v", text, v)
		}
	}
}

func TestEtagOfRecordedStateIsStable(t *testing.T) {
	seen := catalog.Generation{ID: "g1", State: catalog.StateSucceeded, Inputs: catalog.Value(`{"prompt":"a harbour"}`)}.Version()
	deleted := catalog.Generation{ID: "g1", State: catalog.StateDeleted}.Version()
	filled := seen
	filled.CreateTime = time.Now()
	for name, row := range map[string]struct {
		record  string
		deleted bool
		want    string
	}{
		"never seen": {},
		"seen":       {record: encodeRecord(filled), want: seen.Etag},
		"deleted":    {record: encodeRecord(filled), deleted: true, want: deleted.Etag},
	} {
		order := ledger.Order{Time: time.Now(), Record: row.record, Observed: lifecycle.Observed{DeletedByCall: row.deleted}}
		order.Generation = "g1"
		first := recordedVersion(order)
		order.Age += time.Minute
		if later := recordedVersion(order); later.Etag != first.Etag || !later.CreateTime.Equal(first.CreateTime) {
			t.Errorf("%s: the version is %+v, then %+v", name, first, later)
		}
		if row.want != "" && first.Etag != row.want {
			t.Errorf("%s: the etag is %s, want %s", name, first.Etag, row.want)
		}
	}
}
