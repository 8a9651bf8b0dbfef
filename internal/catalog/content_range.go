package catalog

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// place reads which part of the file an answer has, and the size of the whole, -1
// where it does not say.
func (b *contentBody) place(s *contentStream, resp *http.Response, from int64) (total int64, err error) {
	broken := func(kind Kind, why string) (int64, error) {
		return -1, &Error{Kind: kind, Op: opContent, Status: resp.StatusCode, Message: why}
	}
	if encoding := resp.Header.Get("Content-Encoding"); encoding != "" && !strings.EqualFold(encoding, "identity") {
		return broken(KindContract, "the file is encoded, which was not asked for")
	}
	switch resp.StatusCode {
	case http.StatusOK:
		s.end, s.framed = resp.ContentLength, framed(resp)
		return resp.ContentLength, nil
	case http.StatusPartialContent:
		first, last, total, ok := parseContentRange(resp.Header.Get("Content-Range"))
		if !ok || first != from {
			return broken(KindContract, "the part of the file is not the one that was asked for")
		}
		s.at, s.end = first, last+1
		return total, nil
	case http.StatusRequestedRangeNotSatisfiable:
		total, ok := parseUnsatisfied(resp.Header.Get("Content-Range"))
		if !ok && from == b.at && b.at > b.start { // every byte before it was delivered
			total, ok = b.at, true
		}
		if !ok || total > from {
			return broken(KindOutOfRange, "")
		}
		return total, nil
	case http.StatusAccepted:
		return broken(KindContentNotReady, "")
	case http.StatusNoContent, http.StatusResetContent:
		return broken(KindNoContent, "the catalog has no file")
	}
	return broken(KindContract, "neither the file nor a part of it")
}

// framed reports whether the end of the answer can be told from a cut. What ends with
// the connection can't.
func framed(resp *http.Response) bool {
	return resp.ContentLength >= 0 || resp.ProtoMajor >= 2 || slices.Contains(resp.TransferEncoding, "chunked")
}

// parseContentRange reads "bytes 5-9/10". A total that is not given is not enough: it
// could not be told whether the part is the last one.
func parseContentRange(value string) (first, last, total int64, ok bool) {
	rest, isBytes := strings.CutPrefix(strings.TrimSpace(value), "bytes ")
	span, size, hasSize := strings.Cut(rest, "/")
	from, to, hasSpan := strings.Cut(strings.TrimSpace(span), "-")
	first, ok1 := position(from)
	last, ok2 := position(to)
	total, ok3 := position(size)
	ok = isBytes && hasSize && hasSpan && ok1 && ok2 && ok3 && first <= last && last < total
	return first, last, total, ok
}

// parseUnsatisfied reads the size from "bytes */10".
func parseUnsatisfied(value string) (total int64, ok bool) {
	rest, isBytes := strings.CutPrefix(strings.TrimSpace(value), "bytes ")
	span, size, _ := strings.Cut(rest, "/")
	total, ok = position(size)
	return total, ok && isBytes && strings.TrimSpace(span) == "*"
}

func position(digits string) (int64, bool) {
	digits = strings.TrimSpace(digits)
	if digits == "" || strings.Trim(digits, "0123456789") != "" {
		return 0, false
	}
	n, err := strconv.ParseInt(digits, 10, 64)
	return n, err == nil
}

// strongEtag is the tag if it stands for exact bytes, else "". A weak one does not.
func strongEtag(etag string) string {
	etag = strings.TrimSpace(etag)
	if len(etag) < 2 || etag[0] != '"' || etag[len(etag)-1] != '"' || !printable(etag) {
		return ""
	}
	return etag
}
