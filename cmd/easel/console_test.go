package main

import (
	"bytes"
	"strings"
	"testing"
	"time"
)

// onTerminal is a console whose streams pretend to be one terminal.
func onTerminal(look style) (*console, *bytes.Buffer) {
	var screen bytes.Buffer
	return &console{out: &screen, err: &screen, outStyle: look, errStyle: look, size: func() (int, int) { return 20, 5 }}, &screen
}

func TestALineGoesAboveTheLiveLine(t *testing.T) {
	c, screen := onTerminal(style{terminal: true})
	c.show("working")
	c.print("result")
	c.show("")
	if got, want := screen.String(), "working\r\x1b[Kresult\nworking\r\x1b[K"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestSeveralLiveLinesAreReplacedTogether(t *testing.T) {
	c, screen := onTerminal(style{terminal: true})
	c.showAll([]string{"one", "two", "three"})
	c.print("result")
	c.showAll(nil)
	if got, want := screen.String(), "one\ntwo\nthree\r\x1b[2A\x1b[Jresult\none\ntwo\nthree\r\x1b[2A\x1b[J"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestLinesThatANarrowerTerminalHasWrappedAreTakenAwayWhole(t *testing.T) {
	c, screen := onTerminal(style{terminal: true, colour: true})
	c.showAll([]string{c.errStyle.paint(green, "fifteen letters"), "five!"})
	c.size = func() (int, int) { return 5, 5 }
	c.show("")
	if got := screen.String(); !strings.HasSuffix(got, "\r\x1b[3A\x1b[J") {
		t.Errorf("got %q", got)
	}
}

func TestOfMoreLinesThanFitTheLastAreShown(t *testing.T) {
	c, screen := onTerminal(style{terminal: true})
	c.showAll([]string{"1", "2", "3", "4", "5", "6"})
	if got := screen.String(); got != "3\n4\n5\n6" {
		t.Errorf("got %q", got)
	}
}

func TestALiveLineNeverWraps(t *testing.T) {
	c, screen := onTerminal(style{terminal: true, colour: true})
	c.show(c.errStyle.paint(green, "grün "+strings.Repeat("é", 50)))
	if got, want := screen.String(), "\x1b[32mgrün "+strings.Repeat("é", 14)+"\x1b[0m"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestWithoutATerminalThereIsNoLiveLine(t *testing.T) {
	c, screen := onTerminal(style{})
	c.show("working")
	c.print("result")
	if got := screen.String(); got != "result\n" {
		t.Errorf("got %q", got)
	}
}

func TestColourAndUnicodeNeedATerminalThatHasThem(t *testing.T) {
	var pipe bytes.Buffer
	full := map[string]string{"LANG": "de_DE.UTF-8"}
	look := styleOf(&program{lookup: func(n string) (string, bool) { v, ok := full[n]; return v, ok }}, &pipe)
	if look != (style{}) {
		t.Errorf("a pipe gets %+v", look)
	}
	if got := look.paint(red, "x") + look.spinner(1) + look.bar(0.5, 4); got != "x/##.." {
		t.Errorf("plain output is %q", got)
	}
	rich := style{colour: true, unicode: true}
	if got := rich.shown(rich.paint(red, "x")); got != "\x1b[31mx\x1b[0m" {
		t.Errorf("colour is %q", got)
	}
}

func TestTheProgressLineSaysHowFarAndHowFast(t *testing.T) {
	var p progress
	p.arrived.Store(2_000_000)
	p.begun.Store(1_000_000)
	p.total.Store(4_000_000)
	if got, want := p.line(style{}, 24, time.Second), "##################...... 3.0 MB of 4.0 MB  2.0 MB/s"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	p.total.Store(0)
	if got, want := (&progress{}).line(style{}, 24, 3*time.Second), "waiting for the first byte  3.0s"; got != want {
		t.Errorf("before anything has come: %q, want %q", got, want)
	}
	if got, want := p.line(style{}, 24, 0), "downloading 3.0 MB"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
