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

// parameters are the query parameters of each route, such as "GET /v1/generations": by their names in
// JSON the fields of the request that are not in the path, and none where the request is the body. The
// gateway takes both spellings of a name, and ignores unknown ones: it would drop a misspelt limit in
// silence.
type parameters map[string]map[string]protoreflect.Name

func newParameters() parameters {
	known := parameters{}
	bindings(func(m protoreflect.MethodDescriptor, b binding) {
		names := map[string]protoreflect.Name{}
		for n := range m.Input().Fields().Len() {
			field := m.Input().Fields().Get(n)
			if !b.inPath(field.Name()) && !b.inBody {
				names[field.JSONName()] = field.Name()
			}
		}
		known[b.verb+" "+bareTemplate(b.template)] = names
	})
	known[http.MethodHead+" "+contentPath] = known[http.MethodGet+" "+contentPath]
	return known
}

// check refuses a query with a parameter that its route does not take. Pages take any.
func (p parameters) check(next runtime.HandlerFunc) runtime.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request, params map[string]string) {
		if r.URL.RawQuery != "" {
			if names, ours := p[r.Method+" "+bareTemplate(routeTemplate(r))]; ours {
				if err := checkQuery(r.URL.RawQuery, names); err != nil {
					writeError(w, r, err)
					return
				}
			}
		}
		next(w, r, params)
	}
}

func checkQuery(raw string, names map[string]protoreflect.Name) error {
	query, err := url.ParseQuery(raw)
	if err != nil {
		return service.InvalidRequest(service.Violation{Description: "the query can't be read: " + err.Error()})
	}
	var unknown []service.Violation
	for _, given := range slices.Sorted(maps.Keys(query)) {
		if !knownAs(given, names) {
			unknown = append(unknown, service.Violation{Field: given, Description: unknownParameter(names)})
		}
	}
	if len(unknown) == 0 {
		return nil
	}
	return service.InvalidRequest(unknown...)
}

func knownAs(given string, names map[string]protoreflect.Name) bool {
	for inJSON, name := range names {
		if given == inJSON || given == string(name) {
			return true
		}
	}
	return false
}

func unknownParameter(names map[string]protoreflect.Name) string {
	if len(names) == 0 {
		return "this request takes no query parameters"
	}
	return fmt.Sprintf("is no query parameter of this request, which takes %s", strings.Join(slices.Sorted(maps.Keys(names)), ", "))
}

// query reads the query parameters that are fields of a request, except those that
// the path has set.
func query(r *http.Request, req proto.Message, fromPath ...string) error {
	if err := r.ParseForm(); err != nil {
		return service.InvalidRequest(service.Violation{Description: "the query can't be read: " + err.Error()})
	}
	var paths [][]string
	for _, field := range fromPath {
		paths = append(paths, []string{field})
	}
	if err := runtime.PopulateQueryParameters(req, r.Form, utilities.NewDoubleArray(paths)); err != nil {
		return service.InvalidRequest(unreadable(err.Error()))
	}
	return nil
}
