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
		events     []func(*trouble)
		told, well int
	}{
		"the connection is told late":    {[]func(*trouble){answers(denied), connects, answers(denied), answers(denied)}, 1, 0},
		"and again after each new one":   {[]func(*trouble){connects, answers(denied), drops, connects, answers(denied)}, 1, 1},
		"until the tables have answered": {[]func(*trouble){connects, answers(denied), answers(allowed), answers(denied)}, 2, 2},
		"two things are wrong":           {[]func(*trouble){connects, answers(denied), answers(jetstream.ErrJetStreamNotEnabled), connects, answers(denied)}, 2, 1},
		"an error of the network":        {[]func(*trouble){connects, answers(errors.New("timeout")), answers(errors.New("timeout"))}, 0, 1},
		"all is well":                    {[]func(*trouble){connects, answers(allowed), answers(allowed)}, 0, 1},
	} {
		log := &journal{}
		is := newTrouble(log.logger())
		for _, happens := range row.events {
			happens(is)
		}
		if told, well := log.count("each replica polls for itself: "), log.count("polls are shared"); told != row.told || well != row.well {
			t.Errorf("%s: told %d times and well %d times, want %d and %d: %s", name, told, well, row.told, row.well, log)
		}
	}
}

func connects(is *trouble) { is.connected("connected to NATS") }
func drops(is *trouble)    { is.gone() }

func answers(err error) func(*trouble) { return func(is *trouble) { is.answered(err) } }
