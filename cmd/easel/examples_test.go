package main

import (
	"strings"
	"testing"
)

// TestEveryExampleInHelpParses checks that the parser accepts each example in the help texts. It does not run the examples.
func TestEveryExampleInHelpParses(t *testing.T) {
	parser, examples := grammarParser(t), 0
	for _, command := range parser.Model.Children {
		for line := range strings.Lines(command.Detail) {
			_, line, found := strings.Cut(line, "easel ")
			if !found || !strings.HasPrefix(command.Detail[strings.Index(command.Detail, line)-len("  easel "):], "  easel ") {
				continue // not an example
			}
			for _, end := range []string{" #", " |", " <", " >", " &&", ")"} {
				line, _, _ = strings.Cut(line, end)
			}
			if _, err := parser.Parse(wordsOf(line)); err != nil {
				t.Errorf("%s: %s: %v", command.Name, strings.TrimSpace(line), err)
			}
			examples++
		}
	}
	if examples < 20 {
		t.Errorf("found only %d examples", examples)
	}
}

// wordsOf splits a line into words as a shell does.
func wordsOf(line string) []string {
	quote := rune(0)
	words := strings.FieldsFunc(strings.TrimSpace(line), func(r rune) bool {
		switch {
		case r == quote:
			quote = 0
		case quote == 0 && (r == '"' || r == '\''):
			quote = r
		}
		return quote == 0 && r == ' '
	})
	for i, word := range words {
		words[i] = strings.NewReplacer(`"`, "", "'", "").Replace(word)
	}
	return words
}
