package simulation

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"
)

// edit replaces the text old with the text new in one function. The function may be in any file of the package, and
// must contain old exactly once.
type edit struct {
	pkg      string // directory of the package
	function string // "Function" or "Type.Method"
	old, new string
}

// addition returns an edit that adds a file to a package. Other edits of the same bug can use the declarations in the file.
func addition(pkg, source string) edit { return edit{pkg: pkg, new: source} }

// apply applies the edit to the source tree at root. changed contains the source of all files that were changed so far.
func (e edit) apply(root string, changed map[string]string) error {
	dir := filepath.Join(root, e.pkg)
	if e.function == "" {
		changed[filepath.Join(dir, "seededbug.go")] = "package " + filepath.Base(dir) + "\n\n" + e.new
		return nil
	}
	files, err := sources(dir, changed)
	if err != nil {
		return err
	}
	places := 0
	for path, text := range files {
		start, end, err := e.find(path, text)
		if err != nil {
			return err
		}
		if n := strings.Count(text[start:end], e.old); n > 0 {
			places += n
			changed[path] = text[:start] + strings.Replace(text[start:end], e.old, e.new, 1) + text[end:]
		}
	}
	if places != 1 {
		return fmt.Errorf("%s: %s: %d places match %q, want 1; update the list of bugs", e.pkg, e.function, places, e.old)
	}
	return nil
}

// find returns the offsets of the function in a file, or zeros if the file does not contain the function.
func (e edit) find(path, text string) (start, end int, err error) {
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, path, text, parser.SkipObjectResolution)
	if err != nil {
		return 0, 0, err
	}
	for _, decl := range file.Decls {
		if f, ok := decl.(*ast.FuncDecl); ok && functionName(f) == e.function {
			return fset.Position(f.Pos()).Offset, fset.Position(f.End()).Offset, nil
		}
	}
	return 0, 0, nil
}

// sources returns the source of the files in a package, by path.
func sources(dir string, changed map[string]string) (map[string]string, error) {
	paths, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return nil, err
	}
	files := map[string]string{}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		if !strings.HasSuffix(path, "_test.go") {
			files[path] = cmp.Or(changed[path], string(text))
		}
	}
	return files, nil
}

// functionName returns the name of a function as "Function" or "Type.Method".
func functionName(f *ast.FuncDecl) string {
	if f.Recv == nil {
		return f.Name.Name
	}
	receiver := f.Recv.List[0].Type
	if star, ok := receiver.(*ast.StarExpr); ok {
		receiver = star.X
	}
	switch generic := receiver.(type) {
	case *ast.IndexExpr:
		receiver = generic.X
	case *ast.IndexListExpr:
		receiver = generic.X
	}
	name, _ := receiver.(*ast.Ident)
	return fmt.Sprint(name, ".", f.Name.Name)
}
