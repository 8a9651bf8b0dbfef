package schedule

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

var usual = Bounds{time.Second, 10 * time.Second}

// durations is a distribution from which the durations of generations are drawn.
type durations struct {
	name  string
	paper float64 // theoretical minimum number of requests per generation, for a mean delay of 1 s and a known distribution
	draw  func(r *rand.Rand) float64
}

func logNormal(r *rand.Rand, median, sigma float64) float64 {
	return median * math.Exp(sigma*r.NormFloat64())
}

// distributions contains distributions for which the lowest possible number of requests is known. Three have a
// median of 15 s, and one has two peaks.
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

// cost contains a schedule's mean number of requests per generation, and the mean and the 99th percentile of its delay
// in seconds.
type cost struct{ requests, mean, p99 float64 }

// measureGaps simulates the given number of random generations with each gap function, and returns the cost over all of
// them. A gap function returns the time until the next poll of a generation of the given age.
func measureGaps(d durations, generations int, gaps []func(age time.Duration) time.Duration) cost {
	r := rand.New(rand.NewPCG(1, 2))
	var requests int
	var delays []float64
	for _, gap := range gaps {
		for range generations {
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

// learnedGaps returns 100 functions, each computed from 100 random durations of generations. Each function returns the time
// until the next poll of a generation of the given age. The price of a poll is the delay, in seconds, that is worth one
// poll.
func learnedGaps(d durations, price float64) []func(time.Duration) time.Duration {
	r := rand.New(rand.NewPCG(7, 7))
	jitter := Source(1)
	var gaps []func(time.Duration) time.Duration
	for range 100 {
		history := make([]time.Duration, 100)
		for i := range history {
			history[i] = time.Duration(d.draw(r) * float64(time.Second))
		}
		c := learnCurve(history, price)
		gaps = append(gaps, func(age time.Duration) time.Duration { return Jitter(c.Gap(age, usual), jitter.Draw()) })
	}
	return gaps
}

// atMeanDelay searches for the price of a poll at which the mean delay is the given number of seconds. The price is
// the delay, in seconds, that is worth one poll. atMeanDelay calls measureAt with each price that it tries, and
// returns the last measurement.
func atMeanDelay(seconds float64, measureAt func(price float64) cost) (c cost) {
	low, high := 1e-3, 10.0
	for range 14 {
		price := math.Sqrt(low * high)
		if c = measureAt(price); c.mean > seconds {
			high = price
		} else {
			low = price
		}
	}
	return c
}

func TestALearnedScheduleCostsAtMostTenPercentOverMinimum(t *testing.T) {
	for _, d := range distributions {
		every := measureGaps(d, 20_000, []func(time.Duration) time.Duration{func(time.Duration) time.Duration { return 2 * time.Second }})
		got := atMeanDelay(1, func(price float64) cost { return measureGaps(d, 500, learnedGaps(d, price)) })
		t.Logf("%s, mean delay %.2f s: %.1f requests for each generation, and %.1f at a fixed interval of 2 s", d.name, got.mean, got.requests, every.requests)
		switch {
		case math.Abs(got.mean-1) > 0.02:
			t.Errorf("%s: no price results in a mean delay of 1 s; got %v", d.name, got.mean)
		case got.requests > 1.10*d.paper:
			t.Errorf("%s: %.2f requests for each generation, want at most 1.10 × %v", d.name, got.requests, d.paper)
		case got.requests > every.requests:
			t.Errorf("%s: %.2f requests for each generation, want at most %.2f as with a fixed interval", d.name, got.requests, every.requests)
		case got.p99 > 4*got.mean:
			t.Errorf("%s: a p99 delay of %.2f s, want at most four times the mean", d.name, got.p99)
		}
	}
}

func TestPollIntervalWithoutHistoryIsAtMostTenSeconds(t *testing.T) {
	for age, want := range map[time.Duration][2]float64{
		0: {1.5, 2.5}, 15 * time.Second: {2, 4}, time.Minute: {3.5, 6}, 6 * time.Minute: {9, 10}, 100 * time.Hour: {10, 10},
	} {
		if got := Unlearned.Gap(age, usual).Seconds(); got < want[0] || got > want[1] {
			t.Errorf("at the age of %v: got an interval of %v s, want %v", age, got, want)
		}
	}
}

func TestLongRunningGenerationIsPolledAtDefaultInterval(t *testing.T) {
	c := learnCurve(slices.Repeat([]time.Duration{3 * time.Second}, 100), pollPrice)
	for _, age := range []time.Duration{time.Minute, time.Hour} {
		with, without := c.Gap(age, usual), Unlearned.Gap(age, usual)
		if ratio := with.Seconds() / without.Seconds(); ratio < 0.8 || ratio > 1.25 {
			t.Errorf("at the age of %v: got an interval of %v, want about %v, as if no durations were known", age, with, without)
		}
	}
}

func TestPollIntervalStaysWithinBoundsForExtremeHistories(t *testing.T) {
	histories := [][]time.Duration{
		nil, {0}, {-time.Hour}, {1}, {math.MaxInt64}, {0, math.MaxInt64}, slices.Repeat([]time.Duration{time.Second}, 1000),
	}
	for _, durations := range histories {
		c := learnCurve(durations, pollPrice)
		if !slices.IsSorted(c[:]) {
			t.Errorf("%v: the number of polls decreases with age", durations)
		}
		for _, age := range []time.Duration{-time.Hour, 0, 1, time.Second, time.Hour, 1000 * time.Hour, math.MaxInt64} {
			if gap := c.Gap(age, usual); gap < usual.Least || gap > usual.Most {
				t.Errorf("%v: at the age of %v: got gap %v, out of bounds", durations, age, gap)
			}
		}
	}
}

func TestJitterIsTenPercentAndBackoffDoubles(t *testing.T) {
	if low, high := Jitter(10*time.Second, 0), Jitter(10*time.Second, 1); low != 9*time.Second || high != 11*time.Second {
		t.Errorf("got jitter from %v to %v, want 9s to 11s", low, high)
	}
	for failures, want := range map[int]time.Duration{0: time.Second, 1: time.Second, 3: 4 * time.Second, 10: 30 * time.Second, 1000: 30 * time.Second} {
		if got := Backoff(failures, time.Second, 30*time.Second); got != want {
			t.Errorf("after %d failures: got the backoff %v, want %v", failures, got, want)
		}
	}
}

func TestExpectedDelayMatchesActualDelayOnAverage(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	generation := func() time.Duration { return time.Duration(distributions[0].draw(random) * float64(time.Second)) }
	var known []time.Duration
	for range 100 {
		known = append(known, generation())
	}
	for name, c := range map[string]*Curve{"learned": learnCurve(known, pollPrice), "unlearned": Unlearned} {
		var expected, actual time.Duration
		const generations = 2000
		for range generations {
			end, last, at := generation(), time.Duration(0), time.Duration(0)
			for at < end {
				last = at
				at += c.Gap(at, Bounds{time.Second, 10 * time.Second})
			}
			expected += c.Delay(last, at)
			actual += at - end
		}
		ratio := expected.Seconds() / actual.Seconds()
		if math.Abs(ratio-1) > 0.2 {
			t.Errorf("%s: the expected delay is %.2f times the actual delay", name, ratio)
		}
	}
}
