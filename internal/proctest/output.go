package proctest

import (
	"bytes"
	"sync"
)

// Output collects the output of a process.
type Output struct {
	mu      sync.Mutex
	text    bytes.Buffer
	changed chan struct{} // closed and replaced after each write
}

// NewOutput returns an empty Output.
func NewOutput() *Output { return &Output{changed: make(chan struct{})} }

// Write appends b to the output.
func (o *Output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	close(o.changed)
	o.changed = make(chan struct{})
	return o.text.Write(b)
}

// String returns all output so far.
func (o *Output) String() string {
	text, _ := o.read()
	return text
}

// Len returns the number of bytes of output so far.
func (o *Output) Len() int { return len(o.String()) }

func (o *Output) read() (text string, more <-chan struct{}) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String(), o.changed
}
