package cli

import (
	_ "embed" // for the completion scripts
	"fmt"
	"io"
	"strings"

	"github.com/alecthomas/kong"
)

type completionCmd struct {
	Shell string `arg:"" enum:"bash,zsh,fish" help:"Shell to generate the script for: bash, zsh or fish."`
}

// completionScripts is the content of completion.txt: a shell function that every completion script includes,
// followed by one script for each shell. The line before each script consists of "### " and the name of the shell.
//
//go:embed completion.txt
var completionScripts string

// Run prints a completion script.
func (c *completionCmd) Run(p *Program, app *kong.Application) error {
	paths, cases := completionCode(app.Node, "")
	_, script, _ := strings.Cut(completionScripts, "### "+c.Shell+"\n")
	script, _, _ = strings.Cut(script, "### ")
	common, _, _ := strings.Cut(completionScripts, "### ")
	common = strings.NewReplacer("@PATHS@", strings.Join(paths, "|"), "@CASES@", cases).Replace(common)
	_, err := io.WriteString(p.Stdout, strings.Replace(script, "@WORDS@", common, 1))
	return err
}

// completionCode generates shell code for a command and its subcommands. commandPath is the command, such as
// "orders list", or empty for the program itself. The first result contains the subcommands, quoted for use as
// shell patterns. The second contains branches of a shell case statement. Each branch prints the words that can
// follow a command or a flag. For a flag without listed values, the branch prints no words, so that the shell
// completes file names.
func completionCode(node *kong.Node, commandPath string) (paths []string, cases string) {
	var flags, commands []string
	for _, flag := range node.Flags {
		flags = append(flags, "--"+flag.Name)
		if pattern := fmt.Sprintf("%q", commandPath+" --"+flag.Name); !flag.IsBool() {
			if flag.Short != 0 {
				pattern += fmt.Sprintf("|%q", commandPath+" -"+string(flag.Short))
			}
			cases += fmt.Sprintf("    %s) echo %q;;\n", pattern, strings.Join(namedValues(flag.Value), " "))
		}
	}
	for _, child := range node.Children {
		if child.Hidden {
			continue
		}
		commands = append(commands, child.Name)
		below, more := completionCode(child, strings.TrimSpace(commandPath+" "+child.Name))
		paths, cases = append(append(paths, fmt.Sprintf("%q", commandPath+" "+child.Name)), below...), cases+more
	}
	return paths, cases + fmt.Sprintf("    %q*) case $1 in -*) echo %q;; *) echo %q;; esac;;\n", commandPath+" ", strings.Join(flags, " "), strings.Join(commands, " "))
}
