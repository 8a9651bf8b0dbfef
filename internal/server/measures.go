package server

import (
	"errors"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/semconv/v1.43.0/httpconv"
	"go.opentelemetry.io/otel/semconv/v1.43.0/rpcconv"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// measures are the metrics of this package. Their units, buckets and descriptions stand in
// the one table of package telemetry.
type measures struct {
	calls    rpcconv.ServerCallDuration
	requests httpconv.ServerRequestDuration
	open     metric.Int64UpDownCounter // streams
	closures metric.Int64Counter       // of streams
	bytes    metric.Int64Counter       // of results
}

func newMeasures(meter metric.Meter) (measures, error) {
	calls, callsErr := rpcconv.NewServerCallDuration(meter)
	requests, requestsErr := httpconv.NewServerRequestDuration(meter)
	open, openErr := meter.Int64UpDownCounter("easel.streams.open")
	closures, closuresErr := meter.Int64Counter("easel.stream.closures")
	bytes, bytesErr := meter.Int64Counter("easel.content.bytes")
	return measures{calls, requests, open, closures, bytes}, errors.Join(callsErr, requestsErr, openErr, closuresErr, bytesErr)
}

// streamMeasures are the labels of a method whose calls are streams.
type streamMeasures struct {
	method   metric.MeasurementOption
	closures map[closure]metric.MeasurementOption
}

func newStreamMeasures(method string) *streamMeasures {
	name := semconv.RPCMethod(method)
	s := &streamMeasures{metric.WithAttributeSet(attribute.NewSet(name)), map[closure]metric.MeasurementOption{}}
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
