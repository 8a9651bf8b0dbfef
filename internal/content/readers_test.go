package content_test

import (
	"context"
	"io"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/easel-grpc/easel/internal/catalog"
	"github.com/easel-grpc/easel/internal/content"
)

// Whoever reads no byte of what it has opened holds a place, and leaves places for the others.
func TestUnreadCopiesOfOneTeamLeavePlacesForOthers(t *testing.T) {
	inStudio(t, func(s *studio) {
		file := picture(200_000)
		s.finish("g1", file)
		stop := s.run(s.results)
		s.waitForCopy("g1")
		stop()
		ctx, leave := context.WithCancel(s.Context())
		cred := s.held
		cred.Owner = "studio"
		var mu sync.Mutex
		var opened []*content.Content
		var refused int
		var all sync.WaitGroup
		for range 1000 {
			all.Go(func() {
				c, err := s.results.Open(ctx, cred, "g1", 0, "")
				mu.Lock()
				defer mu.Unlock()
				switch {
				case err == nil:
					opened = append(opened, c)
				case catalog.KindOf(err) == catalog.KindBusy:
					refused++
				}
			})
		}
		synctest.Wait()
		if n := len(opened); n != 240 {
			s.Errorf("one team has opened %d", n)
		}
		s.upstream.set(func() { delete(s.upstream.files, "g1") })
		other := cred
		other.Owner = "shop"
		began := time.Now()
		c, err := s.results.Open(ctx, other, "g1", 0, "")
		if err != nil || time.Since(began) > time.Second {
			s.Fatalf("another is served after %v: %v", time.Since(began), err)
		}
		if got, err := io.ReadAll(c.Body); err != nil || len(got) != len(file) {
			s.Errorf("another has %d bytes, %v", len(got), err)
		}
		_ = c.Body.Close()
		all.Wait()
		if refused != 760 || time.Since(began) > 11*time.Second {
			s.Errorf("%d were refused after %v", refused, time.Since(began))
		}
		s.upstream.set(func() { s.upstream.files["g1"] = file })
		if c, err = s.results.Open(ctx, cred, "g1", 0, ""); err != nil || c.Source != content.FromCatalog {
			s.Fatalf("what the catalog can serve is %v, %v", c, err)
		}
		_ = c.Body.Close()
		for _, c := range opened {
			_ = c.Body.Close()
			_ = c.Body.Close()
		}
		if c, err = s.results.Open(ctx, cred, "g1", 7, ""); err != nil {
			s.Fatalf("after they have left: %v", err)
		}
		_ = c.Body.Close()
		leave()
	})
}
