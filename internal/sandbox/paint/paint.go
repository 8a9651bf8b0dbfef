// Package paint renders the sandbox's pictures and texts. The same inputs produce the same bytes on all processors of the same
// architecture. Processors of different architectures may round floating-point numbers differently, so the bytes may differ.
package paint

import (
	"fmt"
	"hash/fnv"
	"io"
	"math/rand/v2"
	"regexp"
	"strings"
)

// Artifact is the result of a render: a text, or a function that writes a file.
type Artifact struct {
	Text        string
	ContentType string
	Write       func(io.Writer) error
}

// Values contains a render's validated inputs by name, including defaults. Numbers are int64 or float64.
type Values map[string]any

// Text returns the string with the given name, or "" if v has no such string.
func (v Values) Text(name string) string { s, _ := v[name].(string); return s }

// Integer returns the integer with the given name, or 0 if v has no such integer.
func (v Values) Integer(name string) int64 { n, _ := v[name].(int64); return n }

// Number returns the number with the given name, or 0 if v has no such number.
func (v Values) Number(name string) float64 { n, _ := v[name].(float64); return n }

// Size returns the requested width and height of the picture, in pixels. It returns zeros if the inputs have no size.
func (v Values) Size() (w, h int) {
	_, _ = fmt.Sscanf(v.Text("size"), "%dx%d", &w, &h) // an error means only that there is no size, because the format of a size was validated earlier
	return w, h
}

// newRandom returns a random source for the render. The source is seeded with the requested seed and the prompt, so that
// different prompts with the same seed produce different results.
func (v Values) newRandom() *rand.Rand {
	h := fnv.New64a()
	h.Write([]byte(v.Text("prompt"))) // never fails
	return rand.New(rand.NewPCG(h.Sum64()^uint64(v.Integer("seed"))*0x9e3779b97f4a7c15, 4))
}

// chooseName returns the name of the first choice for which the prompt contains a cue. If there is no such choice, it returns
// fallback. Each choice consists of a name and a string of cues, separated by spaces.
func chooseName(prompt string, choices [][2]string, fallback string) string {
	for _, choice := range choices {
		if mentionsCue(prompt, choice[1]) {
			return choice[0]
		}
	}
	return fallback
}

// mentionsCue reports whether the text contains one of the cues as a word. A word also matches with an additional s or y at its
// end: the cue "storm" matches "storms" and "stormy".
func mentionsCue(text, cues string) bool {
	return regexp.MustCompile(`(?i)\b(` + strings.ReplaceAll(cues, " ", "|") + `)[sy]?\b`).MatchString(text)
}
