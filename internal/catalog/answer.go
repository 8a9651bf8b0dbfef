package catalog

import (
	"encoding/json"
	"errors"
	"time"
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

// list reads a body that is a list. Most of its items are as they were sent: [answer.item] decodes them.
func (a answer) list(names []string, weights []weight) ([]any, error) {
	value, err := decodeOutline(a.body)
	if err != nil {
		return nil, a.malformed(err.Error())
	}
	items, ok := findList(a.redactor.redact(value), names, weights)
	if !ok {
		return nil, a.malformed("no list in the body")
	}
	return items, nil
}

// item is an item of a list, decoded.
func (a answer) item(item any) any {
	raw, ok := item.(json.RawMessage)
	if !ok {
		return item
	}
	value, _ := decode(raw) // the whole list was read before: it is JSON
	return a.redactor.redact(value)
}

// decode reads the body, with the API key of the call redacted: callers under a held API key must not
// see it.
func (a answer) decode() (any, error) {
	value, err := decode(a.body)
	if err != nil {
		return nil, a.malformed(err.Error())
	}
	return a.redactor.redact(value), nil
}
