package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/easel-grpc/easel/internal/proctest"
)

// pages returns the text of each document, keyed by its path in the repository.
func pages(t *testing.T) map[string]string {
	t.Helper()
	texts := map[string]string{}
	for _, pattern := range []string{"README.md", "docs/*.md", ".github/*.md", "deploy/*.md", "clients/*/README.md"} {
		files, err := filepath.Glob(filepath.Join("..", "..", pattern))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %d files, %v", pattern, len(files), err)
		}
		for _, file := range files {
			path, err := filepath.Rel(filepath.Join("..", ".."), file)
			if err != nil {
				t.Fatal(err)
			}
			texts[filepath.ToSlash(path)] = proctest.Read(t, path)
		}
	}
	return texts
}

// link matches a Markdown link. Its groups are the text, the path and the fragment.
var link = regexp.MustCompile(`\[([^\[\]]+)\]\(([^()#\s]*)(?:#([^()\s]*))?\)`)

// TestEveryLinkOnPagesLeadsToExistingTarget checks that each link between files leads to an existing file and heading. The
// text of a link to a Go file must be the name of the file, or a name that the file declares.
func TestEveryLinkOnPagesLeadsToExistingTarget(t *testing.T) {
	files, names := 0, 0
	for path, text := range pages(t) {
		for _, found := range link.FindAllStringSubmatch(text, -1) {
			title, to, heading := found[1], found[2], found[3]
			if strings.Contains(to, "://") {
				continue
			}
			target := path
			if to != "" {
				target = filepath.ToSlash(filepath.Join(filepath.Dir(path), to))
			}
			files++
			info, err := os.Stat(filepath.Join("..", "..", target))
			switch {
			case err != nil:
				t.Errorf("%s: %s leads to %s, which does not exist", path, title, target)
			case heading != "" && (info.IsDir() || !slices.Contains(headingsOf(proctest.Read(t, target)), heading)):
				t.Errorf("%s: %s has no heading %s", path, target, heading)
			case strings.HasSuffix(target, ".go") && title != "`"+filepath.Base(target)+"`":
				names++
				if name := strings.Trim(title, "`"); !slices.Contains(declaredNames(t, target), name) {
					t.Errorf("%s: %s declares no %s", path, target, name)
				}
			}
		}
	}
	if files < 100 || names < 60 {
		t.Errorf("found %d links, %d of them to declarations; want at least 100 and 60", files, names)
	}
}

// TestContributorDocsLinkEachTaskToSourceFile checks that each row of the table below "Where to change what" has
// a link to a source file.
func TestContributorDocsLinkEachTaskToSourceFile(t *testing.T) {
	_, section, _ := strings.Cut(proctest.Read(t, "docs", "contributors.md"), "\n## Where to change what\n")
	section, _, _ = strings.Cut(section, "\n## ")
	rows := regexp.MustCompile(`(?m)^\| .*$`).FindAllStringSubmatch(section, -1)
	if len(rows) < 20 {
		t.Fatalf("found only the rows %q", rows)
	}
	for _, row := range rows[1:] {
		if !regexp.MustCompile(`\[[^\]]+\]\(\.\./[^)]+\)`).MatchString(row[0]) {
			t.Errorf("%s has no link to a source file", row)
		}
	}
}

// TestTableCellsHaveAtMost30Words checks that no table cell has more than 30 words. The targets of links don't count.
func TestTableCellsHaveAtMost30Words(t *testing.T) {
	const most = 30
	cells := 0
	for path, text := range pages(t) {
		for n, part := range strings.Split(text, "```") {
			if n%2 == 1 {
				continue // a code block
			}
			for _, row := range regexp.MustCompile(`(?m)^\|.*$`).FindAllString(part, -1) {
				row = strings.ReplaceAll(link.ReplaceAllString(row, "$1"), `\|`, "")
				for cell := range strings.SplitSeq(row, "|") {
					if cells++; len(strings.Fields(cell)) > most {
						t.Errorf("%s: table cell has %d words: %s", path, len(strings.Fields(cell)), cell)
					}
				}
			}
		}
	}
	if cells < 1000 {
		t.Errorf("found only %d cells", cells)
	}
}

