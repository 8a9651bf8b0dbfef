package telemetry

import (
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/easel-grpc/easel/internal/watch"
)

// replicaMeasures are the metrics of what replicas have to do with each other.
type replicaMeasures struct {
	connected, held, alone metric.Int64ObservableGauge
	taken, dropped, states metric.Int64ObservableCounter

	fenced, refused, told, recalled, stale, refuted metric.MeasurementOption
}

func newReplicaMeasures(m *readings) *replicaMeasures {
	reason := func(value string) metric.MeasurementOption { return labelled(attribute.String(dropReason.Name, value)) }
	outcome := func(value string) metric.MeasurementOption {
		return labelled(attribute.String(peerOutcome.Name, value))
	}
	return &replicaMeasures{
		connected: m.count("easel.replicas.connected"), held: m.count("easel.leases.held"), alone: m.count("easel.credentials.alone"),
		taken: m.total("easel.leases.taken"), dropped: m.total("easel.replicas.dropped"), states: m.total("easel.replicas.states"),
		fenced: reason("fenced"), refused: reason("refused"),
		told: outcome("told"), recalled: outcome("recalled"), stale: outcome("stale"), refuted: outcome("refuted"),
	}
}

func (m *replicaMeasures) observe(out metric.Observer, s watch.Stats, r Replicas) {
	connected := int64(0)
	if r.Connected {
		connected = 1
	}
	out.ObserveInt64(m.connected, connected)
	out.ObserveInt64(m.held, r.Leading)
	out.ObserveInt64(m.alone, int64(s.Alone))
	out.ObserveInt64(m.taken, r.Takings)
	out.ObserveInt64(m.dropped, r.Fenced, m.fenced)
	out.ObserveInt64(m.dropped, r.Refused, m.refused)
	out.ObserveInt64(m.states, s.Told, m.told)
	out.ObserveInt64(m.states, s.Recalled, m.recalled)
	out.ObserveInt64(m.states, s.Stale, m.stale)
	out.ObserveInt64(m.states, s.Refuted, m.refuted)
}
