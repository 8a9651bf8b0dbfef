package rest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/anypb"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/service"
)

// httpCodes maps error reasons to HTTP status codes. For all other reasons, the gRPC code determines the HTTP status code.
var httpCodes = map[easelv1.ErrorReason]int{
	easelv1.ErrorReason_READ_OFFSET_OUT_OF_RANGE: http.StatusRequestedRangeNotSatisfiable,
	easelv1.ErrorReason_METHOD_NOT_ALLOWED:       http.StatusMethodNotAllowed,
	easelv1.ErrorReason_UNSUPPORTED_MEDIA_TYPE:   http.StatusUnsupportedMediaType,
	easelv1.ErrorReason_PRECONDITION_FAILED:      http.StatusPreconditionFailed,
	easelv1.ErrorReason_INSUFFICIENT_BALANCE:     http.StatusPaymentRequired,
	easelv1.ErrorReason_BUDGET_EXCEEDED:          http.StatusPaymentRequired,
	easelv1.ErrorReason_REQUEST_TOO_LARGE:        http.StatusRequestEntityTooLarge,
	easelv1.ErrorReason_REQUEST_BODY_TIMEOUT:     http.StatusRequestTimeout,
	easelv1.ErrorReason_CONTENT_CHANGED:          http.StatusPreconditionFailed, // otherwise, this reason's gRPC code DATA_LOSS would become 500, although the server did not fail
	easelv1.ErrorReason_HOST_NOT_ALLOWED:         http.StatusMisdirectedRequest,
}

func httpCode(st *status.Status) int {
	if code, ok := httpCodes[service.Reason(st)]; ok {
		return code
	}
	return runtime.HTTPStatusFromCode(st.Code())
}

// handleError writes the response for an error from the gateway.
func handleError(_ context.Context, _ *runtime.ServeMux, _ runtime.Marshaler, w http.ResponseWriter, r *http.Request, err error) {
	writeRefusal(w, r, err)
}

// writeRefusal writes the response for an error from a gRPC call, or from the gateway if it could not convert the request
// to a call.
func writeRefusal(w http.ResponseWriter, r *http.Request, err error) {
	var bad *runtime.HTTPStatusError // the gateway's error for an invalid percent escape in the path
	st, ok := status.FromError(err)
	switch {
	case errors.As(err, &bad):
		err = service.InvalidRequest(service.Violation{Description: "the path contains an invalid percent escape; write a literal % as %25"})
	case ok && st.Code() == codes.InvalidArgument && service.Reason(st) == easelv1.ErrorReason_ERROR_REASON_UNSPECIFIED:
		err = service.InvalidRequest(newParseViolation(st.Message())) // the gateway could not parse the request
	case isOrder(r):
		err = service.OrderFailure(err, true) // the order may have reached the catalog, although the call failed
	}
	writeError(w, r, err)
}

// ordersPath is the path of the POST requests that place orders.
const ordersPath = "/v1/generations"

func isOrder(r *http.Request) bool {
	return r.Method == http.MethodPost && path.Clean(r.URL.Path) == ordersPath
}

// writeError writes the response for an error: the HTTP status code, the headers, and the status as JSON. If the request is
// an order, and err does not state whether the order was placed, the response states that this request did not place it.
func writeError(w http.ResponseWriter, r *http.Request, err error) {
	if isOrder(r) {
		err = service.OrderFailure(err, false)
	}
	err = service.WithRequestID(r.Context(), err)
	st := service.Status(err)
	code := httpCode(st)
	header := w.Header()
	header.Set("Content-Type", "application/json")
	if code == http.StatusUnauthorized {
		header.Set("WWW-Authenticate", "Bearer")
	}
	if seconds, ok := retryAfter(st); ok {
		header.Set("Retry-After", seconds)
	}
	if size, ok := service.Detail[*errdetails.ErrorInfo](st).GetMetadata()["size_bytes"]; ok && code == http.StatusRequestedRangeNotSatisfiable {
		header.Set("Content-Range", "bytes */"+size)
	}
	body := statusJSON(st)
	header.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(code)
	_, _ = w.Write(body) //nolint:gosec // the body is safe, because it is JSON and the nosniff header is set; an error means only that the client has disconnected
}

