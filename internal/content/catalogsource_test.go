package content_test

import (
	"errors"
	"testing"

	"github.com/easel-grpc/easel/internal/catalog"
	"github.com/easel-grpc/easel/internal/content"
	"github.com/easel-grpc/easel/internal/ledger/lifecycle"
)

func TestTextResultIsReadFromCatalogWhileStoreFails(t *testing.T) {
	inStudio(t, func(s *studio) {
		const text = "tide and stone"
		for _, id := range []string{"g1", "g2"} {
			s.upstream.set(func() { s.upstream.texts[id] = text })
			s.orderGeneration(id)
			if id == "g2" {
				continue
			}
			s.record(id, lifecycle.Observation{Status: lifecycle.Succeeded}, `{"File":null}`)
			stop := s.runJobs(s.results)
			s.waitForCopy(id)
			stop()
		}
		copied, err := s.results.Open(s.Context(), s.shared, "g1", 0, "")
		if err != nil {
			s.Fatal(err)
		}
		s.wantBytes("g2", []byte(text), content.FromCatalog) // not copied yet, because the ledger has not recorded a terminal state of the generation
		s.store.set(func() { s.store.refuse = errors.New("access denied") })
		s.record("g2", lifecycle.Observation{Status: lifecycle.Succeeded}, `{"File":null}`)
		s.wantBytes("g1", []byte(text), content.FromCatalog)
		s.wantBytes("g2", []byte(text), content.FromCatalog)
		original, err := s.results.Open(s.Context(), s.shared, "g1", 5, copied.Etag)
		if err != nil || original.Etag != copied.Etag || original.ContentType != copied.ContentType || *original.Size != int64(len(text)) || original.Offset != 5 {
			s.Errorf("the original is %+v, %v, and the copy is %+v", original, err, copied)
		}
		if _, err := s.results.Open(s.Context(), s.shared, "g1", 100, ""); catalog.KindOf(err) != catalog.KindOutOfRange {
			s.Errorf("Open with an offset past the end returns %v", err)
		}
		if _, err := s.results.Open(s.Context(), s.shared, "g1", 0, `"copy-other"`); catalog.KindOf(err) != catalog.KindContentChanged {
			s.Errorf("Open with another etag returns %v", err)
		}
	})
}

func TestReadsFromStoreAndFromCatalogAreCounted(t *testing.T) {
	inStudio(t, func(s *studio) {
		file := picture(1000)
		s.finishOrder("g1", file)
		stop := s.runJobs(s.results)
		s.waitForCopy("g1")
		stop()
		s.wantBytes("g1", file, content.FromCopy)
		s.store.set(func() { s.store.refuse = errors.New("access denied") })
		s.wantBytes("g1", file, content.FromCatalog)
		s.wantBytes("g1", file, content.FromCatalog)
		if c := &s.results.Counts; c.Reads.Load() != 1 || c.Rescued.Load() != 2 {
			s.Errorf("%d reads of the store, and %d reads that fell back to the catalog", c.Reads.Load(), c.Rescued.Load())
		}
	})
}

// A client resumes a download with the etag of a copy that was deleted in the meantime. The download must fail instead
// of returning bytes of another file.
func TestResumeWithETagOfDeletedCopyFails(t *testing.T) {
	inStudio(t, func(s *studio) {
		s.upstream.set(func() { s.upstream.files["g9"] = picture(1000) })
		without := content.New(content.Config{Catalog: s.results.Catalog, Ledger: s.results.Ledger, Logger: s.results.Logger})
		for name, r := range map[string]*content.Results{"with a store": s.results, "without": without} {
			if c, err := r.Open(s.Context(), s.shared, "g9", 500, `"copy-00000000000000000000000000000000"`); catalog.KindOf(err) != catalog.KindContentChanged {
				s.Errorf("%s: got %v, %v", name, c, err)
			}
		}
	})
}
