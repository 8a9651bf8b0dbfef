package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/easel-grpc/easel/internal/callers"
	"github.com/easel-grpc/easel/internal/ledger"
)

// saysWhat makes a line of a change of one string to another.
func saysWhat(c change) ledger.Act {
	return ledger.Act{Subject: fmt.Sprint(c.before, "-", c.after)}
}

func TestLinesOfChangesAreWrittenWhenTheLedgerIsBack(t *testing.T) {
	var written []string
	var log bytes.Buffer
	away := errors.New("away")
	lines := newLateAudit(nil, slog.New(slog.NewTextHandler(&log, nil)))
	lines.write = func(_ context.Context, act ledger.Act) error {
		if away == nil {
			written = append(written, act.Subject)
		}
		return away
	}
	try := func(logged, waiting int) {
		t.Helper()
		for range 3 {
			lines.writeAll(t.Context())
		}
		if n := strings.Count(log.String(), "its line of the audit waits"); n != logged || lines.count() != waiting {
			t.Errorf("%d lines wait, the log is %s", lines.count(), &log)
		}
	}
	lines.put("file", "a", "b", saysWhat)
	try(1, 1)
	lines.put("file", "b", "c", saysWhat)
	lines.put("keys", "x", "y", saysWhat)
	try(3, 2)
	away = nil
	try(3, 0)
	slices.Sort(written)
	if !slices.Equal(written, []string{"a-c", "x-y"}) || !strings.Contains(log.String(), "subject=a-b") {
		t.Errorf("written are %q, the log is %s", written, &log)
	}
}

func TestAChangeWhileALineIsWrittenBeginsWhereItEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var written []string
		lines := newLateAudit(nil, slog.New(slog.DiscardHandler))
		lines.write = func(_ context.Context, act ledger.Act) error {
			if written = append(written, act.Subject); len(written) == 1 {
				lines.put("file", "b", "c", saysWhat)
			}
			return nil
		}
		stop := begin(t.Context(), lines.run)
		lines.put("file", "a", "b", saysWhat)
		synctest.Wait()
		stop()
		if !slices.Equal(written, []string{"a-b", "b-c"}) {
			t.Errorf("written are %q", written)
		}
	})
}

func TestALineThatWaitsIsTriedOnceMoreAtTheStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tried := 0
		lines := newLateAudit(nil, slog.New(slog.DiscardHandler))
		lines.write = func(ctx context.Context, _ ledger.Act) error {
			if tried++; tried == 1 {
				return errors.New("away")
			}
			return ctx.Err()
		}
		stop := begin(t.Context(), lines.run)
		lines.put("file", "a", "b", saysWhat)
		synctest.Wait()
		stop()
		if tried != 2 || lines.count() != 0 {
			t.Errorf("tried %d times, %d wait", tried, lines.count())
		}
	})
}

func TestNewKeysOfAnIssuerHaveALine(t *testing.T) {
	var written []string
	lines := newLateAudit(nil, slog.New(slog.DiscardHandler))
	lines.write = func(_ context.Context, act ledger.Act) error {
		written = append(written, fmt.Sprint(act.Actor, " ", act.Origin, " ", act.Action, " ", act.Subject, " ", act.Was, " ", act.Became.(keysInForce).Keys)) //nolint:forcetypeassert // the test panics
		return nil
	}
	changed := auditKeys(lines)
	changed(callers.Issuer{Name: "https://a.example", KeysFile: "keys"}, nil, []string{"one"})
	lines.writeAll(t.Context())
	changed(callers.Issuer{Name: "https://a.example", KeysURL: "https://user:word@a.example/keys?secret"}, []string{"one"}, []string{"two"})
	lines.writeAll(t.Context())
	want := []string{
		"issuer keys issuer.keys https://a.example {[] 0 <nil>} [one]",
		"issuer https://a.example/keys issuer.keys https://a.example {[one] 1 <nil>} [two]",
	}
	if !slices.Equal(written, want) {
		t.Errorf("written are %q", written)
	}
}
