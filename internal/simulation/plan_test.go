package simulation

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/easel-grpc/easel/internal/sandbox"
)

// plan contains all decisions that are derived from the seed before the run. During the run, the callers derive their
// random numbers from the same seed.
type plan struct {
	Seed      uint64        `json:"seed"`
	Kind      string        `json:"kind"`
	Length    time.Duration `json:"length"` // time after which no further faults or orders start
	Dialect   string        `json:"dialect"`
	Speed     float64       `json:"speed"`    // the sandbox's speed
	Failures  float64       `json:"failures"` // probability that a generation fails
	Replicas  int           `json:"replicas"`
	Held      bool          `json:"held"`    // whether all callers share one API key
	Rotates   bool          `json:"rotates"` // whether the API key is rotated; the catalog then keeps the idempotency keys of each API key separate
	Tenants   int           `json:"tenants"`
	Workers   int           `json:"workers"` // number of workers of each tenant
	Pause     time.Duration `json:"pause"`   // pause of a worker between two orders
	StreamAge time.Duration `json:"streamAge"`
	Troubles  []trouble     `json:"troubles"`

	// The following fields are for worlds with a ledger, in which teams share an API key.
	Ledger  bool          `json:"ledger,omitempty"`
	Skew    time.Duration `json:"skew,omitempty"`    // time by which the database's clock is ahead of the replicas' clocks; may be negative
	Window  time.Duration `json:"window,omitempty"`  // time within which an order with an unknown outcome may be resent
	Forgets time.Duration `json:"forgets,omitempty"` // time after which the catalog forgets an idempotency key
	Budget  int64         `json:"budget,omitempty"`  // the thrifty team's daily budget in cents
	Events  bool          `json:"events,omitempty"`  // whether teams receive events

	Everywhere bool `json:"everywhere,omitempty"` // whether most generations are watched through every replica
}

// trouble is a planned fault.
type trouble struct {
	ID      string        `json:"id"` // key of [acts], which starts with the ID of a fault in cmd/easel/faults_test.go
	At      time.Duration `json:"at"` // time in the run when the fault starts
	For     time.Duration `json:"for"`
	Replica int           `json:"replica"`
	Variant int           `json:"variant"`
}

func (t trouble) String() string {
	return fmt.Sprintf("%s at %s for %s (replica %c, variant %d)", t.ID, t.At.Round(time.Millisecond), t.For.Round(time.Millisecond), 'a'+t.Replica, t.Variant)
}

func (p plan) String() string {
	text, _ := json.Marshal(p)
	return string(text)
}

// IDs of planned faults, grouped by the part of the system that they affect.
var (
	ofReads    = []string{"U1", "U2", "U3", "U4", "U5", "U6", "U11", "U13", "U17", "U18", "U22", "N1"}
	ofOrders   = []string{"U2p", "U4p", "U5p", "U8", "U9", "U12", "U14", "U15", "U20", "K7", "K8", "A10"}
	ofReplicas = []string{"K3", "N4", "C2", "N2", "N3", "A10k"}
	ofLedger   = []string{"T1", "T1r", "T2", "T3", "T3", "T3l", "T4s", "T4a", "T4m", "T4f", "T4c", "T4n", "T9", "T9", "T10", "T11", "G3", "M2", "M2j", "M3", "M4", "M7", "M8", "M12"}
	ofPolls    = []string{"P5"}
	ofCallers  = []string{"L2", "L4", "L7", "S3"}
)

// kind describes a class of runs, and the ranges from which their plans are drawn.
type kind struct {
	name     string
	weight   int     // percentage of the seeds that select this kind; zero if the kind is selected only by its name
	count    between // number of planned faults
	length   func(r *rand.Rand) time.Duration
	workers  between
	pause    between
	unit     time.Duration               // unit of the numbers in the field pause
	speeds   []float64                   // possible speeds of the sandbox; empty means that the speed is 1
	more     func(r *rand.Rand, p *plan) // changes the plan; may be nil
	troubles []string                    // IDs of the faults that may occur
}

// between is a range of numbers that includes both ends.
type between struct{ least, most int }

func (s between) draw(r *rand.Rand) int {
	if s.least == s.most {
		return s.least
	}
	return s.least + r.IntN(s.most-s.least+1)
}

