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

// broken makes a team's orders fail, because the catalog can't process their prompts.
func broken(owner string) func(*http.Request) error {
	return func(req *http.Request) error {
		if isOrder(req) && strings.HasPrefix(req.Header.Get("Idempotency-Key"), owner+".") {
			return errors.New("the connection is gone")
		}
		return nil
	}
}

func TestOneTeamsFailingOrdersDelayNobodyElses(t *testing.T) { // fault M9
	inShop(t, 1000, func(s *shop) {
		r := s.replica()
		r.befores(broken("studio"))
		for n := range 10 {
			if _, err := r.place("studio", fmt.Sprint("k", n), "a harbour"); err == nil {
				s.Fatal("the order was placed")
			}
		}
		r.answers(lost)
		if _, err := r.place("print", "k", "a harbour"); err == nil {
			s.Fatal("the order was placed")
		}
		if err := r.orders.Close(s.Context()); err != nil {
			s.Error(err)
		}
		again := s.replica()
		again.befores(broken("studio"))
		again.recover(ledger.ClaimTime + 15*time.Second)
		owner := "print"
		if all := s.list(ledger.Filter{Owner: &owner}); len(all) != 1 {
			s.Errorf("it is not recovered: %+v", all)
		}
	})
}

// The recovery acquires a claim only for an attempt that it sends.
func TestEachClaimOfTheRecoveryIsAnAttempt(t *testing.T) { // fault M9
	inShop(t, 1000, func(s *shop) {
		r := s.replica()
		r.answers(lost)
		if _, err := r.place("studio", "k", "a harbour"); err == nil {
			s.Fatal("the order was placed")
		}
		if err := r.orders.Close(s.Context()); err != nil {
			s.Error(err)
		}
		again, posts := s.replica(), 0
		again.befores(func(req *http.Request) error {
			if isOrder(req) {
				posts++
				return &http.MaxBytesError{}
			}
			return nil
		})
		before := s.claims()
		again.recover(5 * time.Minute)
		if claims := s.claims() - before; claims == 0 || claims > posts {
			s.Errorf("%d claims, %d attempts", claims, posts)
		}
	})
}

// claims returns the only order's number of claims.
func (s *shop) claims() int {
	s.Helper()
	all := s.list(ledger.Filter{Unresolved: true})
	if len(all) != 1 {
		s.Fatal(all)
	}
	return all[0].Claims
}
