package main

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// part is a package or a module, or one of its texts.
type part struct {
	name, version string
	holders       []string // its copyright lines
}

// list writes each text once, below the parts that have it.
func list(byText map[string][]part) string {
	var out strings.Builder
	texts := slices.SortedFunc(maps.Keys(byText), func(a, b string) int {
		first, second := byText[a][0], byText[b][0]
		return cmp.Or(len(byText[b])-len(byText[a]), strings.Compare(first.name, second.name), strings.Compare(first.version, second.version), strings.Compare(a, b))
	})
	for _, text := range texts {
		out.WriteString("\n" + strings.Repeat("=", 80) + "\n\n")
		for _, p := range byText[text] {
			out.WriteString(strings.TrimSpace(p.name+" "+p.version) + "\n")
			for _, holder := range p.holders {
				fmt.Fprintf(&out, "    %s\n", holder)
			}
		}
		out.WriteString("\n" + text)
	}
	return out.String()
}

var (
	holderLine = regexp.MustCompile(`(?i)^copyright\b.*(\(c\)|©|\d{4})`)
	titleLine  = regexp.MustCompile(`(?i)^\(?(the )?mit license( \(mit\))?\)?:?$`)
)

// split takes the copyright lines out of a licence, and fills the rest anew, so that licences
// that differ in their line ends alone are one.
func split(licence string) (holders []string, text string) {
	var paragraphs []string
	for paragraph := range strings.SplitSeq(strings.ReplaceAll(licence, "\r", ""), "\n\n") {
		var words []string
		for line := range strings.Lines(paragraph) {
			line = strings.Trim(strings.TrimSpace(line), "*#")
			switch {
			case holderLine.MatchString(line):
				holders = append(holders, line)
			case !titleLine.MatchString(strings.TrimSpace(line)):
				words = append(words, strings.Fields(line)...)
			}
		}
		if len(words) > 0 {
			paragraphs = append(paragraphs, fill(words))
		}
	}
	return holders, strings.Join(paragraphs, "\n")
}

func fill(words []string) string {
	var out strings.Builder
	width := 0
	for _, word := range words {
		switch {
		case width == 0:
		case width+1+len(word) > 80:
			out.WriteByte('\n')
			width = 0
		default:
			out.WriteByte(' ')
			width++
		}
		out.WriteString(word)
		width += len(word)
	}
	return out.String() + "\n"
}
