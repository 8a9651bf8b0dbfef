package ledger

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/easel-grpc/easel/internal/proctest"
)

// groupOf opens a book whose transactions go together.
func groupOf(t *testing.T, url string) *Ledger {
	t.Helper()
	l, err := Open(t.Context(), Config{URL: url, Catalog: "c"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

// together carries transactions out that come while one is under way, each of which notes a fact, and gives their errors and
// in how many groups of a file they were, with that one.
func together(t *testing.T, l *Ledger, steps map[string]func(*transaction) error, in func(ctx context.Context, name string, do func(*transaction) error) error) (all map[string]error, groups int) {
	t.Helper()
	ctx, key := inTurn(t.Context(), forOrder, "studio"), ""
	if l.IsShared() {
		key = "studio"
	}
	sessions := sync.Map{} // a group of a file has one
	begun, release, first := make(chan struct{}), make(chan struct{}), make(chan error)
	go func() {
		first <- l.inGroup(ctx, "studio", "", func(tx *transaction) error {
			if !l.IsShared() {
				sessions.Store(tx.session, true)
			}
			close(begun)
			<-release
			return nil
		})
	}()
	<-begun
	type end struct {
		name string
		err  error
	}
	ended := make(chan end)
	all = map[string]error{}
	for name, step := range steps {
		go func() {
			defer func() {
				if value := recover(); value != nil { // on its own goroutine
					ended <- end{name, fmt.Errorf("panic: %v", value)}
				}
			}()
			ended <- end{name, in(ctx, name, func(tx *transaction) error {
				if !l.IsShared() {
					sessions.Store(tx.session, true)
				}
				if _, err := tx.exec(`INSERT INTO facts (name, value) VALUES ($1, '')`, name); err != nil {
					return err
				}
				return step(tx)
			})}
		}()
	}
	for waiting := 0; waiting < len(steps); runtime.Gosched() {
		l.groups.mu.Lock()
		waiting = len(l.groups.waiting[key])
		l.groups.mu.Unlock()
	}
	close(release)
	for range steps {
		one := <-ended
		all[one.name] = one.err
	}
	if err := <-first; err != nil {
		t.Error(err)
	}
	sessions.Range(func(any, any) bool { groups++; return true })
	return all, groups
}

func fine(*transaction) error { return nil }

// inStudio carries a transaction out in the group of studio.
func (l *Ledger) inStudio(ctx context.Context, _ string, do func(*transaction) error) error {
	return l.inGroup(ctx, "studio", "", do)
}

// Those that come while one is under way share a transaction, and what fails is taken back alone.
func TestWhatFailsInAGroupIsTakenBackAlone(t *testing.T) {
	proctest.OnEach(t, func(t *testing.T, url string) {
		l := groupOf(t, url)
		ran := map[string]int{}
		counted := func(tx *transaction) error { ran["one"]++; return nil } // none runs beside another
		errs, groups := together(t, l, map[string]func(*transaction) error{
			"one": counted, "another": fine,
			"panics":    func(*transaction) error { panic("a mistake of ours") },
			"refused":   func(*transaction) error { return ErrKeyTaken },
			"a mistake": func(tx *transaction) error { _, err := tx.exec(`INSERT INTO facts (name) VALUES (NULL)`); return err },
		}, l.inStudio)
		_, contradicts := errors.AsType[*Contradiction](errs["a mistake"])
		if !errors.Is(errs["refused"], ErrKeyTaken) || !contradicts || fmt.Sprint(errs["panics"]) != "panic: a mistake of ours" || errs["one"] != nil || errs["another"] != nil {
			t.Errorf("they have failed with %v", errs)
		}
		if noted := l.Ask(t, `SELECT COUNT(*) FROM facts WHERE name IN ('one', 'another')`) + l.Ask(t, `SELECT COUNT(*) FROM facts WHERE name IN ('refused', 'a mistake', 'panics')`); noted != "20" {
			t.Errorf("%s are noted and taken back", noted)
		}
		if ran["one"] == 0 || groups != 2 && !l.IsShared() {
			t.Errorf("it ran %d times, in %d groups", ran["one"], groups)
		}
	})
}

// The disk is waited for once for all of them, and so is the network: all have sent their first statements before one sends
// its second.
func TestWhatDoesNotFailInAGroupHasOneTransaction(t *testing.T) {
	l := groupOf(t, proctest.Database(t))
	steps := map[string]func(*transaction) error{"refused": func(*transaction) error { return ErrKeyTaken }}
	beside := map[int]int{}
	for n := range groupMost - 1 {
		steps[fmt.Sprint("one ", n)] = func(tx *transaction) error {
			seen := 0
			err := tx.row(`SELECT COUNT(*) FROM facts WHERE name LIKE 'one %'`).Scan(&seen)
			beside[n] = seen
			return err
		}
	}
	errs, _ := together(t, l, steps, l.inStudio)
	if noted := l.Ask(t, `SELECT COUNT(*) FROM facts WHERE name = 'refused'`); !errors.Is(errs["refused"], ErrKeyTaken) || noted != "0" {
		t.Errorf("what is refused ends with %v, and %s are noted", errs["refused"], noted)
	}
	delete(errs, "refused")
	if err := errors.Join(slices.Collect(maps.Values(errs))...); err != nil {
		t.Error(err)
	}
	if got := l.Ask(t, `SELECT COUNT(*) || ' in ' || COUNT(DISTINCT xmin::text) FROM facts WHERE name LIKE 'one %'`); got != fmt.Sprint(groupMost-1, " in 1") {
		t.Errorf("%s transactions", got)
	}
	for n, seen := range beside {
		if seen != groupMost-1 {
			t.Errorf("beside %d there are %d", n, seen)
		}
	}
}

// Close waits for those that are carried out, and refuses those that wait.
func TestCloseLeavesNobodyInAGroup(t *testing.T) {
	proctest.OnEach(t, func(t *testing.T, url string) {
		l := groupOf(t, url)
		begin := func() (begun, release chan struct{}, ended chan error) {
			begun, release, ended = make(chan struct{}), make(chan struct{}), make(chan error, 1)
			go func() {
				ended <- l.inStudio(inTurn(t.Context(), forOrder, "studio"), "", func(*transaction) error {
					close(begun)
					<-release
					return nil
				})
			}()
			return begun, release, ended
		}
		until := func(holds func() bool) {
			for done := false; !done; runtime.Gosched() {
				l.groups.mu.Lock()
				done = holds()
				l.groups.mu.Unlock()
			}
		}
		oneWaits := func() bool {
			for _, waiting := range l.groups.waiting {
				return len(waiting) == 1
			}
			return false
		}
		begun, release, first := begin()
		<-begun
		begun, releaseSecond, second := begin()
		until(oneWaits)
		close(release)
		<-begun // it is led by nobody's call
		_, _, third := begin()
		until(oneWaits)
		var released atomic.Bool
		closed := make(chan bool)
		go func() {
			_ = l.Close()
			closed <- released.Load()
		}()
		until(func() bool { return l.groups.closed })
		released.Store(true)
		close(releaseSecond)
		if !<-closed {
			t.Error("Close has not waited for what is carried out")
		}
		if err := errors.Join(<-first, <-second); err != nil {
			t.Error(err)
		}
		if _, away := errors.AsType[*Unavailable](<-third); !away {
			t.Error("who waits is not refused")
		}
		if _, away := errors.AsType[*Unavailable](l.inStudio(t.Context(), "", fine)); !away {
			t.Error("who comes is not refused")
		}
	})
}

// A group whose statements take long is followed by smaller ones, down to none, and by larger ones when they are quick.
func TestAGroupIsAsLargeAsItIsQuick(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &groups{}
		for n, step := range []struct {
			members int
			took    time.Duration
			size    int
		}{
			{1, groupTime / 2, 16},
			{16, groupTime, 16},
			{16, groupTime + 1, 8},
			{16, 8 * groupTime, 8}, // it has begun before
			{3, 2 * groupTime, 4},
			{3, 1, 4},
			{4, groupTime/2 - 1, 8},
			{8, 1, 16},
			{16, 1, 16},
			{16, AnswerTime, 1},
		} {
			if g.learn(step.members, step.took); g.size() != step.size {
				t.Errorf("after step %d of %d there go %d, want %d", n, step.members, g.size(), step.size)
			}
		}
		time.Sleep(aloneTime)
		before := g.size()
		time.Sleep(time.Nanosecond)
		if after := g.size(); before != 1 || after != 2 {
			t.Errorf("%d go together, and then %d", before, after)
		}
	})
}

// Where a group is too slow, nobody waits for it.
func TestWhereGroupsAreSlowEachGoesAlone(t *testing.T) {
	l := groupOf(t, proctest.Database(t))
	l.groups.halved, l.groups.learned = mostHalved, time.Now().Add(time.Hour)
	both := &sync.WaitGroup{}
	both.Add(2)
	var work sync.WaitGroup
	for range 2 {
		work.Go(func() {
			if err := l.inStudio(inTurn(t.Context(), forOrder, "studio"), "", func(*transaction) error {
				both.Done()
				both.Wait() // they are side by side
				return nil
			}); err != nil {
				t.Error(err)
			}
		})
	}
	work.Wait()
}

// Who leaves a group that ends soon breaks it off for nobody.
func TestWhoLeavesAGroupWaitsForItsEnd(t *testing.T) {
	for name, ends := range map[string]time.Duration{"soon": leaveTime - 1, "late": leaveTime + 1} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				group, end := context.WithTimeout(t.Context(), ends)
				defer end()
				broken := false
				breakOffSoon(group, func() { broken = true })
				if broken != (name == "late") {
					t.Errorf("it is broken off: %v", broken)
				}
			})
		})
	}
}

