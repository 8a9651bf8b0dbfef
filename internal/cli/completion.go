package cli

import (
	_ "embed" // completion scripts
	"fmt"
	"io"
	"strings"

	"github.com/alecthomas/kong"
)

type completionCmd struct {
	Shell string `arg:"" enum:"bash,zsh,fish" help:"bash, zsh or fish."`
}

// completionScripts contains a script for each shell, after a line with the shell's name. All scripts call the same sh
// function, which is at the beginning.
//
//go:embed completion.txt
var completionScripts string

// Run prints a completion script.
func (c *completionCmd) Run(p *Program, app *kong.Application) error {
	paths, cases := completions(app.Node, "")
	_, script, _ := strings.Cut(completionScripts, "### "+c.Shell+"\n")
	script, _, _ = strings.Cut(script, "### ")
	common, _, _ := strings.Cut(completionScripts, "### ")
	common = strings.NewReplacer("@PATHS@", strings.Join(paths, "|"), "@CASES@", cases).Replace(common)
	_, err := io.WriteString(p.Stdout, strings.Replace(script, "@WORDS@", common, 1))
	return err
}

// completions returns shell patterns for a command and its subcommands, and shell cases with the words that may follow.
// No word follows a flag whose values are not listed, so that the shell completes file names.
func completions(node *kong.Node, at string) (paths []string, cases string) {
	var flags, commands []string
	for _, flag := range node.Flags {
		flags = append(flags, "--"+flag.Name)
		if pattern := fmt.Sprintf("%q", at+" --"+flag.Name); !flag.IsBool() {
			if flag.Short != 0 {
				pattern += fmt.Sprintf("|%q", at+" -"+string(flag.Short))
			}
			cases += fmt.Sprintf("    %s) echo %q;;\n", pattern, strings.Join(namedValues(flag.Value), " "))
		}
	}
	for _, child := range node.Children {
		if child.Hidden {
			continue
		}
		commands = append(commands, child.Name)
		below, more := completions(child, strings.TrimSpace(at+" "+child.Name))
		paths, cases = append(append(paths, fmt.Sprintf("%q", at+" "+child.Name)), below...), cases+more
	}
	return paths, cases + fmt.Sprintf("    %q*) case $1 in -*) echo %q;; *) echo %q;; esac;;\n", at+" ", strings.Join(flags, " "), strings.Join(commands, " "))
}
