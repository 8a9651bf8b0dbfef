package cli

import (
	"embed"
	"io"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/easel-grpc/easel/internal/terminal"
)

type completionCmd struct {
	Shell string `arg:"" enum:"bash,zsh,fish" help:"bash, zsh or fish."`
}

// completionScripts hand the words over and take the suggestions as they are. Without any, the shell offers files.
//
//go:embed completion
var completionScripts embed.FS

// Run prints the script.
func (c *completionCmd) Run(p *Program) error {
	script, err := completionScripts.ReadFile("completion/easel." + c.Shell)
	if err != nil {
		return err
	}
	_, err = p.Stdout.Write(script)
	return err
}

// completionCommand is the command that the scripts of easel completion call. It is not in the
// help, as nobody else has a use for it.
const completionCommand = "complete-words"

// complete prints the words that may come next, each with what it means after a tab: the values of a flag, or commands, or
// flags. What has begun is the last word. Where it prints nothing, the shell offers files.
func (p *Program) complete(app *kong.Application, words []string) error {
	node, open, begun := app.Node, (*kong.Flag)(nil), "" // the flag whose value comes next
	for i, word := range words {
		switch flag, child := flagNamed(node, strings.TrimLeft(word, "-")), childNamed(node, word); {
		case i == len(words)-1:
			begun = word
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
	var out strings.Builder
	for _, line := range suggestions(node, open) {
		if strings.HasPrefix(line, begun) && (begun != "" || line[0] != '-') {
			out.WriteString(line + "\n")
		}
	}
	_, err := io.WriteString(p.Stdout, terminal.Sanitize(out.String()))
	return err
}

// suggestions are what may follow a command, or a flag that waits for its value.
func suggestions(node *kong.Node, open *kong.Flag) (lines []string) {
	if open != nil && open.Enum == "" {
		return nil
	}
	if open != nil {
		return slices.DeleteFunc(open.EnumSlice(), func(value string) bool { return value == "" })
	}
	for _, child := range node.Children {
		if !child.Hidden {
			lines = append(lines, child.Name+"\t"+firstSentence(child.Help))
		}
	}
	for _, flag := range slices.Concat(node.AllFlags(true)...) {
		lines = append(lines, "--"+flag.Name+"\t"+firstSentence(flag.Help))
	}
	return lines
}

func flagNamed(node *kong.Node, name string) *kong.Flag {
	for _, flag := range slices.Concat(node.AllFlags(true)...) {
		if flag.Name == name || flag.Short != 0 && string(flag.Short) == name {
			return flag
		}
	}
	return nil
}

// childNamed is the command of a name below another, nil where there is none.
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
