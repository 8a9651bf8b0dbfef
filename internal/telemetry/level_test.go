package telemetry

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestTheLevelOfTheLogCanBeChangedForAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		level, out := newLevel(slog.LevelInfo), &bytes.Buffer{}
		logger, err := newLogger(Config{LogOutput: out}, level, &recent{})
		if err != nil {
			t.Fatal(err)
		}
		logged := func() string {
			out.Reset()
			logger.Debug("debug")
			logger.Info("info")
			return fmt.Sprint(strings.Count(out.String(), "\n"))
		}
		if logged() != "1" {
			t.Errorf("at info: %s", out)
		}
		level.Set(slog.LevelDebug, 10*time.Minute)
		time.Sleep(9 * time.Minute)
		if logged() != "2" {
			t.Errorf("after nine minutes: %s", out)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if logged() != "1" {
			t.Errorf("after ten minutes: %s", out)
		}
		level.Set(slog.LevelDebug, time.Minute)
		level.Set(slog.LevelError, 0)
		time.Sleep(time.Hour)
		if logged() != "0" {
			t.Errorf("what was set for good did not stay: %s", out)
		}
	})
}

func TestTheLastTroublesAreKeptWhateverTheLevel(t *testing.T) {
	last := &recent{}
	logger, err := newLogger(Config{LogOutput: &bytes.Buffer{}}, newLevel(slog.LevelError), last)
	if err != nil {
		t.Fatal(err)
	}
	logger.Info("all is well")
	for i := range 200 {
		logger.With("a", 1, "idempotency_key", "theirs").WithGroup("g").Warn("trouble", "number", i, "error", errors.New(strings.Repeat("ü", 5000)))
	}
	kept := last.newest()
	if len(kept) != maxTroubles || !strings.HasPrefix(kept[0].Detail, "a=1 g.number=199 g.error=ü") || len(kept[0].Detail) > longestDetail || kept[0].Text != "trouble" {
		t.Errorf("%d are kept, the newest is %+v", len(kept), kept[0])
	}
}
