package terminal

import (
	"bytes"
	"strings"
	"testing"
)

// onTerminal returns a console whose two streams are one simulated terminal.
func onTerminal(look Style) (*Console, *bytes.Buffer) {
	var screen bytes.Buffer
	return &Console{out: &screen, err: &screen, OutStyle: look, ErrStyle: look, Columns: func() int { return 20 }}, &screen
}

func TestALineGoesAboveTheLiveLine(t *testing.T) {
	c, screen := onTerminal(Style{Terminal: true})
	c.ShowLive("working")
	c.Print("result")
	c.ShowLive("")
	if got, want := screen.String(), "working\r\x1b[Jresult\nworking\r\x1b[J"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestALineThatANarrowerTerminalHasWrappedIsTakenAwayWhole(t *testing.T) {
	c, screen := onTerminal(Style{Terminal: true, Colour: true})
	c.ShowLive(c.ErrStyle.Paint(Green, "fifteen letters"))
	c.Columns = func() int { return 5 }
	c.ShowLive("")
	if got := screen.String(); !strings.HasSuffix(got, "\r\x1b[2A\x1b[J") {
		t.Errorf("got %q", got)
	}
}

func TestALiveLineNeverWraps(t *testing.T) {
	c, screen := onTerminal(Style{Terminal: true, Colour: true})
	c.ShowLive(c.ErrStyle.Paint(Green, "grün "+strings.Repeat("é", 50)))
	if got, want := screen.String(), "grün "+strings.Repeat("é", 14); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestWithoutATerminalThereIsNoLiveLine(t *testing.T) {
	c, screen := onTerminal(Style{})
	c.ShowLive("working")
	c.Print("result")
	if got := screen.String(); got != "result\n" {
		t.Errorf("got %q", got)
	}
}

func TestColourAndUnicodeNeedATerminalThatHasThem(t *testing.T) {
	var pipe bytes.Buffer
	full := map[string]string{"LANG": "de_DE.UTF-8"}
	look := StyleOf(&pipe, func(name string) string { return full[name] })
	if look != (Style{}) {
		t.Errorf("a pipe gets %+v", look)
	}
	if got := look.Paint(Red, "x") + look.Spinner(1) + look.Bar(0.5, 4); got != "x/##.." {
		t.Errorf("plain output is %q", got)
	}
	rich := Style{Colour: true, Unicode: true}
	if got := colourCodes.Replace(rich.visible(rich.Paint(Red, "x"))); got != "\x1b[31mx\x1b[0m" {
		t.Errorf("colour is %q", got)
	}
}

func TestWideCharactersTakeTwoColumns(t *testing.T) {
	for line, want := range map[string]int{"": 0, "sea": 3, "日本語": 6, "é": 1, "e\u0301": 1, "👩‍🎨": 2, Red + "sea" + uncoloured: 3} {
		if got := Width(line); got != want {
			t.Errorf("%q takes %d columns, and not %d", line, got, want)
		}
	}
	if got := Cut(Red+"日本語"+uncoloured, 5); got != "日本" {
		t.Errorf("cut to five columns it is %q", got)
	}
}

func TestATableSaysWhichColumnsATerminalHasNoRoomFor(t *testing.T) {
	heads := []string{"ORDER", "STATE", "COST", "PROBLEM"}
	rows := func() [][]Cell { return [][]Cell{Cells("ord_1", "unknown", "", "the catalog did not answer")} }
	for name, test := range map[string]struct {
		look  Style
		width int
		want  string
	}{
		"a pipe":   {Style{}, 20, "ORDER  STATE    PROBLEM\nord_1  unknown  the catalog did not answer\n"},
		"wide":     {Style{Terminal: true}, 60, "ORDER  STATE    PROBLEM\nord_1  unknown  the catalog did not answer\n"},
		"narrower": {Style{Terminal: true}, 30, "ORDER  STATE    PROBLEM\nord_1  unknown  the catalog ~\n"},
		"narrow": {
			Style{Terminal: true},
			20,
			"ORDER  STATE\nord_1  unknown\nThis terminal has\n    no room for\n    PROBLEM: -o\n    json and a pipe\n    (| less -S)\n    show all.\n",
		},
	} {
		console, screen := onTerminal(test.look)
		console.Columns = func() int { return test.width }
		console.Table(heads, rows())
		if got := screen.String(); got != test.want {
			t.Errorf("%s: printed\n%s", name, got)
		}
	}
}
