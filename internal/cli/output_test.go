package cli

import (
	"math"
	"strings"
	"testing"
	"time"
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

func TestAmountRequiresTwoDecimalsOrCentSuffix(t *testing.T) {
	for text, want := range map[string]int64{"0.50": 50, "50c": 50, "12.34": 1234, "0.00": 0, "0c": 0, "007.00": 700} {
		var a Amount
		if err := a.UnmarshalText([]byte(text)); err != nil || *a.Cents != want {
			t.Errorf("%s: got %v, %v; want %d", text, a.Cents, err, want)
		}
	}
	for _, text := range []string{"50", "0.5", "0.500", ".50", "-0.50", "-5c", "c", "", "1,50", "0.5c", "1e2c", "+5c", "99999999999999999999.00"} {
		var a Amount
		if err := a.UnmarshalText([]byte(text)); err == nil || !strings.Contains(err.Error(), "0.50") {
			t.Errorf("%q is parsed as %v, %v", text, a.Cents, err)
		}
	}
}

func TestSizesAndDurationsAreAbbreviated(t *testing.T) {
	for bytes, want := range map[int64]string{0: "0 B", 999: "999 B", 1000: "1.0 kB", 64 << 20: "67 MB"} {
		if got := formatBytes(bytes); got != want {
			t.Errorf("%d bytes: got %s, want %s", bytes, got, want)
		}
	}
	for span, want := range map[time.Duration]string{
		-1: "0s", 1500 * time.Millisecond: "1.5s", 12 * time.Second: "12s", 61 * time.Second: "1m1s", 3725 * time.Second: "1h2m5s",
	} {
		if got := formatDuration(span); got != want {
			t.Errorf("%v: got %s, want %s", span, got, want)
		}
	}
}
