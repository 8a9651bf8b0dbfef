package telemetry

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// askLevel asks an operator's question, and gives the status and the answer.
func askLevel(l *Level, method, query string) (int, levelNow) {
	w := httptest.NewRecorder()
	l.ServeHTTP(w, httptest.NewRequest(method, "/loglevel"+query, nil))
	var answer levelNow
	_ = json.Unmarshal(w.Body.Bytes(), &answer) // that of an error is text
	return w.Code, answer
}

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
		if code, answer := askLevel(level, http.MethodPut, "?level=debug&for=10m"); code != http.StatusOK || answer.Level != "debug" || answer.Until.IsZero() || answer.Usual != "info" {
			t.Errorf("PUT: %d %+v", code, answer)
		}
		time.Sleep(9 * time.Minute)
		if logged() != "2" {
			t.Errorf("after nine minutes: %s", out)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if code, answer := askLevel(level, http.MethodGet, ""); logged() != "1" || code != http.StatusOK || answer != (levelNow{Level: "info", Usual: "info"}) {
			t.Errorf("after ten minutes: %d %+v\n%s", code, answer, out)
		}
		askLevel(level, http.MethodPut, "?level=debug&for=1m")
		askLevel(level, http.MethodPut, "?level=error")
		time.Sleep(time.Hour)
		if logged() != "0" {
			t.Errorf("what was set for good did not stay: %s", out)
		}
	})
}

func TestALevelThatIsNoneChangesNothing(t *testing.T) {
	level := newLevel(slog.LevelInfo)
	for query, want := range map[string]int{
		"?level=loud": 400, "": 400, "?level=debug&for=never": 400, "?level=debug&for=-1m": 400, "?level=debug&for=25h": 400, "?level=debug&until=now": 400,
		"?level=" + strings.Repeat("x", 10_000): 400,
	} {
		if code, _ := askLevel(level, http.MethodPut, query); code != want || level.Level() != slog.LevelInfo {
			t.Errorf("PUT %.40s: %d, and the level is %v", query, code, level.Level())
		}
	}
	if code, _ := askLevel(level, http.MethodPost, "?level=debug"); code != http.StatusMethodNotAllowed {
		t.Errorf("POST: %d", code)
	}
}

func TestTheLastTroublesAreKeptWhateverTheLevel(t *testing.T) {
	last := &recent{}
	logger, err := newLogger(Config{LogOutput: &bytes.Buffer{}}, newLevel(slog.LevelError), last)
	if err != nil {
		t.Fatal(err)
	}
	logger.Info("all is well")
	for i := range 200 {
		logger.With("a", 1).WithGroup("g").Warn("trouble", "number", i, "error", errors.New(strings.Repeat("ü", 5000)))
	}
	kept := last.newest()
	if len(kept) != mostTroubles || !strings.HasPrefix(kept[0].Detail, "a=1 g.number=199 g.error=ü") || len(kept[0].Detail) > longestDetail || kept[0].Text != "trouble" {
		t.Errorf("%d are kept, the newest is %+v", len(kept), kept[0])
	}
}
