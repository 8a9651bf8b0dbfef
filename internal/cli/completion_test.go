package cli

import (
	"context"
	"os/exec"
	"slices"
	"strings"
	"testing"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
)

// suggested gives the words that may come next.
func suggested(ctx context.Context, dial Dialer, env map[string]string, words ...string) (list []string) {
	for _, line := range linesOf(easelEnv(ctx, dial, env, append([]string{completionCommand}, words...)...).stdout) {
		word, _, _ := strings.Cut(line, "\t")
		list = append(list, word)
	}
	return list
}

func TestWhatMayComeNextIsSuggested(t *testing.T) {
	dial := (&scripted{
		model: func(*easelv1.GetModelRequest) (*easelv1.Model, error) { return described(), nil },
	}).serve(t)
	profiles := map[string]string{"EASEL_CONFIG_FILE": writeProfiles(t, twoProfiles)}
	for _, test := range []struct {
		words string // split at blanks; the last one has begun
		want  string
	}{
		{"gen", "generate"},
		{"do", "download"},
		{"generate --from", "--from-stdin"},
		{"list -o ", "table json"},
		{"list --output=j", "--output=json"},
		{"list --output = j", "json"},
		{"list --output = ", "table json"},
		{"list -q --quiet --out", "--output"},
		{"watch --until s", "settled"},
		{"completion ", "bash zsh fish"},
		{"account --profile ", "dev prod"},
		{"generate studio/any p", "prompt="},
		{"generate --max-cost 1.00 studio/any seed=7 wei", "weight="},
		{"generate studio/any seed = 7 wei", "weight="},
		{"generate studio/any draft=", "draft=false draft=true"},
		{"generate studio/any draft = ", "false true"},
		{"generate studio/any draft = t", "true"},
		{"generate studio/any draft =", "false true"},
		{"generate studio/any weight =", ""},
		{"download --out ", ""},
		{"list --limit ", ""},
		{"list -o json --no-such-fl", ""},
		{"no such command ", ""},
		{"complete-w", ""},
		{"inputs", ""},
	} {
		got := suggested(t.Context(), dial, profiles, strings.Split(test.words, " ")...)
		if strings.Join(got, " ") != test.want {
			t.Errorf("%q: got %q, want %q", test.words, got, test.want)
		}
	}
	if all := suggested(t.Context(), dial, nil); len(all) < 14 || slices.Contains(all, "inputs-of") {
		t.Errorf("with nothing typed: %q", all)
	}
}

func TestTheOtherShellsHaveScriptsToo(t *testing.T) {
	for _, shell := range []string{"zsh", "fish"} {
		got := easel(t.Context(), nil, "completion", shell)
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
	if got := easel(t.Context(), nil, "completion", "cmd"); got.exit != ExitUsage {
		t.Errorf("another shell: exit %d", got.exit)
	}
}
