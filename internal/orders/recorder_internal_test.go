package orders

import (
	"reflect"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/easel-grpc/easel/internal/catalog"
	"github.com/easel-grpc/easel/internal/ledger"
	"github.com/easel-grpc/easel/internal/ledger/lifecycle"
	"github.com/easel-grpc/easel/internal/watch"
)

func TestARecordComesBackAsItWasWithoutWhatMayRepeatItsInputs(t *testing.T) {
	size, cost, text, at := int64(7), int64(11), "a text", time.Date(2026, 11, 23, 1, 2, 3, 4, time.UTC)
	full := catalog.Generation{
		ID: "g1", ModelID: "studio/poster", State: catalog.StateSucceeded, Status: "succeeded", CostCents: &cost,
		File: &catalog.File{ContentType: "image/png", SizeBytes: &size}, FailureMessage: "none", CreateTime: at, TerminalTime: at, ObserveTime: at,
	}
	want := full.Version()
	full.Inputs, full.Text, full.Extra = catalog.Value(`{"prompt":"a harbour"}`), &text, catalog.Value(`{"request":{"prompt":"a harbour"}}`)
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

func TestAnEtagOfTheLedgerIsTheSameEachTime(t *testing.T) {
	seen := catalog.Generation{ID: "g1", State: catalog.StateSucceeded, Inputs: catalog.Value(`{"prompt":"a harbour"}`)}.Version()
	gone := catalog.Generation{ID: "g1", State: catalog.StateDeleted}.Version()
	filled := seen
	filled.CreateTime = time.Now()
	for name, row := range map[string]struct {
		record  string
		deleted bool
		want    string
	}{
		"never seen": {},
		"seen":       {record: encodeRecord(filled), want: seen.Etag},
		"deleted":    {record: encodeRecord(filled), deleted: true, want: gone.Etag},
	} {
		order := ledger.Order{Time: time.Now(), Record: row.record, Observed: lifecycle.Observed{Deleted: row.deleted}}
		order.Generation = "g1"
		first := recordedVersion(order)
		order.Age += time.Minute
		if later := recordedVersion(order); later.Etag != first.Etag || !later.CreateTime.Equal(first.CreateTime) {
			t.Errorf("%s: it is %+v, then %+v", name, first, later)
		}
		if row.want != "" && first.Etag != row.want {
			t.Errorf("%s: the etag is %s, want %s", name, first.Etag, row.want)
		}
	}
}

// first returns the state that has waited longest.
func (r *Recorder) first() (key sight, seen *ledger.Observation) {
	all, _ := r.ready(time.Now())
	for _, key := range r.order {
		if one, ok := all[key.generationID]; ok {
			return one.sight, one.seen
		}
	}
	return key, nil
}

func TestTheNewestStateOfAGenerationWaitsForTheLedger(t *testing.T) {
	r := NewRecorder(nil, nil)
	r.put(sight{generationID: "g1"}, ledger.Observation{Observation: lifecycle.Observation{Status: lifecycle.Running, CostCents: new(int64(7))}})
	r.put(sight{generationID: "g2"}, ledger.Observation{Observation: lifecycle.Observation{Status: lifecycle.Running}})
	key, seen := r.first()
	r.put(sight{generationID: "g1"}, ledger.Observation{Observation: lifecycle.Observation{Status: lifecycle.Succeeded}})
	r.done(key, seen) // a newer state has replaced it
	r.postpone(key, false)
	for _, want := range []struct {
		id     string
		status lifecycle.Status
	}{{"g2", lifecycle.Running}, {"g1", lifecycle.Succeeded}} {
		key, seen := r.first()
		if seen == nil || key.generationID != want.id || seen.Status != want.status {
			t.Fatalf("it returns %s, %+v, and not %+v", key, seen, want)
		}
		if key.generationID == "g1" && (seen.CostCents == nil || *seen.CostCents != 7) {
			t.Errorf("the charge of %s is %v", key, seen.CostCents)
		}
		r.done(key, seen)
	}
	if _, seen := r.first(); seen != nil || r.states != 0 {
		t.Error("there is more")
	}
}

func TestALockedGenerationKeepsNoOthersWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := NewRecorder(nil, nil)
		for _, id := range []string{"locked", "free"} {
			r.put(sight{generationID: id}, ledger.Observation{Observation: lifecycle.Observation{Status: lifecycle.Running}})
		}
		r.postpone(sight{generationID: "locked"}, true)
		key, seen := r.first()
		if r.done(key, seen); key.generationID != "free" {
			t.Errorf("it returns %s", key.generationID)
		}
		for pause := recordRetry; pause < 100*recordRetryMax; pause *= 2 {
			if all, after := r.ready(time.Now()); len(all) > 0 || after != min(pause, recordRetryMax) {
				t.Fatalf("%d states are ready, and the next one after %v", len(all), after)
			}
			time.Sleep(min(pause, recordRetryMax))
			key, _ := r.first()
			r.postpone(key, true)
		}
	})
}

