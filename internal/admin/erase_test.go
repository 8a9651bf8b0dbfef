package admin

import (
	"context"
	"errors"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/easel-grpc/easel/internal/ledger"
	"github.com/easel-grpc/easel/internal/ledger/lifecycle"
)

// labelled opens a book of orders with one label, of some generations whose money can't move any more.
func labelled(t *testing.T, generations ...string) *ledger.Ledger {
	t.Helper()
	book, err := ledger.Open(t.Context(), ledger.Config{URL: ledger.InMemory, Catalog: "c"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { book.Close() })
	for _, generation := range generations {
		id := order(t, book, generation)
		_, err := book.Conclude(t.Context(), id, 1, ledger.Conclusion{Outcome: lifecycle.Named, Generation: generation})
		if err == nil {
			_, err = book.Observe(t.Context(), generation, ledger.Observation{Observation: lifecycle.Observation{Status: lifecycle.Succeeded, CostCents: new(int64(9)), Whole: true}, Record: "{}"})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return book
}

// asAda is the context of what an operator does.
func asAda(t *testing.T) context.Context {
	t.Helper()
	return withBy(t.Context(), ledger.By{Actor: "ada", Origin: "192.0.2.7"})
}

// order writes an order with the label, and gives its id.
func order(t *testing.T, book *ledger.Ledger, key string) string {
	t.Helper()
	o, _, err := book.Write(t.Context(), ledger.Request{
		Namespace: "studio", Owner: "studio", Caller: "studio", IdempotencyKey: key, UpstreamKey: key, APIKey: "a", ModelID: "m", Digest: "d",
		Labels: map[string]string{"customer": "4711"},
	})
	if err != nil {
		t.Fatal(err)
	}
	return o.ID
}

// ofCustomer are the idempotency keys of the orders that the label still finds.
func ofCustomer(t *testing.T, book *ledger.Ledger) (keys []string) {
	t.Helper()
	found, err := book.List(t.Context(), ledger.Filter{AnyState: true, Labels: map[string]string{"customer": "4711"}}, ledger.Position{}, 100)
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range found {
		keys = append(keys, o.IdempotencyKey)
	}
	slices.Sort(keys)
	return keys
}

func TestWhatCouldNotBeDeletedIsFoundAgain(t *testing.T) {
	book := labelled(t, "gen_1", "gen_2")
	away := "gen_2"
	served := Orders{Ledger: book, Delete: func(ctx context.Context, o ledger.Order) error {
		if o.Generation == away {
			return errors.New("the catalog is away")
		}
		_, err := book.Observe(ctx, o.Generation, ledger.Observation{Observation: lifecycle.Observation{Deleted: true}})
		return err
	}}
	asked := Erasure{LabelName: "customer", LabelValue: "4711", Delete: true}
	done, err := served.eraseStep(asAda(t), asked, time.Minute)
	if err != nil || done.Erased != 1 || done.Deleted != 1 || !maps.Equal(done.Left, map[string]string{"gen_2": "the catalog is away"}) {
		t.Errorf("first %+v, %v", done, err)
	}
	if left := ofCustomer(t, book); !slices.Equal(left, []string{"gen_2"}) {
		t.Errorf("the label finds %q", left)
	}
	away = ""
	done, err = served.eraseStep(asAda(t), asked, time.Minute)
	if err != nil || done.Erased != 1 || done.Deleted != 1 || len(done.Left) > 0 || len(ofCustomer(t, book)) > 0 {
		t.Errorf("then %+v, %v", done, err)
	}
}

func TestOrdersOfEachOutcomeAreErasedOrLeft(t *testing.T) {
	for _, deleting := range []bool{false, true} {
		book := labelled(t)
		open, refused := order(t, book, "open"), order(t, book, "refused")
		if _, err := book.Conclude(t.Context(), refused, 1, ledger.Conclusion{Outcome: lifecycle.Uncertain}); err != nil {
			t.Fatal(err)
		}
		if _, possible, err := book.Resolve(t.Context(), refused, "another API key", ledger.Resolution{By: ledger.By{Actor: "pat"}}); err != nil || !possible {
			t.Fatal(possible, err)
		}
		asked := Erasure{LabelName: "customer", LabelValue: "4711", Delete: deleting}
		done, err := Orders{Ledger: book}.eraseStep(asAda(t), asked, time.Minute)
		left := map[string]string{open: "its outcome is unknown: resolve it first"}
		if err != nil || done.Erased != 1 || done.Deleted != 0 || !maps.Equal(done.Left, left) {
			t.Errorf("done is %+v, %v", done, err)
		}
		if left := ofCustomer(t, book); !slices.Equal(left, []string{"open"}) {
			t.Errorf("the label finds %q", left)
		}
	}
}

// Whoever asks does not wait for ten deletions, each of which may take long.
func TestAStepOfDeletingEndsInTime(t *testing.T) {
	book := labelled(t, "gen_1", "gen_2", "gen_3")
	served := Orders{Ledger: book, Delete: func(ctx context.Context, _ ledger.Order) error {
		if end, bounded := ctx.Deadline(); !bounded || time.Until(end) > deleteTime {
			t.Errorf("it may take until %v", end)
		}
		return nil
	}}
	asked, steps := Erasure{Owner: "studio", Delete: true}, 0
	for {
		done, err := served.eraseStep(asAda(t), asked, 0)
		if err != nil || done.Erased != 1 || done.Deleted != 1 {
			t.Fatalf("step %d is %+v, %v", steps, done, err)
		}
		steps++
		if asked.After = done.Next; done.Next == nil {
			break
		}
	}
	if steps != 3 {
		t.Errorf("three orders took %d steps", steps)
	}
}
