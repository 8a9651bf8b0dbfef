// Package history stores the durations of the most recent generations of each model.
package history

import (
	"slices"
	"sync"
	"time"

	"github.com/easel-grpc/easel/internal/catalog"
	"github.com/easel-grpc/easel/internal/watch/schedule"
)

const (
	size  = 100  // maximum number of durations per model; small, so that estimates adapt quickly to a new version of the model
	limit = 4096 // maximum number of models, over all credentials
)

// Key identifies the stored durations of one model under one API key.
type Key struct {
	Tenant catalog.Tenant
	Model  string
}

// Durations is the history of all models. It outlives the pollers that use it, and is safe for concurrent use. The zero value
// is empty.
type Durations struct {
	mu     sync.Mutex
	models map[Key]*model
}

type model struct {
	durations []time.Duration
	ids       []uint64 // fingerprints of the generations in durations, so that no generation is counted twice
	next      int      // index of the oldest duration, which is replaced next; zero until the maximum number of durations is stored
	added     int      // number of durations added since curve was computed
	curve     *schedule.Curve
}

// Add records the duration of the generation that has the given fingerprint. It ignores a generation that is already recorded.
func (b *Durations) Add(key Key, generation uint64, d time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	m := b.models[key]
	if m == nil {
		m = &model{}
		b.putModel(key, m)
	}
	m.addDuration(generation, d)
}

// putModel adds a model. If the maximum number is reached, it evicts arbitrary models. The caller must hold mu.
func (b *Durations) putModel(key Key, m *model) {
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

func (m *model) addDuration(generation uint64, d time.Duration) {
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

// LastCurve returns the schedule that [Durations.Curve] last computed for a model. If there is no such schedule, it returns
// [schedule.Unlearned]. Durations that were added later do not change the result.
func (b *Durations) LastCurve(key Key) *schedule.Curve {
	b.mu.Lock()
	defer b.mu.Unlock()
	if m := b.models[key]; m != nil && m.curve != nil {
		return m.curve
	}
	return schedule.Unlearned
}

// Curve returns the poll schedule of a model, or [schedule.Unlearned] if the model has no history. It computes the schedule
// again if at least a twentieth of the stored durations is new.
func (b *Durations) Curve(key Key) *schedule.Curve {
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

// Remaining estimates the remaining time of a generation that has the given age. It returns the median of the remaining times
// of the stored generations that took longer than age. It returns false if fewer than three took longer.
func (b *Durations) Remaining(key Key, age time.Duration) (time.Duration, bool) {
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
