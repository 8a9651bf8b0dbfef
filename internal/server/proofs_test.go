package server

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/server/servertest"
	"github.com/easel-grpc/easel/internal/service"
)

func TestCallsUnderANewAPIKeyWaitForOneProof(t *testing.T) { // D12
	synctest.Test(t, func(t *testing.T) {
		var proofs atomic.Int32
		p := newProofs(func(context.Context) error {
			proofs.Add(1)
			time.Sleep(time.Second)
			return nil
		}, vouchForNone)
		defer p.close()
		var waiting sync.WaitGroup
		began := time.Now()
		first, leave := context.WithCancel(t.Context())
		waiting.Go(func() { _ = p.wait(first, "key", "address") })
		synctest.Wait()
		leave() // whoever comes first may go
		for range 100 {
			waiting.Go(func() {
				if err := p.wait(t.Context(), "key", "address"); err != nil || time.Since(began) != time.Second {
					t.Errorf("after %v it is answered %v", time.Since(began), err)
				}
			})
		}
		waiting.Wait()
		if proofs.Load() != 1 || len(p.all) != 0 {
			t.Errorf("%d proofs, and %d are kept", proofs.Load(), len(p.all))
		}
	})
}

func TestARejectedAPIKeyIsRememberedForSeconds(t *testing.T) { // D12
	synctest.Test(t, func(t *testing.T) {
		studio := servertest.NewStudio()
		asked := 0
		studio.Proof = func(context.Context) error {
			asked++
			return service.Fail(easelv1.ErrorReason_UPSTREAM_CREDENTIAL_REJECTED, "rejected")
		}
		s := serve(t, studio)
		for range 3 {
			_, err := s.Generations().GetGeneration(servertest.WithKey(t.Context()), &easelv1.GetGenerationRequest{GenerationId: "g"})
			servertest.WantError(t, err, codes.Unauthenticated, "UPSTREAM_CREDENTIAL_REJECTED")
			servertest.WantError(t, openWatch(t.Context(), s.Generations()), codes.Unauthenticated, "UPSTREAM_CREDENTIAL_REJECTED")
		}
		synctest.Wait()
		if asked != 1 || s.used() != 0 {
			t.Errorf("the catalog was asked %d times; %d places are taken", asked, s.used())
		}
		time.Sleep(rejectedFor)
		studio.Proof = nil
		if _, err := s.Generations().GetGeneration(servertest.WithKey(t.Context()), &easelv1.GetGenerationRequest{GenerationId: "g"}); err != nil {
			t.Errorf("later it is answered %v", err)
		}
		synctest.Wait() // the last line is written
		if lines := s.Lines(t, "call"); len(lines) != 7 {
			t.Errorf("logged %v", lines)
		}
	})
}

func TestAThousandWatchesUnderANewAPIKeyWaitForOneProof(t *testing.T) { // D12
	synctest.Test(t, func(t *testing.T) {
		studio := servertest.NewStudio()
		proofs := 0
		studio.Proof = func(context.Context) error { proofs++; time.Sleep(proofWait / 2); return nil }
		studio.Watch = watchUntilLeft
		s := serve(t, studio)
		ctx, leave := context.WithCancel(t.Context())
		var calls sync.WaitGroup
		began := time.Now()
		for range s.Server.config.Limits.callerStreams() {
			calls.Go(func() {
				if err := openWatch(ctx, s.Generations()); err != nil || time.Since(began) != proofWait/2 {
					t.Errorf("after %v one is answered %v", time.Since(began), err)
				}
			})
		}
		calls.Wait()
		if proofs != 1 || s.used() != s.Server.config.Limits.callerStreams() {
			t.Errorf("%d proofs; %d places are taken", proofs, s.used())
		}
		leave()
	})
}

func TestCallsThatWaitForAProofAreBounded(t *testing.T) { // D12
	synctest.Test(t, func(t *testing.T) {
		studio := servertest.NewStudio()
		studio.Proof = func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
		s := serve(t, studio)
		var calls sync.WaitGroup
		var late, refused atomic.Int32
		began := time.Now()
		conn := servertest.Dial(t, s.GRPCPipe) // one has no place for more
		defer conn.Close()
		other := easelv1.NewGenerationServiceClient(conn)
		for n := range unprovedKeyCalls + 10 {
			calls.Go(func() {
				client := s.Generations()
				if n%2 == 0 {
					client = other
				}
				err := openWatch(t.Context(), client)
				switch time.Since(began) {
				case 0:
					servertest.WantError(t, err, codes.ResourceExhausted, "OVERLOADED")
					refused.Add(1)
				case proofWait:
					servertest.WantError(t, err, codes.Unavailable, "UPSTREAM_UNAVAILABLE")
					late.Add(1)
				}
			})
		}
		calls.Wait()
		synctest.Wait()
		if refused.Load() != 10 || late.Load() != unprovedKeyCalls || s.used() != 0 {
			t.Errorf("%d are refused at once, %d later; %d places are taken", refused.Load(), late.Load(), s.used())
		}
	})
}

