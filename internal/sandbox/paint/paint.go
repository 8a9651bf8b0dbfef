// Package paint makes what the models of the sandbox render: pictures and texts. The same inputs make
// the same bytes on one kind of processor; others may round the last bit differently.
package paint

import (
	"fmt"
	"hash/fnv"
	"io"
	"math/rand/v2"
	"regexp"
	"strings"
)

// Artifact is the result of a render: a text, or a file that can be written.
type Artifact struct {
	Text        string
	ContentType string
	Write       func(io.Writer) error
}

// Values are checked inputs with all defaults filled in. Numbers are int64 or float64.
type Values map[string]any

// Text is the string of a name, or "".
func (v Values) Text(name string) string { s, _ := v[name].(string); return s }

// Integer is the integer of a name, or 0.
func (v Values) Integer(name string) int64 { n, _ := v[name].(int64); return n }

// Number is the number of a name, or 0.
func (v Values) Number(name string) float64 { n, _ := v[name].(float64); return n }

// Size is the width and height of the picture that is asked for, in pixels.
func (v Values) Size() (w, h int) {
	_, _ = fmt.Sscanf(v.Text("size"), "%dx%d", &w, &h) // it was checked, or there is none
	return w, h
}

// random begins with the seed that was asked for, mixed with the prompt, so that two prompts differ under one seed.
func (v Values) random() *rand.Rand {
	h := fnv.New64a()
	h.Write([]byte(v.Text("prompt"))) // never fails
	return rand.New(rand.NewPCG(h.Sum64()^uint64(v.Integer("seed"))*0x9e3779b97f4a7c15, 4))
}

// steer gives the first choice that the words of a prompt ask for. A choice is a name and its cues.
func steer(prompt string, choices [][2]string, otherwise string) string {
	for _, choice := range choices {
		if mentions(prompt, choice[1]) {
			return choice[0]
		}
	}
	return otherwise
}

// mentions reports whether one of the cues is a word of the text, in singular or plural.
func mentions(text, cues string) bool {
	return regexp.MustCompile(`(?i)\b(` + strings.ReplaceAll(cues, " ", "|") + `)[sy]?\b`).MatchString(text)
}
