//go:build unix

package torture

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
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

// storeTrouble is a fault of requests to a store.
type storeTrouble int

const (
	wellStore   storeTrouble = iota
	fullStore                // rejects all writes
	slowStore                // responds too late
	deniedStore              // rejects all keys
	brokenStore              // cuts each connection
	shortStore               // returns objects that are too short
	storeTroubles
)

func (s storeTrouble) String() string {
	return [storeTroubles]string{"well", "full", "slow", "denied", "broken", "with a wrong length"}[s]
}

// slowFor is longer than the timeout of readers.
const slowFor = 12 * time.Second

// storeDoor is a proxy before an S3 store.
type storeDoor struct {
	*httptest.Server

	proxy httputil.ReverseProxy
	is    atomic.Int64 // storeTrouble

	mu  sync.Mutex
	met map[storeTrouble]int // requests
}

func openStoreDoor(t *testing.T, endpoint string) *storeDoor {
	d := &storeDoor{met: map[storeTrouble]int{}}
	host := strings.TrimPrefix(endpoint, "http://")
	d.proxy = httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.Out.URL.Scheme, r.Out.URL.Host, r.Out.Host = "http", host, r.In.Host // the signature covers the host
		},
		FlushInterval: -1, ErrorHandler: cutOff, ModifyResponse: d.lie,
	}
	d.Server = httptest.NewServer(d)
	t.Cleanup(d.Close)
	return d
}

func (d *storeDoor) set(trouble storeTrouble) { d.is.Store(int64(trouble)) }

func (d *storeDoor) count(trouble storeTrouble) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.met[trouble]
}

func (d *storeDoor) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	trouble := storeTrouble(d.is.Load())
	d.mu.Lock()
	d.met[trouble]++
	d.mu.Unlock()
	switch {
	case trouble == fullStore && r.Method == http.MethodPut:
		_, _ = io.Copy(io.Discard, r.Body) // the client may not read an answer before
		refuse(w, http.StatusInsufficientStorage, "XMinioStorageFull")
	case trouble == deniedStore:
		refuse(w, http.StatusForbidden, "AccessDenied")
	case trouble == brokenStore:
		panic(http.ErrAbortHandler)
	case trouble == slowStore:
		select {
		case <-time.After(slowFor):
			d.proxy.ServeHTTP(w, r)
		case <-r.Context().Done():
		}
	default:
		d.proxy.ServeHTTP(w, r)
	}
}

func refuse(w http.ResponseWriter, status int, code string) {
	w.Header().Set("Content-Type", "application/xml")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, "<Error><Code>"+code+"</Code></Error>")
}

// lie changes what is read of an object.
func (d *storeDoor) lie(answer *http.Response) error {
	trouble, isObject := storeTrouble(d.is.Load()), answer.Request.Method == http.MethodGet && answer.Request.URL.RawQuery == ""
	if !isObject || answer.StatusCode/100 != 2 || trouble != shortStore {
		return nil
	}
	data, err := io.ReadAll(answer.Body)
	if err = errors.Join(err, answer.Body.Close()); err != nil || len(data) == 0 {
		return errors.Join(err, errors.New("an object without bytes"))
	}
	data = data[:len(data)/2]
	answer.Body, answer.ContentLength = io.NopCloser(bytes.NewReader(data)), int64(len(data))
	answer.Header.Set("Content-Length", strconv.Itoa(len(data)))
	return nil
}
