package paint

import (
	"fmt"
	"hash/fnv"
)

// Values are checked inputs with all defaults filled in. Numbers are int64 or float64.
type Values map[string]any

// Text is the string of a name, or "".
func (v Values) Text(name string) string { s, _ := v[name].(string); return s }

// Integer is the integer of a name, or 0.
func (v Values) Integer(name string) int64 { n, _ := v[name].(int64); return n }

// Number is the number of a name, or 0.
func (v Values) Number(name string) float64 { n, _ := v[name].(float64); return n }

func (v Values) flag(name string) bool { b, _ := v[name].(bool); return b }

// Size is the width and height of the picture that is asked for, in pixels.
func (v Values) Size() (w, h int) {
	if _, err := fmt.Sscanf(v.Text("size"), "%dx%d", &w, &h); err != nil {
		return 0, 0
	}
	return w, h
}

// seed is the seed that was asked for, mixed with the prompt, so that two prompts differ under one seed.
func (v Values) seed() uint64 {
	h := fnv.New64a()
	h.Write([]byte(v.Text("prompt"))) // never fails
	return h.Sum64() ^ uint64(v.Integer("seed"))*0x9e3779b97f4a7c15
}
