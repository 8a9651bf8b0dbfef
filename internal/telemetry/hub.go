package telemetry

import "github.com/easel-grpc/easel/internal/watch"

func readHub(s watch.Stats, value observe) {
	value("easel.watch.open", float64(s.Watches))
	value("easel.generation.active", float64(s.Active))
	value("easel.generation.stalest", s.Stalest.Seconds())
	for i, name := range condition.Values {
		value("easel.credentials", float64(s.Conditions[i]), condition.is(name))
	}
	value("easel.credential.paused", float64(s.Paused))
	value("easel.poll.ready", s.Ready)
	value("easel.poll.rate", s.Rate)
	value("easel.poll.unshared", s.Unshared)
	value("easel.update.conflated", float64(s.Conflated))
	value("easel.update.regressed", float64(s.Regressions))
}
