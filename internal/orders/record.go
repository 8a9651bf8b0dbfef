package orders

import (
	"encoding/json"
	"time"

	"github.com/easel-grpc/easel/internal/catalog"
	"github.com/easel-grpc/easel/internal/ledger"
	"github.com/easel-grpc/easel/internal/watch"
)

// encodeRecord returns the record of a generation for the ledger. It omits the inputs and the text. It also omits unknown
// members, because the catalog may repeat the inputs there.
func encodeRecord(v catalog.Version) string {
	v.Inputs, v.Text, v.Extra = nil, nil, nil
	text, err := json.Marshal(v)
	if err != nil {
		return "" // cannot happen, because the values were read from JSON
	}
	return string(text)
}

// decodeRecord decodes a record that [encodeRecord] returned.
func decodeRecord(text string) (v catalog.Version, ok bool) {
	return v, json.Unmarshal([]byte(text), &v) == nil
}

// recordedVersion returns the recorded state of a placed order's generation. It has fewer details than the complete state,
// but the same etag. If the observation time is in the future, because the clock of the process that recorded it was ahead,
// recordedVersion replaces it with the current time. Otherwise, newer observations would be ignored.
func recordedVersion(order ledger.Order) catalog.Version {
	v, seen := decodeRecord(order.Record)
	if !seen { // no state was recorded, or it was erased; the ObserveTime computed here may vary, but the etag does not depend on it
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
	case order.IsDeleted(): // every watch must see the same etag for a deletion
		v.State, v.File, v.Text = catalog.StateDeleted, nil, nil
		v.Etag = catalog.Generation{ID: v.ID, State: v.State}.Etag()
	case !seen:
		v.Etag = v.Generation.Etag()
	}
	return v
}

// Published returns an order's recorded generation and attribution, for event receivers. text is the result, or nil if the
// result is not a text. The generation omits the text if no state was recorded or the generation is deleted.
func Published(order ledger.Order, text *string) (catalog.Version, ledger.Attribution) {
	v := recordedVersion(order)
	if order.Record != "" && !order.IsDeleted() {
		v.Text = text
	}
	return v, order.Attribution()
}

// placedTime returns the time when an order was written to the ledger, according to this process's clock.
func placedTime(order ledger.Order) time.Time { return time.Now().Add(-order.Age) }
