package cli

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/terminal/terminaltest"
)

// ownCodes matches the terminal codes that the program itself prints: colors, and codes that erase a line to update it.
var ownCodes = regexp.MustCompile(`\x1b\[(?:0|1|2|31|32|33|36)m|\r\x1b\[J|\r\n`)

func TestAttackByServerResponseIsEscapedOnColorTerminal(t *testing.T) {
	if testing.Short() {
		t.Skip("takes long; .ci/nightly runs this test")
	}
	env := map[string]string{"LANG": "C.UTF-8"}
	for _, state := range []easelv1.State{easelv1.State_STATE_SUCCEEDED, easelv1.State_STATE_QUEUED} {
		dial := evilServer(state, false, codes.OK, "file.png").serve(t)
		term := openTerminal(t)
		for _, command := range evilCommands(t.TempDir()) {
			for _, form := range [][]string{{}, {"-q"}, {"-o", "json"}} {
				term.runCommand(t, env, dial, slices.Concat(command, form, []string{"--timeout", "200ms"})...)
			}
		}
		fmt.Fprintln(term.child, "the end")
		written := term.awaitText(t, "the end")
		if !strings.Contains(written, "\x1b[1m") || state == easelv1.State_STATE_QUEUED && !strings.Contains(written, "\x1b[J") {
			t.Errorf("the output has no colors or no live lines, which this test needs: %q", written)
		}
		if at := strings.Index(written, "\x1b[31me\x1b[0m"); at >= 0 {
			t.Errorf("text from the catalog is colored: %q", written[max(0, at-300):at+20])
		}
		terminaltest.WantHarmless(t, state.String(), ownCodes.ReplaceAllString(written, "\n"))
	}
}

func TestAttackByResultIsEscapedOnTerminalOnly(t *testing.T) {
	text := evilServer(easelv1.State_STATE_SUCCEEDED, true, codes.OK, "")
	text.download = func(*easelv1.DownloadGenerationRequest, downloadStream) error {
		return serverError(codes.FailedPrecondition, "NO_CONTENT")
	}
	evil := evilRender(easelv1.State_STATE_SUCCEEDED, true).GetText().Text
	file := newContent()
	file.bytes = []byte(evil)
	dialText, dialFile := text.serve(t), file.serve(t)
	for _, c := range []struct {
		name string
		dial dialer
		args []string
		raw  string
	}{
		{"download of a text", dialText, []string{"download", "gen_1", "--out", "-"}, evil + "\n"},
		{"generate a text", dialText, []string{"generate", "m", "--inputs-json", "{}", "--out", "-", "-q"}, evil + "\n"},
		{"download of a file", dialFile, []string{"download", "gen_1", "--out", "-"}, evil},
	} {
		for _, env := range []map[string]string{{}, {"TERM": "dumb"}} {
			term := openTerminal(t)
			exit := term.runCommand(t, env, c.dial, c.args...)
			fmt.Fprintln(term.child, "the end")
			written := ownCodes.ReplaceAllString(term.awaitText(t, "the end"), "\n")
			if exit != ExitOK || !strings.Contains(written, `evil\u001b[2J\u001b[31m`) {
				t.Errorf("%s, %v: exit %d, terminal output %q", c.name, env, exit, written)
			}
			terminaltest.WantHarmless(t, c.name, written)
		}
		if got := easelRun(t.Context(), c.dial, c.args...); got.exit != ExitOK || got.stdout != c.raw {
			t.Errorf("%s: exit %d, piped output %q\n%s", c.name, got.exit, got.stdout, got.stderr)
		}
	}
}
