package content_test

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/easel-grpc/easel/internal/catalog"
	"github.com/easel-grpc/easel/internal/content"
	"github.com/easel-grpc/easel/internal/ledger"
	"github.com/easel-grpc/easel/internal/ledger/lifecycle"
)

func TestAResultIsReadFromItsCopyWithoutTheCatalog(t *testing.T) {
	onEach(t, func(s *studio) {
		file := picture(700_001)
		s.finish("g1", file)
		defer s.run(s.results)()
		row := s.waitForCopy("g1")
		sum := sha256.Sum256(file)
		if row.Size != int64(len(file)) || row.SHA256 != hex.EncodeToString(sum[:]) || row.ContentType != "image/png" || row.Etag != `"e-g1"` || row.Time.IsZero() {
			s.Errorf("the book has %+v", row)
		}
		s.upstream.set(func() { s.upstream.down = true })
		s.wantBytes("g1", file, content.FromCopy)
		for _, offset := range []int64{1, 65535, 65536, 65537, 262144, 700_000, 700_001} {
			if got, source, err := s.read(s.results, "g1", offset); err != nil || source != content.FromCopy || !bytes.Equal(got, file[offset:]) {
				s.Errorf("from %d on %d bytes come, %v", offset, len(got), err)
			}
		}
		if _, _, err := s.read(s.results, "g1", 700_002); catalog.KindOf(err) != catalog.KindOutOfRange {
			s.Errorf("past the end: %v", err)
		}
		if _, err := s.results.Open(s.Context(), s.held, "g1", 0, `"other"`); catalog.KindOf(err) != catalog.KindContentChanged {
			s.Errorf("another etag: %v", err)
		}
		if reads := s.upstream.reads("g1"); reads != 1 {
			s.Errorf("the catalog was read %d times", reads)
		}
	})
}

func TestATextAndAnEmptyFileAreCopiedToo(t *testing.T) {
	inStudio(t, func(s *studio) {
		s.upstream.set(func() { s.upstream.texts["g1"], s.upstream.etags = "tide and stone", false })
		s.order("g1")
		s.observeText("g1")
		s.upstream.set(func() { s.upstream.files["g2"] = nil })
		s.order("g2")
		s.record("g2", lifecycle.Observation{Status: lifecycle.Succeeded}, `{"File":{"SizeBytes":0}}`)
		defer s.run(s.results)()
		s.waitForCopy("g1")
		s.waitForCopy("g2")
		s.upstream.set(func() { s.upstream.down = true })
		s.wantBytes("g1", []byte("tide and stone"), content.FromCopy)
		s.wantBytes("g2", nil, content.FromCopy)
		opened, err := s.results.Open(s.Context(), s.held, "g1", 0, "")
		if err != nil || opened.ContentType != "text/plain; charset=utf-8" || opened.Etag == "" {
			s.Fatalf("%+v, %v", opened, err)
		}
		if _, err := s.results.Open(s.Context(), s.held, "g1", 3, opened.Etag); err != nil {
			s.Errorf("with its own etag: %v", err)
		}
	})
}

func TestFirstReadersWaitForOneCopy(t *testing.T) {
	for name, copies := range map[string]bool{"beside the one who copies": true, "before anybody copies": false} {
		t.Run(name, func(t *testing.T) {
			inStudio(t, func(s *studio) {
				file := picture(300_000)
				s.upstream.set(func() { s.upstream.delay = 2 * time.Second })
				other := s.replica()
				s.finish("g1", file)
				if copies {
					defer s.run(s.results)()
				}
				var readers sync.WaitGroup
				for n := range 5 {
					readers.Go(func() {
						got, source, err := s.read([]*content.Results{s.results, other}[n%2], "g1", 0)
						if err != nil || source != content.FromCopy || !bytes.Equal(got, file) {
							s.Errorf("%d bytes from %v, %v", len(got), source, err)
						}
					})
				}
				readers.Wait()
				if reads := s.upstream.reads("g1"); reads != 1 {
					s.Errorf("the catalog was read %d times", reads)
				}
			})
		})
	}
}

// A store that does not take copies holds up no reader that the catalog can serve.
func TestAStoreThatFailsHoldsUpNoReader(t *testing.T) {
	for name, fault := range map[string]func(*trouble){
		"refuses": func(s *trouble) { s.refuse = errors.New("access denied") },
		"is full": func(s *trouble) { s.full = true },
		"is slow": func(s *trouble) { s.stall = true },
	} {
		t.Run(name, func(t *testing.T) {
			inStudio(t, func(s *studio) {
				file := picture(300_000)
				s.store.set(func() { fault(s.store) })
				s.finish("g1", file)
				defer s.run(s.results)()
				began := time.Now()
				s.wantBytes("g1", file, content.FromCatalog)
				if took := time.Since(began); took > 11*time.Second {
					s.Errorf("the first reader waited for %v", took)
				}
				time.Sleep(10 * time.Minute)
				s.wantBytes("g1", file, content.FromCatalog)
				if reads := s.upstream.reads("g1"); reads > 30 {
					s.Errorf("the catalog was read %d times", reads)
				}
				s.store.set(func() { s.store.refuse, s.store.full, s.store.stall = nil, false, false })
				time.Sleep(10 * time.Minute)
				s.wantBytes("g1", file, content.FromCopy)
			})
		})
	}
}

