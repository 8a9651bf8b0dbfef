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
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/service"
)

// rejectInvalidUTF8 returns a handler that rejects a request if its path or query is not valid UTF-8. Otherwise, the
// handler calls tidyPath and then next.
func rejectInvalidUTF8(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := checkText(r.URL); err != nil {
			writeError(w, r, err)
			return
		}
		tidyPath(r)
		next.ServeHTTP(w, r)
	})
}

// checkText returns an error if the path or the query of a URL is not valid UTF-8. Their values become fields of messages,
// which can contain only valid UTF-8.
func checkText(u *url.URL) error {
	query, err := url.QueryUnescape(u.RawQuery)
	if err != nil || !utf8.ValidString(query) || !utf8.ValidString(u.Path) {
		return service.InvalidRequest(service.Violation{Description: "the path and the query must be valid UTF-8"})
	}
	return nil
}

// entrance wraps the handlers of the contract's methods. The wrapping handlers check the credential of a request, and read its
// complete body, up to a maximum size.
type entrance struct {
	calls   Calls
	methods map[string]string // gRPC names of methods by HTTP verb and route template, such as "GET /v1/account"
}

func newEntrance(calls Calls) entrance {
	e := entrance{calls, map[string]string{}}
	visitRoutes(func(m protoreflect.MethodDescriptor, route binding) {
		e.methods[route.verb+" "+bareTemplate(route.template)] = service.FullMethod(m)
	})
	e.methods[http.MethodHead+" "+contentPath] = downloadMethod
	return e
}

// admit returns a handler that rejects a call to a method of the contract if its credential is missing or cannot be valid.
// Other requests, such as for a documentation page, need no credential. The handler passes all remaining requests to next.
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

// readBody returns a handler that reads the complete body of a request to a method before it calls next. The handler rejects a
// body that has the wrong media type, is too large, or is JSON with too many values.
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
			if r.Method == http.MethodPost { // only the body of a POST request is used
				r.Body = io.NopCloser(bytes.NewReader(body))
			}
		}
		next(w, r, params)
	}
}

// RequestTimeout is the maximum time for reading the body of a request.
const RequestTimeout = 10 * time.Second

// limitReads returns a handler that sets a deadline for reading the body of each request. The handler runs before all checks,
// so that the deadline also applies to rejected requests.
func limitReads(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength != 0 {
			// An error can be ignored, because only test connections do not support deadlines.
			_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(RequestTimeout))
		}
		next.ServeHTTP(w, r)
	})
}

// readWhole reads a complete body. It then removes the read deadline, which would otherwise also limit the time for the
// response. After an error, it keeps the deadline, because the standard library may then still read the rest of the body to
// reuse the connection.
func readWhole(w http.ResponseWriter, r *http.Request, limit int64) ([]byte, error) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, limit))
	if err == nil {
		_ = http.NewResponseController(w).SetReadDeadline(time.Time{}) // an error can be ignored, because only test connections do not support deadlines
		return body, nil
	}
	if large, ok := errors.AsType[*http.MaxBytesError](err); ok {
		text := fmt.Sprintf("the body is larger than %d bytes (EASEL_MAX_INPUTS of this server plus 256 KiB); send smaller inputs", large.Limit)
		return nil, service.Fail(easelv1.ErrorReason_REQUEST_TOO_LARGE, text, &errdetails.BadRequest{FieldViolations: []*errdetails.BadRequest_FieldViolation{{Field: "inputs", Description: text}}})
	}
	if network, ok := errors.AsType[net.Error](err); ok && network.Timeout() {
		return nil, service.Fail(easelv1.ErrorReason_REQUEST_BODY_TIMEOUT, fmt.Sprintf("the request did not arrive within %v", RequestTimeout))
	}
	return nil, service.InvalidRequest(service.Violation{Description: "the body can't be read"})
}

// decodeBody decodes the body of r into req. If the body is empty, it does not change req.
func decodeBody(r *http.Request, req proto.Message) error {
	if err := (wholeJSON{}).NewDecoder(r.Body).Decode(req); err != nil && !errors.Is(err, io.EOF) {
		return service.InvalidRequest(newParseViolation(err.Error()))
	}
	return nil
}

// wholeJSON is the gateway's JSON marshaler, except that it rejects a body that contains data after the JSON object.
type wholeJSON struct{ *runtime.JSONPb }

// NewDecoder returns a decoder that decodes one request from r. For an empty or blank body, the decoder returns io.EOF, which
// the gateway accepts.
func (wholeJSON) NewDecoder(r io.Reader) runtime.Decoder {
	return runtime.DecoderFunc(func(into any) error {
		body, err := io.ReadAll(r) // does not block, because readBody has already read the body into memory
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

// placeOfParser matches the position in an error from the JSON parser. Its capture groups are the line and the column.
var placeOfParser = regexp.MustCompile(`\(line (\d+):(\d+)\)`)

// faultyMember returns the path of the member that caused an error from the JSON parser, or "" if the member is unknown.
// message is the parser's message.
func faultyMember(body []byte, message string) string {
	place := placeOfParser.FindStringSubmatch(message)
	switch {
	case strings.Contains(message, tooDeep):
		return "inputs" // the parser does not report the position, but no other member can be nested too deeply
	case place == nil:
		return ""
	}
	line, _ := strconv.Atoi(place[1])
	column, _ := strconv.Atoi(place[2])
	lines := bytes.SplitAfterN(body, []byte("\n"), line)
	rest := string(lines[len(lines)-1])
	before := []rune(rest)[:min(column-1, utf8.RuneCountInString(rest))]
	return memberAt(gjson.ParseBytes(body), len(body)-len(rest)+len(string(before)))
}

// memberAt returns the path of the innermost object member that contains the byte with the given index in the JSON text of v.
// It returns "" if that byte is not part of a member.
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

// checkMediaType returns an error unless a Content-Type is a JSON type, is empty, or is the default of "curl -d". In each of
// these cases, the body is decoded as JSON.
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
