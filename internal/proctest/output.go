package proctest

import (
	"bytes"
	"sync"
)

// Output is what a process has written so far.
type Output struct {
	mu      sync.Mutex
	text    bytes.Buffer
	changed chan struct{} // closed and replaced when there is more
}

// NewOutput is empty.
func NewOutput() *Output { return &Output{changed: make(chan struct{})} }

// Write takes output in.
func (o *Output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	close(o.changed)
	o.changed = make(chan struct{})
	return o.text.Write(b)
}

// String is the text.
func (o *Output) String() string {
	text, _ := o.read()
	return text
}

// Len is how long the text is.
func (o *Output) Len() int { return len(o.String()) }

func (o *Output) read() (text string, more <-chan struct{}) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String(), o.changed
}
