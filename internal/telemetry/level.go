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
	usual slog.Level // of the settings: it falls back to it

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

// Set changes the level for the time lasting, and then back to the level of the settings; for good where
// lasting is 0.
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

// fallBack restores the usual level, unless another one was set meanwhile.
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
