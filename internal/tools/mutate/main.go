// Command mutate changes one place of a package at a time and runs tests: a change that no test notices is printed. The
// source stays as it is, since the compiler is given the changed file by an overlay.
//
//	mutate [-n 50] [-seed 1] [-only file.go:12 | -only file.go] -tests ./internal/orders internal/orders
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/printer"
	"go/token"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// swapped is what becomes of an operator.
var swapped = map[token.Token]token.Token{
	token.LAND: token.LOR, token.LOR: token.LAND, token.EQL: token.NEQ, token.NEQ: token.EQL,
	token.LSS: token.GEQ, token.GEQ: token.LSS, token.GTR: token.LEQ, token.LEQ: token.GTR, token.ADD: token.SUB, token.SUB: token.ADD,
}

// mutation is one change, made and taken back in the syntax tree.
type mutation struct {
	at         token.Pos
	says       string
	make, undo func()
}

func main() {
	n := flag.Int("n", 50, "how many changes, drawn from all")
	seed := flag.Uint64("seed", 1, "which ones")
	only := flag.String("only", "", "those of a line alone, as file.go:12, or of a file")
	tests := flag.String("tests", "", "packages whose tests are run, and flags of go test, with commas")
	limit := flag.Duration("limit", 5*time.Minute, "for the tests of one change; it counts as noticed")
	flag.Parse()
	survived, err := run(flag.Arg(0), *only, strings.Split(*tests, ","), *n, *seed, *limit)
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutate:", err)
	}
	if err != nil || survived > 0 {
		os.Exit(1)
	}
}

func run(dir, only string, tests []string, n int, seed uint64, limit time.Duration) (survived int, err error) {
	set := token.NewFileSet()
	files, err := parse(set, dir)
	if err != nil {
		return 0, err
	}
	all := []func() (string, bool){}
	for _, path := range slices.Sorted(maps.Keys(files)) {
		for _, m := range mutations(files[path]) {
			at := set.Position(m.at)
			if place := fmt.Sprintf("%s:%d", filepath.Base(path), at.Line); only == "" || only == place || only == filepath.Base(path) {
				all = append(all, func() (string, bool) {
					m.make()
					defer m.undo()
					return place + ": " + m.says, isNoticed(set, path, files[path], tests, limit)
				})
			}
		}
	}
	random := rand.New(rand.NewPCG(seed, 0)) //nolint:gosec // of a sample
	random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	n = min(n, len(all))
	for i, try := range all[:n] {
		place, noticed := try()
		if !noticed {
			survived++
			fmt.Println("not noticed:", place)
		}
		fmt.Fprintf(os.Stderr, "\r%d of %d, %d not noticed ", i+1, n, survived)
	}
	fmt.Printf("%s: %d of %d changes made, %d not noticed\n", dir, n, len(all), survived)
	return survived, nil
}

func parse(set *token.FileSet, dir string) (map[string]*ast.File, error) {
	paths, err := filepath.Glob(filepath.Join(dir, "*.go"))
	files := map[string]*ast.File{}
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		if path, err = filepath.Abs(path); err == nil {
			files[path], err = parser.ParseFile(set, path, nil, parser.ParseComments)
		}
		if err != nil {
			return nil, err
		}
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("no Go files in %q", dir)
	}
	return files, err
}

// mutations are the changes that a file offers: a condition the other way round, an operator for another, a statement
// left out, an error dropped.
func mutations(file *ast.File) (all []mutation) {
	ast.Inspect(file, func(node ast.Node) bool {
		switch n := node.(type) {
		case *ast.IfStmt:
			was := n.Cond
			not := &ast.UnaryExpr{Op: token.NOT, X: &ast.ParenExpr{X: was}}
			all = append(all, mutation{n.Pos(), "if the other way round", func() { n.Cond = not }, func() { n.Cond = was }})
		case *ast.BinaryExpr:
			if was, to := n.Op, swapped[n.Op]; to != token.ILLEGAL {
				all = append(all, mutation{n.OpPos, fmt.Sprintf("%s becomes %s", was, to), func() { n.Op = to }, func() { n.Op = was }})
			}
		case *ast.CaseClause:
			if was := n.List; len(was) > 0 {
				if _, isCondition := was[0].(*ast.BinaryExpr); isCondition || isName(was[0]) {
					never := []ast.Expr{ast.NewIdent("false")}
					all = append(all, mutation{n.Pos(), "the case never comes", func() { n.List = never }, func() { n.List = was }})
				}
			}
		case *ast.BlockStmt:
			all = append(all, leavingOut(n)...)
		case *ast.ReturnStmt:
			if last := len(n.Results) - 1; last >= 0 {
				if was, ok := n.Results[last].(*ast.Ident); ok && was.Name == "err" {
					all = append(all, mutation{n.Pos(), "the error is dropped", func() { n.Results[last] = ast.NewIdent("nil") }, func() { n.Results[last] = was }})
				}
			}
		}
		return true
	})
	return all
}

// isName reports whether an expression may be the name of a condition. Where it is not, the change is no program.
func isName(e ast.Expr) bool {
	_, ok := e.(*ast.Ident)
	return ok
}

// leavingOut are the statements of a block without which it may still be a program.
func leavingOut(block *ast.BlockStmt) (all []mutation) {
	for i, was := range block.List {
		switch s := was.(type) {
		case *ast.AssignStmt:
			if s.Tok == token.DEFINE {
				continue
			}
		case *ast.ExprStmt, *ast.IncDecStmt, *ast.DeferStmt, *ast.GoStmt:
		default:
			continue
		}
		all = append(all, mutation{was.Pos(), "left out", func() { block.List[i] = &ast.EmptyStmt{} }, func() { block.List[i] = was }})
	}
	return all
}

// isNoticed reports whether a test fails with the changed file, or it is no program at all.
func isNoticed(set *token.FileSet, path string, file *ast.File, tests []string, limit time.Duration) bool {
	var text bytes.Buffer
	dir, err := os.MkdirTemp("", "easel-mutate-")
	if err == nil {
		defer func() { _ = os.RemoveAll(dir) }()
		err = printer.Fprint(&text, set, file)
	}
	changed, overlay := filepath.Join(dir, "changed.go"), filepath.Join(dir, "overlay.json")
	replace, _ := json.Marshal(map[string]any{"Replace": map[string]string{path: changed}}) // of texts
	if err == nil {
		err = errors.Join(os.WriteFile(changed, text.Bytes(), 0o600), os.WriteFile(overlay, replace, 0o600))
	}
	if err != nil {
		panic(err) // without a place for files nothing can be tried
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	args := append([]string{"test", "-overlay", overlay, "-short", "-failfast", "-vet=off", "-ldflags=-w", "-count=1"}, tests...)
	return exec.CommandContext(ctx, "go", args...).Run() != nil //nolint:gosec // the packages that were asked for
}
