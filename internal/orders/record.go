package orders

import (
	"encoding/json"
	"time"

	"github.com/easel-grpc/easel/internal/catalog"
	"github.com/easel-grpc/easel/internal/ledger"
	"github.com/easel-grpc/easel/internal/watch"
)

// encodeRecord is what the ledger keeps of a generation: all but the inputs, the text and the members that this build does
// not know, in which the catalog may repeat the inputs.
func encodeRecord(v catalog.Version) string {
	v.Inputs, v.Text, v.Extra = nil, nil, nil
	text, err := json.Marshal(v)
	if err != nil {
		return "" // what was read from JSON can be written as JSON
	}
	return string(text)
}

// decodeRecord reads what encodeRecord has written.
func decodeRecord(text string) (v catalog.Version, ok bool) {
	return v, json.Unmarshal([]byte(text), &v) == nil
}

// recordedVersion is what the ledger has of the generation of a placed order, with the etag of the state that was seen:
// the record is less than that. It was never seen later than now, or nothing that is seen after it would count: whoever
// has recorded it may have another clock.
func recordedVersion(order ledger.Order) catalog.Version {
	v, seen := decodeRecord(order.Record)
	if !seen { // never seen, or erased; the ledger's time of the order is the same each time
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
	case order.IsGone(): // its etag is the one that every watch gives
		v.State, v.File, v.Text = catalog.StateDeleted, nil, nil
		v.Etag = catalog.Generation{ID: v.ID, State: v.State}.Etag()
	case !seen:
		v.Etag = v.Generation.Etag()
	}
	return v
}

// Published is the generation of an order for those who are told of it: as the ledger has recorded it, with the text of its
// result, if it has one.
func Published(order ledger.Order, text *string) (catalog.Version, ledger.Attribution) {
	v := recordedVersion(order)
	if order.Record != "" && !order.IsGone() {
		v.Text = text
	}
	return v, order.Attribution()
}

// placedTime is when an order was written down, by the clock of this process.
func placedTime(order ledger.Order) time.Time { return time.Now().Add(-order.Age) }
