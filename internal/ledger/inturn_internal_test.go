package ledger

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// In a file each sees what those before it have done, and nobody is beside it. Those of an owner that are too many come next.
func TestAFileCarriesOutOneAfterTheOther(t *testing.T) {
	l := groupOf(t, "sqlite:"+filepath.Join(t.TempDir(), "book.db"))
	steps, running, seen := map[string]func(*transaction) error{}, 0, map[int]bool{}
	for n := range groupMost + 3 {
		steps[fmt.Sprint("one ", n)] = func(tx *transaction) error {
			if running++; running > 1 {
				return errors.New("another is beside it")
			}
			noted := 0
			err := tx.row(`SELECT COUNT(*) FROM facts WHERE name LIKE 'one %'`).Scan(&noted)
			seen[noted] = true
			running--
			return err
		}
	}
	errs, groups := together(t, l, steps, l.inStudio)
	if err := errors.Join(slices.Collect(maps.Values(errs))...); err != nil {
		t.Error(err)
	}
	if groups != 3 || len(seen) != groupMost+3 || !seen[1] || !seen[groupMost+3] {
		t.Errorf("%d transactions, and they have seen %v", groups, slices.Sorted(maps.Keys(seen)))
	}
}

// What one is refused costs the others of a file nothing.
func TestARefusalRepeatsNoOtherOfAFile(t *testing.T) {
	l := groupOf(t, "sqlite:"+filepath.Join(t.TempDir(), "book.db"))
	ran := 0
	steps := map[string]func(*transaction) error{"neighbour": func(*transaction) error { ran++; return nil }}
	for n := range groupMost {
		steps[fmt.Sprint("refused ", n)] = func(*transaction) error { return ErrKeyTaken }
	}
	errs, groups := together(t, l, steps, func(ctx context.Context, name string, do func(*transaction) error) error {
		if name == "neighbour" {
			ctx = inTurn(ctx, forOrder, name)
		}
		return l.inStudio(ctx, name, do)
	})
	for name, err := range errs {
		if errors.Is(err, ErrKeyTaken) == (name == "neighbour") {
			t.Errorf("%s ends with %v", name, err)
		}
	}
	if noted := l.Ask(t, `SELECT COUNT(*) FROM facts WHERE name = 'neighbour' OR name LIKE 'refused %'`); noted != "1" || ran != 1 || groups != 2 {
		t.Errorf("%s are noted in %d groups, the neighbour's %d times", noted, groups, ran)
	}
}

// One that ends the whole transaction of a file takes nothing from the others: they are carried out without it.
func TestWhatEndsAGroupOfAFileEndsAlone(t *testing.T) {
	l := groupOf(t, "sqlite:"+filepath.Join(t.TempDir(), "book.db"))
	steps := map[string]func(*transaction) error{
		"ends it": func(tx *transaction) error { _, err := tx.exec(`ROLLBACK`); return err }, // as SQLite does where the disk is full
		"refused": func(*transaction) error { return ErrKeyTaken },
	}
	for n := range 4 {
		steps[fmt.Sprint("one ", n)] = fine
	}
	errs, _ := together(t, l, steps, l.inStudio)
	for name, err := range errs {
		if _, away := errors.AsType[*Unavailable](err); away != (name == "ends it") || errors.Is(err, ErrKeyTaken) != (name == "refused") {
			t.Errorf("%s ends with %v", name, err)
		}
	}
	if noted := l.Ask(t, `SELECT (SELECT COUNT(*) FROM facts WHERE name LIKE 'one %') || ' and ' || (SELECT COUNT(*) FROM facts WHERE name IN ('ends it', 'refused'))`); noted != "4 and 0" {
		t.Errorf("noted are %s", noted)
	}
}

// inLine are transactions that wait for a group.
func (l *Ledger) inLine(ctx context.Context, steps ...func(*transaction) error) (members []*member) {
	for _, step := range steps {
		members = append(members, &member{transaction: &transaction{ctx: ctx, l: l}, do: step, ended: make(chan struct{}), decided: make(chan struct{})})
	}
	return members
}

// carriedOut carries them out, and gives how they have ended.
func carriedOut(t *testing.T, members []*member) (ends []error) {
	t.Helper()
	for rest, rounds := members, 1; len(rest) > 0; rounds++ {
		if rest = carryOutInTurn(rest); rounds == 3 {
			t.Fatalf("%d are left after %d rounds", len(rest), rounds)
		}
	}
	for _, m := range members {
		ends = append(ends, m.wait())
	}
	return ends
}

func reserves(tx *transaction) error {
	_, err := tx.exec(`INSERT INTO facts (name, value) VALUES ('reserved', '')`)
	return err
}

// needs is refused where there is a reservation.
func needs(tx *transaction) error {
	held := false
	if err := tx.row(`SELECT EXISTS (SELECT 1 FROM facts WHERE name = 'reserved')`).Scan(&held); err != nil || held {
		return cmp.Or[error](err, &BudgetError{})
	}
	return nil
}

