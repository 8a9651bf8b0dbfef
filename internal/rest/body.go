package rest

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"github.com/tidwall/gjson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/service"
)

// readable refuses requests whose path or query is not valid text, and passes on all others.
func readable(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := checkText(r.URL); err != nil {
			writeError(w, r, err)
			return
		}
		tidyPath(r)
		next.ServeHTTP(w, r)
	})
}

// checkText refuses paths and queries that are not UTF-8, which fields can't hold.
func checkText(u *url.URL) error {
	query, err := url.QueryUnescape(u.RawQuery)
	if err != nil || !utf8.ValidString(query) || !utf8.ValidString(u.Path) {
		return service.InvalidRequest(service.Violation{Description: "the path and the query must be valid UTF-8"})
	}
	return nil
}

// entrance admits requests that become calls, and reads their bodies whole, within limits of size and time.
type entrance struct {
	calls   Calls
	methods map[string]string // of the contract, by the verb and the template of their routes
}

func newEntrance(calls Calls) entrance {
	e := entrance{calls, map[string]string{}}
	bindings(func(m protoreflect.MethodDescriptor, route binding) {
		e.methods[route.verb+" "+bareTemplate(route.template)] = service.FullMethod(m)
	})
	e.methods[http.MethodHead+" "+contentPath] = downloadMethod
	return e
}

// admit passes a request on that may have a credential. The routes of pages need none.
func (e entrance) admit(next runtime.HandlerFunc) runtime.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request, params map[string]string) {
		if method, ours := e.methods[r.Method+" "+bareTemplate(routeTemplate(r))]; ours {
			if err := e.calls.Admit(r, method); err != nil {
				writeError(w, r, err)
				return
			}
		}
		next(w, r, params)
	}
}

// readBody passes a request on with its body.
func (e entrance) readBody(next runtime.HandlerFunc) runtime.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request, params map[string]string) {
		if _, ours := e.methods[r.Method+" "+bareTemplate(routeTemplate(r))]; ours && r.ContentLength != 0 {
			err := checkMediaType(r.Header.Get("Content-Type"))
			var body []byte
			if err == nil {
				body, err = readWhole(w, r, e.calls.MaxBody())
			}
			if err = cmp.Or(err, service.CheckBody(body)); err != nil {
				writeError(w, r, err)
				return
			}
			r.Body = http.NoBody
			if r.Method == http.MethodPost { // else it says nothing
				r.Body = io.NopCloser(bytes.NewReader(body))
			}
		}
		next(w, r, params)
	}
}

// RequestTimeout is the time in which the body of a request must arrive.
const RequestTimeout = 10 * time.Second

// limitReads sets the deadline of every body at its beginning, also for a request that is refused.
func limitReads(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength != 0 {
			// Only connections of tests have no deadlines.
			_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(RequestTimeout))
		}
		next.ServeHTTP(w, r)
	})
}

// readWhole reads a body, and lifts its deadline for the time of the answer. A refused request keeps the deadline: the
// standard library reads the remainder of its body before it releases the connection.
func readWhole(w http.ResponseWriter, r *http.Request, limit int64) ([]byte, error) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, limit))
	if err == nil {
		_ = http.NewResponseController(w).SetReadDeadline(time.Time{}) // as in limitReads
		return body, nil
	}
	if large, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return nil, service.Fail(easelv1.ErrorReason_REQUEST_TOO_LARGE, fmt.Sprintf("the body is larger than %d bytes; send a smaller one", large.Limit))
	}
	if network, ok := errors.AsType[net.Error](err); ok && network.Timeout() {
		return nil, service.Fail(easelv1.ErrorReason_REQUEST_BODY_TIMEOUT, fmt.Sprintf("the request did not arrive within %v", RequestTimeout))
	}
	return nil, service.InvalidRequest(service.Violation{Description: "the body can't be read"})
}

// decodeBody reads a request from the body, where there is one.
func decodeBody(r *http.Request, req proto.Message) error {
	if err := (wholeJSON{}).NewDecoder(r.Body).Decode(req); err != nil && !errors.Is(err, io.EOF) {
		return service.InvalidRequest(unreadable(err.Error()))
	}
	return nil
}

// wholeJSON is the gateway's JSON. It rejects a body in which something follows the request.
type wholeJSON struct{ *runtime.JSONPb }

// NewDecoder reads a request from a body. A body of spaces is io.EOF, which the gateway accepts.
func (wholeJSON) NewDecoder(r io.Reader) runtime.Decoder {
	return runtime.DecoderFunc(func(into any) error {
		body, err := io.ReadAll(r) // from memory
		switch {
		case err != nil:
			return err
		case len(bytes.TrimSpace(body)) == 0:
			return io.EOF
		}
		if err := jsonIn.Unmarshal(body, into.(proto.Message)); err != nil {
			if member := faultyMember(body, err.Error()); member != "" {
				return fmt.Errorf("field %q: %w", member, err)
			}
			return err
		}
		return nil
	})
}

// placeOfParser finds the line and the column of a fault.
var placeOfParser = regexp.MustCompile(`\(line (\d+):(\d+)\)`)

// faultyMember returns the path of the member in which a parser found a fault, or "".
func faultyMember(body []byte, said string) string {
	place := placeOfParser.FindStringSubmatch(said)
	if place == nil {
		return "inputs" // too deep, as no other member can be
	}
	line, _ := strconv.Atoi(place[1])
	column, _ := strconv.Atoi(place[2])
	lines := bytes.SplitAfterN(body, []byte("\n"), line)
	rest := string(lines[len(lines)-1])
	before := []rune(rest)[:min(column-1, utf8.RuneCountInString(rest))]
	return memberAt(gjson.ParseBytes(body), len(body)-len(rest)+len(string(before)))
}

// memberAt returns the path of the innermost member of an object at a position of the body, or "".
func memberAt(v gjson.Result, at int) (path string) {
	if v.IsObject() {
		v.ForEach(func(name, value gjson.Result) bool {
			if name.Index <= at && at < value.Index+len(value.Raw) {
				path = strings.TrimSuffix(name.String()+"."+memberAt(value, at), ".")
			}
			return path == ""
		})
	}
	return path
}

// checkMediaType accepts JSON, no media type, and that of "curl -d". All are read as JSON.
func checkMediaType(contentType string) error {
	if contentType == "" {
		return nil
	}
	media, _, err := mime.ParseMediaType(contentType)
	if err == nil && (media == "application/json" || strings.HasSuffix(media, "+json") || media == "application/x-www-form-urlencoded") {
		return nil
	}
	return service.Fail(easelv1.ErrorReason_UNSUPPORTED_MEDIA_TYPE, "send the body as JSON, with Content-Type: application/json")
}
