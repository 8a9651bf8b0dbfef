package content_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/easel-grpc/easel/internal/catalog"
	"github.com/easel-grpc/easel/internal/content"
	"github.com/easel-grpc/easel/internal/ledger"
)

func TestATextIsReadWhileTheStoreFails(t *testing.T) {
	inStudio(t, func(s *studio) {
		const text = "tide and stone"
		for _, id := range []string{"g1", "g2"} {
			s.upstream.set(func() { s.upstream.texts[id] = text })
			s.order(id)
			if id == "g2" {
				continue
			}
			s.observeText(id)
			stop := s.run(s.results)
			s.waitForCopy(id)
			stop()
		}
		copied, err := s.results.Open(s.Context(), s.held, "g1", 0, "")
		if err != nil {
			s.Fatal(err)
		}
		s.wantBytes("g2", []byte(text), content.FromCatalog) // the book has not its end yet
		s.store.set(func() { s.store.refuse = errors.New("access denied") })
		s.observeText("g2")
		s.wantBytes("g1", []byte(text), content.FromCatalog)
		s.wantBytes("g2", []byte(text), content.FromCatalog)
		original, err := s.results.Open(s.Context(), s.held, "g1", 5, copied.Etag)
		if err != nil || original.Etag != copied.Etag || original.ContentType != copied.ContentType || *original.Size != int64(len(text)) || original.Offset != 5 {
			s.Errorf("it is %+v, %v, and its copy %+v", original, err, copied)
		}
		if _, err := s.results.Open(s.Context(), s.held, "g1", 100, ""); catalog.KindOf(err) != catalog.KindOutOfRange {
			s.Errorf("past the end: %v", err)
		}
		if _, err := s.results.Open(s.Context(), s.held, "g1", 0, `"copy-other"`); catalog.KindOf(err) != catalog.KindContentChanged {
			s.Errorf("another etag: %v", err)
		}
	})
}

func TestEachReadOfACopyIsCounted(t *testing.T) {
	inStudio(t, func(s *studio) {
		file := picture(1000)
		s.finish("g1", file)
		stop := s.run(s.results)
		s.waitForCopy("g1")
		stop()
		s.wantBytes("g1", file, content.FromCopy)
		s.store.set(func() { s.store.refuse = errors.New("access denied") })
		s.wantBytes("g1", file, content.FromCatalog)
		s.wantBytes("g1", file, content.FromCatalog) // the store is not asked
		if c := &s.results.Counts; c.Reads.Load() != 1 || c.Rescued.Load() != 2 {
			s.Errorf("%d reads of the store, and %d of the catalog in its place", c.Reads.Load(), c.Rescued.Load())
		}
	})
}

// stubborn is a store that does not delete some objects.
type stubborn struct {
	content.Store

	keeps string // a part of their names
}

func (s *stubborn) Delete(ctx context.Context, name string) error {
	if s.keeps != "" && strings.Contains(name, s.keeps) {
		return errors.New("it is locked")
	}
	return s.Store.Delete(ctx, name)
}

func TestACopyThatCantBeDeletedHoldsUpNoOther(t *testing.T) {
	inStudio(t, func(s *studio) {
		var all []ledger.Order
		stop := s.run(s.results)
		for _, id := range []string{"g1", "g2", "g3"} {
			o, found, err := s.book.Get(s.Context(), s.finish(id, picture(10)).ID)
			if err != nil || !found {
				s.Fatal(err)
			}
			all = append(all, o)
			s.waitForCopy(id)
		}
		stop()
		locked := &stubborn{s.store.Store, s.row("g1").Object}
		s.store.set(func() { s.store.Store = locked })
		if _, err := s.book.Erase(s.Context(), all...); err != nil {
			s.Fatal(err)
		}
		forget := func(within time.Duration) (left int64) {
			ctx, cancel := context.WithTimeout(s.Context(), within)
			defer cancel()
			left, err := s.results.Forget(ctx)
			if err != nil {
				s.Error(err)
			}
			return left
		}
		if left := forget(time.Second); left != 1 || len(s.objects()) != 1 {
			s.Errorf("%d are left, in %q", left, s.objects())
		}
		s.store.set(func() { locked.keeps = "" })
		if left := forget(time.Minute); left != 0 || len(s.objects()) != 0 {
			s.Errorf("%d are left in the end, in %q", left, s.objects())
		}
	})
}

func TestWhatAnEarlierClaimHasLeftIsDeleted(t *testing.T) {
	inStudio(t, func(s *studio) {
		s.finish("g1", picture(1000))
		ctx, cancel := context.WithCancel(s.Context())
		s.store.put = cancel // it dies before it has told the book
		s.results.Run(ctx)
		if row := s.row("g1"); row.State != ledger.ContentWaiting || len(s.objects()) != 1 {
			s.Fatalf("the book has %+v, and the store %q", row, s.objects())
		}
		s.store.put = nil
		stop := s.run(s.replica())
		row := s.waitForCopy("g1")
		stop()
		if objects := s.objects(); len(objects) != 1 || !strings.HasSuffix(objects[0], row.Object) {
			s.Errorf("the store has %q, want %q", objects, row.Object)
		}
	})
}

// A part with the etag of a copy that is there no more is not served from other bytes.
func TestAnEtagOfACopyThatIsGoneIsThatOfOtherBytes(t *testing.T) {
	inStudio(t, func(s *studio) {
		s.upstream.set(func() { s.upstream.files["g9"] = picture(1000) })
		without := content.New(content.Config{Catalog: s.results.Catalog, Ledger: s.results.Ledger, Logger: s.results.Logger})
		for name, r := range map[string]*content.Results{"with a store": s.results, "without": without} {
			if c, err := r.Open(s.Context(), s.held, "g9", 500, `"copy-00000000000000000000000000000000"`); catalog.KindOf(err) != catalog.KindContentChanged {
				s.Errorf("%s: it is %v, %v", name, c, err)
			}
		}
	})
}
