package server

import (
	"errors"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// measures are the metrics of streams. Their units and descriptions stand in the one table of
// package telemetry.
type measures struct {
	open     metric.Int64UpDownCounter
	closures metric.Int64Counter
	sent     metric.Int64Counter      // bytes of results
	streams  map[string]*streamLabels // by full method
}

func newMeasures(meter metric.Meter) (measures, error) {
	open, openErr := meter.Int64UpDownCounter("easel.streams.open")
	closures, closuresErr := meter.Int64Counter("easel.stream.closures")
	sent, sentErr := meter.Int64Counter("easel.content.bytes")
	streams := map[string]*streamLabels{}
	for method := range lasting {
		streams[method] = newStreamLabels(method[1:])
	}
	return measures{open, closures, sent, streams}, errors.Join(openErr, closuresErr, sentErr)
}

// streamLabels are the labels of a method whose calls are streams, made once.
type streamLabels struct {
	method   metric.MeasurementOption
	closures map[closure]metric.MeasurementOption
}

func newStreamLabels(method string) *streamLabels {
	name := semconv.RPCMethod(method)
	s := &streamLabels{metric.WithAttributeSet(attribute.NewSet(name)), map[closure]metric.MeasurementOption{}}
	for _, c := range closures {
		s.closures[c] = metric.WithAttributeSet(attribute.NewSet(name, attribute.String("reason", string(c))))
	}
	return s
}

// closure is why a stream ended.
type closure string

// The reasons. The set is closed, as each is a series.
const (
	closedDone     closure = "done" // the goal was reached, or all bytes were sent
	closedLeft     closure = "caller_left"
	closedDeadline closure = "deadline"
	closedDraining closure = "draining"
	closedAge      closure = "max_age"
	closedSlow     closure = "reader_too_slow"
	closedKey      closure = "credential_rejected"
	closedRefused  closure = "refused" // the request asks for what there is not, or not yet
	closedFailed   closure = "failed"
)

var closures = []closure{closedDone, closedLeft, closedDeadline, closedDraining, closedAge, closedSlow, closedKey, closedRefused, closedFailed}

// closureOf reads the reason from a status.
func closureOf(st *status.Status) closure {
	switch st.Code() {
	case codes.OK:
		return closedDone
	case codes.Canceled:
		return closedLeft
	case codes.DeadlineExceeded:
		return closedDeadline
	case codes.Unauthenticated:
		return closedKey
	case codes.InvalidArgument, codes.NotFound, codes.FailedPrecondition, codes.OutOfRange, codes.PermissionDenied:
		return closedRefused
	}
	switch reasonOf(st) {
	case "SERVER_DRAINING":
		return closedDraining
	case "STREAM_MAX_AGE":
		return closedAge
	case reasonTooSlow:
		return closedSlow
	case "UPSTREAM_CREDENTIAL_REJECTED":
		return closedKey
	}
	return closedFailed
}
