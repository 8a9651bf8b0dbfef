// Package schedule computes the time of the next poll of a generation, from its age, the history of its model, and the bounds
// on the interval between two polls.
package schedule

import (
	"math"
	"slices"
	"time"
)

// The choice of the next poll for a generation of a given age is the inspection problem: R. E. Barlow, L. C. Hunter and F.
// Proschan, "Optimum Checking Procedures", 1963. Let h(t) be the hazard rate: the rate at which running generations end at age
// t. Let c be the price of one poll, in seconds of delay. With n polls per second, each second costs c·n for the polls and
// h/(2n) for the delay. This sum is smallest at
//
//	n(t) = √(h(t) / 2c)
//
// This is J. B. Keller's approximation, "Optimum Checking Schedules for Systems Subject
// to Random Failure", 1974. The next poll is at the age at which the integral of n, from the
// current age, reaches 1. For a sweep, which polls many generations with one request, the same
// calculation yields the density √(Σh / 2c). This is the square root of the sum of the squared
// densities of the generations.

const (
	// pollPrice is the number of seconds of delay that one poll is worth. With this price, the mean delay is about 1 s if the
	// median duration of the generations is 15 s.
	pollPrice = 2.0 / 15

	// The hazard, which is the rate at which generations of a given age end, is stored in a table. The ages in the table
	// are spaced logarithmically, from a quarter of a second to more than an hour.
	firstAge = 0.25 // seconds
	ageStep  = 1.05
	ageCells = 200

	// Without history, the prior hazard is used. It assumes that a generation much older than priorAge is as likely to end before
	// twice its current age as after it. The resulting interval between polls is 2 s at first, 4 s after a minute, and 10 s after
	// six minutes. With history, the prior counts as half a generation. Its weight at a given age rises with the share of
	// generations that ended earlier. A generation that runs longer than all earlier ones is therefore polled as if there were no
	// history.
	priorAge    = 15.0 // seconds
	priorWeight = 0.5
	lateWeight  = 3.0

	// The following constants determine how durations are smoothed, so that a hundred of them yield a smooth hazard. Each
	// duration is spread over the ages around it. The fraction wideShare of its weight is spread more widely, to cover the gaps
	// between clusters of durations and the ages at both ends. Tests check the properties for which the values were chosen.
	bandwidth  = 0.7
	leastWidth = 0.05
	wideShare  = 0.5
	wideFactor = 3.0
	leastWide  = 0.35
	halfBase   = 2.449 // √6: half the base of a triangular distribution whose standard deviation is 1
)

// Bounds contains the minimum and the maximum interval between two polls.
type Bounds struct{ Least, Most time.Duration }

func (b Bounds) clamp(d time.Duration) time.Duration { return min(max(d, b.Least), b.Most) }

// Curve is the poll schedule for the generations of a model. Element i is the optimal number of polls, which may be fractional,
// before a generation reaches the age edges[i].
type Curve [ageCells + 1]float64

// Gap returns the time from a poll of a generation at the given age to its next poll, within the given bounds.
func (c *Curve) Gap(age time.Duration, within Bounds) time.Duration {
	at := age.Seconds()
	next := c.age(c.polls(at) + 1)
	return within.clamp(time.Duration(min(next-at, within.Most.Seconds()) * float64(time.Second)))
}

// polls returns the optimal number of polls up to the given age. For an age outside the table, it extrapolates linearly.
func (c *Curve) polls(age float64) float64 {
	cell := 0
	if age > firstAge {
		cell = min(int(math.Log(age/firstAge)/math.Log(ageStep)), ageCells-1)
	}
	from := edges[cell]
	return c[cell] + (age-from)*(c[cell+1]-c[cell])/(edges[cell+1]-from)
}

// age returns the age up to which the given number of polls is optimal. It is the inverse function of [Curve.polls].
func (c *Curve) age(polls float64) float64 {
	above, _ := slices.BinarySearch(c[:], polls)
	cell := min(max(above-1, 0), ageCells-1)
	from := edges[cell]
	return from + (polls-c[cell])*(edges[cell+1]-from)/(c[cell+1]-c[cell])
}

// Delay returns the expected time from the end of a generation to the poll that detects it. The first parameter is the
// generation's age at the last poll before its end. The second parameter is its age at the poll that detects the end. The
// density of the curve's polls determines the probability of an end at each age in between.
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

// edges contains the ages at the borders of the table's cells, in seconds.
var edges = func() (ages [ageCells + 1]float64) {
	for i := range ages {
		ages[i] = firstAge * math.Pow(ageStep, float64(i))
	}
	return ages
}()

