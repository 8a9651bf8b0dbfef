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

// policy lets the page load and ask what is here, and nothing else.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src data:; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// handlers are the page and what it reads, by the pattern of the admin listener: the page at /
// and /status, and the same for programs at /status.json.
func (s Status) handlers() map[string]http.Handler {
	return map[string]http.Handler{
		"GET /{$}":         file("text/html; charset=utf-8", page),
		"GET /status":      file("text/html; charset=utf-8", page),
		"GET /status.js":   file("text/javascript; charset=utf-8", script),
		"GET /status.css":  file("text/css; charset=utf-8", style),
		"GET /status.json": http.HandlerFunc(s.serveReport),
	}
}

func file(kind string, body []byte) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		header := w.Header()
		header.Set("Content-Type", kind)
		header.Set("Content-Security-Policy", policy)
		header.Set("X-Content-Type-Options", "nosniff")
		header.Set("Referrer-Policy", "no-referrer")
		header.Set("Cache-Control", "no-cache")
		_, _ = w.Write(body) // a client that went away needs no answer
	})
}