// Nobody is refused for the sake of what is taken back afterwards.
func TestARefusalOfAFileRestsOnWhatIsWritten(t *testing.T) {
	reserved := false
	once := func(tx *transaction) error {
		if reserved {
			return ErrKeyTaken
		}
		reserved = true
		return reserves(tx)
	}
	isTaken := func(err error) bool { return errors.Is(err, ErrKeyTaken) }
	isDone := func(err error) bool { return err == nil }
	isEnded := func(err error) bool { return err != nil && strings.Contains(err.Error(), "no such savepoint") }
	isLate := func(err error) bool { return errors.Is(err, context.DeadlineExceeded) }
	isDoubt := func(err error) bool { _, doubt := errors.AsType[*Doubt](err); return doubt }
	for name, test := range map[string]struct {
		steps []func(*transaction) error
		ends  []func(error) bool
	}{
		"one behind it ends the whole": {
			[]func(*transaction) error{once, needs, func(tx *transaction) error { _, err := tx.exec(`ROLLBACK`); return err }},
			[]func(error) bool{isTaken, isDone, isEnded},
		},
		"the commit fails": {
			[]func(*transaction) error{reserves, needs, func(tx *transaction) error {
				if _, err := tx.exec(`PRAGMA defer_foreign_keys = ON`); err != nil {
					return err
				}
				_, err := tx.exec(`INSERT INTO labels (order_id, name, value, order_owner, label_time) VALUES ('none', 'a', 'b', 'c', 1)`)
				return err
			}},
			[]func(error) bool{isDoubt, isDoubt, isDoubt},
		},
		"the time is over when it is refused": {
			[]func(*transaction) error{once, func(tx *transaction) error {
				err := needs(tx)
				time.Sleep(AnswerTime + time.Second)
				return err
			}},
			[]func(error) bool{isTaken, isLate},
		},
	} {
		t.Run(name, func(t *testing.T) {
			reserved = false
			synctest.Test(t, func(t *testing.T) {
				l := groupOf(t, "sqlite:"+filepath.Join(t.TempDir(), "book.db"))
				for n, err := range carriedOut(t, l.inLine(t.Context(), test.steps...)) {
					if !test.ends[n](err) {
						t.Errorf("number %d ends with %v", n, err)
					}
				}
				if noted := l.Ask(t, `SELECT COUNT(*) FROM facts WHERE name = 'reserved'`); noted != "0" {
					t.Errorf("%s are reserved", noted)
				}
			})
		})
	}
}

// Those of a file that take long go one after the other, each once, and nobody waits longer than for a turn and its time.
func TestWhatTakesLongInAFileIsCarriedOutOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := groupOf(t, "sqlite:"+filepath.Join(t.TempDir(), "book.db"))
		steps, ran, began := map[string]func(*transaction) error{}, map[string]int{}, time.Now()
		for n := range 4 {
			name := fmt.Sprint("one ", n)
			steps[name] = func(*transaction) error {
				ran[name]++ // none runs beside another
				time.Sleep(3 * time.Second)
				return nil
			}
		}
		errs, _ := together(t, l, steps, l.inStudio)
		written := 0
		for name, err := range errs {
			if _, busy := errors.AsType[*Busy](err); busy != (ran[name] == 0) || ran[name] > 1 {
				t.Errorf("%s ran %d times, and ends with %v", name, ran[name], err)
			}
			written += ran[name]
		}
		if noted := l.Ask(t, `SELECT COUNT(*) FROM facts WHERE name LIKE 'one %'`); noted != "2" || written != 2 || time.Since(began) != 6*time.Second {
			t.Errorf("%s of %d are noted after %v", noted, written, time.Since(began))
		}
	})
}

// A log that has grown while somebody reads is emptied when that has ended.
func TestTheLogOfAFileDoesNotStayLarge(t *testing.T) {
	file, link := filepath.Join(t.TempDir(), "book.db"), filepath.Join(t.TempDir(), "link.db")
	if err := os.Symlink(file, link); err != nil {
		t.Fatal(err)
	}
	l := groupOf(t, "sqlite:"+link)
	end := l.Report(t)
	large := func() bool {
		log, err := os.Stat(file + "-wal")
		if err != nil {
			t.Fatal(err)
		}
		return log.Size() > logMost
	}
	note := func(n, bytes int) {
		if err := l.inStudio(t.Context(), "", func(tx *transaction) error {
			_, err := tx.exec(`INSERT INTO facts (name, value) VALUES ($1, $2)`, fmt.Sprint("large ", n), strings.Repeat("x", bytes))
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
	n := 0
	for ; !large(); n++ {
		note(n, 1<<20)
	}
	end()
	for until := time.Now().Add(30 * time.Second); large() && time.Now().Before(until); n++ {
		note(n, 1)
	}
	if large() {
		t.Error("it has stayed large")
	}
}
