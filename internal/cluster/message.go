package cluster

import (
	"bytes"
	"encoding/json"
	"time"

	"github.com/easel-grpc/easel/internal/catalog"
	"github.com/easel-grpc/easel/internal/watch"
)

const (
	maxMessageStates    = 256       // states in one message
	maxMessageInterests = 1000      // interests in one message
	maxStateSize        = 32 << 10  // bytes of one state: of a longer one only the id is sent
	maxMessageSize      = 256 << 10 // bytes of states in one message; NATS takes 1 MiB
)

// fence is a fencing token: it names the lease under which a message was sent. A later lease is above it.
type fence struct {
	Epoch    int64  `json:"e,omitempty"` // when the bucket was made, by the server's clock
	Revision uint64 `json:"r,omitempty"` // under which the lease was taken
}

func (f fence) above(other fence) bool {
	return f.Epoch > other.Epoch || f.Epoch == other.Epoch && f.Revision > other.Revision
}

// message is the one message between replicas. Times are ages, as clocks differ. The JSON names are those of
// the release before, as replicas of both run beside each other in an upgrade.
type message struct {
	From        string            `json:"from"`
	Seq         uint64            `json:"seq"`            // of the sender; it shows repeats
	Fence       fence             `json:"fence"`          // that the sender has, or knows of
	LogicalTime uint64            `json:"tick,omitempty"` // the newest that the sender knows
	Leads       bool              `json:"leads,omitempty"`
	Farewell    bool              `json:"bye,omitempty"`
	Heartbeat   *heartbeat        `json:"beat,omitempty"`
	States      []json.RawMessage `json:"words,omitempty"` // each a stateMessage
	Interests   []interest        `json:"asks,omitempty"`
	Ack         *acknowledgement  `json:"heard,omitempty"`
}

// heartbeat is how a replica fares: a watch.Status.
type heartbeat struct {
	Condition watch.Condition `json:"c,omitempty"`
	Failures  int             `json:"f,omitempty"`
	LastError string          `json:"l,omitempty"`
	Answered  *time.Duration  `json:"a,omitempty"`
	Pause     time.Duration   `json:"p,omitempty"`
	Spent     int             `json:"s,omitempty"`
}

// interest is a generation that a follower waits for: a watch.Interest.
type interest struct {
	ID      string         `json:"i,omitempty"`
	Etag    string         `json:"e,omitempty"`
	Settled bool           `json:"s,omitempty"`
	Waits   int            `json:"w,omitempty"`
	ModelID string         `json:"m,omitempty"`
	Created *time.Duration `json:"c,omitempty"`
}

// acknowledgement answers the interests of one message.
type acknowledgement struct {
	To   string         `json:"who"`
	Seq  uint64         `json:"seq"`
	Seen *time.Duration `json:"seen,omitempty"`
}

// stateMessage is one state of a generation: a watch.State.
type stateMessage struct {
	Generation catalog.Generation `json:"g"` // without its ObserveTime
	Age        time.Duration      `json:"a"`
	Etag       string             `json:"e,omitempty"`
	Listed     bool               `json:"l,omitempty"`
}

// age is how long ago a time was, nil where it is zero.
func age(t, now time.Time) *time.Duration {
	if t.IsZero() {
		return nil
	}
	d := max(now.Sub(t), 0)
	return &d
}

// ago is the reverse of age. A time that was sent can't lie in the future.
func ago(d *time.Duration, now time.Time) time.Time {
	if d == nil {
		return time.Time{}
	}
	return now.Add(-max(*d, 0))
}

func packHeartbeat(s watch.Status, now time.Time) *heartbeat {
	return &heartbeat{s.Condition, s.Failures, s.LastError, age(s.Answered, now), s.Pause, s.Spent}
}

func (h *heartbeat) unpack(now time.Time) watch.Status {
	return watch.Status{
		Condition: h.Condition, Failures: h.Failures, LastError: h.LastError,
		Answered: ago(h.Answered, now), Pause: h.Pause, Spent: h.Spent,
	}
}

func packInterests(interests []watch.Interest, now time.Time) []interest {
	packed := make([]interest, 0, len(interests))
	for _, i := range interests {
		packed = append(packed, interest{i.ID, i.Etag, i.Settled, i.Waits, i.ModelID, age(i.Created, now)})
	}
	return packed
}

func unpackInterests(packed []interest, now time.Time) []watch.Interest {
	interests := make([]watch.Interest, 0, len(packed))
	for _, i := range packed {
		interests = append(interests, watch.Interest{
			ID: i.ID, Etag: i.Etag, Settled: i.Settled, Waits: i.Waits, ModelID: i.ModelID, Created: ago(i.Created, now),
		})
	}
	return interests
}

// packState writes a state. One that is too long only says that there is something to read.
func packState(s watch.State, now time.Time) json.RawMessage {
	packed := stateMessage{Generation: s.Generation, Age: max(now.Sub(s.Generation.ObserveTime), 0), Etag: s.Etag, Listed: s.Listed}
	packed.Generation.ObserveTime = time.Time{}
	text, err := json.Marshal(packed)
	if err == nil && len(text) <= maxStateSize {
		return text
	}
	text, _ = json.Marshal(stateMessage{Generation: catalog.Generation{ID: s.Generation.ID}, Listed: s.Listed}) // plain data
	return text
}

func unpackState(text json.RawMessage, now time.Time) (s watch.State, err error) {
	var packed stateMessage
	if err := unpack(text, &packed); err != nil {
		return s, err
	}
	s = watch.State{Generation: packed.Generation, Etag: packed.Etag, Listed: packed.Listed}
	s.Generation.ObserveTime = ago(&packed.Age, now)
	return s, nil
}

// unpack reads numbers as they were written, as the catalog package does.
func unpack(text []byte, into any) error {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	return decoder.Decode(into)
}

// packStates writes states into as many pages as messages are needed for them.
func packStates(states []watch.State, now time.Time) (pages [][]json.RawMessage) {
	var page []json.RawMessage
	size := 0
	for _, s := range states {
		text := packState(s, now)
		if len(page) == maxMessageStates || size+len(text) > maxMessageSize {
			pages, page, size = append(pages, page), nil, 0
		}
		page, size = append(page, text), size+len(text)
	}
	if len(page) > 0 {
		pages = append(pages, page)
	}
	return pages
}
