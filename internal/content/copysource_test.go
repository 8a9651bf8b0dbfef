package content_test

import (
	"strings"
	"testing"
	"time"

	"github.com/easel-grpc/easel/internal/content"
	"github.com/easel-grpc/easel/internal/ledger"
	"github.com/easel-grpc/easel/internal/ledger/lifecycle"
)

// A response with status 200 that is not the result must not be stored. The copy job reads the result again later.
func TestInvalidResponseIsNotStoredAsCopy(t *testing.T) {
	page := []byte("<html>502 Bad Gateway</html>")
	for name, row := range map[string]struct {
		record  string // JSON object that describes the file in the ledger
		kind    string
		file    []byte
		chunked bool
		problem string
	}{
		"HTML page":                            {`{}`, "text/html; charset=utf-8", page, false, "type text/html"},
		"XHTML page":                           {`{}`, "application/xhtml+xml", page, true, "type application/xhtml+xml"},
		"error in JSON":                        {`{}`, "application/json", []byte(`{"code":"INTERNAL"}`), false, "type application/json"},
		"problem details":                      {`{}`, "application/problem+json", []byte(`{}`), true, "type application/problem+json"},
		"empty file":                           {`{}`, "image/png", nil, false, "is empty"},
		"empty file, chunked":                  {`{}`, "image/png", nil, true, "is empty"},
		"half of the recorded size":            {`{"SizeBytes":1000}`, "image/png", picture(500), false, "500 bytes instead of 1000"},
		"half of the recorded size, chunked":   {`{"SizeBytes":1000}`, "image/png", picture(500), true, "500 bytes instead of 1000"},
		"more than the recorded size, chunked": {`{"SizeBytes":1000}`, "image/png", picture(1500), true, "1500 bytes instead of 1000"},
	} {
		t.Run(name, func(t *testing.T) {
			inStudio(t, func(s *studio) {
				s.upstream.set(func() { s.upstream.files["g1"], s.upstream.kind, s.upstream.chunked = row.file, row.kind, row.chunked })
				s.orderGeneration("g1")
				s.record("g1", lifecycle.Observation{Status: lifecycle.Succeeded}, `{"File":`+row.record+`}`)
				defer s.runJobs(s.results)()
				time.Sleep(time.Minute)
				if got := s.row("g1"); got.State != ledger.ContentWaiting || !strings.Contains(got.Problem, row.problem) {
					s.Errorf("the copy is %v: %s", got.State, got.Problem)
				}
				if left := s.objects(); len(left) > 0 {
					s.Errorf("the store has %q", left)
				}
				if reads := s.upstream.reads("g1"); reads < 3 || reads > 20 {
					s.Errorf("the catalog was read %d times", reads)
				}
				s.upstream.set(func() { s.upstream.files["g1"], s.upstream.kind = picture(1000), "image/png" })
				s.waitForCopy("g1")
				s.wantBytes("g1", picture(1000), content.FromCopy)
			})
		})
	}
}

func TestResultIsCopiedIfContentTypeIsCompatible(t *testing.T) {
	for recorded, kind := range map[string]string{
		"image/jpg": "image/jpeg", "image/png": "application/octet-stream", "application/octet-stream": "video/mp4", "text/html": "text/html; charset=utf-8",
		"application/json": "application/json", "": "model/gltf+json",
	} {
		t.Run(recorded+" as "+kind, func(t *testing.T) {
			inStudio(t, func(s *studio) {
				s.upstream.set(func() { s.upstream.files["g1"], s.upstream.kind = picture(1000), kind })
				s.orderGeneration("g1")
				s.record("g1", lifecycle.Observation{Status: lifecycle.Succeeded}, `{"File":{"ContentType":"`+recorded+`"}}`)
				defer s.runJobs(s.results)()
				s.waitForCopy("g1")
			})
		})
	}
}

// A response that reports a missing result may come from a proxy in front of the catalog, so the result must be read
// again.
func TestCopyOfMissingResultIsRetried(t *testing.T) {
	inStudio(t, func(s *studio) {
		s.upstream.set(func() { s.upstream.texts["g1"] = "" }) // the catalog responds to requests for this content with 204
		s.finishOrder("g1", nil)
		s.forgetFiles("g1")
		defer s.runJobs(s.results)()
		time.Sleep(time.Minute)
		if got := s.row("g1"); got.State != ledger.ContentWaiting || got.Problem == "" {
			s.Errorf("the copy is %v: %s", got.State, got.Problem)
		}
		s.upstream.set(func() { s.upstream.files["g1"] = picture(1000) })
		s.waitForCopy("g1")
	})
}

func TestOperatorCanCopyResultFromCatalog(t *testing.T) {
	onEach(t, func(s *studio) {
		ops := ledger.By{Actor: "ops", Origin: "here"}
		s.restart(false)
		s.finishOrder("old", picture(100)) // the generation ended while the process had no store
		s.restart(true)
		s.orderGeneration("running")
		s.finishOrder("deleted", picture(100))
		s.observe("deleted", lifecycle.Observation{Deleted: true})
		s.finishOrder("g1", picture(1000))
		defer s.runJobs(s.results)()
		first := s.waitForCopy("g1")
		s.upstream.set(func() { s.upstream.files["g1"] = picture(3000) })
		for id, want := range map[string][]byte{"g1": picture(3000), "old": picture(100)} {
			if row, has, err := s.results.Fetch(s.Context(), ops, id); !has || err != nil || row.State != ledger.ContentCopied || row.Size != int64(len(want)) {
				s.Errorf("the copy of %s is %v with %d bytes: %v, %v", id, row.State, row.Size, has, err)
			}
			s.wantBytes(id, want, content.FromCopy)
		}
		for _, id := range []string{"running", "deleted", "unknown"} {
			if _, has, err := s.results.Fetch(s.Context(), ops, id); has || err != nil {
				s.Errorf("the render %s is copied: %v", id, err)
			}
		}
		for _, name := range s.objects() {
			if strings.HasSuffix(name, first.Object) {
				s.Error("the first copy was not deleted")
			}
		}
		s.forgetFiles("g1")
		if row, has, err := s.results.Fetch(s.Context(), ops, "g1"); !has || err != nil || row.State != ledger.ContentWaiting || !strings.Contains(row.Problem, "not found") {
			s.Errorf("the row of the lost result is %v: %s, %v", row.State, row.Problem, err)
		}
		s.wantBytes("g1", picture(3000), content.FromCopy) // served from the stored copy, although the result can no longer be copied again
	})
}
