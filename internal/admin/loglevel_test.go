package admin

import (
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/easel-grpc/easel/internal/ledger"
	"github.com/easel-grpc/easel/internal/telemetry"
)

// askLevel asks an operator's question, and gives the status and the answer.
func askLevel(t *testing.T, l *telemetry.Level, book *ledger.Ledger, method, query string) (int, levelNow) {
	t.Helper()
	w, r := httptest.NewRecorder(), httptest.NewRequest(method, "/loglevel"+query, nil)
	r.RemoteAddr = "127.0.0.1:5"
	Config{LogLevel: l, Orders: Orders{Ledger: book}}.pages().ServeHTTP(w, r)
	var answer levelNow
	_ = json.Unmarshal(w.Body.Bytes(), &answer) // that of an error is text
	return w.Code, answer
}

func TestTheLevelOfTheLogIsShownAndChanged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		book := labelled(t)
		level := &telemetry.Level{} // info
		if code, answer := askLevel(t, level, book, http.MethodPut, "?level=debug&for=10m"); code != http.StatusOK || answer.Level != "debug" || answer.Until.IsZero() || answer.Usual != "info" {
			t.Errorf("PUT: %d %+v", code, answer)
		}
		if level.Level() != slog.LevelDebug {
			t.Errorf("the level is %v", level.Level())
		}
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		if code, answer := askLevel(t, level, book, http.MethodGet, ""); code != http.StatusOK || answer != (levelNow{Level: "info", Usual: "info"}) {
			t.Errorf("after ten minutes: %d %+v", code, answer)
		}
		askLevel(t, level, book, http.MethodPut, "?level=debug&for=1m")
		askLevel(t, level, book, http.MethodPut, "?level=error")
		time.Sleep(time.Hour)
		synctest.Wait()
		if code, answer := askLevel(t, level, book, http.MethodGet, ""); code != http.StatusOK || answer != (levelNow{Level: "error", Usual: "info"}) {
			t.Errorf("what was set for good did not stay: %d %+v", code, answer)
		}
	})
}

func TestALevelThatIsNoneChangesNothing(t *testing.T) {
	book := labelled(t)
	level := &telemetry.Level{}
	for query, want := range map[string]int{
		"?level=loud": 400, "": 400, "?level=debug&for=never": 400, "?level=debug&for=-1m": 400, "?level=debug&for=25h": 400, "?level=debug&until=now": 400,
		"?level=" + strings.Repeat("x", 10_000): 400,
	} {
		if code, _ := askLevel(t, level, book, http.MethodPut, query); code != want || level.Level() != slog.LevelInfo {
			t.Errorf("PUT %.40s: %d, and the level is %v", query, code, level.Level())
		}
	}
	if code, _ := askLevel(t, level, book, http.MethodPost, "?level=debug"); code != http.StatusMethodNotAllowed {
		t.Errorf("POST: %d", code)
	}
}
