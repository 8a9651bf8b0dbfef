//go:build unix

package torture

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"strings"
	"sync/atomic"
	"testing"
)

// catalogDoor is a proxy before a catalog that may be killed. Its address does not change. It
// counts the reads of results.
type catalogDoor struct {
	*httptest.Server

	behind atomic.Pointer[string] // the address of the catalog
	reads  atomic.Int64
}

func openCatalogDoor(t *testing.T) *catalogDoor {
	d := &catalogDoor{}
	d.Server = httptest.NewServer(&httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.Out.URL.Scheme, r.Out.URL.Host = "http", *d.behind.Load() },
		FlushInterval: -1, ErrorHandler: cutOff,
		ModifyResponse: func(answer *http.Response) error {
			if answer.StatusCode/100 == 2 && strings.HasSuffix(answer.Request.URL.Path, "/content") {
				d.reads.Add(1)
			}
			return nil
		},
	})
	t.Cleanup(d.Close)
	return d
}

// cutOff cuts a connection whose other end is closed.
func cutOff(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) }
