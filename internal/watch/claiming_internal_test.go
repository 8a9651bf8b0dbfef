package watch

import (
	"testing"
	"time"

	"github.com/easel-grpc/easel/internal/catalog"
	"github.com/easel-grpc/easel/internal/ledger/shared"
)

// sharingAlone is a poller that nobody runs, and what it shares.
func sharingAlone() (*poller, *sharing) {
	s := newSharing(&Config{replica: "a replica", replicas: &replicas{}})
	s.apiKey, s.seal = "an API key", newSeal(catalog.NewSecret("an API key"))
	return &poller{tenant: &tenant{agenda: &agenda{sharing: s}}}, s
}

// takeAll takes what waits to be written.
func (s *sharing) takeAll() *findings {
	taken := s.found
	s.found = newFindings()
	return &taken
}

func TestWhatTheBookHasLostIsWrittenAgain(t *testing.T) {
	p, s := sharingAlone()
	read := record{Generation: catalog.Generation{ID: "a", State: catalog.StateSucceeded}}
	begin := time.Now()
	s.put("a", "e", read, begin)
	s.takeAll()
	s.put("a", "e", read, begin.Add(time.Second))
	sent := s.takeAll()
	if m := sent.message(); len(m.Changes) != 0 || len(m.Same) != 1 || m.Same[0] != (shared.Same{ID: "a", At: begin.Add(time.Second), Etag: "e"}) {
		t.Fatalf("a second read is told as %+v", m)
	}
	p.wrote("an API key", sent, shared.Written{Unknown: []string{"a"}}, nil)
	m := s.takeAll().message()
	if len(m.Changes) != 1 || len(m.Same) != 0 {
		t.Fatalf("what the book has lost is told as %+v", m)
	}
	c := m.Changes[0]
	if got, ok := s.readRecord("a", *c.Record); !ok || got.Generation.State != catalog.StateSucceeded || *c.Etag != "e" || !c.Ended || !c.At.Equal(begin.Add(time.Second)) {
		t.Errorf("the change is %+v of %+v", c, got)
	}
	s.put("a", "newer", read, begin.Add(2*time.Second))
	p.wrote("an API key", sent, shared.Written{Unknown: []string{"a"}}, nil)
	if m := s.takeAll().message(); len(m.Changes) != 1 || *m.Changes[0].Etag != "newer" {
		t.Errorf("in the place of a newer answer is told %+v", m)
	}
}

// The list dropped a generation while a read of it was on its way to the book.
func TestWhatWasNotWrittenIsPutBackWithItsOwnTimes(t *testing.T) {
	_, s := sharingAlone()
	read := record{Generation: catalog.Generation{ID: "a", State: catalog.StateRunning}}
	begin, none := time.Now(), ""
	s.put("a", "e", read, begin)
	failed := s.takeAll()
	s.found.changes["a"] = change{shared.Change{ID: "a", Listed: &none}, begin.Add(time.Minute)}
	s.found.putBack(failed)
	c := s.takeAll().message().Changes[0]
	if c.Record == nil || c.Listed == nil || !c.At.Equal(begin) {
		t.Errorf("a read of %v is put back as %+v", begin, c)
	}
	s.found.changes["a"] = change{shared.Change{ID: "a", Listed: &none}, begin.Add(time.Minute)}
	s.put("a", "e", read, begin.Add(2*time.Minute))
	if m := s.takeAll().message(); len(m.Changes) != 1 || len(m.Same) != 1 || !m.Changes[0].At.Equal(begin.Add(time.Minute)) {
		t.Errorf("a read beside what the list has dropped is told as %+v", m)
	}
}

func TestVersionsOfOneWriteAreKnownWhereNobodyElseHasWritten(t *testing.T) {
	p, s := sharingAlone()
	for first, want := range map[int64]int64{7: 10, 8: 7} {
		s.after = shared.Cursor{Version: 7}
		p.wrote("an API key", s.takeAll(), shared.Written{First: first, Last: 9}, nil)
		if s.after.Version != want {
			t.Errorf("after versions %d to 9 the next is %d, want %d", first, s.after.Version, want)
		}
	}
}
