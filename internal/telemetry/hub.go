package telemetry

import "github.com/easel-grpc/easel/internal/watch"

func readHub(s watch.Stats, value observe) {
	value("easel.watches.open", float64(s.Watches))
	value("easel.generations.active", float64(s.Active))
	value("easel.generations.stalest", s.Stalest.Seconds())
	for i, name := range condition.Values {
		value("easel.credentials", float64(s.Conditions[i]), condition.is(name))
	}
	value("easel.credentials.paused", float64(s.Paused))
	value("easel.credentials.away", float64(s.Away))
	value("easel.polls.ready", s.Ready)
	value("easel.polls.rate", s.Rate)
	value("easel.polls.unshared", s.Unshared)
	value("easel.polls.claims", float64(s.Claimed), claimed.is("granted"))
	value("easel.polls.claims", float64(s.Refused), claimed.is("refused"))
	value("easel.polls.taken", float64(s.Taken))
	value("easel.updates.conflated", float64(s.Conflated))
	value("easel.updates.regressed", float64(s.Regressions))
}
