package rest

import (
	"bytes"
	"fmt"
	"maps"
	"net/http"
	"time"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
)

// handlePages adds the pages and the OpenAPI document to the routes.
func handlePages(gateway *runtime.ServeMux, config Config) error {
	pages := map[string]http.Handler{}
	maps.Copy(pages, config.Pages)
	if len(config.OpenAPI) > 0 {
		pages["/openapi.json"] = document(config.OpenAPI)
	}
	for path, page := range pages {
		for _, method := range []string{http.MethodGet, http.MethodHead} {
			handler := func(w http.ResponseWriter, r *http.Request, _ map[string]string) { page.ServeHTTP(w, r) }
			if err := gateway.HandlePath(method, path, handler); err != nil {
				return fmt.Errorf("route %s: %w", path, err)
			}
		}
	}
	return nil
}

// document serves a fixed JSON document.
func document(body []byte) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		header := w.Header()
		header.Set("Content-Type", "application/json")
		header.Set("Cache-Control", "no-cache")
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(body))
	})
}
