package main

import (
	"fmt"
	"math"
	"slices"
)

func span(values []float64) string {
	if len(values) == 1 {
		return formatNumber(values[0])
	}
	return fmt.Sprintf("%s (%s–%s)", formatNumber(median(values)), formatNumber(slices.Min(values)), formatNumber(slices.Max(values)))
}

// formatNumber formats a number. If its absolute value is at least 100, the result is an integer, and
// otherwise it has three significant digits.
func formatNumber(v float64) string {
	if math.Abs(v) >= 100 {
		return fmt.Sprintf("%.0f", v)
	}
	return fmt.Sprintf("%.3g", v)
}

func median(values []float64) float64 { return quantile(values, 0.5) }

// quantile returns the value below which the given share of the values lies. A share of 0.5 selects the
// median.
func quantile(values []float64, share float64) float64 {
	return slices.Sorted(slices.Values(values))[int(share*float64(len(values)-1))]
}
