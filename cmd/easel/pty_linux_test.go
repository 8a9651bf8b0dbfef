package main

import (
	"context"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/easel-grpc/easel/internal/admin"
	"github.com/easel-grpc/easel/internal/cli"
	"github.com/easel-grpc/easel/internal/terminal"
	"github.com/easel-grpc/easel/internal/terminal/terminaltest"
)

// commandTerminal runs commands on a real terminal of the system.
type commandTerminal struct{ *terminaltest.Terminal }

func openTerminal(t *testing.T, width, height int) *commandTerminal {
	t.Helper()
	return &commandTerminal{terminaltest.Open(t, width, height)}
}

// run runs the command on the terminal, and sends its exit code when it has ended.
func (term *commandTerminal) run(ctx context.Context, env map[string]string, args ...string) <-chan int {
	exit := make(chan int, 1)
	go func() {
		exit <- cli.Run(ctx, args, &cli.Program{
			Grammar: grammar(), Build: thisBuild(),
			Stdin: strings.NewReader(""), Stdout: term.Child, Stderr: term.Child,
			Lookup: func(name string) (string, bool) { v, ok := env[name]; return v, ok },
		})
	}()
	return exit
}

// finished waits for the exit code and for the last output.
func (term *commandTerminal) finished(t *testing.T, exit <-chan int, last string) (int, string) {
	t.Helper()
	code := <-exit
	return code, term.Until(t, last, func(s string) bool { return strings.Contains(strings.ReplaceAll(s, "\n", ""), last) })
}

func TestATerminalThatBecomesNarrowerKeepsTheResults(t *testing.T) {
	t.Parallel()
	env := startDev(t, "--speed", "0.01") // the generation is still queued at the time of the interrupt
	term := openTerminal(t, 100, 30)
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	exit := term.run(ctx, env, "generate", "studio/landscape", "prompt=sea", "size=1600x1000", "--watch")
	term.Until(t, "live lines", func(s string) bool { return strings.Contains(s, "queued") })
	term.Resize(t, 30, 30)
	interrupt()
	code, last := term.finished(t, exit, "paid.")
	if code != exitInterrupted || !strings.Contains(last, "idempotency key") {
		t.Errorf("exit %d, and what is left is\n%s", code, last)
	}
}

func TestColourAndSignsFollowTheTerminal(t *testing.T) {
	t.Parallel()
	env := startDev(t)
	for _, test := range []struct {
		name            string
		env             map[string]string
		colour, unicode bool
		live            bool
	}{
		{"a usual terminal", map[string]string{"LANG": "C.UTF-8", "TERM": "xterm"}, true, true, true},
		{"no colour", map[string]string{"LANG": "C.UTF-8", "NO_COLOR": "1"}, false, true, true},
		{"no Unicode", map[string]string{"LANG": "C"}, true, false, true},
		{"a locale that is overruled", map[string]string{"LANG": "C.UTF-8", "LC_ALL": "C"}, true, false, true},
		{"a dumb terminal", map[string]string{"LANG": "C.UTF-8", "TERM": "dumb"}, false, false, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			all := map[string]string{"EASEL_ADDR": env["EASEL_ADDR"], "EASEL_API_KEY": env["EASEL_API_KEY"]}
			for name, value := range test.env {
				all[name] = value
			}
			term := openTerminal(t, 80, 24)
			path := filepath.Join(t.TempDir(), "sea.png")
			code, _ := term.finished(t, term.run(t.Context(), all, "generate", "studio/landscape", "prompt=sea", "size=640x400", "--out", path), "written to")
			got := term.Written()
			colour, live := strings.Contains(got, "\x1b[3"), strings.Contains(got, "\x1b[J")
			unicode := strings.ContainsAny(got, "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏━─")
			if code != exitOK || colour != test.colour || unicode != test.unicode || live != test.live {
				t.Errorf("exit %d, colour %v, Unicode %v, live lines %v in\n%q", code, colour, unicode, live, got)
			}
		})
	}
}

func TestAnErrorInTheMiddleStandsAloneOnATerminal(t *testing.T) {
	t.Parallel()
	env := startDev(t)
	term := openTerminal(t, 60, 24)
	code, last := term.finished(t, term.run(t.Context(), env, "generate", "studio/haiku", "prompt=[fail]", "--watch"), "failed")
	if code != exitGenerationFailed {
		t.Errorf("exit %d", code)
	}
	for line := range strings.Lines(last) {
		if strings.Contains(line, "easel: ") && !strings.HasPrefix(line, "easel: ") {
			t.Errorf("the error does not begin a line: %q", line)
		}
	}
}

func TestOrdersKeepTheirKeyAndRenderOnANarrowTerminal(t *testing.T) {
	t.Parallel()
	term := openTerminal(t, 100, 24)
	console := (&cli.Program{Stdout: term.Child, Stderr: term.Child, Lookup: func(string) (string, bool) { return "", false }}).Console()
	one, cents := time.Date(2027, 1, 31, 12, 0, 0, 0, time.UTC), int64(11)
	orders := []admin.Order{
		{ID: "ord_PW6MQ77EPVLAQ2RH53K6RK576R", OrderTime: one, Owner: "studio", Caller: "poster-service", IdempotencyKey: "0f8fad5b-d9cb-469f-a165-70867728950e", ModelID: "studio/landscape", GenerationID: "gen_rjtegnw0qrg6ndetzp4j", State: "succeeded", CostCents: &cents, Claims: 1},
		{ID: "ord_AW6MQ77EPVLAQ2RH53K6RK576R", OrderTime: one, Owner: "studio", Caller: "poster-service", IdempotencyKey: strings.Repeat("k", 200), ModelID: "studio/landscape", State: "unknown", ReservedCents: 11, Claims: 1, Problem: "HTTP 503"},
	}
	var rows [][]terminal.Cell
	for _, o := range orders {
		rows = append(rows, terminal.Cells(orderRow(o)...))
	}
	if err := printTable(console, orderHeads, rows); err != nil {
		t.Fatal(err)
	}
	screen := term.Until(t, "rows", func(s string) bool { return strings.Contains(s, "-o json") })
	for _, want := range []string{"KEY", "RENDER", "0f8fad5b-d9cb-469f-a165-70867728950e", "gen_rjtegnw0qrg6ndetzp4j", "kkkkkkkk", "succeeded", "unknown"} {
		if !strings.Contains(screen, want) {
			t.Errorf("%s is not on\n%s", want, screen)
		}
	}
}