func minutes(least, most int) func(*rand.Rand) time.Duration {
	return func(r *rand.Rand) time.Duration {
		return time.Duration(least)*time.Minute + time.Duration(r.Int64N(int64(time.Duration(most-least)*time.Minute+1)))
	}
}

func days(least, most int) func(*rand.Rand) time.Duration {
	return func(r *rand.Rand) time.Duration { return time.Duration(between{least, most}.draw(r)) * 24 * time.Hour }
}

// Possible speeds of the sandbox.
var (
	anySpeed  = []float64{1, 0.3, 0.1}
	highSpeed = []float64{1, 0.3}
)

var kinds = []kind{
	{
		name: "week", weight: 22, count: between{10, 16}, length: days(5, 9),
		workers: between{1, 1}, pause: between{8, 19}, unit: time.Minute, speeds: anySpeed,
		troubles: slices.Concat(ofReads, ofOrders, ofReplicas, ofCallers, []string{"U7", "U19"}),
	},
	{ // in simulations of this kind, faults may overlap
		name: "chaos", weight: 20, count: between{12, 20}, length: minutes(10, 20),
		workers: between{3, 6}, pause: between{12, 12}, unit: time.Second, speeds: anySpeed,
		troubles: slices.Concat(ofReads, ofOrders, ofReplicas, []string{"U19", "L2", "L7"}),
	},
	{
		name: "busy", weight: 20, count: between{4, 8}, length: minutes(10, 20),
		workers: between{8, 15}, pause: between{5, 14}, unit: time.Second, speeds: []float64{2, 1, 0.5},
		troubles: slices.Concat(ofReads, ofOrders, ofReplicas, ofCallers),
	},
	{
		name: "outage", weight: 10, count: between{1, 2}, length: minutes(15, 20),
		workers: between{40, 99}, pause: between{30, 30}, unit: time.Second, speeds: []float64{0.02},
		troubles: []string{"U19", "U5", "N1"},
	},
	{
		name: "polls", weight: 5, count: between{5, 8}, length: minutes(12, 20),
		workers: between{1, 2}, pause: between{15, 15}, unit: time.Second, speeds: anySpeed,
		more: func(r *rand.Rand, p *plan) {
			p.watchEverywhere(r)
			p.Rotates = r.IntN(5) == 0
		},
		troubles: slices.Concat(ofPolls, ofReads, ofReplicas, []string{"T4s", "T4a", "T4m", "T4f", "T4c", "M3", "T10"}),
	},
	{
		name: "polls-short", count: between{2, 3}, length: minutes(4, 5),
		workers: between{1, 1}, pause: between{15, 15}, unit: time.Second, speeds: highSpeed,
		more:     func(r *rand.Rand, p *plan) { p.watchEverywhere(r) },
		troubles: slices.Concat(ofPolls, []string{"K3", "C2", "T4s", "T4a", "T4c", "M3"}),
	},
	{ // runs with a rotated API key have a single replica that never restarts, because a new process would not know the API key of an earlier order
		name: "rotation", weight: 5, count: between{4, 8}, length: minutes(8, 15),
		workers: between{6, 6}, pause: between{10, 10}, unit: time.Second,
		more:     func(_ *rand.Rand, p *plan) { p.rotateKeys() },
		troubles: slices.Concat(ofOrders, []string{"A11", "A11", "A11"}),
	},
	{ // these runs are short, because the race detector makes them ten times slower
		name: "short", count: between{3, 4}, length: minutes(4, 6),
		workers: between{1, 2}, pause: between{15, 15}, unit: time.Second,
		more:     func(_ *rand.Rand, p *plan) { p.Tenants = min(p.Tenants, 2) },
		troubles: slices.Concat(ofReads, ofOrders, ofReplicas, []string{"L2", "L7"}),
	},
	{
		name: "teams", weight: 10, count: between{5, 9}, length: minutes(10, 20),
		workers: between{1, 2}, pause: between{12, 12}, unit: time.Second,
		more: func(r *rand.Rand, p *plan) {
			p.addLedger(r)
			switch r.IntN(4) {
			case 0:
				p.Rotates = true
			case 1:
				p.forgetKeys()
			}
		},
		troubles: slices.Concat(ofLedger, ofLedger, ofOrders, []string{"K3", "N4", "C2", "S3", "U1"}),
	},
	{
		name: "events", weight: 3, count: between{5, 9}, length: minutes(12, 20),
		workers: between{1, 2}, pause: between{12, 12}, unit: time.Second,
		more: func(r *rand.Rand, p *plan) {
			p.addLedger(r)
			p.addReceivers()
		},
		troubles: slices.Concat(ofLedger, []string{"K3", "K3", "K3", "N4", "C2", "T4c", "T4a"}),
	},
	{ // the receiver of one team is down for the first ten minutes
		name: "events-short", count: between{2, 4}, length: minutes(10, 12),
		workers: between{1, 1}, pause: between{25, 25}, unit: time.Second,
		more: func(r *rand.Rand, p *plan) {
			p.addLedger(r)
			p.addReceivers()
		},
		troubles: slices.Concat(ofLedger, []string{"K3", "K3", "K3", "C2"}),
	},
	{
		name: "teams-short", count: between{2, 3}, length: minutes(3, 4),
		workers: between{1, 1}, pause: between{12, 12}, unit: time.Second,
		more:     func(r *rand.Rand, p *plan) { p.addLedger(r) },
		troubles: slices.Concat(ofLedger, ofOrders, []string{"K3", "C2"}),
	},
	{
		name: "slow", weight: 5, count: between{2, 4}, length: minutes(60, 120),
		workers: between{2, 2}, pause: between{5, 5}, unit: time.Minute, speeds: []float64{0.005},
		troubles: slices.Concat(ofReads, []string{"U19", "K3", "N4"}),
	},
}

