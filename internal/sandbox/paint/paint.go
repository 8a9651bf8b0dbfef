// Package paint makes what the models of the sandbox render: pictures and texts. The same inputs make
// the same bytes on one kind of processor; others may round the last bit differently.
package paint

import "io"

// Artifact is the result of a render: a text, or a file that can be written.
type Artifact struct {
	Text        string
	ContentType string
	Write       func(io.Writer) error
}
