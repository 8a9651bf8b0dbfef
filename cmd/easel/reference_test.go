package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"github.com/easel-grpc/easel/internal/cli"
	"github.com/easel-grpc/easel/internal/proctest"
)

var updatePages = flag.Bool("update", false, "write the generated parts of docs/settings.md and docs/command-line.md")

// TestPageOfSettingsMatchesServeCommand compares the names, defaults and descriptions in docs/settings.md with the settings of
// 'easel serve'.
func TestPageOfSettingsMatchesServeCommand(t *testing.T) {
	settings := map[string]string{} // expected lines of docs/settings.md for each help group, keyed by the group's key
	count := 0
	for _, command := range grammarParser(t).Model.Children {
		if command.Name != "serve" {
			continue
		}
		for _, f := range command.Flags {
			if len(f.Envs) == 0 {
				continue
			}
			count++
			settings[f.Group.Key] += "- `" + f.Envs[0] + "`" + byDefault(f) + ": " + f.Help + "\n"
		}
	}
	var page strings.Builder
	for _, group := range groups() {
		if lines := settings[group.Key]; lines != "" {
			fmt.Fprintf(&page, "\n## %s\n\n%s", strings.TrimSuffix(group.Title, ":"), lines)
		}
	}
	if count < 28 {
		t.Errorf("serve has only %d settings", count)
	}
	wantGenerated(t, "settings.md", page.String())
}

// byDefault returns text that describes the default of a setting, or "" if the setting has no default.
func byDefault(f *kong.Flag) string {
	if f.Default == "" {
		return ""
	}
	return ", by default `" + f.Default + "`"
}

// TestPageOfCommandsMatchesHelpOutput compares docs/command-line.md with the help of all commands. Flags that
// several commands share appear only once on the page.
func TestPageOfCommandsMatchesHelpOutput(t *testing.T) {
	help := easel(t.Context(), nil, "--help").stdout
	_, help, _ = strings.Cut(help, "Show context-sensitive help.\n\n")
	page := "\n```text\n" + strings.TrimSpace(help) + "\n```\n"
	leaves := grammarParser(t).Model.Leaves(true)
	for _, command := range leaves {
		words := strings.Fields(command.Path())
		got := easel(t.Context(), nil, append(words, "--help")...)
		if got.exit != exitOK {
			t.Errorf("%s: exit %d\n%s", command.Path(), got.exit, got.stderr)
		}
		page += "\n## " + command.Path() + "\n\n```text\n" + ownHelp(got.stdout) + "\n```\n"
	}
	if len(leaves) < 30 {
		t.Errorf("found only %d commands", len(leaves))
	}
	wantGenerated(t, "command-line.md", page)
}

// ownHelp removes --help, the connection flags and the server settings from the help of a command.
func ownHelp(help string) string {
	for _, shared := range []string{"\nConnection:\n", "\nThe catalog:\n"} {
		help, _, _ = strings.Cut(help, shared)
	}
	return strings.TrimSuffix(strings.TrimSpace(helpFlag.ReplaceAllString(help, "")), "\n\nFlags:")
}

var helpFlag = regexp.MustCompile(`(?m)^  -h, --help .*\n+`)

// grammarParser returns the parser for the program's command lines.
func grammarParser(t *testing.T) *kong.Kong {
	t.Helper()
	p := &cli.Program{Grammar: grammar(), Stdout: io.Discard, Stderr: io.Discard, Lookup: func(string) (string, bool) { return "", false }}
	parser, err := kong.New(&commands{}, append(grammar().Options, kong.Name("easel"), kong.Vars{"addr": ""}, kong.Bind(p))...)
	if err != nil {
		t.Fatal(err)
	}
	return parser
}

// wantGenerated checks that the text after the marker in a page equals want. name is the file name of the page in docs.
// With -update, it replaces this text with want instead.
func wantGenerated(t *testing.T, name, want string) {
	t.Helper()
	const marker = "<!-- The rest is made by go test -run PageOf -update ./cmd/easel -->\n"
	head, got, found := strings.Cut(proctest.Read(t, "docs", name), marker)
	if !found {
		t.Fatalf("docs/%s has no %s", name, marker)
	}
	if *updatePages {
		if err := os.WriteFile(filepath.Join("..", "..", "docs", name), []byte(head+marker+want), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if got != want {
		t.Errorf("docs/%s differs from the program: go test -run PageOf -update ./cmd/easel", name)
	}
}
