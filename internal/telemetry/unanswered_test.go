package telemetry

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/easel-grpc/easel/internal/catalog"
	"github.com/easel-grpc/easel/internal/watch"
)

func TestAnAPIKeyIsUnansweredUntilAnAnswerOrAQuietMinute(t *testing.T) {
	down, lost := &catalog.Error{Kind: catalog.KindUnavailable}, &catalog.Error{Kind: catalog.KindOutcomeUnknown}
	cred := catalog.Forwarded(catalog.NewSecret("one"))
	for name, test := range map[string]struct {
		then func(*Failures)
		want bool
	}{
		"another failure":            {func(f *Failures) { f.Called(t.Context(), cred, lost) }, true},
		"a caller that has gone":     {func(f *Failures) { f.Called(t.Context(), cred, fmt.Errorf("call: %w", context.Canceled)) }, true},
		"a poll that fails, too":     {func(f *Failures) { f.Polled(t.Context(), watch.Poll{Tenant: cred.Tenant}, watch.Outcome{Err: down}) }, true},
		"another key's answer":       {func(f *Failures) { f.Called(t.Context(), catalog.Forwarded(catalog.NewSecret("two")), nil) }, true},
		"an answer":                  {func(f *Failures) { f.Called(t.Context(), cred, nil) }, false},
		"an answer that is no":       {func(f *Failures) { f.Called(t.Context(), cred, &catalog.Error{Kind: catalog.KindNotFound}) }, false},
		"a poll that is answered":    {func(f *Failures) { f.Polled(t.Context(), watch.Poll{Tenant: cred.Tenant}, watch.Outcome{}) }, false},
		"a minute that nobody calls": {func(*Failures) { time.Sleep(time.Minute) }, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			f := newFailures(slog.New(slog.NewTextHandler(io.Discard, nil)))
			f.Called(t.Context(), cred, down)
			time.Sleep(50 * time.Second)
			test.then(f)
			lasting, unanswered := f.Unanswered()[cred.Tenant.Fingerprint()]
			if unanswered != test.want || unanswered && lasting != 50*time.Second || len(f.Unanswered()) > 1 {
				t.Errorf("%s: %v", name, f.Unanswered())
			}
			f.stop()
		})
	}
}

func TestUnansweredAPIKeysAreBounded(t *testing.T) {
	s := unansweredKeys{keys: map[string]outage{}}
	for n := range 3 * maxFailures {
		s.failed(fmt.Sprint(n))
	}
	if kept := len(s.now()); kept != maxFailures {
		t.Errorf("%d are kept", kept)
	}
}
