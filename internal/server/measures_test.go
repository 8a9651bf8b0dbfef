package server

import (
	"context"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

func TestEachEndOfAStreamHasAReasonOfTheClosedSet(t *testing.T) {
	known := map[closure]bool{}
	for _, c := range closures {
		known[c] = true
	}
	for _, test := range []struct {
		err  error
		want closure
	}{
		{nil, closedDone},
		{context.Canceled, closedLeft},
		{context.DeadlineExceeded, closedDeadline},
		{refusal(codes.Unavailable, "SERVER_DRAINING", ""), closedDraining},
		{refusal(codes.Unavailable, "STREAM_MAX_AGE", ""), closedAge},
		{refusal(codes.Unavailable, "UPSTREAM_UNAVAILABLE", ""), closedFailed},
		{refusal(codes.ResourceExhausted, "READER_TOO_SLOW", ""), closedSlow},
		{refusal(codes.Unauthenticated, "UPSTREAM_CREDENTIAL_REJECTED", ""), closedKey},
		{refusal(codes.Internal, "UPSTREAM_CREDENTIAL_REJECTED", ""), closedKey},
		{refusal(codes.NotFound, "GENERATION_NOT_FOUND", ""), closedRefused},
		{refusal(codes.FailedPrecondition, "CONTENT_NOT_READY", ""), closedRefused},
		{refusal(codes.DataLoss, "CONTENT_CHANGED", ""), closedFailed},
	} {
		if got := closureOf(statusOf(test.err)); got != test.want {
			t.Errorf("%v is %s, want %s", test.err, got, test.want)
		}
	}
	for code := codes.OK; code <= codes.Unauthenticated; code++ {
		if c := closureOf(status.New(code, "")); !known[c] {
			t.Errorf("%v is %s, which has no series", code, c)
		}
	}
}
