package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strings"
	"time"
)

// row is one line of the table.
type row struct {
	name         string // of the command line and the table
	title        string
	unit         string // of both sides
	reach, dream float64
	most         float64 // that the short form allows; 0: it is a time, and not in the short form
	least        bool    // reach and dream are the least that will do, and not the most
	base, ours   side    // base is nil where ours is a figure by itself
	baseName     string
	once         bool // it counts, and a count needs no repeats
	figure       bool // reach and dream are of ours alone
}

// side measures one side of a row once.
type side func(ctx context.Context, b *bench) (float64, error)

// result is what a row came to.
type result struct {
	Name, Title, Unit string
	BaseName          string    `json:",omitempty"`
	Base, Ours        []float64 // one for each repeat
	Ratio             float64   // of the medians; ours where there is no base
	Reach, Dream      float64
	Least             bool
}

func rowNames() []string {
	names := make([]string, len(rows))
	for i, r := range rows {
		names[i] = r.name
	}
	return names
}

// choose finds the rows of the given names, all of them where there are none.
//
// A name also chooses the rows that it begins: telemetry has telemetry-cpu and others with it.
func choose(names []string) ([]row, error) {
	if len(names) == 0 {
		return rows, nil
	}
	var chosen []row
	for _, name := range names {
		before := len(chosen)
		for _, r := range rows {
			if first, _, _ := strings.Cut(r.name, "-"); strings.EqualFold(r.name, name) || strings.EqualFold(first, name) {
				chosen = append(chosen, r)
			}
		}
		if len(chosen) == before {
			return nil, fmt.Errorf("there is no row %q: they are %s", name, strings.Join(rowNames(), " "))
		}
	}
	return chosen, nil
}

// measure measures the rows, prints each as it is done, and how noisy the machine was.
func (b *bench) measure(ctx context.Context, out io.Writer, chosen []row, output string) error {
	write := func(format string, args ...any) { _, _ = fmt.Fprintf(out, format, args...) }
	write("%s; median of %d, least and most behind it\n\n%s", machine(), b.repeats, heading)
	var results []result
	var calm []float64
	var over []error
	for _, r := range chosen {
		calm = append(calm, yardstick())
		result, err := b.row(ctx, r)
		if err != nil {
			return fmt.Errorf("%s: %w", r.name, err)
		}
		write("%s\n", result)
		results = append(results, result)
		if b.counts && result.verdict() == missed {
			over = append(over, fmt.Errorf("%s: %s, with %s allowed", r.name, short(result.Ratio), short(r.most)))
		}
	}
	write("\nNoise: the same piece of work took %.0f%% more at worst than at best, before the rows.\n", 100*(slices.Max(calm)/slices.Min(calm)-1))
	if output == "" {
		return errors.Join(over...)
	}
	text, err := json.MarshalIndent(map[string]any{"machine": machine(), "repeats": b.repeats, "scale": b.scale, "noise": calm, "rows": results}, "", "  ")
	if err != nil {
		return err
	}
	return errors.Join(append(over, os.WriteFile(output, append(text, '\n'), 0o644))...) //nolint:gosec // figures are for everybody
}

// row measures one row. Its two sides take turns.
func (b *bench) row(ctx context.Context, r row) (result, error) {
	out := result{Name: r.name, Title: r.title, Unit: r.unit, BaseName: r.baseName, Reach: r.reach, Dream: r.dream, Least: r.least}
	repeats := b.repeats
	if r.once {
		repeats = 1
	}
	for i := range repeats {
		progress(r.name, i, repeats)
		if r.base != nil {
			value, err := r.base(ctx, b)
			if err != nil {
				return out, fmt.Errorf("%s: %w", r.baseName, err)
			}
			out.Base = append(out.Base, value)
		}
		value, err := r.ours(ctx, b)
		if err != nil {
			return out, err
		}
		out.Ours = append(out.Ours, value)
	}
	progress("", 0, 0)
	out.Ratio = median(out.Ours)
	if r.base != nil && !r.figure {
		out.Ratio /= median(out.Base)
	}
	return out, nil
}

// progress says on a terminal what is being measured.
func progress(name string, done, of int) {
	if info, err := os.Stderr.Stat(); err != nil || info.Mode()&os.ModeCharDevice == 0 {
		return
	}
	fmt.Fprintf(os.Stderr, "\r\033[K")
	if name != "" {
		fmt.Fprintf(os.Stderr, "%s: %d of %d", name, done+1, of)
	}
}

const heading = "row             measure                                                    beside                    easel                     ratio    reach    dream\n"

// String is the row of the table.
func (r result) String() string {
	base := ""
	if len(r.Base) > 0 {
		base = span(r.Base)
	}
	sign := "≤"
	if r.Least {
		sign = "≥"
	}
	dream := ""
	if r.Dream != 0 {
		dream = sign + short(r.Dream)
	}
	return fmt.Sprintf("%-15s %-58s %-25s %-25s %-8s %s%-7s %-8s %s", r.Name, r.Title+", "+r.Unit, base, span(r.Ours),
		short(r.Ratio), sign, short(r.Reach), dream, r.verdict())
}

const missed = "MISSED"

// verdict says how far the ratio came.
func (r result) verdict() string {
	within := func(limit float64) bool {
		if r.Least {
			return r.Ratio >= limit
		}
		return r.Ratio <= limit
	}
	switch {
	case r.Dream != 0 && within(r.Dream):
		return "dream"
	case within(r.Reach):
		return "reached"
	}
	return missed
}

func span(values []float64) string {
	return fmt.Sprintf("%s (%s–%s)", short(median(values)), short(slices.Min(values)), short(slices.Max(values)))
}

// short writes a number in three digits or so.
func short(v float64) string {
	switch {
	case v == 0:
		return "0"
	case math.Abs(v) >= 100:
		return fmt.Sprintf("%.0f", v)
	case math.Abs(v) >= 10:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.3g", v)
}

func median(values []float64) float64 { return quantile(values, 0.5) }

// quantile gives the value below which a share of the values lies.
func quantile(values []float64, share float64) float64 {
	if len(values) == 0 {
		return math.NaN()
	}
	sorted := slices.Sorted(slices.Values(values))
	at := share * float64(len(sorted)-1)
	low := int(at)
	high := min(low+1, len(sorted)-1)
	return sorted[low] + (at-float64(low))*(sorted[high]-sorted[low])
}

// yardstick is how long a fixed piece of work takes just now, in milliseconds.
func yardstick() float64 {
	begin := time.Now()
	x := uint64(1)
	for range 50_000_000 {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
	}
	took := float64(time.Since(begin).Microseconds()) / 1000
	if x == 0 {
		return 0 // it never is; the loop must not be left out
	}
	return took
}
