package cluster

import (
	"errors"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

func TestAConnectionProvesNothingOfTheTables(t *testing.T) {
	denied, allowed := nats.ErrPermissionViolation, error(nil)
	for name, row := range map[string]struct {
		events         []func(*problems)
		reported, well int
	}{
		"the connection is reported late": {[]func(*problems){answers(denied), connects, answers(denied), answers(denied)}, 1, 0},
		"and again after each new one":    {[]func(*problems){connects, answers(denied), drops, connects, answers(denied)}, 1, 1},
		"until the tables have answered":  {[]func(*problems){connects, answers(denied), answers(allowed), answers(denied)}, 2, 2},
		"two things are wrong":            {[]func(*problems){connects, answers(denied), answers(jetstream.ErrJetStreamNotEnabled), connects, answers(denied)}, 2, 1},
		"an error of the network":         {[]func(*problems){connects, answers(errors.New("timeout")), answers(errors.New("timeout"))}, 0, 1},
		"all is well":                     {[]func(*problems){connects, answers(allowed), answers(allowed)}, 0, 1},
	} {
		log := &journal{}
		p := newProblems(log.logger())
		for _, happens := range row.events {
			happens(p)
		}
		if reported, well := log.count("each replica polls for itself: "), log.count("polls are shared"); reported != row.reported || well != row.well {
			t.Errorf("%s: reported %d times and well %d times, want %d and %d: %s", name, reported, well, row.reported, row.well, log)
		}
	}
}

func connects(p *problems) { p.connected("connected to NATS") }
func drops(p *problems)    { p.disconnected() }

func answers(err error) func(*problems) { return func(p *problems) { p.tableAnswered(err) } }
