package main

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func TestCommandsOfServersAreSuggested(t *testing.T) {
	for words, want := range map[string]string{"do": "doctor download", "s": "sandbox serve"} {
		got := easel(t.Context(), nil, append([]string{"complete-words"}, strings.Split(words, " ")...)...)
		var list []string
		for _, line := range linesOf(got.stdout) {
			word, _, _ := strings.Cut(line, "\t")
			list = append(list, word)
		}
		if strings.Join(list, " ") != want {
			t.Errorf("%q: got %q, want %q", words, list, want)
		}
	}
}

func TestBashCompletesByTheScript(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("bash"); err != nil {
		t.Skip("there is no bash on this machine")
	}
	bin := t.TempDir()
	linkProgram(t, filepath.Join(bin, "easel"))
	script := `set -eu
eval "$(easel completion bash)"
complete -p easel > /dev/null
words() { COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _easel; (IFS=" "; echo "${COMPREPLY[*]-}"); }
words easel acc
words easel list -o ""
words easel download --out ""
`
	command := exec.CommandContext(t.Context(), "bash", "--norc", "-c", script)
	command.Env = []string{asProgram, "PATH=" + bin + ":/usr/bin:/bin"}
	out, err := command.CombinedOutput()
	want := "account\ntable json\n\n"
	if err != nil || string(out) != want {
		t.Errorf("got %q, %v; want %q", out, err, want)
	}
}
