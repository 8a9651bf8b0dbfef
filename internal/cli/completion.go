package cli

import (
	"io"
	"iter"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/easel-grpc/easel/internal/terminal"
)

type completionCmd struct {
	Shell string `arg:"" enum:"bash,zsh,fish" help:"bash, zsh or fish."`
}

// Help says where the script goes.
func (*completionCmd) Help() string {
	return `Prints a script that makes the shell complete commands, flags and their values.

Examples:

  source <(easel completion bash)                             # for this shell; in ~/.bashrc for all
  easel completion zsh > "${fpath[1]}/_easel"                 # then start a new shell
  easel completion fish > ~/.config/fish/completions/easel.fish
`
}

// Each script hands the words over and takes the suggestions as they are. Without any, the
// shell offers files.
var completionScripts = map[string]string{
	"bash": `# bash completion for easel
_easel() {
  local line
  COMPREPLY=()
  while IFS= read -r line; do
    COMPREPLY+=("${line%%$'\t'*}")
  done < <("${COMP_WORDS[0]}" COMPLETING "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
}
complete -o default -F _easel easel
`,
	"zsh": `#compdef easel
# zsh completion for easel
_easel() {
  local line
  local -a values shown
  for line in "${(@f)$("${words[1]}" COMPLETING "${(@)words[2,CURRENT]}" 2>/dev/null)}"; do
    [[ -n $line ]] || continue
    values+=("${line%%$'\t'*}")
    shown+=("${line/$'\t'/  -- }")
  done
  if (( $#values )); then
    compadd -l -d shown -a values
  else
    _files
  fi
}
if [[ $funcstack[1] == _easel ]]; then
  _easel
else
  compdef _easel easel
fi
`,
	"fish": `# fish completion for easel
function __easel_complete
    set -l words (commandline -opc)
    set -l begun (commandline -ct)
    set -l lines ($words[1] COMPLETING $words[2..-1] "$begun" 2>/dev/null)
    if test (count $lines) -gt 0
        printf '%s\n' $lines
    else
        __fish_complete_path "$begun"
    end
end
complete -c easel -f -a '(__easel_complete)'
`,
}

// Run prints the script.
func (c *completionCmd) Run(p *Program) error {
	_, err := io.WriteString(p.Stdout, strings.ReplaceAll(completionScripts[c.Shell], "COMPLETING", completionCommand))
	return err
}

// completionCommand is the command that the scripts of easel completion call. It is not in the
// help, as nobody else has a use for it.
const completionCommand = "complete-words"

// complete prints the words that may come next, each with what it means after a tab. What has begun is the last word.
// Where it prints nothing, the shell offers files.
func (p *Program) complete(app *kong.Application, words []string) error {
	if len(words) == 0 {
		words = []string{""}
	}
	var out strings.Builder
	begun := words[len(words)-1]
	for word, about := range suggestions(app.Node, words[:len(words)-1]) {
		if strings.HasPrefix(word, begun) && (begun != "" || word[0] != '-') {
			out.WriteString(strings.TrimSuffix(word+"\t"+about, "\t") + "\n")
		}
	}
	_, err := io.WriteString(p.Stdout, terminal.Sanitize(out.String()))
	return err
}

// suggestions are the words that may follow others, and what they mean: the values of a flag, or commands, or flags.
func suggestions(node *kong.Node, before []string) iter.Seq2[string, string] {
	return func(yield func(word, about string) bool) {
		var open *kong.Flag // whose value comes next
		for _, word := range before {
			switch flag, child := flagNamed(node, strings.TrimLeft(word, "-")), childNamed(node, word); {
			case open != nil:
				open = nil
			case strings.HasPrefix(word, "-"):
				if flag != nil && !flag.IsBool() {
					open = flag
				}
			case child != nil:
				node = child
			}
		}
		switch {
		case open != nil:
			for _, value := range open.EnumSlice() {
				if open.Enum != "" && value != "" && !yield(value, "") {
					return
				}
			}
			return
		case len(node.Children) > 0:
			for _, child := range node.Children {
				if !child.Hidden && !yield(child.Name, firstSentence(child.Help)) {
					return
				}
			}
		}
		for _, flag := range slices.Concat(node.AllFlags(true)...) {
			if !yield("--"+flag.Name, firstSentence(flag.Help)) {
				return
			}
		}
	}
}

func flagNamed(node *kong.Node, name string) *kong.Flag {
	for _, flag := range slices.Concat(node.AllFlags(true)...) {
		if flag.Name == name || flag.Short != 0 && string(flag.Short) == name {
			return flag
		}
	}
	return nil
}

func childNamed(node *kong.Node, name string) *kong.Node {
	for _, child := range node.Children {
		if child.Name == name && !child.Hidden {
			return child
		}
	}
	return nil
}

func firstSentence(help string) string {
	first, _, _ := strings.Cut(help, ". ")
	return strings.TrimSuffix(first, ".")
}
