package orders

import (
	"encoding/json"
	"time"

	"github.com/easel-grpc/easel/internal/catalog"
	"github.com/easel-grpc/easel/internal/ledger"
	"github.com/easel-grpc/easel/internal/watch"
)

// encodeRecord returns the record of a generation for the ledger. It omits the inputs, the text and the unknown members,
// because the catalog may repeat the inputs in unknown members.
func encodeRecord(v catalog.Version) string {
	v.Inputs, v.Text, v.Extra = nil, nil, nil
	text, err := json.Marshal(v)
	if err != nil {
		return "" // values that were read from JSON can be encoded
	}
	return string(text)
}

// decodeRecord decodes a record that [encodeRecord] returned.
func decodeRecord(text string) (v catalog.Version, ok bool) {
	return v, json.Unmarshal([]byte(text), &v) == nil
}

// recordedVersion returns the recorded generation of a placed order. The recorded generation has fewer details than the
// complete state, but the same etag. An observation time in the future is replaced by the current time. Otherwise newer
// observations would be ignored if the recording process's clock was ahead.
func recordedVersion(order ledger.Order) catalog.Version {
	v, seen := decodeRecord(order.Record)
	if !seen { // never observed, or erased; order.Time is constant, so that the etag is constant
		v = catalog.Version{Generation: catalog.Generation{State: watch.StateOf(order.Status), CreateTime: order.Time, ObserveTime: placedTime(order)}}
	}
	if now := time.Now(); v.ObserveTime.After(now) {
		v.ObserveTime = now
	}
	v.ID, v.ModelID = order.Generation, order.ModelID
	if v.CostCents == nil {
		v.CostCents = order.CostCents
	}
	switch {
	case order.IsDeleted(): // the etag is the same in every watch
		v.State, v.File, v.Text = catalog.StateDeleted, nil, nil
		v.Etag = catalog.Generation{ID: v.ID, State: v.State}.Etag()
	case !seen:
		v.Etag = v.Generation.Etag()
	}
	return v
}

// Published returns the recorded generation of an order for event receivers, with the text of its result, if it has one.
func Published(order ledger.Order, text *string) (catalog.Version, ledger.Attribution) {
	v := recordedVersion(order)
	if order.Record != "" && !order.IsDeleted() {
		v.Text = text
	}
	return v, order.Attribution()
}

// placedTime returns the time when an order was written, by the clock of this process.
func placedTime(order ledger.Order) time.Time { return time.Now().Add(-order.Age) }
