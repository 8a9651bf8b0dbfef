package crossorigin

import (
	"net/http"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/service"
)

// RefuseWrites returns a handler that calls deny for writes, such as orders, that other websites send through a caller's
// browser. It passes all other requests to next.
func RefuseWrites(next http.Handler, deny Deny) http.Handler {
	protection := http.NewCrossOriginProtection()
	protection.SetDenyHandler(denied(deny))
	return protection.Handler(next)
}

// RefuseReads returns a handler that calls deny for requests, including reads, that other websites send through an
// operator's browser. Reads can be harmful: for example, a CPU profile slows down the process. All other requests, and
// links to the start page, are passed to next.
func RefuseReads(next http.Handler, deny Deny) http.Handler {
	protection := http.NewCrossOriginProtection()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asWrite := *r
		asWrite.Method = http.MethodPost // the library checks only requests with methods that write, such as POST
		link := r.Method == http.MethodGet && r.URL.Path == "/" && r.Header.Get("Sec-Fetch-Mode") == "navigate" && r.Header.Get("Sec-Fetch-Dest") == "document"
		if !link && protection.Check(&asWrite) != nil {
			denied(deny).ServeHTTP(w, r)
			return
		}
		next.ServeHTTP(w, r)
	})
}

func denied(deny Deny) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		deny(w, r, service.Fail(easelv1.ErrorReason_CROSS_ORIGIN_REQUEST, "a web page from another origin may not send this request; call the server from a backend"))
	}
}
