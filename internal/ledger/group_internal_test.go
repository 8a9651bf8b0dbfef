package ledger

import (
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// Those that come while one is under way share a transaction, and what fails is taken back alone.
func TestWhatFailsInAGroupIsTakenBackAlone(t *testing.T) {
	l, err := Open(t.Context(), Config{URL: "sqlite:" + filepath.Join(t.TempDir(), "book.db"), Catalog: "c"})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	ctx := inTurn(t.Context(), forOrder, "studio")
	begun, release, first := make(chan struct{}), make(chan struct{}), make(chan error)
	go func() {
		first <- l.inTransaction(ctx, func(*transaction) error {
			close(begun)
			<-release
			return nil
		})
	}()
	<-begun
	note := `INSERT INTO facts (name, value) VALUES ($1, '')`
	sessions, ended := map[session]int{}, make(chan error)
	steps := map[string]func(*transaction) error{
		"one": func(tx *transaction) error { return nil }, "another": func(tx *transaction) error { return nil },
		"panics":    func(tx *transaction) error { panic("a mistake of ours") },
		"refused":   func(tx *transaction) error { return ErrKeyTaken },
		"a mistake": func(tx *transaction) error { _, err := tx.exec(`INSERT INTO facts (name) VALUES (NULL)`); return err },
	}
	for name, step := range steps {
		go func() {
			defer func() {
				if value := recover(); value != nil { // on its own goroutine
					ended <- fmt.Errorf("panic: %v", value)
				}
			}()
			ended <- l.inTransaction(ctx, func(tx *transaction) error {
				sessions[tx.session]++ // one after the other
				if _, err := tx.exec(note, name); err != nil {
					return err
				}
				return step(tx)
			})
		}()
	}
	for waiting := 0; waiting < len(steps); runtime.Gosched() {
		l.group.mu.Lock()
		waiting = len(l.group.waiting)
		l.group.mu.Unlock()
	}
	close(release)
	failed := errors.Join(<-ended, <-ended, <-ended, <-ended, <-ended)
	if err := <-first; err != nil {
		t.Error(err)
	}
	if away, ok := errors.AsType[*Unavailable](failed); !errors.Is(failed, ErrKeyTaken) || !ok || errors.Is(away, ErrKeyTaken) || !strings.Contains(failed.Error(), "panic: a mistake of ours") {
		t.Errorf("they have failed with %v", failed)
	}
	if noted := l.Ask(t, `SELECT COUNT(*) FROM facts WHERE name IN ('one', 'another')`) + l.Ask(t, `SELECT COUNT(*) FROM facts WHERE name IN ('refused', 'a mistake', 'panics')`); noted != "20" || len(sessions) != 1 {
		t.Errorf("%s are noted and taken back, in %d transactions", noted, len(sessions))
	}
}
