package content_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/easel-grpc/easel/internal/catalog"
	"github.com/easel-grpc/easel/internal/content"
	"github.com/easel-grpc/easel/internal/ledger"
	"github.com/easel-grpc/easel/internal/ledger/lifecycle"
	"github.com/easel-grpc/easel/internal/proctest"
)

func TestAResultIsReadFromItsCopyWithoutTheCatalog(t *testing.T) {
	onEach(t, func(s *studio) {
		file := picture(700_001)
		s.finishOrder("g1", file)
		defer s.runJobs(s.results)()
		row := s.waitForCopy("g1")
		sum := sha256.Sum256(file)
		if row.Size != int64(len(file)) || row.SHA256 != hex.EncodeToString(sum[:]) || row.ContentType != "image/png" || row.Etag != `"e-g1"` || row.Time.IsZero() {
			s.Errorf("the ledger has %+v", row)
		}
		s.upstream.set(func() { s.upstream.down = true })
		s.wantBytes("g1", file, content.FromCopy)
		for _, offset := range []int64{1, 65535, 65536, 65537, 262144, 700_000, 700_001} {
			if got, source, err := s.read(s.results, "g1", offset); err != nil || source != content.FromCopy || !bytes.Equal(got, file[offset:]) {
				s.Errorf("a read from offset %d returns %d bytes, %v", offset, len(got), err)
			}
		}
		if _, _, err := s.read(s.results, "g1", 700_002); catalog.KindOf(err) != catalog.KindOutOfRange {
			s.Errorf("a read from an offset past the end returns %v", err)
		}
		if _, err := s.results.Open(s.Context(), s.shared, "g1", 0, `"other"`); catalog.KindOf(err) != catalog.KindContentChanged {
			s.Errorf("Open with another etag returns %v", err)
		}
		if reads := s.upstream.reads("g1"); reads != 1 {
			s.Errorf("the catalog was read %d times", reads)
		}
	})
}

func TestEmptyFilesAndTextResultsAreCopied(t *testing.T) {
	inStudio(t, func(s *studio) {
		s.upstream.set(func() { s.upstream.texts["g1"], s.upstream.etags = "tide and stone", false })
		s.orderGeneration("g1")
		s.record("g1", lifecycle.Observation{Status: lifecycle.Succeeded}, `{"File":null}`)
		s.upstream.set(func() { s.upstream.files["g2"] = nil })
		s.orderGeneration("g2")
		s.record("g2", lifecycle.Observation{Status: lifecycle.Succeeded}, `{"File":{"SizeBytes":0}}`)
		defer s.runJobs(s.results)()
		s.waitForCopy("g1")
		s.waitForCopy("g2")
		s.upstream.set(func() { s.upstream.down = true })
		s.wantBytes("g1", []byte("tide and stone"), content.FromCopy)
		s.wantBytes("g2", nil, content.FromCopy)
		opened, err := s.results.Open(s.Context(), s.shared, "g1", 0, "")
		if err != nil || opened.ContentType != "text/plain; charset=utf-8" || opened.Etag == "" {
			s.Fatalf("%+v, %v", opened, err)
		}
		if _, err := s.results.Open(s.Context(), s.shared, "g1", 3, opened.Etag); err != nil {
			s.Errorf("Open with the result's own etag returns %v", err)
		}
	})
}

func TestFailingStoreDelaysNoReader(t *testing.T) {
	for name, fault := range map[string]func(*trouble){
		"refuses": func(s *trouble) { s.refuse = errors.New("access denied") },
		"is full": func(s *trouble) { s.full = true },
		"hangs":   func(s *trouble) { s.stall = true },
	} {
		t.Run(name, func(t *testing.T) {
			inStudio(t, func(s *studio) {
				file := picture(300_000)
				s.store.set(func() { fault(s.store) })
				s.finishOrder("g1", file)
				defer s.runJobs(s.results)()
				for range 2 {
					began := time.Now()
					if s.wantBytes("g1", file, content.FromCatalog); time.Since(began) > time.Second {
						s.Errorf("the reader waited for %v", time.Since(began))
					}
					time.Sleep(10 * time.Minute)
				}
				if reads := s.upstream.reads("g1"); reads > 30 || name != "is full" && reads > 2 {
					s.Errorf("the catalog was read %d times", reads)
				}
				s.store.set(func() { s.store.refuse, s.store.full, s.store.stall = nil, false, false })
				time.Sleep(time.Hour) // an attempt that still waits for the store times out, and a later attempt succeeds
				s.wantBytes("g1", file, content.FromCopy)
			})
		})
	}
}