// retryAfter returns the retry delay of a status in whole seconds, rounded up. It returns false if the status has no delay.
func retryAfter(st *status.Status) (string, bool) {
	info := service.Detail[*errdetails.RetryInfo](st)
	if info.GetRetryDelay() == nil {
		return "", false
	}
	delay := info.GetRetryDelay().AsDuration()
	return strconv.FormatInt(int64((delay+time.Second-1)/time.Second), 10), true
}

// statusJSON returns a status as JSON, with the JSON names of fields. If the type of one detail is unknown to this program,
// the JSON omits all details.
func statusJSON(st *status.Status) []byte {
	body, err := protojson.Marshal(inJSON(st).Proto())
	if err != nil {
		body, err = protojson.Marshal(status.New(st.Code(), st.Message()).Proto())
	}
	if err != nil { // the status message is not valid UTF-8
		body = fmt.Appendf(nil, `{"code":%d,"message":"the error can't be written"}`, st.Code())
	}
	return body
}

// newParseViolation returns the violation for a request that the gateway can't parse. message is the parser's message,
// which may quote the request. Only its first 256 bytes are used.
func newParseViolation(message string) service.Violation {
	message = strings.TrimPrefix(strings.ReplaceAll(message, "\u00a0", " "), "proto: ") // protojson randomly replaces a space with a no-break space
	message = strings.ToValidUTF8(message[:min(len(message), 256)], "")
	v := service.Violation{Description: "the request can't be read: " + message}
	if field := fieldOfParser.FindStringSubmatch(message); field != nil {
		v.Field = field[1]
	}
	switch {
	case strings.Contains(message, tooDeep):
		v.Description = service.TooDeep
	case message == io.ErrUnexpectedEOF.Error():
		v.Description = "the body is not complete JSON"
	}
	return v
}

// tooDeep is a part of the JSON parser's error message for a body that is nested too deeply.
const tooDeep = "exceeded max recursion depth"

// fieldOfParser matches the name of the field in an error from a JSON parser.
var fieldOfParser = regexp.MustCompile(`(?:field|list|field value:) "?([A-Za-z_][\w.]*)`)

// requestFields returns the fields of all request messages and of the messages nested in them, keyed by the field's name in
// the contract.
var requestFields = sync.OnceValue(func() map[string]protoreflect.FieldDescriptor {
	fields := map[string]protoreflect.FieldDescriptor{}
	var add func(protoreflect.MessageDescriptor)
	add = func(message protoreflect.MessageDescriptor) {
		for n := range message.Fields().Len() {
			field := message.Fields().Get(n)
			fields[string(field.Name())] = field
			if inner := field.Message(); inner != nil && inner.ParentFile().Package() == message.ParentFile().Package() {
				add(inner)
			}
		}
	}
	service.Methods(func(m protoreflect.MethodDescriptor) { add(m.Input()) })
	return fields
})

// jsonPath converts the names in a field path to JSON names, such as maxCostCents. It does not change unknown names, or the
// names of map keys and inputs, which the caller chose.
func jsonPath(path string) string {
	parts := strings.Split(path, ".")
	for n, part := range parts {
		name, _, indexed := strings.Cut(part, "[")
		field := requestFields()[name]
		if field == nil || indexed && !field.IsMap() && !field.IsList() {
			return path
		}
		parts[n] = field.JSONName() + part[len(name):]
		if field.IsMap() || field.Message() != nil && field.Message().ParentFile().Package() != field.ParentFile().Package() {
			break
		}
	}
	return strings.Join(parts, ".")
}

// inJSON returns a copy of st whose violations and message contain the JSON names of fields.
func inJSON(st *status.Status) *status.Status {
	if service.Detail[*errdetails.BadRequest](st) == nil {
		return st
	}
	full := st.Proto()
	for n, detail := range full.GetDetails() {
		bad := &errdetails.BadRequest{}
		if detail.UnmarshalTo(bad) != nil {
			continue
		}
		for _, v := range bad.GetFieldViolations() {
			named := jsonPath(v.GetField())
			if rest, found := strings.CutPrefix(full.GetMessage(), v.GetField()+": "); found && v.GetField() != "" {
				full.Message = named + ": " + rest
			}
			v.Field = named
		}
		if renamed, err := anypb.New(bad); err == nil {
			full.Details[n] = renamed
		}
	}
	return status.FromProto(full)
}
