package watch

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

var usual = bounds{time.Second, 10 * time.Second}

// durations is a distribution of how long renders take.
type durations struct {
	name  string
	paper float64 // requests a render at a mean delay of 1 s, when the distribution is known
	draw  func(r *rand.Rand) float64
}

func logNormal(r *rand.Rand, median, sigma float64) float64 {
	return median * math.Exp(sigma*r.NormFloat64())
}

// distributions are those that the figures are known for: a median of 15 s, and two humps.
var distributions = []durations{
	{"log-normal 0.3", 4.3, func(r *rand.Rand) float64 { return logNormal(r, 15, 0.3) }},
	{"log-normal 0.6", 7.4, func(r *rand.Rand) float64 { return logNormal(r, 15, 0.6) }},
	{"log-normal 1.0", 12.1, func(r *rand.Rand) float64 { return logNormal(r, 15, 1) }},
	{"two humps", 3.3, func(r *rand.Rand) float64 {
		if r.Float64() < 0.8 {
			return logNormal(r, 4, 0.2)
		}
		return logNormal(r, 40, 0.2)
	}},
}

// sample draws the durations of n renders.
func (d durations) sample(n int, r *rand.Rand) []time.Duration {
	out := make([]time.Duration, n)
	for i := range out {
		out[i] = time.Duration(d.draw(r) * float64(time.Second))
	}
	return out
}

// cost is what a schedule costs: requests and delays in seconds.
type cost struct{ requests, mean, p99 float64 }

// measure looks at renders as a poller does, with the jitter, on many learned curves.
func measure(d durations, renders int, gaps []func(age time.Duration) time.Duration) cost {
	r := rand.New(rand.NewPCG(1, 2))
	var requests int
	var delays []float64
	for _, gap := range gaps {
		for range renders {
			took := time.Duration(d.draw(r) * float64(time.Second))
			age := time.Duration(0)
			for ; age < took; requests++ {
				age += gap(age)
			}
			delays = append(delays, (age - took).Seconds())
		}
	}
	slices.Sort(delays)
	sum := 0.0
	for _, delay := range delays {
		sum += delay
	}
	n := len(delays)
	return cost{float64(requests) / float64(n), sum / float64(n), delays[n*99/100]}
}

// learned makes the gaps of curves that were each learned from other renders.
func learned(d durations, curves, history int, price float64) []func(time.Duration) time.Duration {
	r := rand.New(rand.NewPCG(7, 7))
	jitter := dice(1)
	var gaps []func(time.Duration) time.Duration
	for range curves {
		c := learn(d.sample(history, r), price)
		gaps = append(gaps, func(age time.Duration) time.Duration { return spread(c.gap(age, usual), jitter.draw()) })
	}
	return gaps
}

// atMeanDelay finds the price of a look that gives the mean delay.
func atMeanDelay(seconds float64, costs func(price float64) cost) (c cost) {
	low, high := 1e-3, 10.0
	for range 14 {
		price := math.Sqrt(low * high)
		if c = costs(price); c.mean > seconds {
			high = price
		} else {
			low = price
		}
	}
	return c
}

func fixed(interval time.Duration) []func(time.Duration) time.Duration {
	return []func(time.Duration) time.Duration{func(time.Duration) time.Duration { return interval }}
}

func TestAScheduleLearnedFromAHundredRendersCostsAtMostATenthMoreThanAKnownOne(t *testing.T) {
	table := "                 fixed 2 s | known | learned  ÷ known    mean     p99 | in use    mean     p99 | no history  mean\n"
	for _, d := range distributions {
		every := measure(d, 20_000, fixed(2*time.Second))
		got := atMeanDelay(1, func(price float64) cost { return measure(d, 500, learned(d, 100, historySize, price)) })
		used := measure(d, 300, learned(d, 40, historySize, lookPrice))
		without := measure(d, 10_000, learned(d, 1, 0, lookPrice))
		table += fmt.Sprintf("%-16s %9.2f | %5.1f | %7.2f %8.2f %7.2f %7.2f | %6.2f %7.2f %7.2f | %10.2f %5.2f\n",
			d.name, every.requests, d.paper, got.requests, got.requests/d.paper, got.mean, got.p99,
			used.requests, used.mean, used.p99, without.requests, without.mean)
		switch {
		case math.Abs(got.mean-1) > 0.02:
			t.Errorf("%s: no price gives a mean delay of 1 s, but %v", d.name, got.mean)
		case got.requests > 1.10*d.paper:
			t.Errorf("%s: %.2f requests a render, want at most 1.10 × %v", d.name, got.requests, d.paper)
		case got.requests > every.requests:
			t.Errorf("%s: %.2f requests a render, and a fixed interval needs %.2f", d.name, got.requests, every.requests)
		case got.p99 > 4*got.mean:
			t.Errorf("%s: a p99 delay of %.2f s, want at most four times the mean", d.name, got.p99)
		}
	}
	t.Logf("requests a render, and delays in s; a price for a mean delay of 1 s, and the price in use:\n%s", table)
}

