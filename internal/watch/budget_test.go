package watch

import (
	"testing"
	"time"
)

func TestABudgetHalvesOn429AndCreepsBack(t *testing.T) {
	now := time.Now()
	b := newBudget(8, now)
	b.throttled(now, 3*time.Second)
	if b.rate != 4 {
		t.Errorf("the rate is %v after a 429, want 4", b.rate)
	}
	if ok, again := b.take(now.Add(2 * time.Second)); ok || !again.Equal(now.Add(3*time.Second)) {
		t.Errorf("a poll in the pause: %v, again at %v", ok, again)
	}
	if ok, _ := b.take(now.Add(3 * time.Second)); !ok {
		t.Error("no poll after the pause")
	}
	for range 100 {
		b.throttled(now, 0)
	}
	if b.rate < 8*slowest {
		t.Errorf("the rate has fallen to %v", b.rate)
	}
	for range 1000 {
		b.answered()
	}
	if b.rate != 8 {
		t.Errorf("the rate is %v after a thousand answers, want 8", b.rate)
	}
}

func TestAPauseIsCappedAndNeverShortened(t *testing.T) { // U6
	now := time.Now()
	b := newBudget(5, now)
	b.throttled(now, 87600*time.Hour)
	if b.paused.Sub(now) != pauseCap {
		t.Errorf("paused for %v, want %v", b.paused.Sub(now), pauseCap)
	}
	b.pause(now.Add(time.Second))
	if b.paused.Sub(now) != pauseCap {
		t.Error("a shorter pause has replaced a longer one")
	}
}

func TestABucketGivesNoMoreThanItsRate(t *testing.T) {
	now := time.Now()
	b := newBudget(5, now)
	given := 0
	for range 10_000 {
		ok, again := b.take(now)
		if ok {
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

func TestTheIntervalStaysWithinItsBoundsAndJitterMovesItByATenth(t *testing.T) {
	for age, want := range map[time.Duration]time.Duration{0: time.Second, 30 * time.Second: 3 * time.Second, time.Hour: 10 * time.Second} {
		if got := interval(age, time.Second, 10*time.Second); got != want {
			t.Errorf("at the age of %v: %v, want %v", age, got, want)
		}
	}
	if low, high := spread(10*time.Second, 0), spread(10*time.Second, 1); low != 9*time.Second || high != 11*time.Second {
		t.Errorf("spread from %v to %v", low, high)
	}
	for failures, want := range map[int]time.Duration{0: time.Second, 1: time.Second, 3: 4 * time.Second, 10: 30 * time.Second, 1000: 30 * time.Second} {
		if got := backoff(failures, time.Second, 30*time.Second); got != want {
			t.Errorf("after %d failures: %v, want %v", failures, got, want)
		}
	}
}
