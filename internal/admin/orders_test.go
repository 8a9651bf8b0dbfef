package admin

import (
	"context"
	"encoding/json"
	"net/http/httptest"
	"testing"

	"github.com/easel-grpc/easel/internal/ledger"
)

func TestOrdersWhoseOwnerIsNotInTheCallersFileAreFound(t *testing.T) {
	book, err := ledger.Open(t.Context(), ledger.Config{URL: ledger.InMemory, Catalog: "c"})
	if err != nil {
		t.Fatal(err)
	}
	defer book.Close()
	for _, owner := range []string{"studio", "removed", "shop"} {
		if _, _, err := book.Write(t.Context(), ledger.Request{Namespace: owner, Owner: owner, Caller: owner, IdempotencyKey: "k", UpstreamKey: owner, APIKey: "a", ModelID: "m", Digest: "d"}); err != nil {
			t.Fatal(err)
		}
	}
	known := []string{"studio", "shop"}
	served := Orders{Ledger: book, Owners: func() []string { return known }}
	unowned := func() (owners []string) {
		w := httptest.NewRecorder()
		served.list(w, httptest.NewRequestWithContext(context.Background(), "GET", "/orders?"+OrderQuery{Unknown: true, Unowned: true}.Values().Encode(), nil))
		var answer struct{ Orders []Order }
		if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil {
			t.Fatal(err)
		}
		for _, o := range answer.Orders {
			owners = append(owners, o.Owner)
		}
		return owners
	}
	if got := unowned(); len(got) != 1 || got[0] != "removed" {
		t.Errorf("nobody's are the orders of %q", got)
	}
	known = append(known, "removed")
	if got := unowned(); len(got) != 0 {
		t.Errorf("nobody's are the orders of %q, whom the file has", got)
	}
}
