package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"runtime"
	"slices"
)

// measurement describes how two facades are measured. For each facade, measure is called with a new scene
// and returns the facade's figures, keyed by row name.
type measurement struct {
	measure func(ctx context.Context, s *scene) (figures, error)
	repeats int                 // maximum number of repeats, even if the flag -repeats is higher; zero means no maximum
	flags   map[facade][]string // additional command-line flags for each facade
	sides   sides               // facades to compare; the zero value means thePeer and theEasel
}

// sides contains the two facades that a measurement compares.
type sides struct{ peer, easel facade }

type figures map[string]float64

// facade identifies a server program with its configuration, which is measured.
type facade string

const (
	thePeer  facade = "peer"
	theEasel facade = "easel"
	// Easel with a shared API key, a callers file, and a ledger in SQLite or PostgreSQL.
	inSQLite   facade = "easel, SQLite"
	inPostgres facade = "easel, PostgreSQL"
)

// measureRows runs the measurements for the chosen rows, and prints each row when its measurement is complete. If the
// flag -counts is set, measureRows returns an error if a row misses its limit.
func (b *bench) measureRows(ctx context.Context, out io.Writer, chosen []row) error {
	write := func(format string, args ...any) { _, _ = fmt.Fprintf(out, format, args...) }
	write("%s\n%s/%s, %d CPUs, %s; median, with minimum and maximum in parentheses\n\n%s", b.version, runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), runtime.Version(), heading)
	var failures []error
	for len(chosen) > 0 {
		m := chosen[0].from
		measured, err := b.measureRepeatedly(ctx, m)
		if errors.Is(err, exec.ErrNotFound) {
			write("%-13s NOT measured: PostgreSQL is not installed\n", chosen[0].name)
			chosen = slices.DeleteFunc(chosen, func(r row) bool { return r.from == m })
			continue
		}
		if err != nil {
			return fmt.Errorf("%s: %w", chosen[0].name, err)
		}
		for ; len(chosen) > 0 && chosen[0].from == m; chosen = chosen[1:] {
			r := chosen[0].result(measured)
			write("%s\n", r)
			if b.counts && r.verdict() == missed {
				failures = append(failures, fmt.Errorf("%s: measured %s, but the limit is %s", r.name, formatNumber(r.figure()), formatNumber(r.limit)))
			}
		}
	}
	return errors.Join(failures...)
}

// comparedSides returns the two facades to compare.
func (m *measurement) comparedSides() sides {
	if m.sides == (sides{}) {
		return sides{thePeer, theEasel}
	}
	return m.sides
}

// measureRepeatedly measures Easel and the facade that it is compared with. It repeats this several times, in
// alternating order, and returns the figures of both facades for each repetition.
func (b *bench) measureRepeatedly(ctx context.Context, m *measurement) (measured []map[facade]figures, err error) {
	repeats := b.repeats
	if m.repeats != 0 {
		repeats = min(repeats, m.repeats)
	}
	facades := []facade{m.comparedSides().peer, m.comparedSides().easel}
	for range repeats {
		both := map[facade]figures{}
		for _, f := range facades {
			if both[f], err = b.measureOnce(ctx, m, f); err != nil {
				return nil, fmt.Errorf("%s: %w", f, err)
			}
		}
		measured = append(measured, both)
		slices.Reverse(facades)
	}
	return measured, nil
}

func (b *bench) measureOnce(ctx context.Context, m *measurement, f facade) (figures, error) {
	s := &scene{bench: b, catalog: &stub{generations: map[string]*generation{}}}
	defer s.stop()
	if err := s.startFacade(ctx, f, m.flags[f]); err != nil {
		return nil, err
	}
	return m.measure(ctx, s)
}
