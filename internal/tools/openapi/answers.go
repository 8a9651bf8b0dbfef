package main

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"

	"github.com/getkin/kin-openapi/openapi3"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/easel-grpc/easel/internal/tools/image"
)

// statusSchema is the reference to the schema that describes every error response.
const statusSchema = "#/components/schemas/Status"

// answer describes an HTTP status that an error response can have.
type answer struct {
	status int
	text   string
	// allows reports whether a method may return the status. verb is the HTTP method. If allows is nil, every
	// method may return the status.
	allows func(method protoreflect.MethodDescriptor, verb string) bool
}

// answers is a table of the HTTP statuses of errors for the OpenAPI document. The system tests compare the document with
// the server's responses.
type answers []answer

// particular maps each method to its error statuses, except those that every method can return.
var particular = map[protoreflect.Name][]int{
	"GetAccount":         {},
	"ListUsage":          {},
	"ListModels":         {},
	"GetModel":           {404},
	"QuoteGeneration":    {402, 404},
	"CreateGeneration":   {402, 404, 409},
	"GetGeneration":      {404},
	"ListGenerations":    {},
	"WaitGeneration":     {404},
	"WatchGeneration":    {404},
	"WatchGenerations":   {404},
	"WatchEvents":        {416},
	"DownloadGeneration": {404, 412, 416},
	"DeleteGeneration":   {404},
}

func newAnswers() answers {
	return answers{
		{400, "INVALID_ARGUMENT: a rule of the contract is violated or the catalog rejects the input; BadRequest names the fields. FAILED_PRECONDITION: the state does not allow it; see the reason.", nil},
		{401, "UNAUTHENTICATED: the key is missing, or the catalog rejects it.", nil},
		{402, "FAILED_PRECONDITION with reason INSUFFICIENT_BALANCE: after a top-up, the order may be sent again with the same key. RESOURCE_EXHAUSTED with reason BUDGET_EXCEEDED: the price exceeds the rest of the team's budget; the metadata has the time when the budget is reset.", inParticular(402)},
		{403, "PERMISSION_DENIED: the catalog does not allow this, or the request comes from a page of another origin.", nil},
		{404, "NOT_FOUND: the model or the generation does not exist.", inParticular(404)},
		{408, "DEADLINE_EXCEEDED with reason REQUEST_BODY_TIMEOUT: the body did not arrive in time.", withBody},
		{409, "ALREADY_EXISTS: the idempotency key was used for another order. ABORTED: the order with this key is being submitted.", inParticular(409)},
		{412, "FAILED_PRECONDITION or DATA_LOSS: the file's ETag differs from If-Match or from etag.", inParticular(412)},
		{413, "RESOURCE_EXHAUSTED with reason REQUEST_TOO_LARGE: the body is too large.", withBody},
		{415, "INVALID_ARGUMENT with reason UNSUPPORTED_MEDIA_TYPE: the body is not JSON.", withBody},
		{416, "OUT_OF_RANGE with reason READ_OFFSET_OUT_OF_RANGE.", inParticular(416)},
		{421, "PERMISSION_DENIED with reason HOST_NOT_ALLOWED: the server accepts only the host names in EASEL_HTTP_ALLOWED_HOSTS and, on loopback, localhost and loopback addresses.", nil},
		{429, "RESOURCE_EXHAUSTED: too many requests or streams. Retry after Retry-After.", nil},
		{500, "INTERNAL or DATA_LOSS: the catalog returned an unusable response.", nil},
		{503, "UNAVAILABLE: the catalog or this server is unavailable. Retry after Retry-After.", nil},
		{504, "DEADLINE_EXCEEDED: the call took too long.", nil},
	}
}

func inParticular(status int) func(protoreflect.MethodDescriptor, string) bool {
	return func(method protoreflect.MethodDescriptor, _ string) bool {
		return slices.Contains(particular[method.Name()], status)
	}
}

func withBody(_ protoreflect.MethodDescriptor, verb string) bool { return verb == http.MethodPost }

