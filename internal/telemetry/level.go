package telemetry

import (
	"log/slog"
	"sync"
	"time"
)

// Level is the least level that is logged. It can be changed while the program runs, for good
// or for a while. The zero value is info.
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

// Now gives the level, the level of the settings, and when the level falls back to that: zero where it
// stays.
func (l *Level) Now() (level, usual slog.Level, until time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.Level(), l.usual, l.until
}