func TestDamagedOrLostCopyIsReplacedFromCatalog(t *testing.T) {
	for name, lie := range map[string]func([]byte) []byte{
		"too short": func(data []byte) []byte { return data[:len(data)-1] },
		"too long":  func(data []byte) []byte { return append(data, 0) },
		"empty":     func([]byte) []byte { return nil },
	} {
		t.Run(name, func(t *testing.T) {
			inStudio(t, func(s *studio) {
				file := picture(600_000)
				s.finishOrder("g1", file)
				defer s.runJobs(s.results)()
				first := s.waitForCopy("g1")
				s.store.set(func() { s.store.lie = lie })
				s.wantBytes("g1", file, content.FromCatalog)
				s.store.set(func() { s.store.lie = nil })
				time.Sleep(time.Minute)
				second := s.waitForCopy("g1")
				if all := s.objects(); second.Object == first.Object || len(all) != 1 || !strings.HasSuffix(all[0], second.Object) {
					s.Errorf("the second copy is %s, and the store has %q", second.Object, all)
				}
				s.wantBytes("g1", file, content.FromCopy)
				if err := os.Remove(s.objects()[0]); err != nil {
					s.Fatal(err)
				}
				s.wantBytes("g1", file, content.FromCatalog)
				time.Sleep(time.Minute)
				s.wantBytes("g1", file, content.FromCopy)
			})
		})
	}
}

func TestCopyRemainsUsableAfterOneBadRead(t *testing.T) {
	inStudio(t, func(s *studio) {
		file := picture(600_000)
		s.finishOrder("g1", file)
		stop := s.runJobs(s.results)
		s.waitForCopy("g1")
		s.forgetFiles("g1")
		s.store.set(func() { s.store.lie = func(data []byte) []byte { return data[:len(data)-1] } })
		if _, _, err := s.read(s.results, "g1", 0); catalog.KindOf(err) != catalog.KindUnavailable {
			s.Errorf("without the catalog the read fails with %v", err)
		}
		s.store.set(func() { s.store.lie = nil })
		s.wantBytes("g1", file, content.FromCopy)
		stop()
		time.Sleep(8 * 24 * time.Hour)
		defer s.runJobs(s.replica())()
		time.Sleep(time.Minute)
		if row := s.row("g1"); row.State != ledger.ContentCopied {
			s.Errorf("after eight days the copy is %v", row.State)
		}
	})
}

func TestBrokenReadOfACopyCanBeResumed(t *testing.T) {
	for name, cut := range map[string]error{"fails": errors.New("connection reset"), "ends early": io.EOF, "hangs": context.Canceled} {
		t.Run(name, func(t *testing.T) {
			inStudio(t, func(s *studio) {
				file := picture(600_000)
				s.finishOrder("g1", file)
				defer s.runJobs(s.results)()
				s.waitForCopy("g1")
				s.store.cut = cut
				began := time.Now()
				got, _, err := s.read(s.results, "g1", 0)
				broken, ok := errors.AsType[*catalog.Error](err)
				if !ok || broken.Kind != catalog.KindInterrupted || broken.NextOffset != 300_000 || !bytes.Equal(got, file[:300_000]) {
					s.Fatalf("%d bytes were read: %v", len(got), err)
				}
				if took := time.Since(began); took > 11*time.Second {
					s.Errorf("the read failed after %v", took)
				}
				s.store.cut = nil
				if rest, source, err := s.read(s.results, "g1", broken.NextOffset); err != nil || source != content.FromCopy || !bytes.Equal(rest, file[300_000:]) {
					s.Errorf("the rest has %d bytes: %v", len(rest), err)
				}
			})
		})
	}
}

// The outcome of a copy contains strings that the database would reject. They must be recorded in a valid form;
// otherwise, the result would be copied again and again.
func TestInvalidUTF8IsReplacedBeforeRecording(t *testing.T) {
	onEach(t, func(s *studio) {
		s.upstream.set(func() { s.upstream.kind = "image/\xff\x00png" + strings.Repeat("ä", 200) })
		s.store.set(func() { s.store.refuse = errors.New("x\xfe\x00" + strings.Repeat("ä", 200)) })
		s.finishOrder("g1", picture(1000))
		defer s.runJobs(s.results)()
		proctest.Eventually(s, 10*time.Second, "the problem is recorded", func() bool { return s.row("g1").Problem != "" })
		if problem := s.row("g1").Problem; !strings.HasPrefix(problem, "x\uFFFDä") || len(problem) > 300 || !utf8.ValidString(problem) {
			s.Errorf("the problem is %q", problem)
		}
		s.store.set(func() { s.store.refuse = nil })
		row := s.waitForCopy("g1")
		if kind := row.ContentType; !strings.HasPrefix(kind, "image/\uFFFDpngä") || len(kind) > 300 || !utf8.ValidString(kind) {
			s.Errorf("the content type is %q", kind)
		}
		if all := s.objects(); len(all) != 1 {
			s.Errorf("the store has %q", all)
		}
	})
}

// The ledger is closed before the copy can be recorded, so the file of the copy must be deleted.
func TestCopyIsDeletedIfLedgerCannotRecordIt(t *testing.T) {
	inStudio(t, func(s *studio) {
		s.store.put = func() { _ = s.ledger.Close() }
		s.finishOrder("g1", picture(1000))
		defer s.runJobs(s.results)()
		time.Sleep(time.Minute)
		if all := s.objects(); s.store.puts != 1 || len(all) != 0 {
			s.Errorf("after %d writes the store has %q", s.store.puts, all)
		}
	})
}

