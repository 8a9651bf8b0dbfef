package rest

import (
	"fmt"
	"net/textproto"
	"strconv"
	"strings"
)

// byteRange is a part of a file as a Range header asks for it.
type byteRange struct {
	first int64 // position of the first byte; for a suffix, how many bytes from the end
	last  int64 // position of the last byte; unbounded goes to the end
	// suffix asks for the last first bytes.
	suffix bool
}

// unbounded stands for an end or a length that is not known.
const unbounded = -1

// parseRange reads a Range header. Only one range of bytes is served. A header that asks for several
// ranges, for another unit or for nonsense is ignored, as RFC 9110 allows, and the answer is the whole
// file.
func parseRange(header string) (r byteRange, ok bool) {
	spec, ok := cutPrefixFold(header, "bytes=")
	if !ok || strings.Contains(spec, ",") {
		return r, false
	}
	from, to, ok := strings.Cut(textproto.TrimString(spec), "-")
	if !ok {
		return r, false
	}
	if from == "" {
		r.first, ok = position(to)
		return byteRange{first: r.first, last: unbounded, suffix: true}, ok
	}
	if r.first, ok = position(from); !ok {
		return r, false
	}
	if to == "" {
		return byteRange{first: r.first, last: unbounded}, true
	}
	r.last, ok = position(to)
	return r, ok && r.last >= r.first
}

func cutPrefixFold(s, prefix string) (string, bool) {
	if len(s) < len(prefix) || !strings.EqualFold(s[:len(prefix)], prefix) {
		return "", false
	}
	return s[len(prefix):], true
}

// position reads digits alone: strconv would take more.
func position(digits string) (int64, bool) {
	n, err := strconv.ParseUint(digits, 10, 63)
	return int64(n), err == nil
}

// within fits the range into a file of size bytes. It reports false where no byte of
// the file lies in it.
func (r byteRange) within(size int64) (byteRange, bool) {
	if r.suffix {
		r = byteRange{first: max(0, size-r.first), last: unbounded}
	}
	if r.last == unbounded || r.last >= size {
		r.last = size - 1
	}
	return r, r.first <= r.last
}

func (r byteRange) length() int64 { return r.last - r.first + 1 }

func (r byteRange) contentRange(size int64) string {
	return fmt.Sprintf("bytes %d-%d/%d", r.first, r.last, size)
}

// quoteEtag writes an etag as HTTP does. Characters that are not allowed between the quotes are escaped,
// so that two etags never become one.
func quoteEtag(etag string) string {
	if etag == "" {
		return ""
	}
	var b strings.Builder
	b.WriteByte('"')
	for n := range len(etag) {
		if c := etag[n]; c <= ' ' || c == '"' || c == '%' || c == ',' || c >= 0x7f {
			fmt.Fprintf(&b, "%%%02X", c)
		} else {
			b.WriteByte(c)
		}
	}
	b.WriteByte('"')
	return b.String()
}

// listsEtag reports whether the value of If-Match or If-None-Match names an etag,
// already quoted. Weak etags match as strong ones do where weak is set.
func listsEtag(header, quoted string, weak bool) bool {
	if textproto.TrimString(header) == "*" {
		return true
	}
	for part := range strings.SplitSeq(header, ",") { // quoteEtag leaves no comma within one
		part = textproto.TrimString(part)
		if weak {
			part = strings.TrimPrefix(part, "W/")
		}
		if quoted != "" && part == quoted {
			return true
		}
	}
	return false
}