// bases maps prefixes of run names to kinds. For example, the name "only-U14" selects a run of the kind short, but with the
// single fault U14.
var bases = map[string]string{
	"only-": "short", "ledger-": "teams-short", "events-only-": "teams-short", "polls-only-": "polls-short",
}

// planOf returns the plan for a seed. If name is empty, the seed also selects the kind. A name such as "only-U14"
// selects a short run with only the planned fault U14.
func planOf(seed uint64, name string) plan {
	r := rand.New(rand.NewPCG(seed, 0))
	for prefix, base := range bases {
		if id, ok := strings.CutPrefix(name, prefix); ok {
			p := kindOf(base, 0).restrictTo(name, id).plan(seed, r)
			if prefix == "events-only-" {
				p.addReceivers()
			}
			return p
		}
	}
	return kindOf(name, r.IntN(100)).plan(seed, r)
}

// kindOf returns the kind with the given name. If name is empty, randomNumber, which is below 100, selects the kind.
func kindOf(name string, randomNumber int) kind {
	for _, k := range kinds {
		if randomNumber -= k.weight; name == k.name || name == "" && randomNumber < 0 {
			return k
		}
	}
	panic("simulation: unknown kind " + name)
}

// restrictTo returns a copy of k that has the given name. Its plans contain no fault except the one with the given ID, and
// are adapted so that this fault can occur.
func (k kind) restrictTo(name, id string) kind {
	more := k.more
	k.name, k.troubles = name, []string{id}
	k.more = func(r *rand.Rand, p *plan) {
		more(r, p)
		switch id {
		case "A11":
			p.rotateKeys()
		case "T10":
			p.Rotates = true
		case "T11", "M8", "M12":
			p.forgetKeys()
			p.Length = 8 * time.Minute
			if id == "M12" { // a plan may have three freezes of 3.5 minutes, which do not fit into 8 minutes
				p.Length *= 2
			}
		case "P5":
			p.Length, p.Speed, p.Replicas = 10*time.Minute, 0.05, max(p.Replicas, 2)
		case "U7":
			p.Held, p.Tenants = true, 1
		case "U19":
			p.Length = 40 * time.Minute
		}
		if p.allowsFault(id) {
			return
		}
		if p.Dialect = "default"; !p.Ledger {
			p.Held, p.Replicas = false, 1
		}
	}
	return k
}

