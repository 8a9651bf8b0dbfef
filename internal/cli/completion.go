package cli

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/terminal"
)

type completionCmd struct {
	Shell string `arg:"" enum:"bash,zsh,fish" help:"bash, zsh or fish."`
}

// Help says where the script goes.
func (*completionCmd) Help() string {
	return `Prints a script that makes the shell complete commands, flags, their values, models, inputs and renders. The last three are asked from the server, which gets a second to answer.

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
  if [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == *= ]]; then
    compopt -o nospace 2>/dev/null || true # only a shell that completes has it
  fi
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
  if (( $#values == 1 )) && [[ $values[1] == *= ]]; then
    compadd -S '' -a values
  elif (( $#values )); then
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

// suggestion is a word that may come next, and what it means.
type suggestion struct{ word, about string }

// partialLine is a command line that is not finished.
type partialLine struct {
	node            *kong.Node
	flag            *kong.Flag // whose value comes next, nil where none does
	words           []string   // those that are neither commands nor flags
	connectionFlags []string   // the flags of the connection, with their values
}

// complete prints the words that may come next, each with what it means after a tab. What
// has begun is the last word; a shell that takes words apart at = is understood. Where it
// prints nothing, the shell offers files.
func (p *Program) complete(ctx context.Context, app *kong.Application, words []string) error {
	words, split := joinAssignments(words)
	if len(words) == 0 {
		words = []string{""}
	}
	begun := words[len(words)-1]
	line := readTyped(app, words[:len(words)-1])
	prefix := ""
	if name, value, found := strings.Cut(begun, "="); found && line.flag == nil && strings.HasPrefix(name, "--") {
		line.flag, prefix, begun = flagNamed(line.node, name[2:]), name+"=", value
	}
	var out strings.Builder
	for _, s := range p.suggestions(ctx, line, begun) {
		if strings.HasPrefix(s.word, begun) {
			word := prefix + s.word
			if split {
				_, word, _ = strings.Cut(word, "=")
			}
			out.WriteString(strings.TrimSuffix(terminal.OneLine(word)+"\t"+terminal.OneLine(s.about), "\t") + "\n")
		}
	}
	_, err := io.WriteString(p.Stdout, terminal.Sanitize(out.String()))
	return err
}

// joinAssignments puts words together that a shell has taken apart at =, and reports
// whether the last one was.
func joinAssignments(words []string) (joined []string, split bool) {
	for i := 0; i < len(words); i++ {
		split = false
		if words[i] == "=" && len(joined) > 0 {
			joined[len(joined)-1] += "="
			if i++; i < len(words) {
				joined[len(joined)-1] += words[i]
			}
			split = true
			continue
		}
		joined = append(joined, words[i])
	}
	return joined, split
}

// readTyped goes through finished words.
func readTyped(app *kong.Application, words []string) partialLine {
	line := partialLine{node: app.Node}
	for _, word := range words {
		switch {
		case line.flag != nil:
			line.note(line.flag, word)
			line.flag = nil
		case strings.HasPrefix(word, "-") && len(word) > 1:
			name, value, given := strings.Cut(strings.TrimLeft(word, "-"), "=")
			flag := flagNamed(line.node, name)
			switch {
			case flag == nil:
			case given || flag.IsBool():
				line.note(flag, value)
			default:
				line.flag = flag
			}
		case childNamed(line.node, word) != nil && len(line.words) == 0:
			line.node = childNamed(line.node, word)
		default:
			line.words = append(line.words, word)
		}
	}
	return line
}

// note keeps a flag of the connection.
func (t *partialLine) note(flag *kong.Flag, value string) {
	switch {
	case flag.Group == nil || flag.Group.Key != "connection" || flag.Name == "timeout":
	case flag.IsBool():
		t.connectionFlags = append(t.connectionFlags, "--"+flag.Name)
	default:
		t.connectionFlags = append(t.connectionFlags, "--"+flag.Name, value)
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

// suggestions are the words that fit, whatever has begun.
func (p *Program) suggestions(ctx context.Context, line partialLine, begun string) (list []suggestion) {
	switch {
	case line.flag != nil:
		return p.valuesOf(line.flag)
	case strings.HasPrefix(begun, "-"):
		for _, flag := range slices.Concat(line.node.AllFlags(true)...) {
			list = append(list, suggestion{"--" + flag.Name, firstSentence(flag.Help)})
		}
		return list
	case len(line.node.Children) > 0 && len(line.words) > 0:
		return nil // no command that there is
	case len(line.node.Children) > 0:
		for _, child := range line.node.Children {
			if !child.Hidden {
				list = append(list, suggestion{child.Name, firstSentence(child.Help)})
			}
		}
		return list
	}
	return p.arguments(ctx, line, begun)
}

// valuesOf are the values that a flag takes, none where there is no list of them.
func (p *Program) valuesOf(flag *kong.Flag) (list []suggestion) {
	values := flag.EnumSlice()
	switch {
	case flag.Name == "profile":
		all, _ := readProfiles(p.profileFile())
		values = slices.Sorted(maps.Keys(all.Profiles))
	case flag.Enum == "":
		values = p.Grammar.Values[flag.Name]
	}
	for _, value := range values {
		if value != "" {
			list = append(list, suggestion{word: value})
		}
	}
	return list
}

// arguments are what a server knows: models, inputs and generations. Without an answer within
// a moment there are none. The values of an input are shown once its name is there.
func (p *Program) arguments(ctx context.Context, line partialLine, begun string) (list []suggestion) {
	arguments := line.node.Positional
	if len(arguments) == 0 {
		return nil
	}
	at := arguments[min(len(line.words), len(arguments)-1)]
	var words []string
	switch at.Name {
	case "shell":
		words = at.EnumSlice()
	case "model":
		words = p.asked(ctx, line, "models")
	case "id":
		words = p.asked(ctx, line, "list")
	case "key=value":
		if len(line.words) > 0 {
			words = slices.DeleteFunc(p.asked(ctx, line, "inputs-of", line.words[0]), func(word string) bool {
				word, _, _ = strings.Cut(word, "\t")
				return strings.Contains(begun, "=") == strings.HasSuffix(word, "=")
			})
		}
	}
	for _, word := range words {
		word, about, _ := strings.Cut(word, "\t")
		list = append(list, suggestion{word, about})
	}
	return list
}

// asked gives the lines of a question to the server.
func (p *Program) asked(ctx context.Context, line partialLine, words ...string) []string {
	var answer bytes.Buffer
	quiet := *p
	quiet.Stdout, quiet.Stderr = &answer, io.Discard
	words = append(append(words, "--quiet", "--timeout", "1s"), line.connectionFlags...)
	if Run(ctx, words, &quiet) != ExitOK {
		return nil
	}
	return strings.Split(strings.TrimSpace(answer.String()), "\n")
}

func firstSentence(help string) string {
	first, _, _ := strings.Cut(help, ". ")
	return strings.TrimSuffix(first, ".")
}

type inputsOfCmd struct {
	callFlags
	Model string `arg:"" help:"The model."`
}

// Run prints the inputs of a model as they begin on a command line, and with each value that
// can be listed and needs no quotes.
func (c *inputsOfCmd) Run(ctx context.Context, p *Program) error {
	return c.call(ctx, p, questionLimit, func(ctx context.Context, s *session) error {
		model, err := inputFlags{Model: c.Model}.model(ctx, s)
		if err != nil {
			return err
		}
		for _, f := range model.InputFields {
			s.Print(fmt.Sprintf("%s=\t%s", terminal.OneLine(f.Name), strings.TrimPrefix(inputWord(f)+" "+allowedText(f), " ")))
			for _, value := range listedValues(f) {
				if value != "" && terminal.ShellQuote(value) == value {
					s.Print(terminal.OneLine(f.Name) + "=" + value)
				}
			}
		}
		return nil
	})
}

// listedValues are all the values that an input takes, none where they can't be listed.
func listedValues(f *easelv1.InputField) []string {
	if len(f.AllowedValues) == 0 && f.Type == easelv1.InputFieldType_INPUT_FIELD_TYPE_BOOLEAN {
		return []string{"false", "true"}
	}
	return allowedWords(f)
}
