package orders_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/easel-grpc/easel/internal/ledger"
)

// breakOrders returns a function that returns an error for each request that places an order for the owner, as if the
// connection were lost.
func breakOrders(owner string) func(*http.Request) error {
	return func(req *http.Request) error {
		if isOrder(req) && strings.HasPrefix(req.Header.Get("Idempotency-Key"), owner+".") {
			return errors.New("the connection is gone")
		}
		return nil
	}
}

func TestFailingOrdersOfOneTeamDelayNoOtherTeam(t *testing.T) {
	inStack(t, 1000, func(s *stack) {
		r := s.replica()
		r.setBefore(breakOrders("studio"))
		for n := range 10 {
			if _, err := r.place("studio", fmt.Sprint("k", n), "a harbour"); err == nil {
				s.Fatal("the order was placed")
			}
		}
		r.loseOrder("print", "k")
		r.close()
		again := s.replica()
		again.setBefore(breakOrders("studio"))
		again.resendAbandoned(ledger.OrderLease + 15*time.Second)
		owner := "print"
		if all := s.list(ledger.Filter{Owner: &owner}); len(all) != 1 {
			s.Errorf("the other team's order is not recovered: %+v", all)
		}
	})
}

func TestEachRecoveryLeaseIsUsedForAnAttempt(t *testing.T) {
	inStack(t, 1000, func(s *stack) {
		r := s.replica()
		r.loseOrder("studio", "k")
		r.close()
		again, posts := s.replica(), 0
		again.setBefore(func(req *http.Request) error {
			if isOrder(req) {
				posts++
				return &http.MaxBytesError{}
			}
			return nil
		})
		before := s.leases()
		again.resendAbandoned(5 * time.Minute)
		if leases := s.leases() - before; leases == 0 || leases > posts {
			s.Errorf("%d leases and %d attempts, want at least one lease and an attempt for each", leases, posts)
		}
	})
}

// leases returns the number of times that the only unresolved order was leased.
func (s *stack) leases() int {
	s.Helper()
	all := s.list(ledger.Filter{Unresolved: true})
	if len(all) != 1 {
		s.Fatal(all)
	}
	return all[0].Leases
}
