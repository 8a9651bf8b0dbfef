package admin

import (
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/easel-grpc/easel/internal/ledger"
	"github.com/easel-grpc/easel/internal/telemetry"
)

// longestLevel is the longest time for which a level may be asked for.
const longestLevel = 24 * time.Hour

// logLevel shows and changes the least level that is logged.
type logLevel struct {
	level  *telemetry.Level
	ledger *ledger.Ledger
}

// show answers GET /loglevel.
func (l logLevel) show(w http.ResponseWriter, _ *http.Request) { answer(w, l.now(), nil) }

// change answers PUT /loglevel: ?level=debug, and for=10m where it is to fall back then. The audit has it first.
func (l logLevel) change(w http.ResponseWriter, r *http.Request) {
	level, span, err := askedLevel(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	asked := map[string]string{"level": strings.ToLower(level.String())}
	if span > 0 {
		asked["for"] = span.String()
	}
	host, _ := os.Hostname() // without one the log says where
	if err := l.ledger.Audit(r.Context(), ledger.Act{By: byOf(r.Context()), Action: ledger.ActLogLevel, Subject: host, Was: l.now(), Became: asked}); err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	l.level.Set(level, span)
	answer(w, l.now(), nil)
}

// levelNow is the answer.
type levelNow struct {
	Level string    `json:"level"`
	Usual string    `json:"usual"`          // of the settings
	Until time.Time `json:"until,omitzero"` // it falls back then
}

func (l logLevel) now() levelNow {
	level, usual, until := l.level.Now()
	return levelNow{strings.ToLower(level.String()), strings.ToLower(usual.String()), until.UTC()}
}

// askedLevel reads what a request asks for.
func askedLevel(r *http.Request) (level slog.Level, span time.Duration, err error) {
	query := r.URL.Query()
	for name := range query {
		if name != "level" && name != "for" {
			return 0, 0, fmt.Errorf("there is level and for, and not %.32q", name)
		}
	}
	switch name := query.Get("level"); name {
	case "debug", "info", "warn", "error":
		_ = level.UnmarshalText([]byte(name)) // it can
	default:
		return 0, 0, fmt.Errorf("the level %.32q is not debug, info, warn or error", name)
	}
	if text := query.Get("for"); text != "" {
		if span, err = time.ParseDuration(text); err != nil || span < time.Second || span > longestLevel {
			return 0, 0, fmt.Errorf("for=%.32s is no time from 1s to 24h, such as 10m", text)
		}
	}
	return level, span, nil
}
