package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
)

// sendingPackages lists the packages in internal/ that create errors for callers.
var sendingPackages = []string{"auth", "service", "server", "rest", "crossorigin"}

// parseSources parses the source files of packages below internal, except their tests. It returns the syntax trees,
// keyed by path.
func parseSources(t *testing.T, packages []string) map[string]*ast.File {
	t.Helper()
	files := map[string]*ast.File{}
	for _, name := range packages {
		paths, err := filepath.Glob(filepath.Join("..", "..", "internal", name, "*.go"))
		if err != nil || len(paths) == 0 {
			t.Fatalf("%s has no files: %v", name, err)
		}
		for _, path := range paths {
			if strings.HasSuffix(path, "_test.go") {
				continue
			}
			if files[path], err = parser.ParseFile(token.NewFileSet(), path, nil, 0); err != nil {
				t.Fatal(err)
			}
		}
	}
	return files
}

// inspectSending calls fn for each syntax node in sendingPackages, except for the root node of each file.
// The arguments of fn are the path of the file, the node, and the node's parent.
func inspectSending(t *testing.T, fn func(path string, node, around ast.Node)) {
	t.Helper()
	for path, file := range parseSources(t, sendingPackages) {
		ast.PreorderStack(file, nil, func(node ast.Node, stack []ast.Node) bool {
			if len(stack) > 0 {
				fn(path, node, stack[len(stack)-1])
			}
			return true
		})
	}
}

// reasonNamed returns the name of the error reason that a node refers to, or "" if it refers to none.
func reasonNamed(node ast.Node) string {
	if selector, ok := node.(*ast.SelectorExpr); ok {
		if name, ok := strings.CutPrefix(selector.Sel.Name, "ErrorReason_"); ok {
			return name
		}
	}
	return ""
}

func TestEveryErrorReasonOfContractIsSent(t *testing.T) {
	sent := map[string]bool{easelv1.ErrorReason_ERROR_REASON_UNSPECIFIED.String(): true}
	inspectSending(t, func(_ string, node, around ast.Node) {
		name := reasonNamed(node)
		switch parent := around.(type) {
		case *ast.CallExpr, *ast.CompositeLit, *ast.AssignStmt: // as an argument, an element or an assigned value, the reason becomes part of an error
		case *ast.KeyValueExpr:
			if parent.Value != node {
				return
			}
		default: // this code only compares the reason, and does not send it
			return
		}
		sent[name] = true
	})
	for _, name := range easelv1.ErrorReason_name {
		if !sent[name] {
			t.Errorf("the contract has %s, but no code sends it", name)
		}
	}
}

func TestServerSendsOnlyDocumentedErrorReasons(t *testing.T) {
	inspectSending(t, func(path string, node, _ ast.Node) {
		literal, ok := node.(*ast.CompositeLit)
		if !ok || len(literal.Elts) == 0 {
			return
		}
		if made, ok := literal.Type.(*ast.SelectorExpr); ok && made.Sel.Name == "ErrorInfo" && filepath.Base(path) != "reason.go" {
			t.Errorf("%s creates an ErrorInfo, whose reason may not be in the contract", path)
		}
	})
}
