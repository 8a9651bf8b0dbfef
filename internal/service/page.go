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

// page returns one page of the elements e for which isChosen(e) is true, and the token of the next page. The token
// contains the ID of the last element on this page, so that elements that are added later do not shift the pages. A
// token is valid only for lists with the same value of kind. A page ends early if it would exceed the maximum size
// of a response.
func page[T any, M proto.Message](all []T, isChosen func(T) bool, id func(T) string, message func(T) M, kind string, size int32, token string) (items []M, next string, err error) {
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
		if !isChosen(item) {
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

// matchAll returns true for each element. It is used for lists without a filter.
func matchAll[T any](T) bool { return true }

// errForeignToken is the error for a page token that belongs to another list or query.
var errForeignToken = InvalidRequest(Violation{Field: "page_token", Description: "is not a token of this list, or has expired; start again without a token"})

func pageSize(asked int32) int { return int(min(cmp.Or(asked, defaultPage), maxPage)) }

func writeToken(kind, id string) string {
	return base64.RawURLEncoding.EncodeToString([]byte(kind + ":" + id))
}

func readToken(kind, token string) (id string, ok bool) {
	text, err := base64.RawURLEncoding.DecodeString(token)
	if err != nil || bytes.IndexByte(text, 0) >= 0 { // a valid token has no zero byte, and databases reject zero bytes
		return "", false
	}
	return strings.CutPrefix(string(text), kind+":")
}