func TestEachEndOfAGenerationWaitsForTheLedger(t *testing.T) {
	r := NewRecorder(nil, nil)
	text := "four"
	failed, refunded, gone := ledger.Observation{Observation: lifecycle.Observation{Status: lifecycle.Failed}, Text: &text}, ledger.Observation{Observation: lifecycle.Observation{Status: lifecycle.Refunded}}, ledger.Observation{Observation: lifecycle.Observation{Deleted: true}}
	for range 2 * maxUnrecorded / 100 {
		for _, seen := range []ledger.Observation{{Observation: lifecycle.Observation{Status: lifecycle.Running}}, failed, refunded, gone} {
			r.put(sight{generationID: "g"}, seen)
		}
	}
	if r.texts != len(text) || r.states != len(r.of(sight{generationID: "g"})) || r.states > 4 {
		t.Errorf("%d states and %d bytes wait", r.states, r.texts)
	}
	var ends []ledger.Observation
	for key, seen := r.first(); seen != nil; key, seen = r.first() {
		if seen.Status != lifecycle.Running {
			ends = append(ends, *seen)
		}
		r.done(key, seen)
	}
	if want := []ledger.Observation{failed, refunded, gone}; !reflect.DeepEqual(ends, want) || r.states != 0 || r.texts != 0 {
		t.Errorf("the ends are %+v, and %d states and %d bytes are left", ends, r.states, r.texts)
	}
}

func TestSoManyStatesWaitForTheLedger(t *testing.T) {
	r := NewRecorder(nil, nil)
	for n := range maxUnrecorded + 10 {
		r.put(sight{generationID: time.Duration(n).String()}, ledger.Observation{Observation: lifecycle.Observation{Status: lifecycle.Failed}})
	}
	for n := range 10 {
		r.put(sight{generationID: time.Duration(n).String()}, ledger.Observation{Observation: lifecycle.Observation{Status: lifecycle.Refunded}})
		r.put(sight{generationID: time.Duration(n).String()}, ledger.Observation{Observation: lifecycle.Observation{Deleted: true}})
	}
	if len(r.waiting) != maxUnrecorded || len(r.order) != maxUnrecorded || r.states != maxUnrecorded {
		t.Errorf("%d states of %d generations wait", r.states, len(r.waiting))
	}
	if all := r.of(sight{generationID: "0s"}); len(all) != 1 || all[0].Status != lifecycle.Refunded {
		t.Errorf("the newest state is %+v", all)
	}
}

// Otherwise the ledger, which does not have its order yet, is queried before the state is enqueued, and the state is never
// recorded again.
func TestAStateIsNotedBeforeTheLedgerIsAsked(t *testing.T) {
	o, seen := NewRecorder(nil, nil), watch.Sighting{Credential: catalog.Credential{Held: true}, Version: catalog.Generation{ID: "g", State: catalog.StateSucceeded}.Version()}
	o.mu.Lock() // blocks recording
	done := make(chan struct{})
	go func() { o.Sighted(seen); close(done) }()
	for start := time.Now(); ; runtime.Gosched() {
		if _, ok := o.recorded.get(sight{generationID: "g"}); ok {
			break
		}
		if time.Since(start) > 10*time.Second {
			t.Error("it waits to be recorded, and is not noted")
			break
		}
	}
	o.mu.Unlock()
	<-done
}

func TestAStateThatFoundNoPlaceIsTakenLater(t *testing.T) {
	o, seen := NewRecorder(nil, nil), watch.Sighting{Credential: catalog.Credential{Held: true}, Version: catalog.Generation{ID: "g", State: catalog.StateSucceeded}.Version()}
	o.states = maxUnrecorded
	o.Sighted(seen)
	o.states = 0
	for range 2 {
		o.Sighted(seen)
		if o.states != 1 {
			t.Errorf("%d states wait", o.states)
		}
	}
}
