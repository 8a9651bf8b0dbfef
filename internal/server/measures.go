package server

import (
	"errors"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/service"
)

// measures are the metrics of streams. Their units and descriptions stand in the one table of
// package telemetry.
type measures struct {
	open     metric.Int64UpDownCounter
	closures metric.Int64Counter
	sent     metric.Int64Counter // bytes of results
	// streams are the labels of each method whose calls are streams, by its full name. They are made
	// once: made for each watch, they would grow its stack for as long as it is open.
	streams map[string]metric.MeasurementOption
}

func newMeasures(meter metric.Meter) (measures, error) {
	open, openErr := meter.Int64UpDownCounter("easel.streams.open")
	closures, closuresErr := meter.Int64Counter("easel.stream.closures")
	sent, sentErr := meter.Int64Counter("easel.content.bytes")
	streams := map[string]metric.MeasurementOption{}
	for method := range longLived {
		streams[method] = metric.WithAttributeSet(attribute.NewSet(semconv.RPCMethod(method[1:])))
	}
	return measures{open, closures, sent, streams}, errors.Join(openErr, closuresErr, sentErr)
}

// closureOf is why a stream ended. The set is closed, as each is a series: the table of package
// telemetry lists it.
func closureOf(st *status.Status) string {
	switch st.Code() {
	case codes.OK:
		return "done" // the goal was reached, or all bytes were sent
	case codes.Canceled:
		return "caller_left"
	case codes.DeadlineExceeded:
		return "deadline"
	case codes.Unauthenticated:
		return "credential_rejected"
	case codes.InvalidArgument, codes.NotFound, codes.FailedPrecondition, codes.OutOfRange, codes.PermissionDenied:
		return "refused" // the request asks for what there is not, or not yet
	}
	switch service.Reason(st) {
	case easelv1.ErrorReason_SERVER_DRAINING:
		return "draining"
	case easelv1.ErrorReason_STREAM_MAX_AGE:
		return "max_age"
	case easelv1.ErrorReason_READER_TOO_SLOW:
		return "reader_too_slow"
	case easelv1.ErrorReason_UPSTREAM_CREDENTIAL_REJECTED:
		return "credential_rejected"
	}
	return "failed"
}
