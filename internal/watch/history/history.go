// Package history remembers how long the last generations of each model took.
package history

import (
	"slices"
	"sync"
	"time"

	"github.com/easel-grpc/easel/internal/catalog"
	"github.com/easel-grpc/easel/internal/watch/schedule"
)

const (
	size  = 100  // generations of a model that are remembered: few, so that an old version of it is soon forgotten
	limit = 4096 // models of all credentials together
)

// Key names a model of one credential: credentials share no history.
type Key struct {
	Tenant catalog.Tenant
	Model  string
}

// Book is the history of all models. It outlives the pollers that read and write it, and may be
// used by all of them at once. The zero value is empty.
type Book struct {
	mu     sync.Mutex
	models map[Key]*model
}

type model struct {
	durations []time.Duration
	ids       []uint64 // fingerprints of their generations, so that each counts once
	next      int      // the oldest, once all are in use
	added     int      // added since the curve was made
	curve     *schedule.Curve
}

// Add notes the duration of a generation, which a fingerprint names.
func (b *Book) Add(key Key, generation uint64, d time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	m := b.models[key]
	if m == nil {
		m = &model{}
		b.put(key, m)
	}
	m.add(generation, d)
}

// put adds a model. At the limit it evicts others; mu is held.
func (b *Book) put(key Key, m *model) {
	if b.models == nil {
		b.models = map[Key]*model{}
	}
	for other := range b.models {
		if len(b.models) < limit {
			break
		}
		delete(b.models, other)
	}
	b.models[key] = m
}

func (m *model) add(generation uint64, d time.Duration) {
	if slices.Contains(m.ids, generation) {
		return
	}
	m.added++
	if len(m.durations) < size {
		m.durations, m.ids = append(m.durations, d), append(m.ids, generation)
		return
	}
	m.durations[m.next], m.ids[m.next] = d, generation
	m.next = (m.next + 1) % size
}

// LastCurve is the schedule by which the polls of a model were set so far. A list may show fifty ends at
// once, and none of them was polled by a schedule that knows the others.
func (b *Book) LastCurve(key Key) *schedule.Curve {
	b.mu.Lock()
	defer b.mu.Unlock()
	if m := b.models[key]; m != nil && m.curve != nil {
		return m.curve
	}
	return schedule.Unlearned
}

// Curve is the schedule of a model. It is made again when a twentieth of the history is new.
func (b *Book) Curve(key Key) *schedule.Curve {
	b.mu.Lock()
	defer b.mu.Unlock()
	m := b.models[key]
	if m == nil {
		return schedule.Unlearned
	}
	if m.curve == nil || m.added*20 >= len(m.durations) {
		m.curve, m.added = schedule.Learn(m.durations), 0
	}
	return m.curve
}

// Remaining is the median time that generations older than age still took. It is false where fewer than
// three got that old.
func (b *Book) Remaining(key Key, age time.Duration) (time.Duration, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	m := b.models[key]
	if m == nil {
		return 0, false
	}
	var left []time.Duration
	for _, d := range m.durations {
		if d > age {
			left = append(left, d-age)
		}
	}
	if len(left) < 3 {
		return 0, false
	}
	slices.Sort(left)
	return left[len(left)/2], true
}
