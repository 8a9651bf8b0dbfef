// Package console serves the web console at /console: the gallery, the order form, a page for each render, and the page
// "Money". The console consists of static files. Its scripts use only the public REST API and its event streams. The caller's
// token is kept in the sessionStorage of the browser tab.
package console

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"fmt"
	"net/http"
	"path"
	"time"
)

// Path is the path of the console's page. The paths of its files begin with Path.
const Path = "/console"

// Policy is the Content-Security-Policy of the console. Scripts download pictures and show them as blob: URLs, because an img
// element can't send the token.
const Policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// mediaTypes maps file extensions to media types.
var mediaTypes = map[string]string{
	".html": "text/html; charset=utf-8", ".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml",
}

//go:embed *.html *.css *.js *.svg
var files embed.FS

// Handlers returns the handlers for the files of the console, keyed by URL path. Register them for GET and HEAD.
func Handlers() map[string]http.Handler {
	handlers := map[string]http.Handler{}
	entries, _ := files.ReadDir(".") // cannot fail, because the directory is embedded
	for _, entry := range entries {
		body, _ := files.ReadFile(entry.Name())
		handlers[path.Join(Path, entry.Name())] = serve(mediaTypes[path.Ext(entry.Name())], body)
	}
	handlers[Path] = handlers[path.Join(Path, "index.html")]
	delete(handlers, path.Join(Path, "index.html"))
	return handlers
}

// serve returns a handler that serves a file from memory. A browser may cache the file, but must revalidate it before each
// use.
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
