package content_test

import (
	"sync"
	"testing"
	"time"

	"github.com/easel-grpc/easel/internal/content"
	"github.com/easel-grpc/easel/internal/ledger/lifecycle"
)

// A stop waits for no copy, also where a reader has prompted it, and none begins after it.
func TestAStopEndsEachCopy(t *testing.T) {
	inStudio(t, func(s *studio) {
		file := picture(1000)
		s.store.set(func() { s.store.stall = true })
		s.finish("g1", file)
		var reader sync.WaitGroup
		reader.Go(func() { s.wantBytes("g1", file, content.FromCatalog) })
		defer reader.Wait()
		time.Sleep(time.Second)
		stop := s.run(s.results)
		began := time.Now()
		if stop(); time.Since(began) > time.Second {
			s.Errorf("the stop took %v", time.Since(began))
		}
		if row := s.row("g1"); row.Claimed || row.Claims != 1 {
			s.Errorf("the claim is kept: %+v", row)
		}
		s.store.set(func() { s.store.stall = false })
		s.finish("g2", file)
		began = time.Now()
		if s.wantBytes("g2", file, content.FromCatalog); time.Since(began) > time.Second || s.row("g2").Claims != 0 {
			s.Errorf("after the stop a reader waits for %v: %+v", time.Since(began), s.row("g2"))
		}
	})
}

// The results that one team reads first leave places for the others, and its readers go on from the catalog.
func TestFirstReadersOfOneTeamHaveAShareAlone(t *testing.T) {
	inStudio(t, func(s *studio) {
		file := picture(1000)
		s.store.set(func() { s.store.stall = true })
		var readers sync.WaitGroup
		defer readers.Wait()
		for n, id := range []string{"g1", "g2", "g3"} {
			s.finish(id, file)
			began := time.Now()
			readers.Go(func() {
				if s.wantBytes(id, file, content.FromCatalog); n == 2 && time.Since(began) > time.Second {
					s.Errorf("the third reader waited for %v", time.Since(began))
				}
			})
			time.Sleep(time.Second)
		}
		s.upstream.set(func() { s.upstream.files["g4"] = file })
		s.orderOf("town", "g4")
		s.observe("g4", lifecycle.Observation{Status: lifecycle.Succeeded, CostCents: new(int64(1)), Whole: true})
		readers.Go(func() { s.wantBytes("g4", file, content.FromCatalog) })
		time.Sleep(time.Second)
		if third, other := s.row("g3"), s.row("g4"); third.Claims != 0 || !other.Claimed {
			s.Errorf("the third is %+v, and that of another team %+v", third, other)
		}
		s.run(s.results)() // ends the copies
	})
}