// Unlearned is the curve of a model without history.
var Unlearned = Learn(nil)

// Learn computes the curve of a model from the durations of its generations.
func Learn(durations []time.Duration) *Curve { return learnCurve(durations, pollPrice) }

// learnCurve computes a curve from durations. price is the price of one poll, in seconds of delay.
func learnCurve(durations []time.Duration, price float64) *Curve {
	ended := density(durations)
	var c Curve
	var hazards [ageCells]float64
	total := max(float64(len(durations)), 1)
	alive := ended[ageCells]
	for i := ageCells - 1; i >= 0; i-- {
		width := edges[i+1] - edges[i]
		age := math.Sqrt(edges[i] * edges[i+1])
		endedShare := 1 - alive/total
		prior := (priorWeight + lateWeight*endedShare) * priorAge / (age + priorAge)
		hazards[i] = (ended[i]/width + prior/(age+priorAge)) / (alive + ended[i]/2 + prior)
		alive += ended[i]
	}
	for i, hazard := range hazards {
		c[i+1] = c[i] + math.Sqrt(hazard/(2*price))*(edges[i+1]-edges[i])
	}
	return &c
}

// density returns the smoothed number of generations that ended in each age cell of the table. The last element counts the
// generations that ended at an age beyond the table.
func density(durations []time.Duration) (ended [ageCells + 1]float64) {
	if len(durations) == 0 {
		return ended
	}
	positions := make([]float64, len(durations))
	for i, d := range durations {
		positions[i] = math.Log(max(d.Seconds(), firstAge) / firstAge)
	}
	width := spreadOf(positions)
	for _, position := range positions {
		addKernel(&ended, position, width*halfBase, 1-wideShare)
		addKernel(&ended, position, max(width*wideFactor, leastWide)*halfBase, wideShare)
	}
	return ended
}

// addKernel spreads the given area over the cells of endedCounts, in the shape of a triangle. position is the center of the
// triangle, and halfBase is half the length of its base. Both are measured on the logarithmic axis.
func addKernel(endedCounts *[ageCells + 1]float64, position, halfBase, area float64) {
	step := math.Log(ageStep)
	done := 0.0
	for i := max(0, int((position-halfBase)/step)); i < ageCells && done < 1; i++ {
		upTo := triangleArea((float64(i+1)*step - position) / halfBase)
		endedCounts[i] += area * (upTo - done)
		done = upTo
	}
	endedCounts[ageCells] += area * (1 - done)
}

// triangleArea returns the area to the left of z under an isosceles triangle. The triangle has the base [-1, 1] and the area 1.
func triangleArea(z float64) float64 {
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

// spreadOf returns the kernel width for the given positions, which is at least leastWidth. It applies Silverman's rule (B. W.
// Silverman, "Density Estimation for Statistics and Data Analysis", 1986) with the factor bandwidth. As the measure of spread,
// it uses the standard deviation or the scaled interquartile range, whichever is smaller.
func spreadOf(positions []float64) float64 {
	sorted := slices.Sorted(slices.Values(positions))
	n := len(sorted)
	var sum, squares float64
	for _, position := range sorted {
		sum += position
		squares += position * position
	}
	deviation := math.Sqrt(max(squares/float64(n)-sum*sum/float64(n*n), 0))
	if quartiles := (sorted[n*3/4] - sorted[n/4]) / 1.349; quartiles > 0 {
		deviation = min(deviation, quartiles)
	}
	return max(bandwidth*deviation*math.Pow(float64(n), -0.2), leastWidth)
}

// SweepGap returns the time between two sweeps (list requests). squareSum is the sum of the squared poll densities of the
// generations that a sweep polls. If it is zero, SweepGap returns the maximum interval.
func SweepGap(squareSum float64, within Bounds) time.Duration {
	if squareSum == 0 {
		return within.Most
	}
	return within.clamp(time.Duration(float64(time.Second) / math.Sqrt(squareSum)))
}

// SquaredDensity returns the contribution of one generation to the sum that is passed to [SweepGap]. gap is the time between
// two polls of the generation.
func SquaredDensity(gap time.Duration) float64 {
	density := 1 / gap.Seconds()
	return density * density
}

// Backoff returns the delay after the given number of consecutive failures. The delay starts at minimum, and doubles with each
// further failure, up to limit.
func Backoff(failures int, minimum, limit time.Duration) time.Duration {
	if failures > 16 {
		return limit
	}
	return min(minimum<<max(failures-1, 0), limit)
}
