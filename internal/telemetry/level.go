package telemetry

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"
)

// longestLevel is the longest time for which a level may be asked for.
const longestLevel = 24 * time.Hour

// Level is the least level that is logged. It can be changed while the program runs, for good
// or for a while.
type Level struct {
	level slog.LevelVar
	usual slog.Level // to which it falls back

	mu    sync.Mutex
	until time.Time // zero: it stays
}

func newLevel(usual slog.Level) *Level {
	l := &Level{usual: usual}
	l.level.Set(usual)
	return l
}

// Level implements slog.Leveler.
func (l *Level) Level() slog.Level { return l.level.Level() }

// Set changes the level: for so long, and then back to that of the settings, or for good where
// that is 0.
func (l *Level) Set(level slog.Level, lasting time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.level.Set(level)
	l.until = time.Time{}
	if lasting > 0 {
		l.until = time.Now().Add(lasting)
		time.AfterFunc(lasting, l.fallBack)
	}
}

// fallBack ends what was set for a while, unless something else was set meanwhile.
func (l *Level) fallBack() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.until.IsZero() && !time.Now().Before(l.until) {
		l.level.Set(l.usual)
		l.until = time.Time{}
	}
}

// ServeHTTP tells the level on GET, and changes it on PUT: ?level=debug, and for=10m where it
// is to fall back then.
func (l *Level) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "no-store")
	switch r.Method {
	case http.MethodGet, http.MethodHead:
	case http.MethodPut:
		level, lasting, err := asked(r)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		l.Set(level, lasting)
	default:
		w.Header().Set("Allow", "GET, HEAD, PUT")
		http.Error(w, "GET tells the level, PUT changes it", http.StatusMethodNotAllowed)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(l.now()) // who went away does not want it
}

// levelNow is the answer.
type levelNow struct {
	Level string    `json:"level"`
	Usual string    `json:"usual"`          // of the settings
	Until time.Time `json:"until,omitzero"` // it falls back then
}

func (l *Level) now() levelNow {
	l.mu.Lock()
	defer l.mu.Unlock()
	return levelNow{strings.ToLower(l.Level().String()), strings.ToLower(l.usual.String()), l.until.UTC()}
}

// asked reads what a request asks for.
func asked(r *http.Request) (level slog.Level, lasting time.Duration, err error) {
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
		if lasting, err = time.ParseDuration(text); err != nil || lasting < time.Second || lasting > longestLevel {
			return 0, 0, fmt.Errorf("for=%.32s is no time from 1s to 24h, such as 10m", text)
		}
	}
	return level, lasting, nil
}
