package admin

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/easel-grpc/easel/internal/ledger"
)

func TestOrdersWhoseOwnerIsNotInTheCallersFileAreFound(t *testing.T) {
	led, err := ledger.Open(t.Context(), ledger.Config{URL: ledger.InMemory, Catalog: "c"})
	if err != nil {
		t.Fatal(err)
	}
	defer led.Close()
	for _, owner := range []string{"studio", "removed", "shop"} {
		if _, _, err := led.Write(t.Context(), ledger.Request{Namespace: owner, Owner: owner, Caller: owner, IdempotencyKey: "k", UpstreamKey: owner, APIKey: "a", ModelID: "m", Digest: "d"}); err != nil {
			t.Fatal(err)
		}
	}
	known := []string{"studio", "shop"}
	served := Orders{Ledger: led, Owners: func() []string { return known }}
	unowned := func() (owners []string) {
		w := httptest.NewRecorder()
		answers(served.list)(w, httptest.NewRequestWithContext(context.Background(), "GET", Address("/orders", OrderQuery{Unknown: true, Unowned: true}), nil))
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
		t.Errorf("the orders of %q are listed as unowned", got)
	}
	known = append(known, "removed")
	if got := unowned(); len(got) != 0 {
		t.Errorf("the orders of %q are listed as unowned, although the callers file has this owner", got)
	}
}

func TestInvalidQueriesAreRejected(t *testing.T) {
	o := Orders{}
	for query, want := range map[string]string{
		`{"state":"wrong"}`: "state must be one of unknown, refused", `{"limit":1001}`: "limit must be from 1 to 1000", `{"limit":-1}`: "limit must be from 1 to 1000",
		`{"since":"yesterday"}`: "invalid request: ", `{"until":""}`: `invalid request: json: unknown field "until"`, `[`: "invalid request: ",
	} {
		w := httptest.NewRecorder()
		answers(o.list)(w, httptest.NewRequestWithContext(t.Context(), "GET", "/orders?query="+url.QueryEscape(query), nil))
		if w.Code != http.StatusBadRequest || !strings.HasPrefix(w.Body.String(), want) {
			t.Errorf("%s: status %d, %s", query, w.Code, w.Body)
		}
	}
}
