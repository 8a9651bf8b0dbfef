package watch

import (
	"cmp"
	"errors"
	"log/slog"
	"math"
	mathrand "math/rand/v2"
	"time"

	"github.com/easel-grpc/easel/internal/ledger"
	"github.com/easel-grpc/easel/internal/watch/schedule"
)

// Config says how the hub polls.
type Config struct {
	Upstream     Upstream       // required
	MinInterval  time.Duration  // shortest time between two polls of a generation; 0 = 1 s
	MaxInterval  time.Duration  // longest; 0 = 10 s
	Rate         float64        // maximum number of polls a second for a credential and all replicas together; 0 = 5
	RefundWindow time.Duration  // how long after a failure a refund may still come; 0 = 10 min
	Seed         uint64         // of the jitter; 0 = random
	Ledger       *ledger.Ledger // counts the replicas that divide Rate; nil if there is only one
	Logger       *slog.Logger   // nil = discard
	Observer     Observer       // nil = none
	// Sighted hears of each new state that this process has seen, with no lock held: it must be quick. It hears
	// nothing of what other processes have seen. Nil = nobody.
	Sighted func(Sighting)
}

// withDefaults fills in defaults for zero fields, and reports every invalid field.
func (c Config) withDefaults() (Config, error) {
	c.MinInterval = cmp.Or(c.MinInterval, time.Second)
	c.MaxInterval = cmp.Or(c.MaxInterval, max(10*time.Second, c.MinInterval))
	c.Rate = cmp.Or(c.Rate, 5)
	c.RefundWindow = cmp.Or(c.RefundWindow, 10*time.Minute)
	c.Seed = cmp.Or(c.Seed, mathrand.Uint64())
	c.Logger = cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
	if c.Observer == nil {
		c.Observer = noObserver{}
	}
	if c.Sighted == nil {
		c.Sighted = func(Sighting) {}
	}
	var faults []error
	for _, rule := range []struct {
		broken bool
		fault  string
	}{
		{c.Upstream == nil, "watch: Upstream is missing"},
		{c.MinInterval < 0, "watch: MinInterval is negative"},
		{c.MaxInterval < c.MinInterval, "watch: MaxInterval is below MinInterval"},
		{!(c.Rate > 0) || math.IsInf(c.Rate, 1), "watch: Rate is not a number above 0"},
		{c.RefundWindow < 0, "watch: RefundWindow is negative"},
	} {
		if rule.broken {
			faults = append(faults, errors.New(rule.fault))
		}
	}
	return c, errors.Join(faults...)
}

func (c *Config) bounds() schedule.Bounds {
	return schedule.Bounds{Least: c.MinInterval, Most: c.MaxInterval}
}
