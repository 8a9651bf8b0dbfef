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

// plan has all decisions of a seed before the run. Random numbers of callers during the run come
// from the same seed.
type plan struct {
	Seed      uint64        `json:"seed"`
	Kind      string        `json:"kind"`
	Length    time.Duration `json:"length"` // until everything heals
	Dialect   string        `json:"dialect"`
	Speed     float64       `json:"speed"`    // speed of the sandbox
	Failures  float64       `json:"failures"` // share of generations that fail
	Replicas  int           `json:"replicas"`
	Held      bool          `json:"held"`    // all callers share one API key
	Rotates   bool          `json:"rotates"` // it is rotated, and the catalog keeps idempotency keys by API key
	Tenants   int           `json:"tenants"`
	Workers   int           `json:"workers"` // number for each tenant
	Pause     time.Duration `json:"pause"`   // pause of a worker between two orders
	StreamAge time.Duration `json:"streamAge"`
	Troubles  []trouble     `json:"troubles"`

	// Of a world with a ledger, where teams share an API key:
	Ledger  bool          `json:"ledger,omitempty"`
	Skew    time.Duration `json:"skew,omitempty"`    // offset of the database's clock from those of the replicas
	Window  time.Duration `json:"window,omitempty"`  // in which an order of unknown outcome may be sent again
	Forgets time.Duration `json:"forgets,omitempty"` // after which the catalog has forgotten an idempotency key
	Poor    bool          `json:"poor,omitempty"`    // the balance is low, and the catalog checks it before the idempotency key
	Budget  int64         `json:"budget,omitempty"`  // daily budget of the thrifty team, in cents
	Events  bool          `json:"events,omitempty"`  // teams receive events

	Everywhere bool    `json:"everywhere,omitempty"` // most generations are watched through every replica
	OrderRate  float64 `json:"orderRate,omitempty"`  // orders per second that the catalog accepts; zero means no limit
}

