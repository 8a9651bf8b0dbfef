package rest

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/server/servertest"
	"github.com/easel-grpc/easel/internal/service"
)

func FuzzQuotedEtagsStayDistinct(f *testing.F) {
	for _, seed := range []string{"", "a", `"`, "a,b", "é", "\x00\r\n", "%22", "*", `W/"a"`} {
		f.Add(seed, seed+"x")
	}
	f.Fuzz(func(t *testing.T, etag, other string) {
		quoted := quoteEtag(etag)
		if strings.ContainsAny(strings.Trim(quoted, `"`), "\", \r\n\x00") {
			t.Errorf("%q became %s, which is invalid in a header", etag, quoted)
		}
		if etag != "" && !listsEtag(`"y", `+quoted, quoted, false) {
			t.Errorf("%s is not found in a list", quoted)
		}
		if etag != other && etag != "" && (quoteEtag(other) == quoted || listsEtag(quoteEtag(other), quoted, true)) {
			t.Errorf("%q is not distinguished from %q", etag, other)
		}
		_ = listsEtag(other, quoted, true)
	})
}

// obligingStudio returns a service whose implemented methods always succeed.
func obligingStudio() *servertest.Studio {
	s := servertest.NewStudio()
	s.Create = func(context.Context, *easelv1.CreateGenerationRequest) (*easelv1.CreateGenerationResponse, error) {
		return &easelv1.CreateGenerationResponse{}, nil
	}
	s.Model = func(context.Context, *easelv1.GetModelRequest) (*easelv1.GetModelResponse, error) {
		return &easelv1.GetModelResponse{}, nil
	}
	s.Watch = func(*easelv1.WatchGenerationRequest, grpc.ServerStreamingServer[easelv1.WatchGenerationResponse]) error {
		return nil
	}
	s.WatchAll = func(*easelv1.WatchGenerationsRequest, grpc.ServerStreamingServer[easelv1.WatchGenerationsResponse]) error {
		return nil
	}
	s.OpenContent = (&file{size: 10, mediaType: "text/plain"}).content
	return s
}

// documented contains the documented statuses, and 501 for calls that the test's server does not implement.
var documented = []int{200, 206, 304, 400, 401, 403, 404, 405, 409, 412, 413, 415, 416, 429, 431, 501}

func FuzzRESTResponseHasDocumentedStatus(f *testing.F) {
	for _, seed := range [][4]string{
		{"GET", "/v1/account", "", ""},
		{"GET", "/v1/models/studio%2Fhaiku", "", ""},
		{"POST", "/v1/generations", "Content-Type: application/json", `{"modelId":"a","inputs":{"prompt":"x"},"idempotencyKey":"k"}`},
		{"POST", "/v1/generations:quote", "", `{"modelId":"a","inputsJson":"{\"n\":9007199254740993}"}`},
		{"GET", "/v1/generations/g1:watch?until=WATCH_UNTIL_SETTLED&heartbeatInterval=5s", "Accept: text/event-stream", ""},
		{"GET", "/v1/generations:watch?generationIds=a&generationIds=b", "", ""},
		{"GET", "/v1/generations/g1/content", "Range: bytes=1-", ""},
		{"GET", "/v1/generations/%2e%2e", "If-Match: *", ""},
		{"DELETE", "/v1/generations/g1?force=true", "", ""},
		{"GET", "/v1/generations?pageSize=99999999999", "", ""},
		{"GET", "/v1/generations/..%2fme", "", ""},
		{"GET", "/v1/generations?unknown=%zz&pageToken=%ff", "", ""},
		{"POST", "/v1/generations", "Idempotency-Key: k", `{"modelId":"m/n","inputs":` + strings.Repeat(`{"a":`, 2100) + "1" + strings.Repeat("}", 2101)},
		{"POST", "/v1/generations:quote", "Content-Type: text/plain", "{\"modelId\":\"\xff\"}"},
		{"OPTIONS", "/v1/../v1/account", "Sec-Fetch-Site: cross-site", ""},
	} {
		f.Add(seed[0], seed[1], seed[2], seed[3])
	}
	s := serve(f, obligingStudio())
	f.Fuzz(func(t *testing.T, method, path, header, body string) {
		if strings.ContainsAny(method+path, " \r\n") || strings.ContainsAny(header, "\r\n") || !strings.HasPrefix(path, "/") {
			t.Skip("invalid request line")
		}
		conn, err := s.HTTPPipe.Dial()
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
		if header != "" {
			header += "\r\n"
		}
		go fmt.Fprintf(conn, "%s %s HTTP/1.1\r\nHost: easel.test\r\nAuthorization: Bearer key\r\nConnection: close\r\n%sContent-Length: %d\r\n\r\n%s", method, path, header, len(body), body)
		answer, err := http.ReadResponse(bufio.NewReader(conn), &http.Request{Method: method})
		if err != nil {
			t.Fatalf("no response: %v", err)
		}
		defer answer.Body.Close()
		wantDocumented(t, answer)
	})
}

// wantDocumented checks that the status of a response is documented. The body of an error must be a status message, or
// plain text if the standard library has rejected invalid HTTP.
func wantDocumented(t *testing.T, answer *http.Response) {
	t.Helper()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(documented, answer.StatusCode) {
		t.Errorf("%s: %s", answer.Status, text)
	}
	if answer.StatusCode < 400 || len(text) == 0 || strings.HasPrefix(answer.Header.Get("Content-Type"), "text/plain") {
		return
	}
	if !json.Valid(text) || service.Reason(servertest.RESTStatus(t, string(text))) == easelv1.ErrorReason_ERROR_REASON_UNSPECIFIED {
		t.Errorf("%s with %s", answer.Status, text)
	}
}

func FuzzParsedRangeLiesWithinFile(f *testing.F) {
	for _, seed := range []string{"bytes=0-", "bytes=5-9", "bytes=-3", "bytes=9223372036854775807-", "BYTES=1-1", "bytes=1-0", "bytes=A-", "bytes=0 ", "bytes=0-1,3-4", "lines=1-2"} {
		f.Add(seed, int64(10))
	}
	f.Fuzz(func(t *testing.T, header string, size int64) {
		if size < 0 {
			t.Skip("negative size")
		}
		r, ok := parseRange(header)
		if !ok {
			return
		}
		if part, ok := r.resolve(size); ok && (part.first < 0 || part.first > part.last || part.last >= size || part.length() > size) {
			t.Errorf("range %q of a file of %d bytes became %+v", header, size, part)
		}
	})
}
