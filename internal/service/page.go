package service

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"
)

const (
	defaultPage = 100
	maxPage     = 1000
)

// page cuts one page out of a list that the catalog gives as a whole, of those that chosen names. The token names
// the last record of the page before, so that new records shift nothing, nor does one that is no longer chosen. kind
// prevents the use of a token on another list. A page that would be too large for an answer is shorter.
func page[T any, M proto.Message](all []T, chosen func(T) bool, id func(T) string, message func(T) M, kind string, size int32, token string) (items []M, next string, err error) {
	if token != "" {
		last, ok := readToken(kind, token)
		at := slices.IndexFunc(all, func(item T) bool { return ok && id(item) == last })
		if at < 0 {
			return nil, "", errForeignToken
		}
		all = all[at+1:]
	}
	left, last := maxRecord, ""
	for _, item := range all {
		if !chosen(item) {
			continue
		}
		if len(items) == pageSize(size) {
			return items, writeToken(kind, last), nil
		}
		m := message(item)
		if left -= proto.Size(m) + fieldCost; left < 0 && len(items) > 0 {
			return items, writeToken(kind, last), nil
		}
		items, last = append(items, m), id(item)
	}
	return items, "", nil
}

// everything is chosen where there is no filter.
func everything[T any](T) bool { return true }

// errForeignToken is the error of a token that a list did not give out, or not for this query.
var errForeignToken = InvalidRequest(Violation{Field: "page_token", Description: "is not a token of this list, or its page is gone: start again without one"})

func pageSize(asked int32) int { return int(min(cmp.Or(asked, defaultPage), maxPage)) }

func writeToken(kind, id string) string {
	return base64.RawURLEncoding.EncodeToString([]byte(kind + ":" + id))
}

func readToken(kind, token string) (id string, ok bool) {
	text, err := base64.RawURLEncoding.DecodeString(token)
	if err != nil || bytes.IndexByte(text, 0) >= 0 { // which no token has, and no database takes
		return "", false
	}
	return strings.CutPrefix(string(text), kind+":")
}