// trouble is one entry of the fault catalogue at a time.
type trouble struct {
	ID      string        `json:"id"`
	At      time.Duration `json:"at"`
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

// without returns the plan without some of its troubles. The others keep their random numbers.
func (p plan) without(left []int) plan {
	kept := p
	kept.Troubles = nil
	for i, t := range p.Troubles {
		if !slices.Contains(left, i) {
			kept.Troubles = append(kept.Troubles, t)
		}
	}
	return kept
}

// kind is a sort of run.
type kind struct {
	name     string
	weight   int // share of 100 seeds
	shape    func(r *rand.Rand, p *plan)
	troubles []string // troubles that may happen in it
	count    func(r *rand.Rand) int
}

// Troubles by their subject.
var (
	ofReads    = []string{"U1", "U2", "U3", "U4", "U5", "U6", "U11", "U13", "U17", "U18", "U22", "N1"}
	ofOrders   = []string{"U2p", "U4p", "U5p", "U8", "U9", "U12", "U14", "U15", "U20", "K7", "K8", "A10"}
	ofFiles    = []string{"U16"}
	ofReplicas = []string{"K3", "N4", "C2", "N2", "N3", "A10k"}
	ofLedger   = []string{"T1", "T1r", "T2", "T3", "T3", "T3l", "T4s", "T4a", "T4m", "T4f", "T4c", "T4n", "T7", "T8", "T9", "T9", "T10", "T11", "A10m", "M1", "M2", "M2j", "M3", "M4", "M5", "M7", "M8", "M12"}
	ofPolls    = []string{"P5"}
	ofTheGate  = []string{"G1", "G2", "G3"}
	ofCallers  = []string{"L1", "L2", "L3", "L4", "L5", "L6", "L7", "S3"}
)

func either(n, m int) func(*rand.Rand) int {
	return func(r *rand.Rand) int { return n + r.IntN(m-n+1) }
}

func minutes(r *rand.Rand, least, most int) time.Duration {
	return time.Duration(least)*time.Minute + time.Duration(r.Int64N(int64(time.Duration(most-least)*time.Minute+1)))
}

var kinds = []kind{
	{
		name: "week", weight: 17, count: either(10, 16),
		troubles: slices.Concat(ofReads, ofOrders, ofFiles, ofReplicas, ofCallers, []string{"U7", "U10", "U19", "U21"}),
		shape: func(r *rand.Rand, p *plan) {
			p.Length = time.Duration(5+r.IntN(5)) * 24 * time.Hour
			p.Workers, p.Pause = 1, time.Duration(8+r.IntN(12))*time.Minute
			p.Speed = []float64{1, 0.3, 0.1}[r.IntN(3)]
		},
	},
	{
		name: "chaos", weight: 10, count: either(12, 20), // one trouble upon the other
		troubles: slices.Concat(ofReads, ofOrders, ofFiles, ofReplicas, []string{"U19", "L2", "L3", "L6", "L7"}),
		shape: func(r *rand.Rand, p *plan) {
			p.Length = minutes(r, 10, 20)
			p.Workers, p.Pause = 3+r.IntN(4), 12*time.Second
			p.Speed = []float64{1, 0.3, 0.1}[r.IntN(3)]
		},
	},
	{
		name: "busy", weight: 10, count: either(4, 8),
		troubles: slices.Concat(ofReads, ofOrders, ofFiles, ofReplicas, ofCallers),
		shape: func(r *rand.Rand, p *plan) {
			p.Length = minutes(r, 10, 20)
			p.Workers, p.Pause = 8+r.IntN(8), time.Duration(5+r.IntN(10))*time.Second
			p.Speed = []float64{2, 1, 0.5}[r.IntN(3)]
		},
	},
	{
		name: "outage", weight: 10, count: either(1, 2),
		troubles: []string{"U19", "U5", "N1"},
		shape: func(r *rand.Rand, p *plan) {
			p.Length = minutes(r, 15, 20)
			p.Workers, p.Pause = 40+r.IntN(60), 30*time.Second
			p.Speed = 0.02
		},
	},
	{
		name: "herd", weight: 10, count: either(4, 6),
		troubles: slices.Concat(ofCallers, []string{"L4", "L1", "L6"}),
		shape: func(r *rand.Rand, p *plan) {
			p.Length = minutes(r, 6, 10)
			p.Workers, p.Pause = 3, 10*time.Second
			p.Speed = []float64{1, 0.3}[r.IntN(2)]
		},
	},
	{
		name: "replicas", weight: 10, count: either(3, 6),
		troubles: slices.Concat(ofReplicas, []string{"K3", "N4", "U14", "U15", "K7", "L7"}),
		shape: func(r *rand.Rand, p *plan) {
			p.Length = minutes(r, 12, 25)
			p.Replicas = 2
			p.Workers, p.Pause = 4+r.IntN(5), 15*time.Second
			p.Speed = []float64{1, 0.3, 0.1}[r.IntN(3)]
		},
	},
	{
		name: "polls", weight: 5, count: either(5, 8),
		troubles: slices.Concat(ofPolls, ofReads, ofReplicas, []string{"T4s", "T4a", "T4m", "T4f", "T4c", "M3", "T10", "L6"}),
		shape: func(r *rand.Rand, p *plan) {
			p.Length = minutes(r, 12, 20)
			p.Workers, p.Pause = 1+r.IntN(2), 15*time.Second
			p.Speed = []float64{1, 0.3, 0.1}[r.IntN(3)]
			p.watchEverywhere(r)
			p.Rotates = r.IntN(5) == 0
		},
	},
	{
		name: "polls-short", count: either(2, 3),
		troubles: slices.Concat(ofPolls, []string{"K3", "C2", "T4s", "T4a", "T4c", "M3"}),
		shape: func(r *rand.Rand, p *plan) {
			p.Length = minutes(r, 4, 5)
			p.Workers, p.Pause = 1, 15*time.Second
			p.Speed = []float64{1, 0.3}[r.IntN(2)]
			p.watchEverywhere(r)
		},
	},
	{
		name: "gate", weight: 3, count: either(3, 6),
		troubles: slices.Concat(ofTheGate, ofTheGate, ofOrders, []string{"U5", "U6", "K3", "C2", "T4s", "T4a"}),
		shape: func(r *rand.Rand, p *plan) {
			p.Length = minutes(r, 15, 25)
			p.Workers, p.Pause = 1+r.IntN(2), 15*time.Second
			p.share(r)
			p.OrderRate, p.Replicas = orderRate, 1+r.IntN(3)
		},
	},
	{
		name: "gate-short", count: either(1, 2),
		troubles: ofTheGate,
		shape: func(r *rand.Rand, p *plan) {
			p.Length = minutes(r, 4, 5)
			p.Workers, p.Pause = 1, 15*time.Second
			p.share(r)
			p.OrderRate, p.Replicas = orderRate, 1+r.IntN(2)
		},
	},
	{
		// One replica without restarts: another process would not know the API key of an earlier order.
		name: "rotation", weight: 5, count: either(4, 8),
		troubles: slices.Concat(ofOrders, []string{"A11", "A11", "A11"}),
		shape: func(r *rand.Rand, p *plan) {
			p.Length = minutes(r, 8, 15)
			p.Workers, p.Pause = 6, 10*time.Second
			p.rotate()
		},
	},
	{
		name: "money", weight: 5, count: either(4, 8),
		troubles: slices.Concat(ofOrders, []string{"K3", "S3"}),
		shape: func(r *rand.Rand, p *plan) {
			p.Length = minutes(r, 8, 15)
			p.Workers, p.Pause = 6, 10*time.Second
		},
	},
	{
		name: "short", count: either(3, 4), // for the race detector, which is ten times slower
		troubles: slices.Concat(ofReads, ofOrders, ofFiles, ofReplicas, []string{"L2", "L3", "L6", "L7"}),
		shape: func(r *rand.Rand, p *plan) {
			p.Length = minutes(r, 4, 6)
			p.Workers, p.Pause = 1+r.IntN(2), 15*time.Second
			p.Tenants = min(p.Tenants, 2)
		},
	},
	{
		name: "teams", weight: 7, count: either(5, 9),
		troubles: slices.Concat(ofLedger, ofLedger, ofOrders, []string{"K3", "N4", "C2", "S3", "U1"}),
		shape: func(r *rand.Rand, p *plan) {
			p.Length = minutes(r, 10, 20)
			p.Workers, p.Pause = 1+r.IntN(2), 12*time.Second
			p.share(r)
			switch r.IntN(6) {
			case 0:
				p.Rotates = true
			case 1:
				p.Poor = true
			case 2:
				p.forget()
			}
		},
	},
	{
		name: "events", weight: 3, count: either(5, 9),
		troubles: slices.Concat(ofLedger, []string{"K3", "K3", "K3", "N4", "C2", "T4c", "T4a"}),
		shape: func(r *rand.Rand, p *plan) {
			p.Length = minutes(r, 12, 20)
			p.Workers, p.Pause = 1+r.IntN(2), 12*time.Second
			p.share(r)
			p.Events, p.Failures = true, 0.3
		},
	},
	{
		name: "events-short", count: either(2, 4), // in which the receiver of a team is dead for ten minutes
		troubles: slices.Concat(ofLedger, []string{"K3", "K3", "K3", "C2"}),
		shape: func(r *rand.Rand, p *plan) {
			p.Length = minutes(r, 10, 12)
			p.Workers, p.Pause = 1, 25*time.Second
			p.share(r)
			p.Events, p.Failures = true, 0.3
		},
	},
	{
		name: "teams-short", count: either(2, 3),
		troubles: slices.Concat(ofLedger, ofOrders, []string{"K3", "C2"}),
		shape: func(r *rand.Rand, p *plan) {
			p.Length = minutes(r, 3, 4)
			p.Workers, p.Pause = 1, 12*time.Second
			p.share(r)
		},
	},
	{
		name: "slow", weight: 5, count: either(2, 4),
		troubles: slices.Concat(ofReads, []string{"U19", "U21", "K3", "N4"}),
		shape: func(r *rand.Rand, p *plan) {
			p.Length = minutes(r, 60, 120)
			p.Workers, p.Pause = 2, 5*time.Minute
			p.Speed = 0.005
		},
	},
}

// planOf returns the plan of a seed. An empty kind lets the seed decide; "only-U14" is a short run
// with only that trouble.
func planOf(seed uint64, name string) plan {
	r := rand.New(rand.NewPCG(seed, 0))
	if id, ok := strings.CutPrefix(name, "only-"); ok {
		return only(id).plan(seed, r)
	}
	if id, ok := strings.CutPrefix(name, "events-only-"); ok {
		p := onlyOfTeams(id).plan(seed, r)
		p.Kind, p.Events, p.Failures = name, true, 0.3
		return p
	}
	if id, ok := strings.CutPrefix(name, "ledger-"); ok {
		return onlyOfTeams(id).plan(seed, r)
	}
	if id, ok := strings.CutPrefix(name, "polls-only-"); ok {
		return onlyOfPolls(id).plan(seed, r)
	}
	if id, ok := strings.CutPrefix(name, "gate-only-"); ok {
		return onlyOfTheGate(id).plan(seed, r)
	}
	at := r.IntN(100)
	for _, k := range kinds {
		if at -= k.weight; name == k.name || name == "" && at < 0 {
			return k.plan(seed, r)
		}
	}
	panic("simulation: there is no kind " + name)
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
		// Without end times in the catalog's records, a refund window starts when a process first sees the
		// failure. Watches with a lower maximum age would restart it each time.
		p.StreamAge = time.Hour
	}
	k.shape(r, &p)
	k.schedule(r, &p)
	return p
}

