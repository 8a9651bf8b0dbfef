package simulation

import (
	"context"
	"fmt"
	"go/ast"
	"go/build"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// typeChecker checks that a package compiles with a seeded bug. Building the package would take much longer, about a
// second for each of the bugs.
type typeChecker struct {
	fset     *token.FileSet
	importer types.Importer
}

// newTypeChecker returns a typeChecker for the source tree at root. It loads the export data of the unchanged packages.
func newTypeChecker(ctx context.Context, root string) (*typeChecker, error) {
	list := exec.CommandContext(ctx, "go", "list", "-export", "-deps", "-f", "{{.ImportPath}} {{.Export}}", "./internal/...")
	list.Dir, list.Stderr = root, os.Stderr
	out, err := list.Output()
	if err != nil {
		return nil, err
	}
	exports := map[string]string{}
	for line := range strings.Lines(string(out)) {
		path, file, _ := strings.Cut(strings.TrimSpace(line), " ")
		exports[path] = file
	}
	fset := token.NewFileSet()
	return &typeChecker{fset, importer.ForCompiler(fset, "gc", func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) })}, nil
}

// check type-checks the package in dir. texts contains the source of the package's files, keyed by path.
func (c *typeChecker) check(dir string, texts map[string]string) error {
	var files []*ast.File
	for path, text := range texts {
		if ours, err := build.Default.MatchFile(dir, filepath.Base(path)); err == nil && !ours {
			continue // the file is for another operating system
		}
		file, err := parser.ParseFile(c.fset, path, text, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		files = append(files, file)
	}
	if len(files) == 0 {
		return fmt.Errorf("%s has no files", dir)
	}
	_, err := (&types.Config{Importer: c.importer}).Check(dir, c.fset, files, nil)
	return err
}

// checkTypes type-checks each package that the bug changes. It uses the unchanged versions of all imported packages.
func (b bug) checkTypes(c *typeChecker, root string) error {
	changed, err := b.apply(root)
	if err != nil {
		return err
	}
	for _, e := range b.edits {
		dir := filepath.Join(root, e.pkg)
		texts, err := readSources(dir, changed)
		if err != nil {
			return err
		}
		for path, text := range changed {
			if filepath.Dir(path) == dir {
				texts[path] = text // needed for new files, which readSources does not return
			}
		}
		if err := c.check(dir, texts); err != nil {
			return err
		}
	}
	return nil
}
