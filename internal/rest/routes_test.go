package rest

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/reflect/protoreflect"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/server/servertest"
	"github.com/easel-grpc/easel/internal/service"
)

// openPages contains the paths on the HTTP port that need no credential.
var openPages = []string{"/", "/console", "/openapi.json"}

// routes returns the REST routes of the contract, as "METHOD /template".
func routes() (all []string) {
	bindings(func(_ protoreflect.MethodDescriptor, b binding) { all = append(all, b.verb+" "+b.template) })
	return slices.Compact(all)
}

func TestNoPathIsOpenByAccident(t *testing.T) {
	s := serve(t, servertest.NewStudio())
	refused := 0
	for _, route := range routes() {
		verb, path, _ := strings.Cut(route, " ")
		body := map[bool]string{true: "{}"}[verb == http.MethodPost]
		path = strings.NewReplacer("{generation_id}", "g1", "{model_id=**}", "studio/haiku").Replace(path)
		answer, text := servertest.Do(t, s.HTTP, servertest.Request(t, verb, path, body, "Authorization: "))
		if answer.StatusCode != http.StatusUnauthorized || service.Reason(servertest.RESTStatus(t, text)) != easelv1.ErrorReason_CREDENTIAL_MISSING {
			t.Errorf("%s returned %s without a credential: %s", route, answer.Status, text)
		}
		refused++
	}
	if refused != 15 {
		t.Errorf("tried %d routes; the contract has 15", refused)
	}
	for _, path := range openPages {
		answer, body := servertest.Do(t, s.HTTP, servertest.Request(t, http.MethodGet, path, "", "Authorization: "))
		if answer.StatusCode != http.StatusOK || path == "/" && body != "a page" {
			t.Errorf("%s returned %s: %s", path, answer.Status, body)
		}
		if path == "/openapi.json" && (body != `{"openapi":"3.1.0"}` || answer.Header.Get("Content-Type") != "application/json" || answer.Header.Get("X-Content-Type-Options") != "nosniff") {
			t.Errorf("%s is %s with %v", path, body, answer.Header)
		}
	}
}