// Words of others that a database refuses cost no second copy.
func TestWordsThatAreNoTextAreRecorded(t *testing.T) {
	onEach(t, func(s *studio) {
		s.upstream.set(func() { s.upstream.kind = "image/\xff\x00png" + strings.Repeat("ä", 200) })
		s.store.set(func() { s.store.refuse = errors.New("x\xfe\x00" + strings.Repeat("ä", 200)) })
		s.finish("g1", picture(1000))
		defer s.run(s.results)()
		for end := time.Now().Add(10 * time.Second); s.row("g1").Problem == "" && time.Now().Before(end); {
			time.Sleep(10 * time.Millisecond)
		}
		if problem := s.row("g1").Problem; !strings.HasPrefix(problem, "x\uFFFDä") || len(problem) > 300 || !utf8.ValidString(problem) {
			s.Errorf("the problem is %q", problem)
		}
		s.store.set(func() { s.store.refuse = nil })
		row := s.waitForCopy("g1")
		if kind := row.ContentType; !strings.HasPrefix(kind, "image/\uFFFDpngä") || len(kind) > 255 || !utf8.ValidString(kind) {
			s.Errorf("the content type is %q", kind)
		}
		if all := s.objects(); len(all) != 1 {
			s.Errorf("the store has %q", all)
		}
	})
}

// A copy that is surely not in the book leaves nothing in the store.
func TestACopyThatTheBookDoesNotTakeIsDeleted(t *testing.T) {
	inStudio(t, func(s *studio) {
		s.store.put = func() { _ = s.book.Close() }
		s.finish("g1", picture(1000))
		defer s.run(s.results)()
		time.Sleep(time.Minute)
		if all := s.objects(); s.store.puts != 1 || len(all) != 0 {
			s.Errorf("after %d writes the store has %q", s.store.puts, all)
		}
	})
}

// What the store has lost or changed comes from the catalog, within one read.
func TestAStoreThatLiesIsFoundOut(t *testing.T) {
	for name, lie := range map[string]func([]byte) []byte{
		"wrong bytes first":   func(data []byte) []byte { return append([]byte{data[0] + 1}, data[1:]...) },
		"wrong bytes at last": func(data []byte) []byte { return append(slices.Clone(data[:len(data)-1]), data[len(data)-1]+1) },
		"too few":             func(data []byte) []byte { return data[:len(data)-1] },
		"none":                func([]byte) []byte { return nil },
	} {
		t.Run(name, func(t *testing.T) {
			inStudio(t, func(s *studio) {
				file := picture(600_000)
				s.finish("g1", file)
				defer s.run(s.results)()
				s.waitForCopy("g1")
				s.store.set(func() { s.store.lie = lie })
				got, _, err := s.read(s.results, "g1", 0)
				if err != nil || !bytes.Equal(got, file) {
					s.Fatalf("%d bytes, %v", len(got), err)
				}
				other := strings.Replace(s.objects()[0], "-1-", "-9-", 1)
				if err := os.WriteFile(other, file, 0o600); err != nil { // a later claim writes it
					s.Fatal(err)
				}
				s.store.set(func() { s.store.lie = nil })
				row := s.waitForCopy("g1")
				if row.Claims != 2 {
					s.Errorf("it was not copied again: %+v", row)
				}
				left := []string{other, filepath.Join(s.dir, row.Object)}
				if synctest.Wait(); !slices.Equal(s.objects(), slices.Sorted(slices.Values(left))) {
					s.Errorf("the store has %q, want %q", s.objects(), left)
				}
				s.wantBytes("g1", file, content.FromCopy)
			})
		})
	}
}

// Where the catalog has the bytes no more, a copy that was doubted once is not given up.
func TestALieCostsNoCopyThatIsTheOnlyOne(t *testing.T) {
	inStudio(t, func(s *studio) {
		file := picture(600_000)
		s.finish("g1", file)
		defer s.run(s.results)()
		s.waitForCopy("g1")
		s.upstream.set(func() { delete(s.upstream.files, "g1") })
		s.store.set(func() { s.store.lie = func(data []byte) []byte { return data[:len(data)-1] } })
		if got, _, err := s.read(s.results, "g1", 0); catalog.KindOf(err) != catalog.KindInterrupted || !bytes.Equal(got, file[:len(got)]) {
			s.Errorf("%d bytes, %v", len(got), err)
		}
		s.store.set(func() { s.store.lie = nil })
		s.wantBytes("g1", file, content.FromCopy)
	})
}

