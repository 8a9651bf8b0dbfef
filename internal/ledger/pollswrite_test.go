package ledger_test

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/easel-grpc/easel/internal/ledger/shared"
	"github.com/easel-grpc/easel/internal/proctest"
)

func TestAReadThatFindsWhatTheBookHasLostIsSaidToBeUnknown(t *testing.T) {
	onEach(t, func(t *testing.T, url string) {
		p := sharedPolls(t, url)
		found(t, p, shared.Found{Changes: []shared.Change{changed("known", "e"), changed("older", "before"), changed("newer", "after")}})
		claim(t, p, shared.Ask{Reads: []shared.Read{{ID: "claimed"}}})
		late := same("newer", "e")
		late.At = late.At.Add(-time.Minute)
		got := found(t, p, shared.Found{Same: []shared.Same{same("known", "e"), same("older", "e"), late, same("claimed", "e"), same("lost", "e")}})
		if !slices.Equal(got.Unknown, []string{"older", "claimed", "lost"}) || got.Last != 0 {
			t.Errorf("written is %+v", got)
		}
		states := map[string]shared.State{}
		for _, s := range news(t, p, shared.Cursor{}, "claimed").States {
			states[s.ID] = s
		}
		if older, newer := states["older"], states["newer"]; older.Etag != "before" || newer.Etag != "after" || max(older.Seen, newer.Seen) >= states["known"].Seen || states["claimed"].Record != "" {
			t.Errorf("the states are %+v", states)
		}
	})
}

func TestAnAnswerThatWaitsForTheRowIsNoNewer(t *testing.T) {
	url := proctest.Database(t)
	p := sharedPolls(t, url)
	claim(t, p, shared.Ask{})
	db, err := sql.Open("pgx", url)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	other, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := other.ExecContext(t.Context(), `SELECT * FROM shared_keys FOR UPDATE`); err != nil {
		t.Fatal(err)
	}
	answer := shared.Found{Swept: time.Now(), Changes: []shared.Change{changed("x", "e")}}
	answered := news(t, p, shared.Cursor{}).Key.Now
	written := make(chan struct{})
	go func() {
		defer close(written)
		found(t, p, answer)
	}()
	for waits := false; !waits; {
		if err := db.QueryRowContext(t.Context(), `SELECT COUNT(*) > 0 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database() AND clock_timestamp() - query_start > INTERVAL '50 ms'`).Scan(&waits); err != nil {
			t.Fatal(err)
		}
	}
	if err := other.Rollback(); err != nil { // so that the row is as it was read before
		t.Fatal(err)
	}
	<-written
	got := news(t, p, shared.Cursor{}, "x")
	if got.Key.Seen == 0 || got.Key.Seen > answered || got.States[0].Seen > answered || got.States[0].Seen < answered-time.Second.Microseconds() {
		t.Errorf("an answer from before %d is taken for one of %d, and its record for one of %d", answered, got.Key.Seen, got.States[0].Seen)
	}
}

func TestManyChangesAreWrittenInPieces(t *testing.T) {
	onEach(t, func(t *testing.T, url string) {
		p, full := sharedPolls(t, url), true
		var many []shared.Change
		for n := range 1200 {
			many = append(many, changed(fmt.Sprintf("g%04d", n), "e"))
		}
		refuse, accept := `ALTER TABLE shared_states ADD CONSTRAINT refused CHECK (id <> 'g1100')`, `ALTER TABLE shared_states DROP CONSTRAINT refused`
		if strings.HasPrefix(url, "sqlite:") {
			refuse, accept = `CREATE TRIGGER refused BEFORE INSERT ON shared_states WHEN NEW.id = 'g1100' BEGIN SELECT RAISE(ABORT, 'refused'); END`, `DROP TRIGGER refused`
		}
		change(t, url, refuse)
		all := shared.Found{Swept: time.Now(), FullList: &full, Pause: time.Now().Add(time.Minute), Changes: many}
		if _, err := p.Write(t.Context(), theAPIKey, all); err == nil {
			t.Fatal("what can't be written is written")
		}
		got := news(t, p, shared.Cursor{})
		if got.Key.Seen != 0 || got.Key.FullList || got.Key.PausedUntil <= got.Key.Now || len(got.States) != 500 || !got.More {
			t.Errorf("of what fails at its third piece is written %+v with %d states", got.Key, len(got.States))
		}
		change(t, url, accept)
		if again := found(t, p, all); again.First != got.Key.Version+1 || again.Last != again.First+2 {
			t.Errorf("three pieces have the versions %+v", again)
		}
		got = news(t, p, shared.Cursor{}, "g1199")
		if last := got.States[len(got.States)-1]; got.Key.Seen == 0 || !got.Key.FullList || last.ID != "g1199" {
			t.Errorf("after all is written %+v, and %+v", got.Key, last)
		}
	})
}

func TestThatTheListDoesNotCarryAGenerationSaysNothingOfItsRecord(t *testing.T) {
	onEach(t, func(t *testing.T, url string) {
		p, carried, none := sharedPolls(t, url), "e", ""
		one := changed("x", "e")
		one.Listed = &carried
		found(t, p, shared.Found{Changes: []shared.Change{one}})
		before := news(t, p, shared.Cursor{}, "x").States[0]
		found(t, p, shared.Found{Changes: []shared.Change{{ID: "x", At: time.Now(), Listed: &none}}})
		if after := news(t, p, shared.Cursor{}, "x").States[0]; after.Seen != before.Seen || *after.Listed != "" || after.Record != before.Record {
			t.Errorf("the state was %+v, and is %+v", before, after)
		}
	})
}

