package service

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
)

// The tests in this file check which API keys may use a cached model, and when a model is removed from
// the cache.

func TestRejectedAPIKeyReceivesNoCachedModels(t *testing.T) {
	for code, want := range map[int]codes.Code{401: codes.Unauthenticated, 403: codes.PermissionDenied} {
		withModelCatalog(t, func(s *modelCatalog) {
			s.checkModel("1 k", time.Second, 0)
			if _, err := s.list("k"); err != nil {
				t.Fatal(err)
			}
			if m, err := s.model("other", "a"); err != nil || m.GetDisplayName() != "3 other" {
				t.Fatal(m, err)
			}
			time.Sleep(2 * time.Minute)
			s.setStatus(code)
			if _, err := s.model("k", "a"); err != nil {
				t.Error("no copy was served before the rejection was known:", err)
			}
			time.Sleep(time.Second) // long enough for the background refresh to fail with the status code
			synctest.Wait()
			for range 3 {
				_, err := s.list("k")
				_, err2 := s.model("k", "a")
				if Status(err).Code() != want || Status(err2).Code() != want {
					t.Errorf("%d: %v, %v", code, err, err2)
				}
			}
			s.setStatus(503)
			if all, err := s.list("k"); err == nil {
				t.Errorf("a dropped copy was served during an outage: %v", all)
			}
			s.setStatus(0)
			if m, err := s.model("k", "a"); err != nil || time.Since(m.GetObserveTime().AsTime()) != 0 {
				t.Errorf("after the API key was accepted again: %v, %v", m, err)
			}
		})
	}
}

func TestRejectedAPIKeyReceivesNoStaleModel(t *testing.T) {
	withModelCatalog(t, func(s *modelCatalog) {
		s.checkModel("1 k", time.Second, 0)
		time.Sleep(time.Hour)
		s.setStatus(401)
		if m, err := s.model("k", "a"); Status(err).Code() != codes.Unauthenticated || m != nil {
			t.Error(m, err)
		}
	})
}

func TestAPIKeysShareNoCachedModels(t *testing.T) {
	withModelCatalog(t, func(s *modelCatalog) {
		var all sync.WaitGroup
		for _, key := range []string{"one", "two", "three"} {
			all.Go(func() {
				for range 3 {
					m, err := s.model(key, "a")
					list, err2 := s.list(key)
					if err != nil || err2 != nil || !strings.HasSuffix(m.GetDisplayName(), " "+key) || !strings.HasSuffix(list[0].GetDisplayName(), " "+key) {
						t.Errorf("with the API key %s, got the model %v, %v, and the list %v, %v", key, m, err, list, err2)
					}
				}
			})
		}
		all.Wait()
		s.wantRequests(6)
	})
}

func TestRemovedModelIsNotServedFromCache(t *testing.T) {
	withModelCatalog(t, func(s *modelCatalog) {
		s.checkModel("1 k", time.Second, 0)
		time.Sleep(5 * time.Minute)
		s.setStatus(404)
		s.checkModel("1 k", 0, 5*time.Minute)
		time.Sleep(time.Second)
		synctest.Wait()
		for range 2 {
			_, err := s.model("k", "a")
			if Status(err).Code() != codes.NotFound || reason(Status(err).Err()) != "MODEL_NOT_FOUND" {
				t.Error(err)
			}
		}
		s.setStatus(0)
		s.checkModel("5 k", time.Second, 0)
	})
}

func TestModelErrorIsNotCached(t *testing.T) {
	withModelCatalog(t, func(s *modelCatalog) {
		for range 3 {
			if _, err := s.model("k", "gone"); Status(err).Code() != codes.NotFound {
				t.Error(err)
			}
		}
		s.wantRequests(3)
		if n := len(s.services.copies.copies); n != 0 {
			t.Errorf("%d copies of errors are kept", n)
		}
	})
}

func TestFullModelCacheEvictsOldestCopies(t *testing.T) {
	withModelCatalog(t, func(s *modelCatalog) {
		s.slowness, s.detail = 0, strings.Repeat("x", 1000)
		c := s.services.copies
		c.capacity = 100 << 10
		for i := range 300 {
			if _, err := s.model(fmt.Sprint("key-", i%30), fmt.Sprint("model-", i)); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Millisecond)
		}
		if n := len(c.copies); n < 20 || n > 60 {
			t.Errorf("%d copies are kept, want 20 to 60", n)
		}
		s.requestCount()
		for _, i := range []int{0, 299} {
			if _, err := s.model(fmt.Sprint("key-", i%30), fmt.Sprint("model-", i)); err != nil {
				t.Fatal(err)
			}
		}
		s.wantRequests(1) // the first model is requested again, because its copy was removed; the last model's copy is still cached
	})
}

func TestUnusedAPIKeyIsRemovedFromModelCache(t *testing.T) {
	withModelCatalog(t, func(s *modelCatalog) {
		for i := range 50 {
			if _, err := s.list(fmt.Sprint("key-", i)); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(24 * time.Hour)
		if _, err := s.list("k"); err != nil {
			t.Fatal(err)
		}
		if c := s.services.copies; len(c.copies) != 1 {
			t.Errorf("%d copies are kept", len(c.copies))
		}
	})
}

func TestCloseCancelsBackgroundRefreshOfModels(t *testing.T) {
	withModelCatalog(t, func(s *modelCatalog) {
		s.checkModel("1 k", time.Second, 0)
		time.Sleep(5 * time.Minute)
		s.slowness = time.Hour
		s.checkModel("1 k", 0, 5*time.Minute)
		synctest.Wait()
		began := time.Now()
		s.services.Close()
		if took := time.Since(began); took != 0 {
			t.Errorf("Close took %v", took)
		}
		if _, err := s.list("k"); Status(err).Code() != codes.Unavailable {
			t.Error("after Close, a list of models returned", err)
		}
		s.wantRequests(2)
	})
}
