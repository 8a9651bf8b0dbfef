package rest

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/reflect/protoreflect"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/rest/page"
	"github.com/easel-grpc/easel/internal/server"
	"github.com/easel-grpc/easel/internal/server/servertest"
	"github.com/easel-grpc/easel/internal/service"
)

// openPages contains the paths on the HTTP port that need no credential.
var openPages = []string{"/", "/console", "/openapi.json"}

// routes returns the REST routes of the contract, as "METHOD /template".
func routes() (all []string) {
	visitRoutes(func(_ protoreflect.MethodDescriptor, b binding) { all = append(all, b.verb+" "+b.template) })
	return slices.Compact(all)
}

func TestEveryAPIRouteRequiresCredential(t *testing.T) {
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
			t.Errorf("%s returned %s with the header %v", path, body, answer.Header)
		}
	}
}

func TestMultiRangeRequestForPageReturnsWholePage(t *testing.T) {
	s := serve(t, servertest.NewStudio(), func(_ *server.Config, form *Config) { form.Pages = page.Handlers("") })
	var many strings.Builder
	for n := range 3000 {
		fmt.Fprintf(&many, ",%d-%d", 2*n, 2*n)
	}
	get := func(path string, header ...string) (*http.Response, string) {
		return servertest.Do(t, s.HTTP, servertest.Request(t, http.MethodGet, path, "", append(header, "Authorization: ")...))
	}
	for _, path := range []string{"/", "/page/page.js", "/page/scalar.js", "/openapi.json"} {
		_, whole := get(path)
		for _, ranges := range []string{"bytes=0-1,3-4", "bytes=0-,0-", "bytes=" + many.String()[1:]} {
			if answer, text := get(path, "Range: "+ranges); answer.StatusCode != http.StatusOK || text != whole {
				t.Errorf("%s with the range %.20s: %s, %d bytes, want %d", path, ranges, answer.Status, len(text), len(whole))
			}
		}
	}
	_, whole := get("/page/page.js")
	if answer, text := get("/page/page.js", "Range: bytes=7-9"); answer.StatusCode != http.StatusPartialContent || text != whole[7:10] {
		t.Errorf("one range: %s, %d bytes", answer.Status, len(text))
	}
	if answer, _ := get("/page/page.js", "Range: bytes=99999-"); answer.StatusCode != http.StatusRequestedRangeNotSatisfiable {
		t.Errorf("a range past the end: %s", answer.Status)
	}
}
