package catalog

import (
	"bytes"
	"encoding/json"
	"errors"
	"time"

	"github.com/easel-grpc/easel/internal/rawjson"
)

// answer is a 2xx with its body.
type answer struct {
	op       string
	status   int
	body     []byte
	cut      bool // it is a list that was too long: the rest is missing
	time     time.Time
	redactor redactor
}

// malformed is the error of an answer that can't be read.
func (a answer) malformed(why string) error {
	return &Error{Kind: KindMalformed, Op: a.op, Status: a.status, Err: errors.New(why)}
}

// list reads a body that is a list. Most of its items are as they were sent: [answer.item] reads them.
func (a answer) list(names []string, weights []weight) ([]any, error) {
	text, err := a.text()
	if err != nil {
		return nil, err
	}
	items, ok := findList(opened(text), names, weights)
	if !ok {
		return nil, a.malformed("no list in the body")
	}
	return items, nil
}

// text is the body, which is valid JSON.
func (a answer) text() (text rawjson.Value, err error) {
	body := bytes.TrimSpace(bytes.TrimPrefix(a.body, byteOrderMark))
	if json.Valid(body) {
		return body, nil
	}
	return nil, a.malformed(decodeInto(body, &json.RawMessage{}).Error())
}

// item is an item of a list, with the API key of the call redacted: callers under a held API key must not see it.
func (a answer) item(item any) any {
	return opened(rawjson.Filtered(encoded(item), a.redactor.filter(), 0))
}

// decode reads the body as [answer.item] reads an item.
func (a answer) decode() (any, error) {
	text, err := a.text()
	if err != nil {
		return nil, err
	}
	return a.item(text), nil
}
