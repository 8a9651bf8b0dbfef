package cli

import (
	"os/exec"
	"strings"
	"testing"
)

func TestWhatMayComeNextIsSuggested(t *testing.T) {
	for words, want := range map[string]string{
		"gen":                       "generate",
		"do":                        "download",
		"generate --inputs":         "--inputs-json",
		"list -o ":                  "table json",
		"list -q --quiet --out":     "--output",
		"--addr x:1 list --lim":     "--limit",
		"watch --until s":           "settled",
		"download --out ":           "",
		"list --limit ":             "",
		"get ":                      "",
		"list -o json --no-such-fl": "",
		"complete-w":                "",
	} {
		var list []string
		for _, line := range linesOf(easelRun(t.Context(), nil, append([]string{completionCommand}, strings.Split(words, " ")...)...).stdout) {
			word, _, _ := strings.Cut(line, "\t")
			list = append(list, word)
		}
		if strings.Join(list, " ") != want {
			t.Errorf("%q: got %q, want %q", words, list, want)
		}
	}
	if all := linesOf(easelRun(t.Context(), nil, completionCommand).stdout); len(all) < 14 {
		t.Errorf("with nothing typed: %q", all)
	}
}

func TestFlagsMayStandBeforeTheirCommand(t *testing.T) {
	got := easelRun(t.Context(), nil, "--addr", "127.0.0.1:1", "-o", "json", "account")
	if got.exit != ExitRetry || !strings.HasPrefix(got.stderr, `{"error"`) || !strings.Contains(got.stderr, "127.0.0.1:1") {
		t.Errorf("exit %d\n%s", got.exit, got.stderr)
	}
}

func TestAFlagBeforeTheCommandKeepsItsValue(t *testing.T) {
	for line, want := range map[string]string{
		"--addr models account":       `"models"`,
		"--addr=models account":       `"models"`,
		"-q --addr models account":    `"models"`,
		"--addr account":              "there is no command in easel --addr account",
		"--addr":                      "there is no command",
		"models --addr":               "--addr needs a value",
		"list --limit":                "--limit needs a value",
		"--addr --output json models": `--addr: expected string value but got "--output"`,
		"models --addr --output json": `--addr: expected string value but got "--output"`,
	} {
		got := easelRun(t.Context(), nil, strings.Fields(line)...)
		if got.exit != ExitUsage || !strings.Contains(got.stderr, want) {
			t.Errorf("easel %s: exit %d\n%s", line, got.exit, got.stderr)
		}
	}
}

func TestTheOtherShellsHaveScriptsToo(t *testing.T) {
	for _, shell := range []string{"zsh", "fish"} {
		got := easelRun(t.Context(), nil, "completion", shell)
		if got.exit != ExitOK || !strings.Contains(got.stdout, completionCommand) {
			t.Fatalf("%s: exit %d\n%s", shell, got.exit, got.stdout)
		}
		path, err := exec.LookPath(shell)
		if err != nil {
			t.Logf("there is no %s on this machine, so that its script is only printed", shell)
			continue
		}
		if out, err := exec.CommandContext(t.Context(), path, "-n", write(t, got.stdout)).CombinedOutput(); err != nil { //nolint:gosec // a shell
			t.Errorf("%s does not read its script: %v\n%s", shell, err, out)
		}
	}
	if got := easelRun(t.Context(), nil, "completion", "cmd"); got.exit != ExitUsage {
		t.Errorf("another shell: exit %d", got.exit)
	}
}