func (a answers) sharedResponses() openapi3.ResponseBodies {
	shared := openapi3.ResponseBodies{}
	for _, answer := range a {
		text := answer.text
		response := &openapi3.Response{Description: &text, Content: openapi3.NewContentWithJSONSchemaRef(
			openapi3.NewSchemaRef(statusSchema, nil))}
		response.Headers = headersOf(answer.status)
		shared[strconv.Itoa(answer.status)] = &openapi3.ResponseRef{Value: response}
	}
	return shared
}

func headersOf(status int) openapi3.Headers {
	switch status {
	case http.StatusUnauthorized:
		return headers("WWW-Authenticate", "The word Bearer.")
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		return headers("Retry-After", "Delay before a retry, in whole seconds, if it is known.")
	case http.StatusRequestedRangeNotSatisfiable:
		return headers("Content-Range", "The size of the file, if it is known.")
	default:
		return nil
	}
}

func headers(pairs ...string) openapi3.Headers {
	all := openapi3.Headers{}
	for n := 0; n < len(pairs); n += 2 {
		all[pairs[n]] = &openapi3.HeaderRef{Value: &openapi3.Header{Parameter: openapi3.Parameter{
			Description: pairs[n+1], Schema: openapi3.NewStringSchema().NewRef(),
		}}}
	}
	return all
}

// setResponses sets the responses of an operation.
func (a answers) setResponses(operation *openapi3.Operation, method protoreflect.MethodDescriptor, verb string) error {
	if _, ok := particular[method.Name()]; !ok {
		return fmt.Errorf("answers.go has no statuses for %s; add them to its table \"particular\"", method.Name())
	}
	operation.Responses.Delete("default")
	for _, answer := range a {
		if answer.allows == nil || answer.allows(method, verb) {
			code := strconv.Itoa(answer.status)
			operation.Responses.Set(code, &openapi3.ResponseRef{Ref: "#/components/responses/" + code})
		}
	}
	switch {
	case method.Name() == "DownloadGeneration":
		setDownloadContent(operation)
	case method.IsStreamingServer():
		setStreamContent(operation, method)
	}
	text := image.Comment(method.Output())
	if ok := operation.Responses.Status(http.StatusOK); ok != nil && !method.IsStreamingServer() {
		ok.Value.Description = &text
	}
	return nil
}

// setStreamContent sets the content of a stream's response: server-sent events, or JSON lines with one line for each
// message.
func setStreamContent(operation *openapi3.Operation, method protoreflect.MethodDescriptor) {
	text := "A stream that is open until the goal is reached. As server-sent events, each message is the data of an event. The name of the event is the name of the message's member, and the id is the etag or the resumeToken. An event named \"done\" or \"failure\" ends the stream. As JSON lines, each message is one line."
	response := operation.Responses.Status(http.StatusOK).Value
	response.Description = &text
	line := &openapi3.Schema{AnyOf: openapi3.SchemaRefs{
		openapi3.NewSchemaRef("#/components/schemas/"+string(method.Output().Name()), nil),
		openapi3.NewSchemaRef("", openapi3.NewObjectSchema().WithPropertyRef("error", openapi3.NewSchemaRef(statusSchema, nil))),
	}}
	response.Content = openapi3.Content{
		"text/event-stream":    openapi3.NewMediaType().WithSchema(openapi3.NewStringSchema()),
		"application/x-ndjson": openapi3.NewMediaType().WithSchema(line),
	}
}

// setDownloadContent sets the content of the responses to a download. The catalog determines the media type, so the document
// lists two types: application/octet-stream for code generators, and the wildcard for validators.
func setDownloadContent(operation *openapi3.Operation) {
	binary := openapi3.NewMediaType().WithSchema(openapi3.NewStringSchema().WithFormat("binary"))
	content := openapi3.Content{"application/octet-stream": binary, "*/*": binary}
	for _, status := range []int{http.StatusOK, http.StatusPartialContent} {
		response := operation.Responses.Status(status).Value
		response.Content = content
		response.Headers = headers("ETag", "Identifies the content.", "Accept-Ranges", "The word bytes.", "Content-Disposition", "A file name.")
	}
	text := "The file still has the ETag in If-None-Match."
	operation.Responses.Set("304", &openapi3.ResponseRef{Value: &openapi3.Response{Description: &text}})
}
