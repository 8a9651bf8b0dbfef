package service

import (
	"cmp"
	"encoding/base64"
	"slices"
	"strings"
)

const (
	defaultPage = 100
	maxPage     = 1000
)

// page cuts one page out of a list that the catalog gives as a whole. The token names the last record of
// the page before, so that new records shift nothing. kind prevents the use of a token on another list.
func page[T any](all []T, id func(T) string, kind string, size int32, token string) (items []T, next string, err error) {
	start := 0
	if token != "" {
		last, ok := readToken(kind, token)
		at := slices.IndexFunc(all, func(item T) bool { return ok && id(item) == last })
		if at < 0 {
			return nil, "", errForeignToken
		}
		start = at + 1
	}
	end := min(start+pageSize(size), len(all))
	items = all[start:end]
	if end < len(all) {
		next = writeToken(kind, id(all[end-1]))
	}
	return items, next, nil
}

// errForeignToken is the error of a token that a list did not give out, or not for this query.
var errForeignToken = InvalidRequest(Violation{"page_token", "is not a token of this list, or its page is gone: start again without one"})

func pageSize(asked int32) int { return int(min(cmp.Or(asked, defaultPage), maxPage)) }

func writeToken(kind, id string) string {
	return base64.RawURLEncoding.EncodeToString([]byte(kind + ":" + id))
}

func readToken(kind, token string) (id string, ok bool) {
	text, err := base64.RawURLEncoding.DecodeString(token)
	if err != nil {
		return "", false
	}
	return strings.CutPrefix(string(text), kind+":")
}
