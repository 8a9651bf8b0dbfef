package cli

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/easel-grpc/easel/internal/proctest"
)

func TestFlagsMayPrecedeCommand(t *testing.T) {
	got := easelRun(t.Context(), nil, "--addr", "127.0.0.1:1", "-o", "json", "account")
	if got.exit != ExitRetry || !strings.HasPrefix(got.stderr, `{"error"`) || !strings.Contains(got.stderr, "127.0.0.1:1") {
		t.Errorf("exit %d\n%s", got.exit, got.stderr)
	}
}

func TestUsageErrorContainsInvalidArgument(t *testing.T) {
	for line, want := range map[string]string{
		"--addr models account":       `"models"`,
		"--addr=models account":       `"models"`,
		"-q --addr models account":    `"models"`,
		"--addr account":              "there is no command with these flags: easel --addr account",
		"--addr":                      "there is no command with these flags: easel --addr",
		"models --addr":               "--addr needs a value",
		"frobnicate":                  "easel: unexpected argument frobnicate\n",
		"modles":                      `unexpected argument modles, did you mean one of "models", "model"?`,
		"models frobnicate":           "unexpected argument frobnicate",
		"list --limit":                "--limit needs a value",
		"--addr --output json models": "there is no command with these flags: easel --addr --output json models",
		"models --addr --output json": `--addr: expected string value but got "--output"`,
	} {
		got := easelRun(t.Context(), nil, strings.Fields(line)...)
		if got.exit != ExitUsage || !strings.Contains(got.stderr, want) {
			t.Errorf("easel %s: exit %d\n%s", line, got.exit, got.stderr)
		}
	}
}

func TestZshAndFishHaveCompletionScripts(t *testing.T) {
	for _, shell := range []string{"zsh", "fish"} {
		got := easelRun(t.Context(), nil, "completion", shell)
		if got.exit != ExitOK || !strings.Contains(got.stdout, "--inputs-json") || strings.Contains(got.stdout, "@PATHS@") || strings.Contains(got.stdout, "@CASES@") {
			t.Fatalf("%s: exit %d\n%s", shell, got.exit, got.stdout)
		}
		path, err := exec.LookPath(shell)
		if err != nil {
			t.Logf("%s is not installed, so its script is NOT checked", shell)
			continue
		}
		if out, err := exec.CommandContext(t.Context(), path, "-n", proctest.File(t, got.stdout)).CombinedOutput(); err != nil { //nolint:gosec // path is zsh or fish; with -n, the shell only checks the syntax
			t.Errorf("%s can't parse its script: %v\n%s", shell, err, out)
		}
	}
	if got := easelRun(t.Context(), nil, "completion", "cmd"); got.exit != ExitUsage {
		t.Errorf("unsupported shell: exit %d", got.exit)
	}
}
