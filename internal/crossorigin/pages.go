package crossorigin

import (
	"net/http"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/service"
)

// RefuseWrites prevents other web pages from sending writes, such as orders, through the browser of a caller.
func RefuseWrites(next http.Handler, deny Deny) http.Handler {
	protection := http.NewCrossOriginProtection()
	protection.SetDenyHandler(denied(deny))
	return protection.Handler(next)
}

// RefuseReads also prevents reads by other web pages, because a profile slows the process. They may link to the start
// page, which is harmless.
func RefuseReads(next http.Handler, deny Deny) http.Handler {
	protection := http.NewCrossOriginProtection()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asWrite := *r
		asWrite.Method = http.MethodPost // the library checks only writes
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
		deny(w, r, service.Fail(easelv1.ErrorReason_CROSS_ORIGIN_REQUEST, "a page of another origin may not make this request"))
	}
}
