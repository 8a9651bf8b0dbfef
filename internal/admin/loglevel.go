package admin

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/easel-grpc/easel/internal/telemetry"
)

// longestLevel is the longest time for which a level may be asked for.
const longestLevel = 24 * time.Hour

// logLevel shows and changes the least level that is logged.
type logLevel struct{ level *telemetry.Level }

// ServeHTTP tells the level on GET, and changes it on PUT: ?level=debug, and for=10m where it
// is to fall back then.
func (l logLevel) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "no-store")
	switch r.Method {
	case http.MethodGet, http.MethodHead:
	case http.MethodPut:
		level, span, err := askedLevel(r)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		l.level.Set(level, span)
	default:
		w.Header().Set("Allow", "GET, HEAD, PUT")
		http.Error(w, "GET tells the level, PUT changes it", http.StatusMethodNotAllowed)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(l.now()) // a client that went away needs no answer
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
