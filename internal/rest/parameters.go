package rest

import (
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"github.com/grpc-ecosystem/grpc-gateway/v2/utilities"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/easel-grpc/easel/internal/service"
)

// parameters maps each route, such as "GET /v1/generations", to its query parameters: the fields of the request message that
// are not in the path. A route whose body contains the request has no query parameters. The inner map maps the JSON name of a
// parameter to its name in the contract; both names are accepted. An unknown parameter, such as a misspelled limit, must be
// rejected here, because the gateway would ignore it.
type parameters map[string]map[string]string

func newParameters() parameters {
	known := parameters{}
	visitRoutes(func(m protoreflect.MethodDescriptor, b binding) {
		names := map[string]string{}
		if !b.inBody {
			addNames(names, m.Input(), "", "", b.inPath)
		}
		known[b.verb+" "+bareTemplate(b.template)] = names
	})
	known[http.MethodHead+" "+contentPath] = known[http.MethodGet+" "+contentPath]
	return known
}

// addNames adds the query parameters for a message's fields to names. It skips a field if isSkipped(field name) is true. A
// parameter for a field of a nested message has a name such as filter.states, and a parameter for a map field has a name such
// as labels[job]. jsonPrefix and protoPrefix are the prefixes for the fields of a nested message, including the dot. For the
// outermost message, they are empty.
func addNames(names map[string]string, message protoreflect.MessageDescriptor, jsonPrefix, protoPrefix string, isSkipped func(protoreflect.Name) bool) {
	for n := range message.Fields().Len() {
		field := message.Fields().Get(n)
		long, short := jsonPrefix+field.JSONName(), protoPrefix+string(field.Name())
		switch {
		case isSkipped(field.Name()):
		case field.IsMap():
			names[long+keyed] = short + keyed
		case field.Message() != nil && field.Message().ParentFile().Package() == message.ParentFile().Package():
			addNames(names, field.Message(), long+".", short+".", func(protoreflect.Name) bool { return false })
		default:
			names[long] = short
		}
	}
}

// keyed is the suffix of the name of a map parameter. It contains a placeholder for the key.
const keyed = "[name]"

// rejectUnknown returns a handler that rejects a request with a query parameter that its route does not define. Routes that
// are not in p, such as the web pages, accept any query.
func (p parameters) rejectUnknown(next runtime.HandlerFunc) runtime.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request, params map[string]string) {
		names, ours := p[r.Method+" "+bareTemplate(routeTemplate(r))]
		if r.URL.RawQuery == "" || !ours {
			next(w, r, params)
			return
		}
		if err := checkQuery(r.URL.RawQuery, names); err != nil {
			writeError(w, r, err)
			return
		}
		next(w, r, params)
	}
}

// checkQuery returns an error if a query is malformed or has unknown parameters. It stops when it has found more unknown
// parameters than an error may list.
func checkQuery(raw string, names map[string]string) error {
	var unknown []string
	for parameter := range strings.SplitSeq(raw, "&") {
		name, value, _ := strings.Cut(parameter, "=")
		given, malformed := url.QueryUnescape(name)
		if _, err := url.QueryUnescape(value); err != nil || malformed != nil || strings.Contains(parameter, ";") {
			return service.InvalidRequest(service.Violation{Description: malformedQuery})
		}
		if parameter != "" && !knownAs(given, names) && !slices.Contains(unknown, given) {
			unknown = append(unknown, given)
		}
		if len(unknown) > service.MostViolations { // one more than the error can list, so that the error mentions further violations
			break
		}
	}
	if len(unknown) == 0 {
		return nil
	}
	var violations []service.Violation
	for _, name := range slices.Sorted(slices.Values(unknown)) {
		violations = append(violations, service.Violation{Field: name, Description: unknownParameter(names)})
	}
	return service.InvalidRequest(violations...)
}

func knownAs(given string, names map[string]string) bool {
	if name, key, ok := strings.Cut(given, "["); ok && strings.HasSuffix(key, "]") {
		given = name + keyed
	}
	for inJSON, name := range names {
		if given == inJSON || given == name {
			return true
		}
	}
	return false
}

func unknownParameter(names map[string]string) string {
	if len(names) == 0 {
		return "this request has no query parameters"
	}
	return fmt.Sprintf("is not a query parameter of this request; the parameters are %s", strings.Join(slices.Sorted(maps.Keys(names)), ", "))
}

const malformedQuery = "the query can't be read; separate parameters with &, write a semicolon as %3B, and write two hex digits after each %"

// decodeQuery decodes the query parameters into a request. It ignores parameters for the fields in fromPath, because the path
// determines those fields.
func decodeQuery(r *http.Request, req proto.Message, fromPath ...string) error {
	if err := r.ParseForm(); err != nil {
		return service.InvalidRequest(service.Violation{Description: malformedQuery})
	}
	var paths [][]string
	for _, field := range fromPath {
		paths = append(paths, []string{field})
	}
	if err := runtime.PopulateQueryParameters(req, r.Form, utilities.NewDoubleArray(paths)); err != nil {
		return service.InvalidRequest(newParseViolation(err.Error()))
	}
	return nil
}
