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

// catalogDoor is a proxy in front of a catalog that may be killed. The proxy's address does not change. It counts the
// successful reads of results.
type catalogDoor struct {
	*httptest.Server

	behind atomic.Pointer[string] // the catalog's current address
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

// cutOff aborts the client's connection when the catalog's connection has failed.
func cutOff(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) }
