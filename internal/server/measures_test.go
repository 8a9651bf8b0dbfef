package server

import (
	"context"
	"slices"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/easel-grpc/easel/internal/service"
	"github.com/easel-grpc/easel/internal/telemetry"
)

func TestEachEndOfAStreamHasAReasonOfTheClosedSet(t *testing.T) {
	row := slices.IndexFunc(telemetry.Table, func(m telemetry.Metric) bool { return m.Name == "easel.stream.closures" })
	label := slices.IndexFunc(telemetry.Table[row].Labels, func(l telemetry.Label) bool { return l.Name == "reason" })
	known := telemetry.Table[row].Labels[label].Values
	for _, test := range []struct {
		err  error
		want string
	}{
		{nil, "done"},
		{context.Canceled, "caller_left"},
		{context.DeadlineExceeded, "deadline"},
		{service.Fail(codes.Unavailable, "SERVER_DRAINING", ""), "draining"},
		{service.Fail(codes.Unavailable, "STREAM_MAX_AGE", ""), "max_age"},
		{service.Fail(codes.Unavailable, "UPSTREAM_UNAVAILABLE", ""), "failed"},
		{service.Fail(codes.ResourceExhausted, "READER_TOO_SLOW", ""), "reader_too_slow"},
		{service.Fail(codes.Unauthenticated, "UPSTREAM_CREDENTIAL_REJECTED", ""), "credential_rejected"},
		{service.Fail(codes.Internal, "UPSTREAM_CREDENTIAL_REJECTED", ""), "credential_rejected"},
		{service.Fail(codes.NotFound, "GENERATION_NOT_FOUND", ""), "refused"},
		{service.Fail(codes.FailedPrecondition, "CONTENT_NOT_READY", ""), "refused"},
		{service.Fail(codes.DataLoss, "CONTENT_CHANGED", ""), "failed"},
	} {
		if got := closureOf(service.Status(test.err)); got != test.want {
			t.Errorf("%v is %s, want %s", test.err, got, test.want)
		}
	}
	for code := codes.OK; code <= codes.Unauthenticated; code++ {
		if c := closureOf(status.New(code, "")); !slices.Contains(known, c) {
			t.Errorf("%v is %s, which has no series", code, c)
		}
	}
}