// anHourLater makes states older.
func anHourLater(t *testing.T, url string) {
	t.Helper()
	change(t, url, `UPDATE shared_states SET seen_time = seen_time - 3600000001, claimed_time = claimed_time - 3600000001`)
}

func TestWhatTheListCarriesIsKeptUntilItHasEnded(t *testing.T) {
	onEach(t, func(t *testing.T, url string) {
		p, carried, none := sharedPolls(t, url), "e", ""
		live, ended, dropped, read := changed("live", "e"), changed("ended", "e"), changed("dropped", "e"), changed("read", "e")
		live.Listed, ended.Listed, dropped.Listed, ended.Ended = &carried, &carried, &none, true
		claim(t, p, shared.Ask{})
		found(t, p, shared.Found{Changes: []shared.Change{live, ended, dropped, read}})
		anHourLater(t, url)
		left := func() (ids []string) {
			if err := p.Forget(t.Context()); err != nil {
				t.Fatal(err)
			}
			for _, s := range news(t, p, shared.Cursor{}, "live", "ended", "dropped", "read").States {
				ids = append(ids, s.ID)
			}
			return slices.Compact(ids)
		}
		if ids := left(); !slices.Equal(ids, []string{"live"}) {
			t.Errorf("%v are left", ids)
		}
		found(t, p, shared.Found{Changes: []shared.Change{{ID: "live", At: time.Now(), Listed: &none}}})
		if ids := left(); len(ids) > 0 {
			t.Errorf("%v are left that the list does not carry any more", ids)
		}
	})
}

func TestAnAPIKeyThatNobodyHasUsedForAnHourIsForgottenWithItsStates(t *testing.T) {
	onEach(t, func(t *testing.T, url string) {
		p, carried := sharedPolls(t, url), "e"
		live := changed("live", "e")
		live.Listed = &carried
		claim(t, p, shared.Ask{})
		found(t, p, shared.Found{Changes: []shared.Change{live}})
		if _, err := p.Write(t.Context(), "another", shared.Found{Changes: []shared.Change{live}}); err != nil {
			t.Fatal(err)
		}
		change(t, url, `UPDATE shared_keys SET filled_time = filled_time - 3600000001 WHERE api_key <> 'another'`)
		if err := p.Forget(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := news(t, p, shared.Cursor{}, "live"); got.Key.Born != 0 || len(got.States) > 0 {
			t.Errorf("what is left is %+v", got)
		}
		if got, err := p.News(context.WithoutCancel(t.Context()), "another", shared.Cursor{}, []string{"live"}); err != nil || got.Key.Born == 0 || len(got.States) == 0 {
			t.Errorf("of another is left %+v, %v", got, err)
		}
	})
}

func TestAClockThatWasSetBackKeepsPausesAndSweepsWithinTheirBounds(t *testing.T) {
	onEach(t, func(t *testing.T, url string) {
		p := sharedPolls(t, url)
		claim(t, p, shared.Ask{Sweep: true, Reads: []shared.Read{{ID: "x"}}})
		found(t, p, shared.Found{Swept: time.Now(), Pause: time.Now().Add(time.Hour), Changes: []shared.Change{changed("x", "e")}})
		if k := news(t, p, shared.Cursor{}).Key; k.PausedUntil-k.Now > shared.PauseMicros {
			t.Errorf("a pause lasts %d µs", k.PausedUntil-k.Now)
		}
		const hour = 3600e6
		change(t, url, `UPDATE shared_keys SET swept_time = swept_time + 3600000000, seen_time = seen_time + 3600000000, filled_time = filled_time + 3600000000, paused_until = paused_until + 3600000000`)
		change(t, url, `UPDATE shared_states SET claimed_time = claimed_time + 3600000000, seen_time = seen_time + 3600000000`)
		last := news(t, p, shared.Cursor{}).Key.Now + hour // which every replica keeps as the newest
		ask := shared.Ask{Sweep: true, LastSweep: last, Reads: []shared.Read{{ID: "x", Last: last}}}
		first := claim(t, p, ask)
		if first.Sweep || first.Again > first.Key.Now+shared.PauseMicros {
			t.Errorf("the pause is %+v", first)
		}
		if second := claim(t, p, ask); second.Key.PausedUntil != first.Key.PausedUntil {
			t.Errorf("the end of the pause moves: %d, %d", first.Key.PausedUntil, second.Key.PausedUntil)
		}
		change(t, url, `UPDATE shared_keys SET paused_until = 0, tokens = 1000`)
		sweeps, reads, began := 0, 0, time.Now()
		for range 50 {
			c := claim(t, p, ask)
			reads += len(c.Reads)
			if c.Sweep {
				sweeps++
				found(t, p, shared.Found{Swept: time.Now(), Changes: []shared.Change{changed("x", "f")}})
			}
		}
		if most := 1 + int(time.Since(began).Seconds()); sweeps < 1 || reads < 1 || sweeps > most || reads > most {
			t.Errorf("of 50 claims %d sweeps and %d reads are granted within %v", sweeps, reads, time.Since(began))
		}
	})
}

func TestWhoWasSeenBeforeTheClockWasSetBackIsSeenNoMore(t *testing.T) {
	onEach(t, func(t *testing.T, url string) {
		p := sharedPolls(t, url)
		claim(t, p, shared.Ask{Replica: "gone", Everything: true})
		change(t, url, `UPDATE shared_keys SET replicas = REPLACE(replicas, '"at":', '"at":9')`)
		if k := claim(t, p, shared.Ask{Replica: "here"}).Key; k.Replicas != 1 || k.Everything {
			t.Errorf("%d replicas are seen, everything is watched: %v", k.Replicas, k.Everything)
		}
	})
}