// headingsOf returns the anchors of the headings on a page.
func headingsOf(text string) (anchors []string) {
	for _, line := range regexp.MustCompile(`(?m)^#+ (.+)$`).FindAllStringSubmatch(text, -1) {
		anchor := regexp.MustCompile(`[^a-z0-9 -]`).ReplaceAllString(strings.ToLower(line[1]), "")
		anchors = append(anchors, strings.ReplaceAll(anchor, " ", "-"))
	}
	return anchors
}

// declaredNames returns the names that a Go file declares at the top level. The name of a method has the form Type.method.
func declaredNames(t *testing.T, path string) (names []string) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), filepath.Join("..", "..", path), nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	for _, one := range file.Decls {
		switch d := one.(type) {
		case *ast.FuncDecl:
			names = append(names, receiver(d)+d.Name.Name)
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				switch s := spec.(type) {
				case *ast.TypeSpec:
					names = append(names, s.Name.Name)
				case *ast.ValueSpec:
					for _, name := range s.Names {
						names = append(names, name.Name)
					}
				}
			}
		}
	}
	return names
}

// receiver returns the receiver type of a method, followed by a period, or "" for a function.
func receiver(f *ast.FuncDecl) string {
	if f.Recv == nil {
		return ""
	}
	name, _, _ := strings.Cut(strings.TrimPrefix(types.ExprString(f.Recv.List[0].Type), "*"), "[")
	return name + "."
}

// TestFilePathsInDocsExist checks that each path in inline code, or in the src attribute of a picture,
// exists.
func TestFilePathsInDocsExist(t *testing.T) {
	for path, text := range pages(t) {
		for _, found := range regexp.MustCompile("(?:`|src=\")((?:clients|cmd|deploy|docs|gen|internal|proto)/[^`\"\\s*]+)[`\"]").FindAllStringSubmatch(text, -1) {
			if _, err := os.Stat(filepath.Join("..", "..", found[1])); err != nil {
				t.Errorf("%s: %s does not exist", path, found[1])
			}
		}
	}
}

func TestEveryEnvironmentVariableInDocsIsSupported(t *testing.T) {
	known, named := map[string]bool{"EASEL_TEST_POSTGRES": true}, 0 // EASEL_TEST_POSTGRES is not a setting; only tests read it
	for _, command := range []string{"serve", "sandbox", "generate"} {
		for _, name := range variable.FindAllString(easel(t.Context(), nil, command, "--help").stdout, -1) {
			known[name] = true
		}
	}
	for path, text := range pages(t) {
		for _, name := range variable.FindAllString(text, -1) {
			if named++; !known[name] {
				t.Errorf("%s mentions %s, which no command reads", path, name)
			}
		}
	}
	if named < 50 {
		t.Errorf("found only %d variables", named)
	}
}

var variable = regexp.MustCompile(`\bEASEL_[A-Z_]*[A-Z]\b`)

func TestDocsStayBelowWordLimit(t *testing.T) {
	for path, limit := range map[string]int{"README.md": 700, "docs/callers.md": 2000, "docs/contributors.md": 2500, operatorsPage: 4500} {
		if n := len(strings.Fields(proctest.Read(t, path))); n > limit {
			t.Errorf("%s is too long: %d words", path, n)
		}
	}
}

func TestREADMEShowsFirstCommandsAndLinksAllPages(t *testing.T) {
	text := proctest.Read(t, "README.md")
	screen := strings.Join(strings.Split(text, "\n")[:30], "\n")
	for _, want := range []string{"make demo ", "make run ", "\neasel generate "} {
		if !strings.Contains(screen, want) {
			t.Errorf("%q is not in the first 30 lines of README.md", want)
		}
	}
	for path := range pages(t) {
		if path != "README.md" && !strings.HasSuffix(path, "_template.md") && !strings.Contains(text, "]("+path+")") {
			t.Errorf("the README has no link to %s", path)
		}
	}
}
