package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
)

// maxRequestBytes is the maximum size of a request body.
const maxRequestBytes = 64 << 10

// problem is the reason for rejecting a request. The response has the problem's HTTP status and text.
type problem struct {
	status int
	text   string
}

// Error returns the text.
func (p *problem) Error() string { return p.text }

// newInvalidMember returns the problem for a request with an invalid or missing member.
func newInvalidMember(text string) error { return &problem{http.StatusBadRequest, text} }

// newConflict returns the problem for a request that the state of the server or the ledger does not allow.
func newConflict(format string, args ...any) error {
	return &problem{http.StatusConflict, fmt.Sprintf(format, args...)}
}

// handleJSON returns a handler that decodes a request, passes it to serveRequest, and sends the result as JSON. For an error
// that is not a [problem], the handler responds with status 503.
func handleJSON[Q, A any](serveRequest func(context.Context, Q) (A, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var asked Q
		var result A
		err := decodeRequest(w, r, &asked)
		if err == nil {
			result, err = serveRequest(r.Context(), asked)
		}
		if err != nil {
			why := &problem{http.StatusServiceUnavailable, err.Error()}
			errors.As(err, &why)
			http.Error(w, why.text, why.status)
			return
		}
		writeJSON(w, result)
	}
}

// writeJSON sends a value as JSON.
func writeJSON(w http.ResponseWriter, value any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	_ = json.NewEncoder(w).Encode(value) // the client may have disconnected
}

// decodeRequest decodes a request from the body of a POST, or from the parameter "query" of a GET. A GET without this parameter
// selects everything.
func decodeRequest(w http.ResponseWriter, r *http.Request, asked any) error {
	var from io.Reader = http.MaxBytesReader(w, r.Body, maxRequestBytes)
	if r.Method == http.MethodGet {
		from = strings.NewReader(r.URL.Query().Get("query"))
	}
	decoder := json.NewDecoder(from)
	decoder.DisallowUnknownFields()
	err := decoder.Decode(asked)
	if err == nil || errors.Is(err, io.EOF) && r.Method == http.MethodGet {
		return nil
	}
	return newInvalidMember("invalid request: " + err.Error())
}

// Address returns the path and query string of the URL from which a list is requested. query is encoded as JSON in the
// parameter "query".
func Address(path string, query any) string {
	text, _ := json.Marshal(query) // cannot fail for strings, numbers and times
	return path + "?query=" + url.QueryEscape(string(text))
}
