package server

import (
	"context"
	"slices"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/service"
	"github.com/easel-grpc/easel/internal/telemetry"
)

func TestEveryStreamClosureHasDocumentedReason(t *testing.T) {
	row := slices.IndexFunc(telemetry.Table, func(m telemetry.Metric) bool { return m.Name == "easel.stream.closures" })
	label := slices.IndexFunc(telemetry.Table[row].Labels, func(l telemetry.Label) bool { return l.Name == "easel.stream.reason" })
	known := telemetry.Table[row].Labels[label].Values
	for _, test := range []struct {
		err  error
		want string
	}{
		{nil, "done"},
		{context.Canceled, "caller_left"},
		{context.DeadlineExceeded, "deadline"},
		{service.Fail(easelv1.ErrorReason_SERVER_DRAINING, ""), "draining"},
		{service.Fail(easelv1.ErrorReason_STREAM_MAX_AGE, ""), "max_age"},
		{service.Fail(easelv1.ErrorReason_UPSTREAM_UNAVAILABLE, ""), "failed"},
		{service.Fail(easelv1.ErrorReason_READER_TOO_SLOW, ""), "reader_too_slow"},
		{service.Fail(easelv1.ErrorReason_UPSTREAM_CREDENTIAL_REJECTED, ""), "credential_rejected"},
		{service.Fail(easelv1.ErrorReason_GENERATION_NOT_FOUND, ""), "refused"},
		{service.Fail(easelv1.ErrorReason_CONTENT_NOT_READY, ""), "refused"},
		{service.Fail(easelv1.ErrorReason_CONTENT_CHANGED, ""), "failed"},
	} {
		if got := closureOf(service.Status(test.err)); got != test.want {
			t.Errorf("the closure reason of %v is %s, want %s", test.err, got, test.want)
		}
	}
	for code := codes.OK; code <= codes.Unauthenticated; code++ {
		if c := closureOf(status.New(code, "")); !slices.Contains(known, c) {
			t.Errorf("the closure reason of %v is %s, which is not in the table", code, c)
		}
	}
}