// schedule draws the faults: sequential, with time to recover in between, so that each can be checked
// in isolation.
func (k kind) schedule(r *rand.Rand, p *plan) {
	count := k.count(r)
	if !slices.ContainsFunc(k.troubles, p.takes) {
		panic(fmt.Sprintf("simulation: %s has none of the troubles %q", k.name, k.troubles))
	}
	slot := p.Length / time.Duration(count)
	for i := range count {
		id := k.troubles[r.IntN(len(k.troubles))]
		for !p.takes(id) {
			id = k.troubles[r.IntN(len(k.troubles))]
		}
		t := trouble{
			ID: id, At: slot*time.Duration(i) + slot/10 + time.Duration(r.Int64N(int64(slot/4))),
			For: 20*time.Second + time.Duration(r.Int64N(int64(70*time.Second))), Replica: r.IntN(p.Replicas), Variant: r.IntN(6),
		}
		if id == "U21" {
			t.For *= 120 // longer than the run
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

// share turns the plan into one with a ledger.
func (p *plan) share(r *rand.Rand) {
	p.Ledger, p.Held, p.Window = true, true, 12*time.Hour
	p.Replicas, p.Tenants = 2+r.IntN(2), 2+r.IntN(2)
	p.Skew = []time.Duration{0, 24 * time.Hour, -24 * time.Hour, -2 * time.Minute, 48*time.Hour - 3*time.Minute}[r.IntN(5)]
	p.Budget = 12 + r.Int64N(30)
	if dialect(p.Dialect).Times == sandbox.TimeAbsent {
		p.StreamAge = time.Hour
	}
}

// watchEverywhere turns the plan into one with a ledger, in which many callers watch the same
// generations. It may have a single replica.
func (p *plan) watchEverywhere(r *rand.Rand) {
	p.share(r)
	p.Everywhere = true
	p.Replicas = []int{1, 2, 2, 3, 3, 3}[r.IntN(6)]
}

// forget sets a short resend window, and a slightly longer time after which the catalog forgets
// idempotency keys.
func (p *plan) forget() { p.Window, p.Forgets = 90*time.Second, 2*time.Minute }

func (p *plan) rotate() { p.Held, p.Rotates, p.Tenants, p.Replicas = true, true, 1, 1 }

// takes reports whether a fault can happen in the plan.
func (p *plan) takes(id string) bool {
	switch id {
	case "A10m":
		return p.Poor
	case "T10":
		return p.Rotates
	case "T11", "M8", "M12":
		return p.Forgets > 0
	case "M5":
		return p.Events
	case "G1":
		return p.OrderRate > 0
	case "U11", "U13", "U21", "M7": // they change members of the record, which must not be wrapped
		return dialect(p.Dialect).Record == sandbox.ShapeBare && dialect(p.Dialect).List == sandbox.ShapeBare
	case "L7":
		return !p.Held
	case "U10":
		return p.Replicas == 1
	case "L1":
		return p.Speed >= 0.1
	}
	return true
}
