package budget

import (
	"math"
	"testing"
	"time"
)

func TestABudgetHalvesOn429AndRecoversInAStraightLine(t *testing.T) {
	now := time.Now()
	b := New(8, now)
	b.Throttled(now, 3*time.Second)
	b.Throttled(now, 3*time.Second) // was on its way too
	if b.rate != 4 {
		t.Errorf("the rate is %v after a 429, want 4", b.rate)
	}
	if n, again := b.Available(now.Add(2 * time.Second)); n != 0 || !again.Equal(now.Add(3*time.Second)) {
		t.Errorf("%d polls in the pause, again at %v", n, again)
	}
	if n, _ := b.Available(now.Add(3 * time.Second)); n == 0 {
		t.Error("no poll after the pause")
	}
	b.Take()
	now = now.Add(3 * time.Second)
	for second, want := range map[int]float64{15: 6, 29: 7 + 13.0/15, 30: 8, 500: 8} {
		later := *b
		if later.fill(now.Add(time.Duration(second) * time.Second)); math.Abs(later.rate-want) > 1e-6 {
			t.Errorf("the rate is %v after %d s, want %v", later.rate, second, want)
		}
	}
	for range 100 {
		now = b.paused
		b.Throttled(now, time.Second)
	}
	if b.rate < 8*leastShare {
		t.Errorf("the rate has fallen to %v", b.rate)
	}
	if b.Recovered(b.paused.Add(-1)) || b.Recovered(b.paused.Add(time.Second)) || !b.Recovered(b.paused.Add(Recovery)) {
		t.Error("a budget is rested when the pause is over and the rate is back")
	}
}

func TestCallsTakeTokensFirstButLeaveAQuarterToPolls(t *testing.T) {
	now := time.Now()
	b, calls, polls := New(8, now), 0, 0
	for range 1000 { // ten calls a second, and as many polls as there are tokens
		b.Spend(now)
		calls++
		for n, _ := b.Available(now); n > 0; n-- {
			b.Take()
			polls++
		}
		now = now.Add(100 * time.Millisecond)
	}
	if share := float64(polls) / 100; share < 1.9 || share > 2.3 {
		t.Errorf("%v polls a second beside 10 calls, want a quarter of 8", share)
	}
	if b.Spend(now); calls != 1000 {
		t.Error("a call was held up")
	}
}

func TestAPauseIsCappedAndNeverShortened(t *testing.T) { // U6
	now := time.Now()
	b := New(5, now)
	b.Throttled(now, 87600*time.Hour)
	if b.paused.Sub(now) != pauseCap {
		t.Errorf("paused for %v, want %v", b.paused.Sub(now), pauseCap)
	}
	b.Pause(now, now.Add(time.Second))
	if b.paused.Sub(now) != pauseCap {
		t.Error("a shorter pause has replaced a longer one")
	}
}

func TestABucketGivesNoMoreThanItsRate(t *testing.T) {
	now := time.Now()
	b := New(5, now)
	if n, _ := b.Available(now); n != 5 {
		t.Errorf("%d at once, want those of a second", n)
	}
	given := 0
	for range 10_000 {
		n, again := b.Available(now)
		if n > 0 {
			b.Take()
			given++
			continue
		}
		if !again.After(now) {
			t.Fatal("it says to ask again at once")
		}
		now = now.Add(min(again.Sub(now), time.Millisecond))
	}
	if seconds := 10_000 / 1000.0; float64(given) > 5*seconds+5 || given < 40 {
		t.Errorf("%d tokens in about %v s", given, seconds)
	}
}
