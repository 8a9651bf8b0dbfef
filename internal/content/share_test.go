package content_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/easel-grpc/easel/internal/ledger"
	"github.com/easel-grpc/easel/internal/ledger/lifecycle"
)

// The results of three teams come a byte a second; that of a fourth is copied all the same.
func TestSlowResultsOfSomeTeamsHoldUpNoCopyOfAnother(t *testing.T) {
	inStudio(t, func(s *studio) {
		s.upstream.set(func() { s.upstream.slow = "slow" })
		succeed := func(team, id string) {
			s.upstream.set(func() { s.upstream.files[id] = picture(3000) })
			s.orderOf(team, id)
			s.observe(id, lifecycle.Observation{Status: lifecycle.Succeeded, CostCents: new(int64(1)), Whole: true})
		}
		defer s.run(s.results)()
		for _, team := range []string{"studio", "press", "film"} {
			for n := range 10 {
				succeed(team, fmt.Sprint("slow-", team, n))
			}
			time.Sleep(10 * time.Second)
		}
		began := time.Now()
		succeed("shop", "g1")
		s.waitForCopy("g1")
		if took := time.Since(began); took > 5*time.Second {
			s.Errorf("the result was copied after %v", took)
		}
		begun := 0
		for n := range 10 {
			if row := s.row(fmt.Sprint("slow-studio", n)); row.State == ledger.ContentWaiting && row.Claimed {
				begun++
			}
		}
		if begun != 4 {
			s.Errorf("of the first team %d are being copied", begun)
		}
	})
}