// What is right before a wrong block is passed on, and no byte of that block.
func TestEachWrongBlockEndsTheCopyBeforeIt(t *testing.T) {
	inStudio(t, func(s *studio) {
		const block, size = 65536, 600_000
		file := picture(size)
		s.finish("g1", file)
		defer s.run(s.results)()
		s.waitForCopy("g1")
		for wrong := block + 7; wrong < size; wrong += block {
			s.store.set(func() {
				s.store.lie = func(data []byte) []byte {
					data[wrong] ^= 1
					return data
				}
			})
			s.upstream.set(func() { delete(s.upstream.files, "g1") })
			if got, _, err := s.read(s.results, "g1", 3); catalog.KindOf(err) != catalog.KindInterrupted || len(got) != wrong-7-3 || !bytes.Equal(got, file[3:wrong-7]) {
				s.Errorf("of a copy that is wrong at %d, %d bytes are read, %v", wrong, len(got), err)
			}
			s.upstream.set(func() { s.upstream.files["g1"] = file })
			if got, _, err := s.read(s.results, "g1", 3); err != nil || !bytes.Equal(got, file[3:]) {
				s.Errorf("with the catalog beside it, %d bytes are read, %v", len(got), err)
			}
			s.store.set(func() { s.store.lie = nil })
			s.waitForCopy("g1")
		}
	})
}

func TestAClaimThatEndsIsAnothers(t *testing.T) {
	inStudio(t, func(s *studio) {
		file := picture(1000)
		s.finish("g1", file)
		dead, found, err := s.book.TakeContent(s.Context(), "")
		if err != nil || !found {
			s.Fatal(err)
		}
		defer s.run(s.results)()
		time.Sleep(10 * time.Second)
		if row := s.row("g1"); row.State != ledger.ContentWaiting {
			s.Errorf("the claim of another was not waited for: %+v", row)
		}
		s.waitForCopy("g1")
		if counts, err := s.book.ContentIsCopied(s.Context(), dead, ledger.StoredCopy{Object: "x", SHA256: "y"}); counts || err != nil {
			s.Errorf("the claim that has ended counts: %v, %v", counts, err)
		}
		s.wantBytes("g1", file, content.FromCopy)
	})
}

func TestWhatIsErasedIsDeletedInTheStore(t *testing.T) {
	onEach(t, func(s *studio) {
		copied, waiting := s.finish("g1", picture(1000)), s.finish("g2", picture(2000))
		stop := s.run(s.results)
		s.waitForCopy("g1")
		s.waitForCopy("g2")
		stop()
		late := s.finish("g3", picture(3000))
		if _, _, err := s.book.TakeContent(s.Context(), ""); err != nil { // somebody is about to copy it
			s.Fatal(err)
		}
		for _, o := range []*ledger.Order{&copied, &waiting, &late} {
			all, err := s.book.Find(s.Context(), o.ID, 1)
			if err != nil || len(all) != 1 {
				s.Fatal(all, err)
			}
			*o = all[0]
		}
		if n, err := s.book.Erase(s.Context(), copied, late); n != 2 || err != nil {
			s.Fatal(n, err)
		}
		if claim := s.row("g3"); claim.State != ledger.ContentDoomed {
			s.Errorf("what is to be copied is %+v", claim)
		}
		if counts, err := s.book.ContentIsCopied(s.Context(), s.row("g3"), ledger.StoredCopy{Object: "x", SHA256: "y"}); counts || err != nil {
			s.Errorf("a copy of what was erased counts: %v", err)
		}
		defer s.run(s.results)()
		for end := time.Now().Add(time.Minute); len(s.objects()) != 1; time.Sleep(50 * time.Millisecond) {
			if time.Now().After(end) {
				s.Fatalf("there are %q", s.objects())
			}
		}
		s.wantBytes("g2", picture(2000), content.FromCopy)
	})
}

func TestACopyGoesWithADeletionUnlessItsTeamKeepsIt(t *testing.T) {
	for name, keeps := range map[string]bool{"kept": true, "not kept": false} {
		t.Run(name, func(t *testing.T) {
			inStudio(t, func(s *studio) {
				s.team.KeepDeleted = keeps
				s.finish("g1", picture(1000))
				defer s.run(s.results)()
				s.waitForCopy("g1")
				s.observe("g1", lifecycle.Observation{Deleted: true, NotFound: true}) // the catalog has forgotten it
				time.Sleep(time.Minute)
				s.wantBytes("g1", picture(1000), content.FromCopy)
				s.observe("g1", lifecycle.Observation{Deleted: true})
				time.Sleep(time.Minute)
				if left := len(s.objects()); (left == 1) != keeps {
					s.Errorf("%d objects are left", left)
				}
			})
		})
	}
}

