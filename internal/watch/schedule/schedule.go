// Package schedule decides when the next poll of a generation is worth it. It is a pure function of age,
// history and Bounds.
package schedule

import (
	"math"
	"slices"
	"time"
)

// When to poll next at a generation of some age is the inspection problem: R. E. Barlow,
// L. C. Hunter and F. Proschan, "Optimum Checking Procedures", 1963. With h(t) the hazard
// rate of ending at age t, and one poll worth c seconds of delay, polling with density n
// costs c·n for the polls and h/(2n) for the delay, each second. The sum is least at
//
//	n(t) = √(h(t) / 2c)
//
// which is J. B. Keller's approximation, "Optimum Checking Schedules for Systems Subject
// to Random Failure", 1974. The next poll is where the integral of n from now reaches 1.
// The same sum for one request that polls at many generations gives the density of sweeps:
// √(Σh / 2c), the root of the sum of the squares of their own densities.

const (
	// pollPrice is c: what one request is worth, in seconds of delay. For generations of a
	// median of 15 s this gives a mean delay of about 1 s.
	pollPrice = 2.0 / 15

	// The hazard is a table over logarithmic steps of age, from a quarter of a second to
	// more than an hour.
	firstAge = 0.25 // seconds
	ageStep  = 1.05
	ageCells = 200

	// Without history the hazard is that of a generation which is as likely to end as to take as
	// long again, once it is older than priorAge: polls every 2 s at first, every 4 s after a
	// minute, every 10 s after six. With history it counts as half a generation, and as more the
	// more generations have ended: a generation that outlives all known ones is polled as if there
	// were no history.
	priorAge    = 15.0 // seconds
	priorWeight = 0.5
	lateWeight  = 3.0

	// Each known generation is spread over the ages around its own, so that a hundred of them
	// make a smooth hazard: half of it over about the width of Silverman's rule, taken from the
	// robuster of two measures, and half over three times that, for the generations between two
	// humps and at the edges. A test holds what these numbers are chosen for.
	bandwidth  = 0.7
	leastWidth = 0.05
	wideShare  = 0.5
	wideFactor = 3.0
	leastWide  = 0.35
	halfBase   = 2.449 // half the base of a triangle, in its standard deviations: √6
)

// Bounds are the shortest and the longest time between two polls.
type Bounds struct{ Least, Most time.Duration }

func (b Bounds) clamp(d time.Duration) time.Duration { return min(max(d, b.Least), b.Most) }

// Curve is the schedule of a model: the number of polls that are worth it up to the age of each edge of the
// table.
type Curve [ageCells + 1]float64

// Gap is the time from a poll at the given age to the next.
func (c *Curve) Gap(age time.Duration, within Bounds) time.Duration {
	at := age.Seconds()
	next := c.age(c.polls(at) + 1)
	return within.clamp(time.Duration(min(next-at, within.Most.Seconds()) * float64(time.Second)))
}

// polls is the number of polls up to an age. It is linear beyond both ends of the table.
func (c *Curve) polls(age float64) float64 {
	cell := 0
	if age > firstAge {
		cell = min(int(math.Log(age/firstAge)/math.Log(ageStep)), ageCells-1)
	}
	from := edges[cell]
	return c[cell] + (age-from)*(c[cell+1]-c[cell])/(edges[cell+1]-from)
}

// age is the age at which the schedule has made so many polls: the reverse of polls.
func (c *Curve) age(polls float64) float64 {
	above, _ := slices.BinarySearch(c[:], polls)
	cell := min(max(above-1, 0), ageCells-1)
	from := edges[cell]
	return from + (polls-c[cell])*(edges[cell+1]-from)/(c[cell+1]-c[cell])
}

// Delay is the expected time until the poll at the age to detects an end that came after the poll at the
// age from. It derives the hazard from the density of polls.
func (c *Curve) Delay(from, to time.Duration) time.Duration {
	var ended, late, passed float64
	for cell := range ageCells {
		begin, end := max(edges[cell], from.Seconds()), min(edges[cell+1], to.Seconds())
		if cell == 0 {
			begin = max(0, from.Seconds())
		}
		if cell == ageCells-1 {
			end = to.Seconds()
		}
		if begin >= end {
			continue
		}
		density := (c[cell+1] - c[cell]) / (edges[cell+1] - edges[cell])
		hazard := 2 * pollPrice * density * density * (end - begin)
		share := math.Exp(-passed) * -math.Expm1(-hazard)
		ended += share
		late += share * (to.Seconds() - (begin+end)/2)
		passed += hazard
	}
	if ended <= 0 {
		return (to - from) / 2
	}
	return time.Duration(late / ended * float64(time.Second))
}

