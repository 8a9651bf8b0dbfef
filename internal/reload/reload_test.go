package reload

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// pair is a value that is parsed from two files. It counts how often the files are parsed.
type pair struct {
	*Value[string]
	files  []string
	parsed int
	logs   bytes.Buffer
}

func parseBoth(contents ...[]byte) (string, error) {
	text := string(bytes.Join(contents, []byte("+")))
	if strings.Contains(text, "broken") {
		return "", errors.New("does not look right")
	}
	return text, nil
}

// openPair opens a pair of files, which contain "a" and "b", and runs a test with it in virtual
// time.
func openPair(t *testing.T, test func(p *pair)) {
	synctest.Test(t, func(t *testing.T) {
		p := &pair{files: []string{filepath.Join(t.TempDir(), "one"), filepath.Join(t.TempDir(), "two")}}
		p.write(t, 0, "a")
		p.write(t, 1, "b")
		var err error
		p.Value, err = Open("pair", slog.New(slog.NewTextHandler(&p.logs, nil)), func(contents ...[]byte) (string, error) {
			p.parsed++
			return parseBoth(contents...)
		}, p.files...)
		if err != nil {
			t.Fatal(err)
		}
		test(p)
	})
}

func (p *pair) write(t *testing.T, file int, text string) {
	t.Helper()
	if err := os.WriteFile(p.files[file], []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func (p *pair) want(t *testing.T, when, value string) {
	t.Helper()
	if got := p.Get(); got != value {
		t.Errorf("%s: %q, want %q", when, got, value)
	}
}

func (p *pair) wantLogged(t *testing.T, text string, n int) {
	t.Helper()
	if got := strings.Count(p.logs.String(), text); got != n {
		t.Errorf("%q is logged %d times, want %d:\n%s", text, got, n, p.logs.String())
	}
}

func TestFileChangeTakesEffectAfterOneSecond(t *testing.T) {
	openPair(t, func(p *pair) {
		p.write(t, 1, "c") // the new text has the same length as the old one, so that only the content differs
		time.Sleep(Interval - time.Nanosecond)
		p.want(t, "before a second has passed", "a+b")
		time.Sleep(time.Nanosecond)
		p.want(t, "after a second", "a+c")
		for range 5 {
			time.Sleep(Interval)
			p.want(t, "while nothing changes", "a+c")
		}
		if p.parsed != 2 {
			t.Errorf("the files were parsed %d times, want 2", p.parsed)
		}
		p.wantLogged(t, "pair has changed", 1)
	})
}

func TestFileChangeIsDetectedDespiteUnchangedTimestamp(t *testing.T) {
	openPair(t, func(p *pair) {
		info, err := os.Stat(p.files[0])
		if err != nil {
			t.Fatal(err)
		}
		p.write(t, 0, "c")
		if err := os.Chtimes(p.files[0], info.ModTime(), info.ModTime()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(Interval)
		p.want(t, "with the same time and size", "c+b")
	})
}

func TestFailedReloadKeepsPreviousValue(t *testing.T) {
	openPair(t, func(p *pair) {
		p.write(t, 0, "broken")
		for range 3 {
			time.Sleep(Interval)
			p.want(t, "while a file is broken", "a+b")
		}
		if err := os.Remove(p.files[0]); err != nil {
			t.Fatal(err)
		}
		time.Sleep(Interval)
		p.want(t, "while a file is gone", "a+b")
		p.wantLogged(t, "does not look right", 1)
		p.wantLogged(t, "pair unreadable", 2) // one line because the file is broken, and one because it is missing
		p.wantLogged(t, "pair readable again", 0)

		p.write(t, 0, "a")
		time.Sleep(Interval)
		p.want(t, "after the file was restored", "a+b")
		p.wantLogged(t, "pair has changed", 0)
		p.wantLogged(t, "pair readable again", 1)

		p.write(t, 0, "broken")
		time.Sleep(Interval)
		p.want(t, "while the file is broken again", "a+b")
		p.wantLogged(t, "pair unreadable", 3)
	})
}

func TestConcurrentReadersReloadFilesOncePerSecond(t *testing.T) {
	openPair(t, func(p *pair) {
		p.write(t, 0, "broken") // a broken file is parsed again after each interval
		for range 5 {
			time.Sleep(Interval)
			var callers sync.WaitGroup
			for range 100 {
				callers.Go(func() { p.want(t, "for one of many callers", "a+b") })
			}
			callers.Wait()
		}
		if p.parsed != 6 {
			t.Errorf("the files were parsed %d times, want 6", p.parsed)
		}
	})
}

func TestReloadErrorIsReportedUntilFileIsFixed(t *testing.T) {
	openPair(t, func(p *pair) {
		if err := p.Problem(); err != nil {
			t.Errorf("the initial problem is %v", err)
		}
		p.write(t, 0, "broken")
		p.Reload() // reads the files now, before the interval has passed
		if err := p.Problem(); err == nil || !strings.Contains(err.Error(), p.files[0]) {
			t.Errorf("a broken file is reported as %v", err)
		}
		p.write(t, 0, "other")
		p.Reload()
		if err := p.Problem(); err != nil || p.Known() != "other+b" {
			t.Errorf("after the fix the value is %q, %v", p.Known(), err)
		}
	})
}

func TestSlowReloadDoesNotDelayOtherCallers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "file")
		if err := os.WriteFile(path, []byte("old"), 0o600); err != nil {
			t.Fatal(err)
		}
		slowness := time.Duration(0)
		v, err := Open("file", slog.New(slog.DiscardHandler), func(contents ...[]byte) (string, error) {
			time.Sleep(slowness)
			return parseBoth(contents...)
		}, path)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(Interval)
		slowness = 5 * time.Second
		if err := os.WriteFile(path, []byte("new"), 0o600); err != nil {
			t.Fatal(err)
		}
		go v.Get()
		synctest.Wait()
		for range 4 {
			began := time.Now()
			if got := v.Get(); got != "old" || time.Since(began) != 0 {
				t.Errorf("Get returned %q after %v, want the old value without delay", got, time.Since(began))
			}
			time.Sleep(Interval)
		}
		time.Sleep(Interval)
		synctest.Wait()
		slowness = 0
		if got := v.Get(); got != "new" {
			t.Errorf("after the slow read, the value is %q", got)
		}
	})
}

func TestFirstLoadFailsIfFileIsMissingOrInvalid(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	open := func() error {
		_, err := Open("file", slog.New(slog.DiscardHandler), parseBoth, path)
		return err
	}
	if err := open(); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("without a file: %v", err)
	}
	if err := os.WriteFile(path, []byte("broken"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := open(); err == nil || !strings.Contains(err.Error(), path) || strings.Contains(err.Error(), "broken") {
		t.Errorf("with a broken file: %v", err)
	}
}
