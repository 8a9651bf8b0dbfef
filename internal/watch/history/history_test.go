package history

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/easel-grpc/easel/internal/watch/schedule"
)

// randomDuration returns a random duration for a generation. The durations have a log-normal distribution
// with the given median, in seconds.
func randomDuration(r *rand.Rand, median float64) time.Duration {
	return time.Duration(median * math.Exp(0.3*r.NormFloat64()) * float64(time.Second))
}

// meanDelay returns the mean time between the end of a generation and the poll that detects it, if
// polls follow the curve c. median is the median duration of the generations, in seconds.
func meanDelay(c *schedule.Curve, r *rand.Rand, median float64) time.Duration {
	const generations = 5000
	var sum time.Duration
	for range generations {
		end, at := randomDuration(r, median), time.Duration(0)
		for at < end {
			at += c.Gap(at, schedule.Bounds{Least: time.Second, Most: 10 * time.Second})
		}
		sum += at - end
	}
	return sum / generations
}

func TestPollScheduleAdaptsToChangedModelDurations(t *testing.T) {
	key, r := Key{"t", "m"}, rand.New(rand.NewPCG(1, 1))
	var slow Durations
	for i := range 500 {
		slow.Add(key, uint64(i), randomDuration(r, 30))
	}
	for seen, most := range map[int]time.Duration{0: 5 * time.Second, 20: 2500 * time.Millisecond, 100: 1300 * time.Millisecond} {
		old := slow.models[key]
		b := &Durations{models: map[Key]*model{key: {durations: slices.Clone(old.durations), ids: slices.Clone(old.ids), next: old.next}}}
		for i := range seen {
			b.Add(key, 1000+uint64(i), randomDuration(r, 6))
		}
		if got := meanDelay(b.Curve(key), r, 6); got > most {
			t.Errorf("%d generations after a change from 30 s to 6 s: a mean delay of %v, want at most %v", seen, got, most)
		}
	}
}

func TestRepeatedGenerationIsCountedOnceInHistory(t *testing.T) {
	var b Durations
	key := Key{"t", "m"}
	for range 10 {
		b.Add(key, 7, time.Second)
	}
	if _, known := b.Remaining(key, 0); known || len(b.models[key].durations) != 1 {
		t.Errorf("the history has %d durations, want 1", len(b.models[key].durations))
	}
}

func TestDurationHistorySizeIsLimited(t *testing.T) {
	var b Durations
	for i := range 2 * limit {
		b.Add(Key{"t", string(rune(i))}, 1, time.Second)
	}
	if len(b.models) != limit {
		t.Errorf("%d models are remembered, want %d", len(b.models), limit)
	}
	for i := range 2 * size {
		b.Add(Key{"t", "m"}, uint64(i), time.Second)
	}
	if m := b.models[Key{"t", "m"}]; len(m.durations) != size || len(m.ids) != size {
		t.Errorf("%d durations are remembered, want %d", len(m.durations), size)
	}
}