// Transactions that take the budgets of two days go in two groups: in one they would lock them in any order.
func TestOrdersOfTwoDaysGoInTwoGroups(t *testing.T) {
	at := time.Date(2026, 3, 31, 23, 59, 59, 0, time.UTC)
	same, next := budgetsOf("studio", at.Add(-time.Hour)), budgetsOf("studio", at.Add(time.Second))
	if one := budgetsOf("studio", at.In(time.FixedZone("", 7200))); one != same || one == next || one == budgetsOf("shop", at) {
		t.Errorf("%q, %q, %q", one, same, next)
	}
	if group := groupOfNew(Request{Owner: "studio", Inputs: strings.Repeat("x", smallInputs+1)}); group != "" {
		t.Errorf("large inputs go in the group %q", group)
	}
}

// Whoever waits in a group for somebody else's lock and goes is not waited for, and nor does that end the others.
func TestWhoLeavesAGroupEndsAlone(t *testing.T) {
	l := groupOf(t, proctest.Database(t))
	locked, err := l.writes.BeginTx(t.Context(), l.dialect.begin)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = locked.Rollback() }()
	for _, statement := range []string{`SET LOCAL idle_in_transaction_session_timeout = 0`, `LOCK TABLE facts IN EXCLUSIVE MODE`} { // which the database does not end
		if _, err := locked.ExecContext(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	leaving, leave := context.WithCancel(t.Context())
	left := make(chan error, 1)
	go func() {
		for l.Ask(t, `SELECT COUNT(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`) != "1" {
			runtime.Gosched()
		}
		leave()
		if err := <-left; !errors.Is(err, context.Canceled) {
			t.Errorf("who leaves is told %v", err)
		}
		_ = locked.Rollback()
	}()
	errs, _ := together(t, l, map[string]func(*transaction) error{"stays": fine, "leaves": fine}, func(ctx context.Context, name string, do func(*transaction) error) error {
		if name == "stays" {
			return l.inStudio(ctx, name, do)
		}
		bounded, cancel := context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(leaving, cancel)()
		err := l.inGroup(bounded, "studio", "", do)
		left <- err
		return err
	})
	if errs["stays"] != nil || l.Ask(t, `SELECT MAX(name) FROM facts WHERE name IN ('stays', 'leaves')`) != "stays" {
		t.Errorf("they have ended with %v", errs)
	}
}

// A commit that does not come back is not waited for: it may be recorded.
func TestWhoLeavesACommitIsInDoubt(t *testing.T) {
	ctx, leave := context.WithCancel(t.Context())
	leave()
	m := &member{transaction: &transaction{ctx: ctx}, ended: make(chan struct{}), decided: make(chan struct{})}
	close(m.decided)
	if _, doubt := errors.AsType[*Doubt]((&groups{}).leave("", m)); !doubt {
		t.Error("it is not in doubt")
	}
	close(m.ended)
	for range 100 {
		if err := (&groups{}).leave("", m); err != nil {
			t.Fatalf("it is recorded, and ends with %v", err)
		}
	}
}
