package systemtest

import (
	"encoding/xml"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/easel-grpc/easel/internal/proctest"
)

// recorded lists the commands in the recorded terminal session.
var recorded = []string{
	`easel generate studio/landscape prompt="a calm sea at dusk" --max-cost 0.50 --out sea.png`,
	`easel list`,
	`easel usage --by model`,
}

// recordedColumns is the width of the terminal in characters.
const recordedColumns = 100

// TestCommandLineRecordingIsWritten runs commands in a terminal, and draws the final content of the terminal to
// terminal.svg. It writes this file to the directory that EASEL_SCREENSHOTS names. 'make screenshots' sets
// this variable.
func TestCommandLineRecordingIsWritten(t *testing.T) {
	directory := os.Getenv("EASEL_SCREENSHOTS")
	if directory == "" {
		t.Skip("EASEL_SCREENSHOTS is not set")
	}
	script, dev, work := tool(t, "script"), proctest.StartDev(t, "--speed", "3"), t.TempDir()
	if err := os.Symlink(proctest.Easel(t), filepath.Join(work, "easel")); err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, line := range recorded {
		// The script command must be from util-linux, because other versions lack these options.
		command := exec.CommandContext(t.Context(), script, "-qec", fmt.Sprintf("stty cols %d; ./%s", recordedColumns, line), os.DevNull)
		command.Dir = work
		command.Env = append(proctest.Environ(callerOf(dev)), "TERM=xterm")
		lines = append(lines, "\x1b[32m$\x1b[0m \x1b[1m"+line+"\x1b[0m")
		lines = append(lines, append(visibleLines(proctest.Run(t, command)), "")...)
	}
	proctest.Write(t, filepath.Join(directory, "terminal.svg"), terminalSVG(lines))
}

// visibleLines returns the lines that remain visible on a terminal. It omits progress lines, which the program erases.
func visibleLines(output string) (lines []string) {
	for line := range strings.SplitSeq(strings.TrimRight(strings.ReplaceAll(output, "\r\n", "\n"), "\n"), "\n") {
		parts := strings.Split(line, "\x1b[J") // this escape sequence erases a progress line
		lines = append(lines, parts[len(parts)-1])
	}
	return lines
}

// terminalColors maps color codes of the terminal to colors in the SVG document.
var terminalColors = map[string]string{
	"1": "#f0ede6", "2": "#8d8a83", "31": "#f18a80", "32": "#7fd1a8", "33": "#dcb160", "34": "#8ab4f0", "35": "#c39ae0", "36": "#71c4d0",
}

var colored = regexp.MustCompile(`\x1b\[(\d+)m([^\x1b]*)\x1b\[0m|[^\x1b]+`)

// terminalSVG returns an SVG picture of a terminal with the given lines.
func terminalSVG(lines []string) string {
	const character, line, margin = 8.43, 20, 24 // in pixels: width of a character in a font of size 14, height of a line, and margin
	width, height := recordedColumns*character+2*margin, len(lines)*line+2*margin-line
	var svg strings.Builder
	fmt.Fprintf(&svg, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %.0f %d" width="%.0f" height="%d" font-family="ui-monospace, Menlo, Consolas, 'DejaVu Sans Mono', monospace" font-size="14">`, width, height, width, height)
	fmt.Fprintf(&svg, "\n  <title>The command line of Easel</title>\n  <desc>A terminal with the commands %s</desc>\n", escapedXML(strings.Join(recorded, ", ")))
	fmt.Fprintf(&svg, "  <rect width=\"%.0f\" height=\"%d\" rx=\"12\" fill=\"#1b1b1a\"/>\n  <g fill=\"#d8d5ce\">\n", width, height)
	for n, text := range lines {
		if text == "" {
			continue
		}
		fmt.Fprintf(&svg, `    <text x="%d" y="%d" xml:space="preserve">`, margin, margin+n*line+14)
		for _, part := range colored.FindAllStringSubmatch(text, -1) {
			if part[1] == "" {
				svg.WriteString(escapedXML(part[0]))
			} else {
				fmt.Fprintf(&svg, `<tspan fill="%s">%s</tspan>`, terminalColors[part[1]], escapedXML(part[2]))
			}
		}
		svg.WriteString("</text>\n")
	}
	svg.WriteString("  </g>\n</svg>\n")
	return svg.String()
}

func escapedXML(text string) string {
	var out strings.Builder
	_ = xml.EscapeText(&out, []byte(text)) // a strings.Builder never returns an error
	return out.String()
}
