package catalog

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// isFramed reports whether the client can detect that a response was truncated. A truncation can't be detected if only the end
// of the connection marks the end of the body.
func isFramed(resp *http.Response) bool {
	return resp.ContentLength >= 0 || resp.ProtoMajor >= 2 || slices.Contains(resp.TransferEncoding, "chunked")
}

// parseContentRange parses a Content-Range such as "bytes 5-9/10". It rejects a value without the file size, because only the
// size shows whether the range reaches the end of the file.
func parseContentRange(value string) (first, last, total int64, ok bool) {
	span, total, ok := cutRange(value)
	from, to, hasSpan := strings.Cut(span, "-")
	first, ok1 := position(from)
	last, ok2 := position(to)
	return first, last, total, ok && hasSpan && ok1 && ok2 && first <= last && last < total
}

// parseUnsatisfied returns the file size from the Content-Range of a 416 response, such as "bytes */10".
func parseUnsatisfied(value string) (total int64, ok bool) {
	span, total, ok := cutRange(value)
	return total, ok && span == "*"
}

// cutRange splits a Content-Range into the range and the size of the complete file. ok is false if the unit is not bytes, or if
// there is no valid size. The range is not checked.
func cutRange(value string) (span string, total int64, ok bool) {
	rest, isBytes := strings.CutPrefix(strings.TrimSpace(value), "bytes ")
	span, size, _ := strings.Cut(rest, "/")
	total, ok = position(size)
	return strings.TrimSpace(span), total, ok && isBytes
}

func position(digits string) (int64, bool) {
	n, err := strconv.ParseUint(strings.TrimSpace(digits), 10, 63)
	return int64(n), err == nil
}

// strongEtag returns the ETag if it is strong, and otherwise "". A strong ETag identifies exact bytes.
func strongEtag(etag string) string {
	etag = strings.TrimSpace(etag)
	if len(etag) < 2 || etag[0] != '"' || etag[len(etag)-1] != '"' || !isPrintable(etag) {
		return ""
	}
	return etag
}