func TestDeletionRemovesCopyUnlessTeamKeepsIt(t *testing.T) {
	for name, keeps := range map[string]bool{"kept": true, "not kept": false} {
		t.Run(name, func(t *testing.T) {
			inStudio(t, func(s *studio) {
				s.team.KeepDeleted = keeps
				s.finishOrder("g1", picture(1000))
				defer s.runJobs(s.results)()
				s.waitForCopy("g1")
				s.observe("g1", lifecycle.Observation{Deleted: true, NotFound: true}) // the catalog no longer has the generation, but its owner has not deleted it
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

func TestUnknownFilesInContentStoreAreNotDeleted(t *testing.T) {
	inStudio(t, func(s *studio) {
		for _, id := range []string{"g1", "g2", "g3", "g4"} {
			s.finishOrder(id, picture(1000))
		}
		stop := s.runJobs(s.results)
		for _, id := range []string{"g1", "g2", "g3", "g4"} {
			s.waitForCopy(id)
		}
		stop()
		path := func(id string) string { return s.dir + "/" + s.row(id).Object }
		for name, data := range map[string][]byte{path("g2"): picture(999), path("g3"): picture(1001)[1:], path("g4") + "0": nil, path("g4") + ".part": nil, s.dir + "/other.part": nil, s.dir + "/here/notes.part": nil} {
			proctest.Write(s, name, string(data))
		}
		if err := os.Remove(path("g1")); err != nil {
			s.Fatal(err)
		}
		s.setAge(30 * time.Hour)
		verify := func() (all []string) {
			if _, err := s.results.Verify(s.Context(), true, func(line string) { all = append(all, line) }, func(int64) {}); err != nil {
				s.Fatal(err)
			}
			return all
		}
		const unknown = ": not found in the ledger"
		want := []string{
			"g1: not found in the store", "g2: the store has 999 bytes, but the ledger has 1000", "g3: SHA-256 differs",
			s.row("g4").Object + ".part" + unknown, s.row("g4").Object + "0" + unknown, "here/notes.part" + unknown,
		}
		got := verify()
		if !slices.EqualFunc(got, want, strings.HasPrefix) {
			s.Errorf("Verify reports %q", got)
		}
		before := s.objects()
		defer s.runJobs(s.replica())()
		time.Sleep(3 * time.Hour)
		if left := s.objects(); !slices.Equal(left, before) {
			s.Errorf("the store has %q before, and %q afterwards", before, left)
		}
		if again := verify(); !slices.Equal(again, got) {
			s.Errorf("afterwards Verify reports %q", again)
		}
	})
}

func TestMissingResultIsAbandonedAfterOneWeek(t *testing.T) {
	inStudio(t, func(s *studio) {
		s.finishOrder("g1", nil)
		s.upstream.set(func() { delete(s.upstream.files, "g1") })
		stop := s.runJobs(s.results)
		time.Sleep(30 * time.Minute)
		stop() // stops the attempts to copy the result, which would continue for a week
		if row := s.row("g1"); row.State != ledger.ContentWaiting || row.Problem == "" {
			s.Errorf("after half an hour: %+v", row)
		}
		if reads := s.upstream.reads("g1"); reads < 5 || reads > 25 {
			s.Errorf("the catalog was read %d times", reads)
		}
		time.Sleep(7 * 24 * time.Hour)
		defer s.runJobs(s.replica())()
		time.Sleep(time.Minute)
		if row := s.row("g1"); row.State != ledger.ContentFailed {
			s.Errorf("after a week: %+v", row)
		}
	})
}

func TestFinalEventWaitsUpToOneMinuteForCopy(t *testing.T) {
	inStudio(t, func(s *studio) {
		s.team.Subscribed = true
		due := func() int {
			taken, err := s.ledger.TakeJobs(s.Context(), ledger.DeliverJob, "studio", 10)
			for _, job := range taken {
				err = errors.Join(err, s.ledger.FinishJob(s.Context(), job, ledger.Outcome{}))
			}
			if err != nil {
				s.Fatal(err)
			}
			return len(taken)
		}
		s.finishOrder("g1", picture(1000))
		if due() != 0 {
			s.Error("the event is due before the result is copied")
		}
		stop := s.runJobs(s.results)
		s.waitForCopy("g1")
		stop()
		if due() != 1 {
			s.Error("the event is not due after the result was copied")
		}
		s.finishOrder("g2", picture(1000))
		time.Sleep(59 * time.Second)
		if due() != 0 {
			s.Error("without a copy, the event is due within a minute")
		}
		time.Sleep(2 * time.Second)
		if due() != 1 {
			s.Error("without a copy, the event is not due after a minute")
		}
	})
}
