package simulation

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/scanner"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"strings"
)

// edit is a change at one place in the source. old and new are either an expression or statements. In old, "_" matches
// any expression. A single lower-case letter, or a name that begins with "_", matches an expression that new may use,
// as in gofmt -r. White space and comments do not matter, and any file of the package may contain the place.
type edit struct {
	pkg      string // directory of the package
	function string // "Function" or "Type.Method"
	old, new string
}

// addition returns an edit that adds a file to a package. The bug's other edits can then use the file's declarations.
func addition(pkg, source string) edit { return edit{pkg: pkg, new: source} }

// apply applies the edit to the files in the tree at root. changed contains the source of the files that were changed
// so far.
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
	path, text, err := e.rewrite(files)
	if err != nil {
		return fmt.Errorf("%s: %s: %w", e.pkg, e.function, err)
	}
	changed[path] = text
	return nil
}

// sources returns the source of a package's files, by path.
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

// rewrite changes the only file that contains the place, and returns its path and new source.
func (e edit) rewrite(files map[string]string) (path, text string, err error) {
	fset := token.NewFileSet()
	sites, err := e.find(fset, files)
	if err != nil {
		return "", "", err
	}
	if len(sites) != 1 {
		return "", "", fmt.Errorf("%d places match %q, not one: update the list", len(sites), e.old)
	}
	start, end := fset.Position(sites[0].start), fset.Position(sites[0].end)
	text = files[start.Filename]
	source := func(n ast.Node) string {
		return text[fset.Position(n.Pos()).Offset:fset.Position(n.End()).Offset]
	}
	replacement, err := sites[0].found.fill(e.new, source)
	return start.Filename, text[:start.Offset] + replacement + text[end.Offset:], err
}

// find returns the places in the function that match old.
func (e edit) find(fset *token.FileSet, files map[string]string) (sites []site, err error) {
	pattern, err := e.pattern()
	if err != nil {
		return nil, err
	}
	for path, text := range files {
		file, err := parser.ParseFile(fset, path, text, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		for _, decl := range file.Decls {
			if f, ok := decl.(*ast.FuncDecl); ok && functionName(f) == e.function {
				sites = append(sites, sitesOf(f, pattern)...)
			}
		}
	}
	return sites, nil
}

// pattern parses old. The result is an ast.Expr, or an []ast.Stmt if new is empty or not an expression.
func (e edit) pattern() (any, error) {
	if _, err := parser.ParseExpr(e.new); err == nil {
		return parser.ParseExpr(e.old)
	}
	old, err := statements(e.old)
	if err == nil {
		_, err = statements(e.new)
	}
	return old, err
}

func statements(text string) ([]ast.Stmt, error) {
	file, err := parser.ParseFile(token.NewFileSet(), "", "package p; func _() {\n"+text+"\n}", parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	return file.Decls[0].(*ast.FuncDecl).Body.List, nil
}

// functionName returns a function's name as "Function" or "Type.Method".
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

// site is a part of the source that matches a pattern.
type site struct {
	start, end token.Pos
	found      bindings
}

// sitesOf returns the sites in a function that match an expression or consecutive statements.
func sitesOf(f *ast.FuncDecl, pattern any) (sites []site) {
	try := func(n any, start, end token.Pos) {
		found := bindings{}
		if found.match(reflect.ValueOf(pattern), reflect.ValueOf(n)) {
			sites = append(sites, site{start, end, found})
		}
	}
	size := 0
	if p, ok := pattern.([]ast.Stmt); ok {
		size = len(p)
	}
	list := func(statements []ast.Stmt) {
		for i := 0; size > 0 && i+size <= len(statements); i++ {
			part := statements[i : i+size]
			try(part, part[0].Pos(), part[size-1].End())
		}
	}
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case ast.Expr:
			try(n, n.Pos(), n.End())
		case *ast.BlockStmt:
			list(n.List)
		case *ast.CaseClause:
			list(n.Body)
		case *ast.CommClause:
			list(n.Body)
		}
		return true
	})
	return sites
}

// bindings maps a pattern's wildcards to expressions. If it is nil, the pattern has no wildcards.
type bindings map[string]ast.Expr

// match reports whether two parts of syntax trees match.
func (b bindings) match(p, n reflect.Value) bool {
	if !p.IsValid() || !n.IsValid() {
		return p.IsValid() == n.IsValid()
	}
	if name, ok := p.Interface().(*ast.Ident); ok && name != nil && b != nil && wildcard(name.Name) {
		expr, ok := n.Interface().(ast.Expr)
		return ok && b.bind(name.Name, expr)
	}
	if p.Type() != n.Type() {
		return false
	}
	switch p.Kind() {
	case reflect.Interface, reflect.Pointer:
		return b.match(p.Elem(), n.Elem())
	case reflect.Struct:
		for i := range p.NumField() {
			if !b.match(p.Field(i), n.Field(i)) {
				return false
			}
		}
		return true
	case reflect.Slice:
		for i := 0; i < p.Len() && i < n.Len(); i++ {
			if !b.match(p.Index(i), n.Index(i)) {
				return false
			}
		}
		return p.Len() == n.Len()
	}
	if p, ok := p.Interface().(token.Pos); ok {
		return p.IsValid() == n.Interface().(token.Pos).IsValid() // f(x...) does not match f(x)
	}
	return p.Equal(n)
}

// bind records a wildcard's expression. All uses of a wildcard must match equal expressions.
func (b bindings) bind(name string, expr ast.Expr) bool {
	if bound, ok := b[name]; ok {
		return bindings(nil).match(reflect.ValueOf(bound), reflect.ValueOf(expr))
	}
	if name != "_" {
		b[name] = expr
	}
	return true
}

// fill returns the replacement with its wildcards replaced by the source of their expressions.
func (b bindings) fill(replacement string, source func(ast.Node) string) (string, error) {
	var s scanner.Scanner
	file := token.NewFileSet().AddFile("", -1, len(replacement))
	s.Init(file, []byte(replacement), nil, 0)
	var out strings.Builder
	done := 0
	for {
		pos, tok, name := s.Scan()
		switch {
		case tok == token.EOF:
			return out.String() + replacement[done:], nil
		case tok != token.IDENT || name == "_" || !wildcard(name):
			continue
		case b[name] == nil:
			return "", fmt.Errorf("the replacement %q has %s, which the pattern has not", replacement, name)
		}
		out.WriteString(replacement[done:file.Offset(pos)])
		switch text := source(b[name]); b[name].(type) {
		case *ast.BinaryExpr, *ast.UnaryExpr, *ast.StarExpr:
			out.WriteString("(" + text + ")")
		default:
			out.WriteString(text)
		}
		done = file.Offset(pos) + len(name)
	}
}

// wildcard reports whether a name in a pattern matches any expression.
func wildcard(name string) bool {
	return name[0] == '_' || len(name) == 1 && 'a' <= name[0] && name[0] <= 'z'
}
