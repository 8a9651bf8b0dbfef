package admin

import (
	_ "embed"
	"net/http"
)

var (
	//go:embed page.html
	page []byte
	//go:embed page.js
	script []byte
	//go:embed page.css
	style []byte
)

// policy is the page's Content-Security-Policy. The page may load only files from this server and
// images from data URLs, and may send requests only to this server.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src data:; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// file returns a handler for a file of the page. kind is its content type.
func file(kind string, body []byte) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		header := w.Header()
		header.Set("Content-Type", kind)
		header.Set("Content-Security-Policy", policy)
		header.Set("X-Content-Type-Options", "nosniff")
		header.Set("Referrer-Policy", "no-referrer")
		header.Set("Cache-Control", "no-cache")
		_, _ = w.Write(body) // the client may have disconnected
	}
}
