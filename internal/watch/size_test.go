package watch

import (
	"context"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/easel-grpc/easel/internal/catalog"
)

// silent is an upstream that never responds, so that a test measures only the memory of watches.
type silent struct{ noAccount }

// noAccount is a catalog whose account can't be read.
type noAccount struct{}

func (noAccount) Account(context.Context, catalog.Credential) (catalog.Account, error) {
	return catalog.Account{}, &catalog.Error{Kind: catalog.KindContract}
}

func (silent) Generation(ctx context.Context, _ catalog.Credential, _ string) (catalog.Version, error) {
	<-ctx.Done()
	return catalog.Version{}, ctx.Err()
}

func (silent) List(ctx context.Context, _ catalog.Credential, _ time.Time) (*catalog.List, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// live returns the size of live memory in bytes.
func live() float64 {
	runtime.GC()
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return float64(stats.HeapAlloc)
}

func TestAWatchRemembersAGenerationInBytesNotKilobytes(t *testing.T) {
	hub, err := New(Config{Upstream: Limited(silent{}), Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(hub.Close)
	cred := catalog.Forwarded(catalog.NewSecret("key"))
	ids := make([]string, 1000)
	for i := range ids {
		ids[i] = fmt.Sprintf("gen_%06d", i)
	}
	open := func(watches int) (all []*watcher) {
		for range watches {
			req := Request{Credential: cred, IDs: ids}
			w := newWatcher(&req, nil, nil)
			one := hub.find(cred, true)
			one.begin(w, &req, time.Now())
			one.mu.Unlock()
			all = append(all, w)
		}
		return all
	}
	empty := live()
	first := open(1)
	withOne := live()
	others := open(200)
	perWatched := (live() - withOne) / 200_000
	t.Logf("%.0f bytes for a generation in a watch of a thousand; %.0f for the first watch of it, without its record", perWatched, (withOne-empty)/1000)
	if perWatched > 100 {
		t.Errorf("a watch needs %.0f bytes for a generation", perWatched)
	}
	one := hub.find(cred, true)
	defer one.mu.Unlock()
	for _, w := range append(first, others...) {
		one.end(w, time.Now())
	}
	for id, e := range one.generations {
		if len(e.subscribers) != 0 {
			t.Fatalf("%s is still watched by %d", id, len(e.subscribers))
		}
	}
}
