package cluster

import (
	"bytes"
	"encoding/json"
	"time"

	"github.com/easel-grpc/easel/internal/catalog"
	"github.com/easel-grpc/easel/internal/watch"
)

const (
	messageWords = 256       // words in one message
	messageAsks  = 1000      // asks in one message
	wordSize     = 32 << 10  // bytes of one word: of a longer one only the identifier is told
	messageSize  = 256 << 10 // bytes of words in one message; NATS takes 1 MiB
)

// fence is which lease something was said under. A later one is above it.
type fence struct {
	Epoch    int64  `json:"e,omitempty"` // when the bucket was made, by the server's clock
	Revision uint64 `json:"r,omitempty"` // with which the lease was taken
}

func (f fence) above(other fence) bool {
	return f.Epoch > other.Epoch || f.Epoch == other.Epoch && f.Revision > other.Revision
}

// message is all that is ever said. Times are ages, as clocks differ.
type message struct {
	From  string            `json:"from"`
	Seq   uint64            `json:"seq"`            // of the sender; repeats are dropped by it
	Fence fence             `json:"fence"`          // that the sender has, or knows of
	Tick  uint64            `json:"tick,omitempty"` // the newest that the sender knows
	Leads bool              `json:"leads,omitempty"`
	Bye   bool              `json:"bye,omitempty"`
	Beat  *beat             `json:"beat,omitempty"`
	Words []json.RawMessage `json:"words,omitempty"` // each a word
	Asks  []ask             `json:"asks,omitempty"`
	Heard *heard            `json:"heard,omitempty"`
}

type beat struct {
	Condition watch.Condition `json:"c,omitempty"`
	Failures  int             `json:"f,omitempty"`
	LastError string          `json:"l,omitempty"`
	Answered  *time.Duration  `json:"a,omitempty"`
	Pause     time.Duration   `json:"p,omitempty"`
	Spent     int             `json:"s,omitempty"`
}

type ask struct {
	ID      string         `json:"i,omitempty"`
	Etag    string         `json:"e,omitempty"`
	Settled bool           `json:"s,omitempty"`
	Waits   int            `json:"w,omitempty"`
	ModelID string         `json:"m,omitempty"`
	Created *time.Duration `json:"c,omitempty"`
}

// heard answers the asks of one message.
type heard struct {
	Who  string         `json:"who"`
	Seq  uint64         `json:"seq"`
	Seen *time.Duration `json:"seen,omitempty"`
}

type word struct {
	Generation catalog.Generation `json:"g"` // without the time of the look
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

// ago is the reverse. What was sent can't lie in the future.
func ago(d *time.Duration, now time.Time) time.Time {
	if d == nil {
		return time.Time{}
	}
	return now.Add(-max(*d, 0))
}

func packBeat(b watch.Status, now time.Time) *beat {
	return &beat{b.Condition, b.Failures, b.LastError, age(b.Answered, now), b.Pause, b.Spent}
}

func (b *beat) unpack(now time.Time) watch.Status {
	return watch.Status{
		Condition: b.Condition, Failures: b.Failures, LastError: b.LastError,
		Answered: ago(b.Answered, now), Pause: b.Pause, Spent: b.Spent,
	}
}

func packAsks(asks []watch.Interest, now time.Time) []ask {
	packed := make([]ask, 0, len(asks))
	for _, a := range asks {
		packed = append(packed, ask{a.ID, a.Etag, a.Settled, a.Waits, a.ModelID, age(a.Created, now)})
	}
	return packed
}

func unpackAsks(packed []ask, now time.Time) []watch.Interest {
	asks := make([]watch.Interest, 0, len(packed))
	for _, a := range packed {
		asks = append(asks, watch.Interest{
			ID: a.ID, Etag: a.Etag, Settled: a.Settled, Waits: a.Waits, ModelID: a.ModelID, Created: ago(a.Created, now),
		})
	}
	return asks
}

// packWord writes a word. One that is too long only says that there is something to read.
func packWord(w watch.State, now time.Time) json.RawMessage {
	packed := word{Generation: w.Generation, Age: max(now.Sub(w.Generation.ObserveTime), 0), Etag: w.Etag, Listed: w.Listed}
	packed.Generation.ObserveTime = time.Time{}
	text, err := json.Marshal(packed)
	if err == nil && len(text) <= wordSize {
		return text
	}
	text, _ = json.Marshal(word{Generation: catalog.Generation{ID: w.Generation.ID}, Listed: w.Listed}) // plain data
	return text
}

func unpackWord(text json.RawMessage, now time.Time) (w watch.State, err error) {
	var packed word
	if err := unpack(text, &packed); err != nil {
		return w, err
	}
	w = watch.State{Generation: packed.Generation, Etag: packed.Etag, Listed: packed.Listed}
	w.Generation.ObserveTime = ago(&packed.Age, now)
	return w, nil
}

// unpack reads numbers as they were written, as the catalog package does.
func unpack(text []byte, into any) error {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	return decoder.Decode(into)
}

// packWords writes words into as many parts as messages are needed for them.
func packWords(words []watch.State, now time.Time) (parts [][]json.RawMessage) {
	var part []json.RawMessage
	size := 0
	for _, w := range words {
		text := packWord(w, now)
		if len(part) == messageWords || size+len(text) > messageSize {
			parts, part, size = append(parts, part), nil, 0
		}
		part, size = append(part, text), size+len(text)
	}
	if len(part) > 0 {
		parts = append(parts, part)
	}
	return parts
}
