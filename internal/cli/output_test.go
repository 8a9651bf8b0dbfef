package cli

import (
	"bytes"
	"math"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/easel-grpc/easel/internal/terminal"
)

func TestMoneyIsWrittenToTheCent(t *testing.T) {
	for cents, want := range map[int64]string{
		0: "0.00 EUR", 5: "0.05 EUR", 1234: "12.34 EUR", -7: "-0.07 EUR", -1234: "-12.34 EUR",
		math.MaxInt64: "92233720368547758.07 EUR", math.MinInt64: "-92233720368547758.08 EUR",
	} {
		if got := Money(cents, ""); got != want {
			t.Errorf("%d: got %s, want %s", cents, got, want)
		}
	}
}

func TestAnAmountNamesItsUnit(t *testing.T) {
	for text, want := range map[string]int64{"0.50": 50, "50c": 50, "12.34": 1234, "0.00": 0, "0c": 0, "007.00": 700} {
		var a Amount
		if err := a.UnmarshalText([]byte(text)); err != nil || *a.Cents != want {
			t.Errorf("%s: got %v, %v; want %d", text, a.Cents, err, want)
		}
	}
	for text, readings := range map[string][]string{"50": {"50.00", "50c"}, "5": {"5.00", "5c"}} {
		err := new(Amount).UnmarshalText([]byte(text))
		if err == nil || !strings.Contains(err.Error(), readings[0]) || !strings.Contains(err.Error(), readings[1]) {
			t.Errorf("%q: %v does not offer %q", text, err, readings)
		}
	}
	for _, text := range []string{"0.5", "0.500", ".50", "-0.50", "-5c", "c", "", "1,50", "0.5c", "1e2c", "+5c", "99999999999999999999.00"} {
		var a Amount
		if err := a.UnmarshalText([]byte(text)); err == nil || !strings.Contains(err.Error(), "0.50") {
			t.Errorf("%q is taken for %v, %v", text, a.Cents, err)
		}
	}
}

func TestSizesAndTimesAreShort(t *testing.T) {
	for bytes, want := range map[int64]string{0: "0 B", 999: "999 B", 1000: "1.0 kB", 999_949: "999.9 kB", 999_950: "1.0 MB", 64 << 20: "67.1 MB"} {
		if got := formatBytes(bytes); got != want {
			t.Errorf("%d bytes: got %s, want %s", bytes, got, want)
		}
	}
	for span, want := range map[time.Duration]string{
		-1: "0s", 1500 * time.Millisecond: "1.5s", 12 * time.Second: "12s", 61 * time.Second: "1m01s", 3725 * time.Second: "1h02m",
	} {
		if got := formatDuration(span); got != want {
			t.Errorf("%v: got %s, want %s", span, got, want)
		}
	}
}

func TestTablesAndHintsFitATerminalOfSixtyColumns(t *testing.T) {
	s := &session{}
	screen := (*bytes.Buffer)(nil)
	s.Console, screen = onTerminal(terminal.Style{Terminal: true, Colour: true, Unicode: true})
	s.Columns = func() int { return 60 }
	long := strings.Repeat("some words ", 9)
	s.Table([]string{"RENDER", "STATE"}, [][]terminal.Cell{terminal.Cells("gen_1", long)})
	s.Fields([][2]string{{"day budget", budgetText(account(nil, 990).Budgets[0], "EUR", s.OutStyle)}, {"about", long}})
	s.Hint("idempotency key AAAAAAAAAAAAAAAAAAAAAAAAAA (after a crash, pass it as --idempotency-key)")
	explain(t.Context(), badUsage(long, long)).write(screen, 60)
	shown := regexp.MustCompile(`\x1b\[\d*m`).ReplaceAllString(screen.String(), "")
	for line := range strings.Lines(shown) {
		if n := utf8.RuneCountInString(strings.TrimSpace(line)); n >= 60 {
			t.Errorf("%d columns: %q", n, line)
		}
	}
	if n := strings.Count(shown, "\n"); n < 12 || !strings.Contains(shown, "gen_1") || !strings.Contains(shown, "--idempotency-key)") {
		t.Errorf("printed\n%s", shown)
	}
}
