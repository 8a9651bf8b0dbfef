package terminal

import (
	"bytes"
	"strings"
	"testing"
)

// onTerminal returns a console with 20 columns and the given style. Its standard output and standard error share one
// simulated terminal, whose output is collected in the returned buffer.
func onTerminal(look Style) (*Console, *bytes.Buffer) {
	var screen bytes.Buffer
	return &Console{out: &screen, err: &screen, OutStyle: look, ErrStyle: look, Columns: func() int { return 20 }}, &screen
}

func TestPrintedLineReplacesProgressLine(t *testing.T) {
	c, screen := onTerminal(Style{Terminal: true})
	c.ShowLive("working")
	c.ShowLive("working")
	c.Print("result")
	c.ShowLive("more")
	c.ShowLive("")
	if got, want := screen.String(), "working\r\x1b[Jresult\nmore\r\x1b[J"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestProgressLineIsTruncatedToTerminalWidth(t *testing.T) {
	c, screen := onTerminal(Style{Terminal: true, Colour: true})
	c.ShowLive("日本語 " + strings.Repeat("é", 50))
	if got, want := screen.String(), "\x1b[2m日本語 "+strings.Repeat("é", 12)+"\x1b[0m"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestProgressLineIsHiddenWithoutTerminal(t *testing.T) {
	c, screen := onTerminal(Style{})
	c.ShowLive("working")
	c.Print("result")
	if got := screen.String(); got != "result\n" {
		t.Errorf("got %q", got)
	}
}

func TestColourNeedsATerminal(t *testing.T) {
	var pipe bytes.Buffer
	look := StyleOf(&pipe, func(string) string { return "" })
	if got := look.Paint(Red, "x"); look != (Style{}) || got != "x" {
		t.Errorf("for a pipe, got the style %+v and the text %q, want no style", look, got)
	}
	rich := Style{Colour: true}
	if got := colourCodes.Replace(rich.escape(rich.Paint(Red, "x"))); got != "\x1b[31mx\x1b[0m" {
		t.Errorf("the color is %q", got)
	}
}

func TestTablesOmitEmptyColumns(t *testing.T) {
	console, screen := onTerminal(Style{Terminal: true})
	console.Table([]string{"ORDER", "STATE", "COST", "PROBLEM"}, [][]Cell{
		Cells("日本語", "unknown", "", "the catalog did not answer"), Cells("ord_10", "placed", "", ""),
	})
	want := "ORDER   STATE    PROBLEM\n日本語  unknown  the catalog did not answer\nord_10  placed\n"
	if got := screen.String(); got != want {
		t.Errorf("printed\n%s", got)
	}
}
