package rest

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/easel-grpc/easel/internal/rest/page"
	"github.com/easel-grpc/easel/internal/server"
	"github.com/easel-grpc/easel/internal/server/servertest"
)

func TestSeveralRangesOfAPageGetTheWholePage(t *testing.T) {
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
				t.Errorf("%s with %.20s: %s, %d bytes of %d", path, ranges, answer.Status, len(text), len(whole))
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
