package server

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"
	"unicode/utf8"

	"google.golang.org/grpc/codes"

	"github.com/easel-grpc/easel/internal/service"
)

// readable refuses what no handler could read, and hands on the rest with its body
// read whole: a body has a size and a time limit, which a stream of answers must
// not have.
func readable(limit int, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := checkText(r.URL); err != nil {
			writeError(w, r, err)
			return
		}
		if err := readBody(w, r, limit); err != nil {
			writeError(w, r, err)
			return
		}
		tidyPath(r)
		next.ServeHTTP(w, r)
	})
}

// checkText refuses paths and queries that are no text, which fields can't hold.
func checkText(u *url.URL) error {
	query, err := url.QueryUnescape(u.RawQuery)
	if err != nil || !utf8.ValidString(query) || !utf8.ValidString(u.Path) {
		return service.InvalidRequest(service.Violation{Description: "the path and the query must be valid UTF-8"})
	}
	return nil
}

func readBody(w http.ResponseWriter, r *http.Request, limit int) error {
	if r.Body == nil || r.Body == http.NoBody {
		return nil
	}
	if err := checkMediaType(r.Header.Get("Content-Type")); err != nil {
		return err
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, int64(limit)))
	if _, tooLarge := errors.AsType[*http.MaxBytesError](err); tooLarge {
		return service.Fail(codes.ResourceExhausted, reasonTooLarge, fmt.Sprintf("the body is larger than %d bytes", limit))
	}
	if network, ok := errors.AsType[net.Error](err); ok && network.Timeout() {
		return service.Fail(codes.DeadlineExceeded, reasonSlowBody, fmt.Sprintf("the body did not arrive within %v", bodyTimeout))
	}
	if err != nil {
		return service.InvalidRequest(service.Violation{Description: "the body can't be read"})
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	// The answer may take longer than the body did. What is refused keeps its limit:
	// the standard library reads the rest of a body before it lets a connection go.
	_ = http.NewResponseController(w).SetReadDeadline(time.Time{}) // as above
	return nil
}

// limitReads gives every body its time from the beginning, whoever refuses it.
func limitReads(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Body != nil && r.Body != http.NoBody {
			// A connection that knows no deadline goes without: only tests have such.
			_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(bodyTimeout))
		}
		next.ServeHTTP(w, r)
	})
}

// checkMediaType takes JSON, and a body that does not say what it is.
func checkMediaType(contentType string) error {
	if contentType == "" {
		return nil
	}
	media, _, err := mime.ParseMediaType(contentType)
	if err == nil && (media == "application/json" || strings.HasSuffix(media, "+json")) {
		return nil
	}
	return service.Fail(codes.InvalidArgument, reasonMediaType, "send the body as JSON, with Content-Type: application/json")
}
