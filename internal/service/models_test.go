package service

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/auth"
	"github.com/easel-grpc/easel/internal/catalog"
	"github.com/easel-grpc/easel/internal/events"
	"github.com/easel-grpc/easel/internal/watch"
)

// modelCatalog is a catalog with the models a and b. The display name of a model consists of the number of the request
// and the API key, such as "1 k".
type modelCatalog struct {
	*testing.T
	services *models

	mu       sync.Mutex
	requests int
	slowness time.Duration // delay before each response
	status   int           // status of all responses; zero means that requests succeed
	retry    string        // value of the Retry-After header in all responses
	detail   string        // description that the catalog returns for each model
}

// withModelCatalog runs a test in virtual time with a service and its catalog. Each response from the catalog takes
// a second.
func withModelCatalog(t *testing.T, test func(s *modelCatalog)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := &modelCatalog{T: t, slowness: time.Second}
		client, err := catalog.New(catalog.Config{BaseURL: "https://catalog.example", Transport: s, AttemptTimeout: 10 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		services, err := New(Config{Catalog: client, Hub: new(watch.Hub), Orders: noOrders(), Feed: new(events.Feed)})
		if err != nil {
			t.Fatal(err)
		}
		s.services = &models{Service: services}
		defer services.Drain()
		defer services.Close()
		test(s)
	})
}

func (s *modelCatalog) RoundTrip(r *http.Request) (*http.Response, error) {
	s.mu.Lock()
	s.requests++
	number, slowness, code := s.requests, s.slowness, s.status
	header := http.Header{"Content-Type": {"application/json"}, "Retry-After": {s.retry}}
	detail := s.detail
	s.mu.Unlock()
	timer := time.NewTimer(slowness)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-r.Context().Done():
		return nil, r.Context().Err()
	}
	record := func(id string) string {
		return fmt.Sprintf(`{"id":%q,"name":"%d %s","description":%q,"fields":[{"name":"size","type":"integer","required":true,"min":1}]}`,
			id, number, strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "), detail)
	}
	id, body := r.URL.Query().Get("id"), ""
	switch {
	case code != 0:
	case r.URL.Path == "/models":
		code, body = 200, "["+record("a")+","+record("b")+"]"
	case id == "gone":
		code = 404
	default:
		code, body = 200, record(id)
	}
	return &http.Response{
		StatusCode: code, Header: header, Request: r, ProtoMajor: 1, ProtoMinor: 1,
		Body: io.NopCloser(strings.NewReader(body)), ContentLength: int64(len(body)),
	}, nil
}

// setStatus sets the status of all later responses. Zero means that requests succeed.
func (s *modelCatalog) setStatus(code int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.status = code
}

// requestCount returns the number of requests since the previous call of requestCount.
func (s *modelCatalog) requestCount() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.requests
	s.requests = 0
	return n
}

// The returned context is for calls with the given API key.
func (s *modelCatalog) as(key string) context.Context {
	return auth.WithIdentity(s.Context(), &auth.Identity{APIKey: catalog.Forwarded(catalog.NewSecret(key))})
}

// model calls GetModel with the given API key.
func (s *modelCatalog) model(key, id string) (*easelv1.Model, error) {
	resp, err := s.services.GetModel(s.as(key), &easelv1.GetModelRequest{ModelId: id})
	return resp.GetModel(), err
}

func (s *modelCatalog) list(key string) ([]*easelv1.Model, error) {
	resp, err := s.services.ListModels(s.as(key), &easelv1.ListModelsRequest{})
	return resp.GetModels(), err
}

// checkModel calls GetModel for the model "a" with the API key "k". It checks the model's display name, the
// duration of the call, and the age of the cached copy.
func (s *modelCatalog) checkModel(name string, took, age time.Duration) {
	s.Helper()
	began := time.Now()
	m, err := s.model("k", "a")
	if err != nil {
		s.Fatal(err)
	}
	if m.GetDisplayName() != name || time.Since(began) != took || time.Since(m.GetObserveTime().AsTime()) != age {
		s.Errorf("got %q after %v, %v old; want %q after %v, %v old", m.GetDisplayName(),
			time.Since(began), time.Since(m.GetObserveTime().AsTime()), name, took, age)
	}
}

// wantRequests checks the number of requests since the previous call of count or wantRequests.
func (s *modelCatalog) wantRequests(n int) {
	s.Helper()
	synctest.Wait()
	if got := s.requestCount(); got != n {
		s.Errorf("%d requests, want %d", got, n)
	}
}

func TestModelCacheRefreshDependsOnCopyAge(t *testing.T) {
	withModelCatalog(t, func(s *modelCatalog) {
		s.checkModel("1 k", time.Second, 0)
		time.Sleep(59 * time.Second)
		s.checkModel("1 k", 0, 59*time.Second)
		time.Sleep(9*time.Minute - 59*time.Second)
		for range 100 { // each call returns the cached copy, and the refresh runs in the background
			s.checkModel("1 k", 0, 9*time.Minute)
		}
		time.Sleep(2 * time.Second)
		s.checkModel("2 k", 0, time.Second)
		time.Sleep(10 * time.Minute) // the copy is now so old that the next call waits for a new one
		s.checkModel("3 k", time.Second, 0)
		for range 2 {
			if all, err := s.list("k"); err != nil || len(all) != 2 || all[1].GetDisplayName() != "4 k" {
				t.Error(all, err)
			}
		}
		s.wantRequests(4)
	})
}