func (k kind) plan(seed uint64, r *rand.Rand) plan {
	all := sandbox.Dialects()
	p := plan{
		Seed: seed, Kind: k.name, Dialect: all[r.IntN(len(all))].Name, Speed: 1, Failures: []float64{0, 0.1}[r.IntN(2)],
		Replicas: 1 + r.IntN(2), Held: r.IntN(4) == 0, Tenants: 1 + r.IntN(3),
		StreamAge: []time.Duration{time.Hour, 10 * time.Minute, 3 * time.Minute}[r.IntN(3)],
	}
	if p.Held {
		p.Tenants = 1
	}
	if dialect(p.Dialect).Times == sandbox.TimeAbsent {
		// If the catalog reports no end times, the refund window starts when a process first observes the failure. Each new
		// watch would start the refund window again, so streams need a long maximum age.
		p.StreamAge = time.Hour
	}
	p.Length = k.length(r)
	p.Workers = k.workers.draw(r)
	p.Pause = time.Duration(k.pause.draw(r)) * k.unit
	if len(k.speeds) > 0 {
		p.Speed = k.speeds[between{0, len(k.speeds) - 1}.draw(r)]
	}
	if k.more != nil {
		k.more(r, &p)
	}
	k.scheduleFaults(r, &p)
	return p
}

// scheduleFaults draws the faults of a run and their times. Except in runs of the kind "chaos", the faults do not
// overlap, and there is time to recover after each fault, so that each fault can be checked separately.
func (k kind) scheduleFaults(r *rand.Rand, p *plan) {
	count := k.count.draw(r)
	if !slices.ContainsFunc(k.troubles, p.allowsFault) {
		panic(fmt.Sprintf("simulation: in %s, none of the troubles %q can occur", k.name, k.troubles))
	}
	slot := p.Length / time.Duration(count)
	for i := range count {
		id := k.troubles[r.IntN(len(k.troubles))]
		for !p.allowsFault(id) {
			id = k.troubles[r.IntN(len(k.troubles))]
		}
		if _, known := acts[id]; !known {
			panic("simulation: unknown trouble " + id)
		}
		t := trouble{
			ID: id, At: slot*time.Duration(i) + slot/10 + time.Duration(r.Int64N(int64(slot/4))),
			For: 20*time.Second + time.Duration(r.Int64N(int64(70*time.Second))), Replica: r.IntN(p.Replicas), Variant: r.IntN(6),
		}
		if k.name == "chaos" {
			t.At = time.Duration(r.Int64N(int64(p.Length * 4 / 5)))
		} else {
			t.For = min(t.For, slot*3/5)
		}
		if id == "U19" {
			t.For = 5 * time.Minute
		}
		p.Troubles = append(p.Troubles, t)
	}
}

// addLedger extends the plan with a ledger that all replicas share.
func (p *plan) addLedger(r *rand.Rand) {
	p.Ledger, p.Held, p.Window = true, true, 12*time.Hour
	p.Replicas, p.Tenants = 2+r.IntN(2), 2+r.IntN(2)
	p.Skew = []time.Duration{0, 24 * time.Hour, -24 * time.Hour, -2 * time.Minute, 48*time.Hour - 3*time.Minute}[r.IntN(5)]
	p.Budget = 12 + r.Int64N(30)
	if dialect(p.Dialect).Times == sandbox.TimeAbsent {
		p.StreamAge = time.Hour
	}
}

// watchEverywhere adds a ledger to the plan and makes callers watch the same generations through all replicas. One plan
// in six has a single replica.
func (p *plan) watchEverywhere(r *rand.Rand) {
	p.addLedger(r)
	p.Everywhere = true
	p.Replicas = []int{1, 2, 2, 3, 3, 3}[r.IntN(6)]
}

// forgetKeys sets a short resend window, and makes the catalog forget idempotency keys soon after this window.
func (p *plan) forgetKeys() { p.Window, p.Forgets = 90*time.Second, 2*time.Minute }

// addReceivers adds receivers of events to the plan and makes 30 % of the generations fail.
func (p *plan) addReceivers() { p.Events, p.Failures = true, 0.3 }

func (p *plan) rotateKeys() { p.Held, p.Rotates, p.Tenants, p.Replicas = true, true, 1, 1 }

// allowsFault reports whether the fault with the given ID can occur in a run with this plan.
func (p *plan) allowsFault(id string) bool {
	switch id {
	case "T10":
		return p.Rotates
	case "T11", "M8", "M12":
		return p.Forgets > 0
	case "U11", "U13", "M7": // these faults change members of a record, so the dialect must not nest the members in another object
		return dialect(p.Dialect).Record == sandbox.ShapeBare && dialect(p.Dialect).List == sandbox.ShapeBare
	case "L7":
		return !p.Held
	}
	return true
}
