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

// Config is the configuration of a [Hub].
type Config struct {
	Upstream     Upstream       // required
	MinInterval  time.Duration  // minimum interval between two polls of a generation; zero means 1 s
	MaxInterval  time.Duration  // maximum interval between two polls of a generation; zero means 10 s or MinInterval, whichever is longer
	Rate         float64        // maximum number of polls per second for each credential, summed over all replicas; zero means 5
	RefundWindow time.Duration  // time after a failure during which the generation may be refunded; zero means 10 min
	Seed         uint64         // seed of the jitter; zero means a random seed
	Ledger       *ledger.Ledger // ledger in which the replicas that share Rate are counted; nil means that there is only one replica
	Logger       *slog.Logger   // receives the log messages; nil means that they are discarded
	Tracer       Tracer         // may be nil
	Recorder     Recorder       // records each new state before subscribers are notified; nil means that states are not recorded
}

// withDefaults returns a copy of the configuration in which zero fields have their default values. The error lists
// every invalid field.
func (c Config) withDefaults() (Config, error) {
	c.MinInterval = cmp.Or(c.MinInterval, time.Second)
	c.MaxInterval = cmp.Or(c.MaxInterval, max(10*time.Second, c.MinInterval))
	c.Rate = cmp.Or(c.Rate, 5)
	c.RefundWindow = cmp.Or(c.RefundWindow, 10*time.Minute)
	c.Seed = cmp.Or(c.Seed, mathrand.Uint64())
	c.Logger = cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
	if c.Tracer == nil {
		c.Tracer = noTracer{}
	}
	if c.Recorder == nil {
		c.Recorder = noRecorder{}
	}
	var faults []error
	for _, rule := range []struct {
		broken bool
		fault  string
	}{
		{c.Upstream == nil, "watch: Upstream is missing"},
		{c.MinInterval < 0, "watch: MinInterval is negative"},
		{c.MaxInterval < c.MinInterval, "watch: MaxInterval is below MinInterval"},
		{!(c.Rate > 0) || math.IsInf(c.Rate, 1), "watch: Rate is not a positive number"},
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
