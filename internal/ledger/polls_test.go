package ledger_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/easel-grpc/easel/internal/ledger"
	"github.com/easel-grpc/easel/internal/ledger/shared"
	"github.com/easel-grpc/easel/internal/proctest"
)

func sharedPolls(t *testing.T, url string) *ledger.Polls {
	t.Helper()
	return ledger.NewPolls(ledger.PollsConfig{Ledger: open(t, url)})
}

// asked is an ask that no rate refuses.
func asked(a shared.Ask) shared.Ask {
	if a.Replica == "" {
		a.Replica = "a"
	}
	if a.Rate == 0 {
		a.Rate = 1e6
	}
	return a
}

func claim(t *testing.T, p *ledger.Polls, ask shared.Ask) shared.Claim {
	t.Helper()
	got, err := p.Claim(t.Context(), theAPIKey, asked(ask))
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func found(t *testing.T, p *ledger.Polls, f shared.Found) shared.Written {
	t.Helper()
	written, err := p.Write(t.Context(), theAPIKey, f)
	if err != nil {
		t.Fatal(err)
	}
	return written
}

func news(t *testing.T, p *ledger.Polls, after shared.Cursor, ids ...string) shared.News {
	t.Helper()
	got, err := p.News(t.Context(), theAPIKey, after, ids)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// age makes polls older by a moment: an answer of the catalog comes some time after its claim, and the ones here at once.
func age(t *testing.T, url string) {
	t.Helper()
	change(t, url, `UPDATE shared_keys SET swept_time = swept_time - 100000, seen_time = seen_time - 100000`)
	change(t, url, `UPDATE shared_states SET claimed_time = claimed_time - 100000, seen_time = seen_time - 100000`)
}

// changed is a read of a generation that has found something.
func changed(id, etag string) shared.Change {
	record := `{"of":"` + etag + `\u0000"}`
	return shared.Change{ID: id, At: time.Now(), Etag: &etag, Record: &record}
}

// same is a read that has found what the book has.
func same(id, etag string) shared.Same { return shared.Same{ID: id, At: time.Now(), Etag: etag} }

func TestAPollIsClaimedByOneOfManyWhoAskAtOnce(t *testing.T) {
	onEach(t, func(t *testing.T, url string) {
		const claimers, rounds = 8, 20
		book := open(t, url)
		polls := make([]*ledger.Polls, claimers)
		for n := range polls {
			polls[n] = ledger.NewPolls(ledger.PollsConfig{Ledger: book})
		}
		last, lastReads := int64(0), map[string]int64{}
		for round := range rounds {
			claims := make([]shared.Claim, claimers)
			var all sync.WaitGroup
			for n := range polls {
				all.Go(func() {
					claims[n] = claim(t, polls[n], shared.Ask{Replica: fmt.Sprint(n), Sweep: true, LastSweep: last, Reads: []shared.Read{{ID: "x", Last: lastReads["x"]}, {ID: "y", Last: lastReads["y"]}}})
				})
			}
			all.Wait()
			sweeps, reads := 0, map[string]int{}
			for _, c := range claims {
				if c.Sweep {
					sweeps++
					last = c.Key.Now
				}
				for id := range c.Reads {
					reads[id]++
					lastReads[id] = max(lastReads[id], c.Key.Now)
				}
			}
			if sweeps != 1 || reads["x"] != 1 || reads["y"] != 1 {
				t.Fatalf("round %d: the sweep is granted %d times, and reads %v", round, sweeps, reads)
			}
			age(t, url)
			lastReads["x"], lastReads["y"] = readsOf(t, polls[0])
			found(t, polls[0], shared.Found{Swept: time.Now(), Changes: []shared.Change{changed("x", "e"), changed("y", "e")}})
		}
		if got := news(t, polls[0], shared.Cursor{}); got.Key.Replicas != claimers {
			t.Errorf("%d replicas are seen", got.Key.Replicas)
		}
	})
}

// readsOf is when two generations were claimed.
func readsOf(t *testing.T, p *ledger.Polls) (x, y int64) {
	t.Helper()
	for _, s := range news(t, p, shared.Cursor{}, "x", "y").States {
		switch s.ID {
		case "x":
			x = s.Claimed
		case "y":
			y = s.Claimed
		}
	}
	return x, y
}

func TestAClaimHoldsForASecondUnlessItIsAnswered(t *testing.T) {
	onEach(t, func(t *testing.T, url string) {
		p := sharedPolls(t, url)
		ask := func() shared.Ask {
			now := news(t, p, shared.Cursor{}).Key.Now // whoever asks knows of every claim
			return shared.Ask{Sweep: true, LastSweep: now, Reads: []shared.Read{{ID: "x", Last: now}}}
		}
		if c := claim(t, p, shared.Ask{Sweep: true, Reads: []shared.Read{{ID: "x"}}}); !c.Sweep || !c.Reads["x"] {
			t.Fatalf("the first claim is refused: %+v", c)
		}
		if c := claim(t, p, ask()); c.Sweep || c.Reads["x"] || c.Again != 0 {
			t.Errorf("another poll is granted while one is on its way: %+v", c)
		}
		change(t, url, `UPDATE shared_keys SET swept_time = swept_time - 1000000`)
		change(t, url, `UPDATE shared_states SET claimed_time = claimed_time - 1000000`)
		if c := claim(t, p, ask()); !c.Sweep || !c.Reads["x"] {
			t.Errorf("nobody polls in the place of one who is gone: %+v", c)
		}
		age(t, url)
		found(t, p, shared.Found{Swept: time.Now(), Changes: []shared.Change{changed("x", "e")}})
		if c := claim(t, p, ask()); !c.Sweep || !c.Reads["x"] {
			t.Errorf("after the answer another poll is refused: %+v", c)
		}
		change(t, url, `UPDATE shared_keys SET swept_time = swept_time + 3600000000`)
		change(t, url, `UPDATE shared_states SET claimed_time = claimed_time + 3600000000`)
		later := ask()
		later.LastSweep += 2 * 3600e6
		later.Reads[0].Last += 2 * 3600e6
		if c := claim(t, p, later); !c.Sweep || !c.Reads["x"] {
			t.Errorf("a clock that was set back keeps all from polling: %+v", c)
		}
	})
}

func TestTheRateAndThePauseAreThoseOfAllWhoAsk(t *testing.T) {
	onEach(t, func(t *testing.T, url string) {
		p := sharedPolls(t, url)
		reads := func(n int) (all []shared.Read) {
			for i := range n {
				all = append(all, shared.Read{ID: fmt.Sprintf("g%02d", i)})
			}
			return all
		}
		claim(t, p, shared.Ask{Rate: 1e-3})
		change(t, url, `UPDATE shared_keys SET tokens = 3.5`)
		c := claim(t, p, shared.Ask{Rate: 4, Reads: reads(9)})
		wait := time.Duration(c.Again-c.Key.Now) * time.Microsecond
		if len(c.Reads) != 3 || !c.Reads["g00"] || !c.Reads["g02"] || wait <= 0 || wait > 125*time.Millisecond {
			t.Errorf("of nine reads with three tokens and a half are granted %v, and more after %v", c.Reads, wait)
		}
		if c := claim(t, p, shared.Ask{Replica: "b", Rate: 1e-3, Sweep: true}); c.Sweep || c.Again == 0 {
			t.Errorf("another replica has tokens of its own: %+v", c)
		}
		change(t, url, `UPDATE shared_keys SET tokens = 0, filled_time = filled_time - 1000000`)
		if c := claim(t, p, shared.Ask{Rate: 8, Spent: 100, Reads: reads(9)[3:]}); len(c.Reads) != 2 {
			t.Errorf("calls that have spent all leave %d of eight to polls", len(c.Reads))
		}
		found(t, p, shared.Found{Pause: time.Now().Add(time.Minute)})
		found(t, p, shared.Found{Pause: time.Now().Add(time.Second)})
		change(t, url, `UPDATE shared_keys SET tokens = 9`)
		c = claim(t, p, shared.Ask{Sweep: true, Reads: reads(2)})
		if wait := time.Duration(c.Again-c.Key.Now) * time.Microsecond; c.Sweep || len(c.Reads) != 0 || wait < 50*time.Second || wait > time.Minute {
			t.Errorf("in a pause of a minute is granted %+v, and more after %v", c, wait)
		}
		change(t, url, `UPDATE shared_keys SET paused_until = 0`)
		if c := claim(t, p, shared.Ask{Sweep: true, Rate: 1e-3, Reads: reads(9)[7:]}); !c.Sweep || len(c.Reads) != 0 {
			t.Errorf("after a pause comes a burst: %+v", c)
		}
	})
}

func TestAReplicaThatHasLeftCountsForAMinuteAndKeepsNothingOfTheRate(t *testing.T) { // A16
	onEach(t, func(t *testing.T, url string) {
		p := sharedPolls(t, url)
		claim(t, p, shared.Ask{Replica: "gone", Rate: 1e-3, Everything: true})
		if c := claim(t, p, shared.Ask{Replica: "here", Rate: 1e-3}); c.Key.Replicas != 2 || !c.Key.Everything {
			t.Errorf("of two replicas are known %d, and one watches everything: %v", c.Key.Replicas, c.Key.Everything)
		}
		change(t, url, `UPDATE shared_keys SET replicas = '{"gone":{"at":1,"everything":true}}', tokens = 4`)
		c := claim(t, p, shared.Ask{Replica: "here", Rate: 4, Reads: []shared.Read{{ID: "a"}, {ID: "b"}, {ID: "c"}, {ID: "d"}}})
		if c.Key.Replicas != 1 || c.Key.Everything || len(c.Reads) != 4 {
			t.Errorf("of one that has left long ago is known: %+v", c)
		}
	})
}

func TestNoReaderMissesAVersionThatOthersWriteAtOnce(t *testing.T) {
	onEach(t, func(t *testing.T, url string) {
		const writers, writes = 4, 30
		book := open(t, url)
		p := ledger.NewPolls(ledger.PollsConfig{Ledger: book})
		var writing, reading sync.WaitGroup
		for w := range writers {
			writing.Go(func() {
				for n := range writes {
					found(t, p, shared.Found{Changes: []shared.Change{changed(fmt.Sprintf("g%d", n%7), fmt.Sprint(w, " ", n)), changed(fmt.Sprintf("w%d", w), fmt.Sprint(n))}})
				}
			})
		}
		done := make(chan struct{})
		for range 3 {
			reading.Go(func() {
				seen, after := map[string]string{}, shared.Cursor{}
				for over := false; !over; {
					select {
					case <-done:
						over = true
					default:
					}
					for more := true; more; {
						got := news(t, p, after)
						if slices.ContainsFunc(got.States, func(s shared.State) bool { return s.Version < after.Version }) {
							t.Errorf("a state of before %v is news", after)
						}
						for _, s := range got.States {
							seen[s.ID] = s.Etag
						}
						after, more = got.Next, got.More
					}
				}
				for _, s := range news(t, p, shared.Cursor{}).States {
					if seen[s.ID] != s.Etag {
						t.Errorf("%s is %q, and the reader has seen %q", s.ID, s.Etag, seen[s.ID])
					}
				}
			})
		}
		writing.Wait()
		close(done)
		reading.Wait()
	})
}

func TestNewsComeInPagesAndStatesByName(t *testing.T) {
	onEach(t, func(t *testing.T, url string) {
		p := sharedPolls(t, url)
		if got := news(t, p, shared.Cursor{}, "x"); got.Key != (shared.Key{}) || len(got.States) != 0 {
			t.Errorf("of an API key that nobody knows is said %+v", got)
		}
		var many []shared.Change
		for n := range 1200 {
			many = append(many, changed(fmt.Sprintf("g%04d", n), "e"))
		}
		first := found(t, p, shared.Found{Changes: many[:5]}).Last
		if second := found(t, p, shared.Found{Changes: many}); second.First != first+1 || second.Last != first+3 {
			t.Errorf("versions %d to %d come after %d", second.First, second.Last, first)
		}
		change(t, url, fmt.Sprintf(`UPDATE shared_states SET version = %d`, first+3)) // one version may have many pages
		var sizes []int
		after := shared.Cursor{Version: first}
		for more := true; more; {
			got := news(t, p, after)
			sizes, after, more = append(sizes, len(got.States)), got.Next, got.More
		}
		if !slices.Equal(sizes, []int{500, 500, 200}) || after != (shared.Cursor{Version: first + 4}) {
			t.Errorf("the pages have %v, and end at %+v", sizes, after)
		}
		got := news(t, p, after, "g0007", "unknown")
		if len(got.States) != 1 || got.States[0].ID != "g0007" || got.States[0].Etag != "e" || got.States[0].Record != `{"of":"e\u0000"}` || got.Next != after {
			t.Errorf("by name comes %+v", got)
		}
		if _, err := p.Write(t.Context(), "another", shared.Found{Changes: many[:1]}); err != nil {
			t.Fatal(err)
		}
		if got := news(t, p, after); len(got.States) != 0 {
			t.Errorf("news of another API key are %+v", got.States)
		}
	})
}

func TestAnOlderAnswerDoesNotReplaceANewerOne(t *testing.T) {
	onEach(t, func(t *testing.T, url string) {
		p := sharedPolls(t, url)
		carried, dropped := "listed", ""
		newer := changed("x", "newer")
		newer.Listed = &carried
		older := changed("x", "older")
		older.At = older.At.Add(-10 * time.Second)
		found(t, p, shared.Found{Changes: []shared.Change{newer}})
		found(t, p, shared.Found{Changes: []shared.Change{older}})
		state := func() shared.State { return news(t, p, shared.Cursor{}, "x").States[0] }
		if s := state(); s.Etag != "newer" {
			t.Errorf("the state is %+v", s)
		}
		found(t, p, shared.Found{Changes: []shared.Change{{ID: "x", At: time.Now(), Listed: &dropped}}})
		if s := state(); s.Etag != "newer" || s.Record == "" || s.Listed == nil || *s.Listed != "" {
			t.Errorf("one that the list has dropped is %+v", s)
		}
		found(t, p, shared.Found{Changes: []shared.Change{changed("x", "newest")}})
		if s := state(); s.Etag != "newest" || s.Listed == nil {
			t.Errorf("after a read it is %+v", s)
		}
		change(t, url, `UPDATE shared_states SET seen_time = seen_time + 3600000000`)
		found(t, p, shared.Found{Changes: []shared.Change{changed("x", "after")}})
		if s := state(); s.Etag != "after" {
			t.Errorf("a clock that was set back keeps %+v", s)
		}
	})
}

// The list was read before the read was claimed, and is written after it.
func TestARecordOfTheListIsNoAnswerToARead(t *testing.T) {
	onEach(t, func(t *testing.T, url string) {
		p := sharedPolls(t, url)
		listed := "listed"
		ofList, ofRead := changed("x", listed), changed("x", "read")
		ofList.Listed, ofRead.Listed = &listed, &listed
		found(t, p, shared.Found{Changes: []shared.Change{changed("x", "old")}})
		claimed := claim(t, p, shared.Ask{Reads: []shared.Read{{ID: "x"}}}).Key.Now
		age(t, url)
		ofList.At = time.Now()
		found(t, p, shared.Found{Changes: []shared.Change{ofList}})
		if s := news(t, p, shared.Cursor{}, "x").States[0]; s.Etag != listed || s.Seen >= s.Claimed {
			t.Errorf("the state is %+v", s)
		}
		if again := claim(t, p, shared.Ask{Reads: []shared.Read{{ID: "x", Last: claimed}}}); again.Reads["x"] {
			t.Error("a read is granted twice that nobody has answered")
		}
		age(t, url)
		ofRead.At = time.Now()
		found(t, p, shared.Found{Changes: []shared.Change{ofRead}})
		late := same("x", "read")
		late.At = late.At.Add(-30 * time.Second)
		found(t, p, shared.Found{Same: []shared.Same{late}})
		if again := claim(t, p, shared.Ask{Reads: []shared.Read{{ID: "x", Last: claimed}}}); !again.Reads["x"] {
			t.Error("a read is not granted after the answer")
		}
	})
}

func TestWhatNobodyHasPolledForAnHourIsForgotten(t *testing.T) {
	onEach(t, func(t *testing.T, url string) {
		p := sharedPolls(t, url)
		var many []shared.Change
		for n := range 1100 {
			many = append(many, changed(fmt.Sprintf("g%04d", n), "e"))
		}
		claim(t, p, shared.Ask{})
		found(t, p, shared.Found{Changes: many})
		before := news(t, p, shared.Cursor{}).Key
		change(t, url, `UPDATE shared_states SET seen_time = seen_time - 3600000001 WHERE id > 'g0010'`)
		change(t, url, `UPDATE shared_states SET claimed_time = seen_time + 3600000000 WHERE id > 'g1090'`)
		if err := p.Forget(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := news(t, p, shared.Cursor{}); len(got.States) != 11+9 || got.Key.Born != before.Born {
			t.Errorf("%d states are left", len(got.States))
		}
		change(t, url, `UPDATE shared_keys SET seen_time = 0, filled_time = filled_time - 3600000001`)
		if err := p.Forget(t.Context()); err != nil {
			t.Fatal(err)
		}
		claim(t, p, shared.Ask{})
		if after := news(t, p, shared.Cursor{}).Key; after.Born <= before.Born || after.Version <= before.Version {
			t.Errorf("a row that was forgotten begins at %+v, and was %+v", after, before)
		}
	})
}

func TestChangesAreNotifiedOverPostgreSQLAndNothingElseIs(t *testing.T) {
	url := proctest.Database(t)
	one, two := sharedPolls(t, url), sharedPolls(t, url)
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { two.Run(ctx) })
	defer running.Wait()
	defer cancel()
	heard, stop := two.Changed(theAPIKey)
	other, stopOther := two.Changed("another")
	defer stopOther()
	<-heard // the connection is there
	<-other
	claim(t, one, shared.Ask{Sweep: true, Reads: []shared.Read{{ID: "x"}}})
	found(t, one, shared.Found{Swept: time.Now(), Pause: time.Now(), Same: []shared.Same{same("x", "e")}})
	if _, err := one.Write(t.Context(), "another", shared.Found{Changes: []shared.Change{changed("x", "e")}}); err != nil {
		t.Fatal(err)
	}
	<-other
	select {
	case <-heard:
		t.Error("what has not changed is notified")
	default:
	}
	found(t, one, shared.Found{Changes: []shared.Change{changed("x", "e")}})
	<-heard
	stop()
	change(t, url, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'LISTEN%'`)
	<-other // which is told that it may have missed some
}