// edges are the ages at which the cells of the table begin, in seconds.
var edges = func() (ages [ageCells + 1]float64) {
	for i := range ages {
		ages[i] = firstAge * math.Pow(ageStep, float64(i))
	}
	return ages
}()

// Unlearned is the Curve without history.
var Unlearned = Learn(nil)

// Learn makes the curve of a model from the durations of its generations.
func Learn(durations []time.Duration) *Curve { return learn(durations, pollPrice) }

// learn is Learn at a price of one poll, in seconds of delay.
func learn(durations []time.Duration, price float64) *Curve {
	ended := density(durations)
	var c Curve
	var hazards [ageCells]float64
	total := max(float64(len(durations)), 1)
	alive := ended[ageCells]
	for i := ageCells - 1; i >= 0; i-- {
		width := edges[i+1] - edges[i]
		age := math.Sqrt(edges[i] * edges[i+1])
		gone := 1 - alive/total
		prior := (priorWeight + lateWeight*gone) * priorAge / (age + priorAge)
		hazards[i] = (ended[i]/width + prior/(age+priorAge)) / (alive + ended[i]/2 + prior)
		alive += ended[i]
	}
	for i, hazard := range hazards {
		c[i+1] = c[i] + math.Sqrt(hazard/(2*price))*(edges[i+1]-edges[i])
	}
	return &c
}

// density is how many of the generations ended in each cell, smoothed. The last element counts those beyond
// the table.
func density(durations []time.Duration) (ended [ageCells + 1]float64) {
	if len(durations) == 0 {
		return ended
	}
	places := make([]float64, len(durations))
	for i, d := range durations {
		places[i] = math.Log(max(d.Seconds(), firstAge) / firstAge)
	}
	width := spreadOf(places)
	for _, place := range places {
		addKernel(&ended, place, width*halfBase, 1-wideShare)
		addKernel(&ended, place, max(width*wideFactor, leastWide)*halfBase, wideShare)
	}
	return ended
}

// addKernel adds a triangle of the given area and half base around a place on the axis of logarithms.
func addKernel(ended *[ageCells + 1]float64, place, half, area float64) {
	step := math.Log(ageStep)
	done := 0.0
	for i := max(0, int((place-half)/step)); i < ageCells && done < 1; i++ {
		upTo := triangle((float64(i+1)*step - place) / half)
		ended[i] += area * (upTo - done)
		done = upTo
	}
	ended[ageCells] += area * (1 - done)
}

// triangle is the part of a triangle over [-1, 1] that lies left of z.
func triangle(z float64) float64 {
	switch {
	case z <= -1:
		return 0
	case z >= 1:
		return 1
	case z < 0:
		return (1 + z) * (1 + z) / 2
	}
	return 1 - (1-z)*(1-z)/2
}

// spreadOf is the width of the kernel: Silverman's rule, B. W. Silverman, "Density
// Estimation for Statistics and Data Analysis", 1986.
func spreadOf(places []float64) float64 {
	sorted := slices.Sorted(slices.Values(places))
	n := len(sorted)
	var sum, squares float64
	for _, place := range sorted {
		sum += place
		squares += place * place
	}
	deviation := math.Sqrt(max(squares/float64(n)-sum*sum/float64(n*n), 0))
	if quartiles := (sorted[n*3/4] - sorted[n/4]) / 1.349; quartiles > 0 {
		deviation = min(deviation, quartiles)
	}
	return max(bandwidth*deviation*math.Pow(float64(n), -0.2), leastWidth)
}

// SweepGap is the time between two sweeps. squares is the sum of the squared densities of the generations
// that a sweep polls.
func SweepGap(squares float64, within Bounds) time.Duration {
	if squares == 0 {
		return within.Most
	}
	return within.clamp(time.Duration(float64(time.Second) / math.Sqrt(squares)))
}

// SquaredDensity is the share of one generation in the density of sweeps.
func SquaredDensity(gap time.Duration) float64 {
	density := 1 / gap.Seconds()
	return density * density
}

// Backoff is the time to wait after so many failures in a row: it doubles from the minimum up to limit.
func Backoff(failures int, minimum, limit time.Duration) time.Duration {
	if failures > 16 {
		return limit
	}
	return min(minimum<<max(failures-1, 0), limit)
}
