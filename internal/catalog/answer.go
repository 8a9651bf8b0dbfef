package catalog

import (
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
	redactor *redactor
}

// malformed is the error of an answer that can't be read.
func (a answer) malformed(why string) error {
	return &Error{Kind: KindMalformed, Op: a.op, Status: a.status, Err: errors.New(why)}
}

// list reads a body that is a list. Its items are as they were sent: the redactor has not seen them.
func (a answer) list(names []string, weights []weight) ([]JSON, error) {
	body, err := parse(a.body)
	if err != nil {
		return nil, a.malformed(err.Error())
	}
	items, ok := findList(body, names, weights, maxEnvelope)
	if !ok {
		return nil, a.malformed("no list in the body")
	}
	return items, nil
}

// value reads a body about one thing. The API key of the call is redacted: callers under a held API key must not see it.
func (a answer) value() (JSON, error) {
	body, err := parse(a.body)
	if err != nil {
		return nil, a.malformed(err.Error())
	}
	return a.redactor.redact(body), nil
}