func TestThousandConcurrentCallersShareOneModelRequest(t *testing.T) {
	withModelCatalog(t, func(s *modelCatalog) {
		var all sync.WaitGroup
		for range 1000 {
			all.Go(func() { s.checkModel("1 k", time.Second, 0) })
		}
		all.Wait()
		s.wantRequests(1)
	})
}

func TestCanceledCallerDoesNotCancelSharedModelRequest(t *testing.T) {
	withModelCatalog(t, func(s *modelCatalog) {
		ctx, leave := context.WithCancel(s.as("k"))
		time.AfterFunc(500*time.Millisecond, leave)
		var all sync.WaitGroup
		all.Go(func() {
			began := time.Now()
			_, err := s.services.GetModel(ctx, &easelv1.GetModelRequest{ModelId: "a"})
			if !errors.Is(err, context.Canceled) || time.Since(began) != 500*time.Millisecond {
				t.Errorf("the canceled call returned %v after %v", err, time.Since(began))
			}
		})
		synctest.Wait()
		all.Go(func() { s.checkModel("1 k", time.Second, 0) })
		all.Wait()
		s.wantRequests(1)
	})
}

func TestCachedModelIsServedDuringOutage(t *testing.T) {
	for _, code := range []int{503, 429, 200} { // the response with status 200 is invalid, because its body is empty
		withModelCatalog(t, func(s *modelCatalog) {
			s.checkModel("1 k", time.Second, 0)
			s.setStatus(code)
			time.Sleep(23 * time.Hour)
			began := time.Now()
			m, err := s.model("k", "a")
			if err != nil || m.GetDisplayName() != "1 k" || began.Sub(m.GetObserveTime().AsTime()) != 23*time.Hour {
				t.Errorf("HTTP %d: during the outage, got %v, %v", code, m, err)
			}
			if s.requestCount() < 2 {
				t.Errorf("HTTP %d: the catalog received no request during the outage", code)
			}
			time.Sleep(time.Hour)
			if m, err := s.model("k", "a"); err == nil {
				t.Errorf("HTTP %d: a model is still served after a day: %v", code, m)
			}
			s.setStatus(0)
			if m, err := s.model("k", "a"); err != nil || time.Since(m.GetObserveTime().AsTime()) != 0 {
				t.Errorf("HTTP %d: after the outage, got %v, %v", code, m, err)
			}
		})
	}
}

func TestCachedModelsReduceCatalogRequestsDuringOutage(t *testing.T) {
	withModelCatalog(t, func(s *modelCatalog) {
		s.checkModel("1 k", time.Second, 0)
		s.slowness = 0
		s.setStatus(503)
		time.Sleep(time.Hour)
		s.requestCount()
		for range 600 { // sends ten calls per second for ten minutes
			for range 10 {
				if m, err := s.model("k", "a"); err != nil || m.GetDisplayName() != "1 k" {
					t.Fatal(m, err)
				}
				time.Sleep(100 * time.Millisecond)
			}
		}
		synctest.Wait()
		// The service starts a refresh every ten seconds: 60 in ten minutes. Retries by the catalog client add some requests,
		// but its retry budget limits their number.
		if n := s.requestCount(); n < 55 || n > 70 {
			t.Errorf("%d requests for 6,000 calls in ten minutes, want 55 to 70", n)
		}
	})
}

func TestCachedModelIsServedWhenCatalogIsUnresponsive(t *testing.T) {
	withModelCatalog(t, func(s *modelCatalog) {
		s.checkModel("1 k", time.Second, 0)
		time.Sleep(time.Hour - 5*time.Second)
		s.slowness = time.Hour
		s.checkModel("1 k", 5*time.Second, time.Hour)
		s.checkModel("1 k", 0, time.Hour) // returns at once, because the service has just learned that the catalog does not respond
		ctx, cancel := context.WithTimeout(s.as("b"), 2*time.Second)
		defer cancel()
		if _, err := s.services.GetModel(ctx, &easelv1.GetModelRequest{ModelId: "a"}); !errors.Is(err, context.DeadlineExceeded) {
			t.Error("without a cached model, want DeadlineExceeded, got", err)
		}
		time.Sleep(time.Minute) // long enough for the refresh to fail; the service pauses before the next refresh
		time.Sleep(10 * time.Second)
		ctx, cancel = context.WithTimeout(s.as("k"), 2*time.Second)
		defer cancel()
		began := time.Now()
		resp, err := s.services.GetModel(ctx, &easelv1.GetModelRequest{ModelId: "a"})
		if err != nil || resp.GetModel().GetDisplayName() != "1 k" || time.Since(began) != 2*time.Second-answerMargin {
			t.Errorf("GetModel returned %v, %v after %v", resp, err, time.Since(began))
		}
	})
}
