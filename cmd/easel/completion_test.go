package main

import (
	"os/exec"
	"path/filepath"
	"testing"
)

func TestBashScriptCompletesCommandLine(t *testing.T) {
	t.Parallel()
	bin := t.TempDir()
	linkProgram(t, filepath.Join(bin, "easel"))
	script := `set -eu
eval "$(easel completion bash)"
complete -p easel > /dev/null
words() { COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMPREPLY=(); _easel || true; (IFS=" "; echo "${COMPREPLY[*]-}"); }
words easel acc
words easel do
words easel s
words easel generate --inputs
words easel list -o ""
words easel list -q --quiet --out
words easel --addr x:1 list --lim
words easel list --addr = x:1 --lim
words easel watch --until s
words easel callers to
words easel download --out ""
words easel list --limit ""
words easel list -o json --no-such-fl
`
	command := exec.CommandContext(t.Context(), "bash", "--norc", "-c", script)
	command.Env = []string{asProgram, "PATH=" + bin + ":/usr/bin:/bin"}
	out, err := command.CombinedOutput()
	want := "account\ndoctor download\nsandbox serve\n--inputs-json\ntable json\n--output\n--limit\n--limit\nsettled\ntoken\n\n\n\n"
	if err != nil || string(out) != want {
		t.Errorf("got %q, %v; want %q", out, err, want)
	}
}
