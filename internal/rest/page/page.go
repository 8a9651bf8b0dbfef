// Package page serves the web page at the root of the REST address. The page contains a quick start for each language and an API
// reference that can send calls. It loads nothing from other servers, and its Content-Security-Policy enforces this.
package page

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	_ "embed"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"
)

// Policy is the Content-Security-Policy of the page. Scripts must be files of this server. Inline styles are allowed, because the
// reference uses them for its layout. The page shows the responses to its calls as blob: URLs.
const Policy = "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; " +
	"img-src 'self' data: blob:; media-src blob:; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// Start is the first part of the page in Markdown, with a quick start for each language. Its examples use localhost:50051
// (gRPC) and localhost:8080 (REST). [Handlers] replaces the gRPC port with the port of the gRPC listener. In the browser,
// the page's script replaces http://localhost:8080 with the origin of the page. If localhost has any other port, the script
// replaces localhost with the host of the page.
//
//go:embed start.md
var Start string

var (
	//go:embed index.html
	index []byte
	//go:embed page.js
	script []byte
	//go:embed page.css
	style []byte
	//go:embed icon.svg
	icon []byte
	//go:embed notice.txt
	notice []byte
	//go:embed scalar.js.gz
	scalar []byte // script of the API reference; copied from npm by `make generate`
)

// Handlers returns the page's handlers for GET and HEAD, keyed by path. The page itself is at "/". grpcAddr is the address on
// which the gRPC listener listens.
func Handlers(grpcAddr string) map[string]http.Handler {
	start := Start
	if _, port, err := net.SplitHostPort(grpcAddr); err == nil {
		start = strings.ReplaceAll(start, ":50051", ":"+port)
	}
	return map[string]http.Handler{
		"/":                serve("text/html; charset=utf-8", index),
		"/page/page.js":    serve("text/javascript; charset=utf-8", script),
		"/page/page.css":   serve("text/css; charset=utf-8", style),
		"/page/icon.svg":   serve("image/svg+xml", icon),
		"/page/start.md":   serve("text/markdown; charset=utf-8", []byte(start)),
		"/page/notice.txt": serve("text/plain; charset=utf-8", notice),
		"/page/scalar.js":  serveCompressed("text/javascript; charset=utf-8", scalar),
	}
}

// serve returns a handler that serves a file from memory. A browser may cache the file, but must revalidate it before each use.
func serve(mediaType string, body []byte) http.Handler {
	tag := fmt.Sprintf(`"%x"`, sha256.Sum256(body))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		header := w.Header()
		header.Set("Content-Type", mediaType)
		header.Set("Content-Security-Policy", Policy)
		header.Set("Cache-Control", "no-cache")
		header.Set("ETag", tag)
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(body))
	})
}

// serveCompressed returns a handler that serves a file that is stored in gzip format. Clients that accept gzip, such as all
// browsers, receive the stored bytes. For other clients, the handler decompresses the file once and keeps the result.
func serveCompressed(mediaType string, compressed []byte) http.Handler {
	asTheyAre := serve(mediaType, compressed)
	unpacked := sync.OnceValue(func() http.Handler { return serve(mediaType, unpack(compressed)) })
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		header := w.Header()
		header.Set("Vary", "Accept-Encoding")
		if strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
			header.Set("Content-Encoding", "gzip")
			asTheyAre.ServeHTTP(w, r)
			return
		}
		unpacked().ServeHTTP(w, r)
	})
}

// unpack decompresses an embedded file.
func unpack(compressed []byte) []byte {
	reader, err := gzip.NewReader(bytes.NewReader(compressed))
	if err != nil {
		return nil
	}
	whole, _ := io.ReadAll(reader) // cannot fail, because the data is embedded and complete
	return whole
}
