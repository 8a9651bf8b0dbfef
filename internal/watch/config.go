package watch

import (
	"errors"
	"log/slog"
	"math"
	"math/rand/v2"
	"time"

	"github.com/easel-grpc/easel/internal/watch/schedule"
)

// Config says how the hub polls.
type Config struct {
	Upstream     Upstream      // required
	MinInterval  time.Duration // shortest time between two polls of a generation; 0 = 1 s
	MaxInterval  time.Duration // longest; 0 = 10 s
	Rate         float64       // polls a second and credential, at most; 0 = 5
	RefundWindow time.Duration // how long after a failure a refund may still come; 0 = 10 min
	Seed         uint64        // of the jitter; 0 = random
	Peers        Peers         // nil: this process is alone
	Logger       *slog.Logger  // nil = discard
	Observer     Observer      // nil = none
}

// withDefaults fills in what is zero, and reports all that can't be meant.
func (c Config) withDefaults() (Config, error) {
	if c.MinInterval == 0 {
		c.MinInterval = time.Second
	}
	if c.MaxInterval == 0 {
		c.MaxInterval = max(10*time.Second, c.MinInterval)
	}
	if c.Rate == 0 {
		c.Rate = 5
	}
	if c.RefundWindow == 0 {
		c.RefundWindow = 10 * time.Minute
	}
	if c.Seed == 0 {
		c.Seed = rand.Uint64()
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Observer == nil {
		c.Observer = noObserver{}
	}
	var faults []error
	if c.Upstream == nil {
		faults = append(faults, errors.New("watch: Upstream is missing"))
	}
	if c.MinInterval < 0 {
		faults = append(faults, errors.New("watch: MinInterval is negative"))
	}
	if c.MaxInterval < c.MinInterval {
		faults = append(faults, errors.New("watch: MaxInterval is below MinInterval"))
	}
	if !(c.Rate > 0) || math.IsInf(c.Rate, 1) {
		faults = append(faults, errors.New("watch: Rate is not a number above 0"))
	}
	if c.RefundWindow < 0 {
		faults = append(faults, errors.New("watch: RefundWindow is negative"))
	}
	return c, errors.Join(faults...)
}

func (c *Config) bounds() schedule.Bounds {
	return schedule.Bounds{Least: c.MinInterval, Most: c.MaxInterval}
}
