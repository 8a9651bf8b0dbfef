package admin

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
)

func TestInvalidQueriesAreRejected(t *testing.T) {
	o := Orders{}
	for query, want := range map[string]string{
		`{"state":"wrong"}`: "state must be one of unknown, refused", `{"limit":1001}`: "limit must be from 1 to 1000", `{"limit":-1}`: "limit must be from 1 to 1000",
		`{"since":"yesterday"}`: "invalid request: ", `{"until":""}`: `invalid request: json: unknown field "until"`, `[`: "invalid request: ",
	} {
		w := httptest.NewRecorder()
		handleJSON(o.serveList)(w, httptest.NewRequestWithContext(t.Context(), "GET", "/orders?query="+url.QueryEscape(query), nil))
		if w.Code != http.StatusBadRequest || !strings.HasPrefix(w.Body.String(), want) {
			t.Errorf("%s: status %d, %s", query, w.Code, w.Body)
		}
	}
}