func TestTheProofsOfOneAddressKeepNoOtherWaiting(t *testing.T) { // D12
	synctest.Test(t, func(t *testing.T) {
		p := newProofs(func(context.Context) error { time.Sleep(100 * time.Millisecond); return nil }, vouchForNone)
		defer p.close()
		var made sync.WaitGroup
		for n := range 1000 {
			made.Go(func() { _ = p.wait(t.Context(), fmt.Sprint("made-up-", n), "attacker") })
		}
		synctest.Wait()
		began := time.Now()
		for n := range 8 {
			made.Go(func() {
				if err := p.wait(t.Context(), fmt.Sprint("honest-", n), "neighbour"); err != nil || time.Since(began) > 300*time.Millisecond {
					t.Errorf("an honest API key is answered %v after %v", err, time.Since(began))
				}
			})
		}
		made.Wait()
	})
}

func TestAProofThatRunsOutOfTimeIsTheCatalogsFault(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newProofs(func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }, vouchForNone)
		defer p.close()
		_ = p.wait(t.Context(), "key", "address")
		time.Sleep(proofTime - proofWait - time.Second)
		began := time.Now()
		err := p.wait(t.Context(), "key", "address")
		if took := time.Since(began); took != time.Second {
			t.Errorf("it is told after %v", took)
		}
		servertest.WantError(t, service.Status(err).Err(), codes.Unavailable, "UPSTREAM_UNAVAILABLE")
	})
}

func TestAProofThatNobodyWaitsForIsNotMade(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var proofs atomic.Int32
		p := newProofs(func(context.Context) error { proofs.Add(1); time.Sleep(proofWait / 4); return nil }, vouchForNone)
		defer p.close()
		var waiting sync.WaitGroup
		for n := range proofsOfAddress {
			waiting.Go(func() { _ = p.wait(t.Context(), fmt.Sprint("first-", n), "address") })
		}
		synctest.Wait()
		ctx, leave := context.WithCancel(t.Context())
		for n := range 100 {
			waiting.Go(func() { _ = p.wait(ctx, fmt.Sprint("left-", n), "address") })
		}
		waiting.Go(func() {
			if err := p.wait(t.Context(), "left-0", "address"); err != nil {
				t.Errorf("who stays is told %v", err)
			}
		})
		synctest.Wait()
		leave()
		synctest.Wait()
		if len(p.all) != proofsOfAddress+1 {
			t.Errorf("%d proofs are kept", len(p.all))
		}
		if err := p.wait(t.Context(), "left-1", "address"); err != nil { // a new proof
			t.Errorf("who comes back is told %v", err)
		}
		waiting.Wait()
		synctest.Wait()
		if proofs.Load() != proofsOfAddress+2 || len(p.all) != 0 {
			t.Errorf("%d proofs were made, and %d are kept", proofs.Load(), len(p.all))
		}
	})
}

func vouchForNone(context.Context, error) bool { return false }

func TestAnAPIKeyThatSomebodyVouchesForWaitsForNoTurnAmongMadeUpOnes(t *testing.T) { // D12
	synctest.Test(t, func(t *testing.T) {
		var vouched atomic.Bool
		p := newProofs(func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }, func(context.Context, error) bool { return vouched.Load() })
		defer p.close()
		var made sync.WaitGroup
		for n := range 100 {
			made.Go(func() { _ = p.wait(t.Context(), fmt.Sprint("made-up-", n), "address") })
		}
		synctest.Wait()
		vouched.Store(true)
		began := time.Now()
		for n := range 100 {
			made.Go(func() {
				if err := p.wait(t.Context(), fmt.Sprint("known-", n), "address"); err != nil || time.Since(began) > proofWait/2 {
					t.Errorf("one that is known is answered %v after %v", err, time.Since(began))
				}
			})
		}
		made.Wait()
	})
}
