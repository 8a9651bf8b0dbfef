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

// catalogDoor is a reverse proxy in front of the catalog. Its address does not change when the catalog is killed
// and restarted. It counts successful reads of results.
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

// cutOff aborts the connection to the client when the connection to the catalog has failed.
func cutOff(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) }