func TestWithoutHistoryLooksAreEveryFewSeconds(t *testing.T) {
	for age, want := range map[time.Duration][2]float64{
		0: {1.5, 2.5}, 15 * time.Second: {2, 4}, time.Minute: {3.5, 6}, 6 * time.Minute: {9, 10}, 100 * time.Hour: {10, 10},
	} {
		if got := unlearned.gap(age, usual).Seconds(); got < want[0] || got > want[1] {
			t.Errorf("at the age of %v: %v s, want %v", age, got, want)
		}
	}
}

func TestARenderThatOutlivesAllKnownOnesIsLookedAtAsIfThereWereNoHistory(t *testing.T) {
	c := learn(slices.Repeat([]time.Duration{3 * time.Second}, 100), lookPrice)
	for _, age := range []time.Duration{time.Minute, time.Hour} {
		with, without := c.gap(age, usual), unlearned.gap(age, usual)
		if ratio := with.Seconds() / without.Seconds(); ratio < 0.8 || ratio > 1.25 {
			t.Errorf("at the age of %v: %v, and %v without history", age, with, without)
		}
	}
}

func TestAfterAModelHasChangedTheScheduleFollowsWithinItsHistory(t *testing.T) {
	slow := durations{draw: func(r *rand.Rand) float64 { return logNormal(r, 30, 0.3) }}
	quick := durations{draw: func(r *rand.Rand) float64 { return logNormal(r, 6, 0.3) }}
	key, h, r := historyKey{"t", "m"}, histories{}, rand.New(rand.NewPCG(1, 1))
	for i, d := range slow.sample(500, r) {
		h.add(key, uint64(i), d)
	}
	for seen, most := range map[int]float64{0: 5, 20: 2.5, 100: 1.3} {
		one := histories{key: {durations: slices.Clone(h[key].durations), renders: slices.Clone(h[key].renders), next: h[key].next}}
		for i, d := range quick.sample(seen, r) {
			one.add(key, 1000+uint64(i), d)
		}
		c := one.curve(key)
		got := measure(quick, 5000, []func(time.Duration) time.Duration{func(age time.Duration) time.Duration { return c.gap(age, usual) }})
		if got.mean > most {
			t.Errorf("%d renders after a change from 30 s to 6 s: a mean delay of %.2f s, want at most %v", seen, got.mean, most)
		}
	}
}

func TestNoDurationsMakeAScheduleLeaveItsBounds(t *testing.T) {
	histories := [][]time.Duration{
		nil, {0}, {-time.Hour}, {1}, {math.MaxInt64}, {0, math.MaxInt64}, slices.Repeat([]time.Duration{time.Second}, 1000),
	}
	for _, durations := range histories {
		c := learn(durations, lookPrice)
		if !slices.IsSorted(c[:]) {
			t.Errorf("%v: the number of looks falls with age", durations)
		}
		for _, age := range []time.Duration{-time.Hour, 0, 1, time.Second, time.Hour, 1000 * time.Hour, math.MaxInt64} {
			if gap := c.gap(age, usual); gap < usual.least || gap > usual.most {
				t.Errorf("%v: at the age of %v a gap of %v", durations, age, gap)
			}
		}
	}
}

func BenchmarkLearnFromAHundredRenders(b *testing.B) {
	renders := distributions[1].sample(historySize, rand.New(rand.NewPCG(1, 1)))
	for b.Loop() {
		learn(renders, lookPrice)
	}
}

func BenchmarkGap(b *testing.B) {
	c := learn(distributions[1].sample(historySize, rand.New(rand.NewPCG(1, 1))), lookPrice)
	for i := 0; b.Loop(); i++ {
		c.gap(time.Duration(i%60)*time.Second, usual)
	}
}