func TestUnknownObjectsAreReportedAndNotDeleted(t *testing.T) {
	inStudio(t, func(s *studio) {
		for _, id := range []string{"g1", "g2", "g3", "g4"} {
			s.finish(id, picture(1000))
		}
		stop := s.run(s.results)
		for _, id := range []string{"g1", "g2", "g3", "g4"} {
			s.waitForCopy(id)
		}
		stop()
		path := func(id string) string { return s.dir + "/" + s.row(id).Object }
		for name, data := range map[string][]byte{path("g2"): picture(999), path("g3"): picture(1001)[1:], path("g4") + "0": nil, path("g4") + "." + rand.Text() + ".part": nil, s.dir + "/other.part": nil, s.dir + "/here/notes.part": nil} {
			if err := os.WriteFile(name, data, 0o600); err != nil {
				s.Fatal(err)
			}
		}
		if err := os.Remove(path("g1")); err != nil {
			s.Fatal(err)
		}
		long := time.Now().Add(-30 * time.Hour)
		for _, name := range s.objects() {
			if err := os.Chtimes(name, long, long); err != nil {
				s.Fatal(err)
			}
		}
		verify := func() (all []string) {
			if _, err := s.results.Verify(s.Context(), true, func(d content.Difference) { all = append(all, d.String()) }, func(int64) {}); err != nil {
				s.Fatal(err)
			}
			return all
		}
		want := []string{"g1: the store has it not", "g2: the store has 999 bytes, and the book 1000", "g3: its SHA-256 is another", s.row("g4").Object + "0: the ledger does not know it"}
		got := verify()
		if len(got) != len(want) {
			s.Errorf("it names %q", got)
		}
		for n := range got {
			if !strings.HasPrefix(got[n], want[min(n, 3)]) {
				s.Errorf("it names %q", got[n])
			}
		}
		before := s.objects()
		defer s.run(s.replica())()
		time.Sleep(10 * time.Minute)
		gone := slices.DeleteFunc(before, func(name string) bool { return slices.Contains(s.objects(), name) })
		if len(gone) != 1 || !strings.Contains(gone[0], s.row("g4").Object) || !strings.HasSuffix(gone[0], ".part") { // a broken write of this ledger
			s.Errorf("deleted are %q", gone)
		}
		if again := verify(); !slices.Equal(again, got) {
			s.Errorf("afterwards it reports %q", again)
		}
	})
}

func TestWhatHasNoResultIsTriedNoMore(t *testing.T) {
	inStudio(t, func(s *studio) {
		s.finish("g1", nil)
		s.upstream.set(func() { delete(s.upstream.files, "g1") })
		stop := s.run(s.results)
		time.Sleep(30 * time.Minute)
		stop() // a day of looking takes a test too long
		if row := s.row("g1"); row.State != ledger.ContentWaiting || row.Problem == "" {
			s.Errorf("after half an hour: %+v", row)
		}
		if reads := s.upstream.reads("g1"); reads < 5 || reads > 25 {
			s.Errorf("the catalog was read %d times", reads)
		}
		time.Sleep(24 * time.Hour)
		defer s.run(s.replica())()
		time.Sleep(time.Minute)
		if row := s.row("g1"); row.State != ledger.ContentFailed {
			s.Errorf("after a day: %+v", row)
		}
	})
}

func TestTheEventOfAnEndWaitsForTheCopyForAMinute(t *testing.T) {
	inStudio(t, func(s *studio) {
		s.team.Subscribed = true
		due := func() int {
			taken, err := s.book.TakeJobs(s.Context(), ledger.DeliverJob, "studio", 10)
			for _, job := range taken {
				err = errors.Join(err, s.book.FinishJob(s.Context(), job, ledger.Outcome{}))
			}
			if err != nil {
				s.Fatal(err)
			}
			return len(taken)
		}
		s.finish("g1", picture(1000))
		if due() != 0 {
			s.Error("it is told before there is a copy")
		}
		stop := s.run(s.results)
		s.waitForCopy("g1")
		stop()
		if due() != 1 {
			s.Error("it is not told when there is a copy")
		}
		s.finish("g2", picture(1000))
		time.Sleep(59 * time.Second)
		if due() != 0 {
			s.Error("it is told before a minute is over")
		}
		time.Sleep(2 * time.Second)
		if due() != 1 {
			s.Error("it is not told after a minute")
		}
	})
}
