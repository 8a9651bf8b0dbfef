package main

import (
	"fmt"
	"html"
	"maps"
	"slices"
	"strings"
	"time"
)

// The size of a place on the screen, and of what is around the screen, in the SVG's units.
const (
	cellWidth  = 8.4
	lineHeight = 20
	margin     = 18
	bar        = 34
	// rest is how long the last frame stays before the recording begins anew.
	rest = 5 * time.Second
)

// colours are the terminal's own, by their numbers.
var colours = map[string]string{
	"": "#d8dee9", "1": "#ffffff", "2": "#7f8a9c", "31": "#f07178", "32": "#7fd88f", "33": "#e6c07b", "34": "#7aa2f7", "35": "#c792ea", "36": "#6cc7d9",
}

// strip is all frames side by side, each line of them drawn once.
type strip struct {
	lines map[string]int // the number of a line that is drawn, by its text
	drawn strings.Builder
}

// draw makes the SVG. It shows one frame after the other; who wants no motion, or can't show
// it, sees the last.
func draw(frames []frame) string {
	rows := 0
	for _, f := range frames {
		rows = max(rows, used(f.lines))
	}
	screenWidth := width * cellWidth
	step := screenWidth + 2*margin
	s := strip{lines: map[string]int{}}
	var shown, moments strings.Builder
	total := frames[len(frames)-1].at + rest
	for n, f := range frames {
		fmt.Fprintf(&moments, "%.2f%%{transform:translateX(%.1fpx)}", 100*f.at.Seconds()/total.Seconds(), -float64(n)*step)
		for row, l := range f.lines {
			if id, ok := s.line(l); ok {
				fmt.Fprintf(&shown, `<use href="#l%d" x="%.1f" y="%d"/>`, id, float64(n)*step, (row+1)*lineHeight-5)
			}
		}
		shown.WriteByte('\n')
	}
	tall := bar + rows*lineHeight + margin
	return fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %[1]g %[2]d" width="%[1]g" height="%[2]d" role="img" aria-label="A render is ordered, watched and saved in a terminal">
<style>
text{font:14px ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace;white-space:pre}
%[3]s.film{transform:translateX(%.1[4]fpx);animation:film %.2[5]fs step-end infinite}
@keyframes film{%[6]s}
@media (prefers-reduced-motion:reduce){.film{animation:none}}
</style>
<rect width="%[1]g" height="%[2]d" rx="9" fill="#161b24"/>
<circle cx="20" cy="17" r="5.5" fill="#ff5f57"/><circle cx="38" cy="17" r="5.5" fill="#febc2e"/><circle cx="56" cy="17" r="5.5" fill="#28c840"/>
<defs>
%[7]s</defs>
<svg x="%[8]d" y="%[9]d" width="%[10]g" height="%[11]d"><g class="film">
%[12]s</g></svg>
</svg>
`, screenWidth+2*margin, tall, classes(), -float64(len(frames)-1)*step, total.Seconds(), moments.String(),
		s.drawn.String(), margin, bar, screenWidth, rows*lineHeight, shown.String())
}

func classes() string {
	var out strings.Builder
	for _, number := range slices.Sorted(maps.Keys(colours)) {
		fmt.Fprintf(&out, ".c%s{fill:%s}\n", number, colours[number])
	}
	return out.String()
}

// used is how many lines of a screen hold something.
func used(lines []line) int {
	for n := len(lines); n > 0; n-- {
		if len(lines[n-1]) > 0 {
			return n
		}
	}
	return 0
}

// line draws a line, where it is not drawn yet, and gives its number. An empty line has none.
func (s *strip) line(l line) (number int, ok bool) {
	var out strings.Builder
	for from := 0; from < len(l); {
		to := from
		for to < len(l) && l[to].style == l[from].style {
			to++
		}
		out.WriteString(run(l[from:to], from))
		from = to
	}
	text := out.String()
	if text == "" {
		return 0, false
	}
	number, drawn := s.lines[text]
	if !drawn {
		number = len(s.lines)
		s.lines[text] = number
		fmt.Fprintf(&s.drawn, "<g id=\"l%d\">%s</g>\n", number, text)
	}
	return number, true
}

// run is text of one style, as wide as its places whatever the font is. Blanks are not drawn.
func run(cells []cell, at int) string {
	var text strings.Builder
	for _, c := range cells {
		text.WriteRune(c.char)
	}
	whole := text.String()
	bare := strings.Trim(whole, " ")
	if bare == "" {
		return ""
	}
	at += len(whole) - len(strings.TrimLeft(whole, " "))
	return fmt.Sprintf(`<text class="c%s" x="%.1f" textLength="%.1f">%s</text>`,
		cells[0].style, float64(at)*cellWidth, float64(len([]rune(bare)))*cellWidth, html.EscapeString(bare))
}
