package main

import (
	"go/ast"
	"go/token"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/easel-grpc/easel/internal/proctest"
)

// ofCalls names the packages whose log lines are about calls. Operators search these log lines by attribute.
var ofCalls = []string{"server", "orders", "watch", "events", "telemetry", "ledger"}

// The table in deploy/telemetry.md must contain exactly the attributes of the log lines about calls.
func TestLogAttributeTableMatchesCode(t *testing.T) {
	_, table, _ := strings.Cut(proctest.Read(t, "deploy", "telemetry.md"), "| attribute of a line | |\n")
	table, _, _ = strings.Cut(table, "\n\n")
	named := map[string]bool{}
	for row := range strings.Lines(table) {
		first, _, _ := strings.Cut(strings.TrimPrefix(row, "| "), " | ")
		for _, name := range regexp.MustCompile("`([a-z_]+)`").FindAllStringSubmatch(first, -1) {
			named[name[1]] = true
		}
	}
	used := map[string]bool{}
	for _, file := range parseSources(t, ofCalls) {
		collectAttributes(file, used)
	}
	if len(used) < 30 {
		t.Errorf("found only %d attributes; fix this test", len(used))
	}
	for _, name := range slices.Sorted(maps.Keys(used)) {
		if !named[name] {
			t.Errorf("the table lacks %s", name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(named)) {
		if !used[name] {
			t.Errorf("the table has %s, but no log line has it", name)
		}
	}
}

var (
	logMethods    = regexp.MustCompile(`^(Debug|Info|Warn|Error)(Context)?$|^debug$|^logAttributes$`)
	attributeName = regexp.MustCompile(`^[a-z][a-z_]*$`)
)

// collectAttributes collects the attribute names in calls to loggers and slog constructors. It also collects the names
// in functions called "logAttributes" or "attrs", and in assignments to variables called "about".
func collectAttributes(file *ast.File, used map[string]bool) {
	ast.Inspect(file, func(node ast.Node) bool {
		switch n := node.(type) {
		case *ast.FuncDecl:
			if n.Name.Name == "logAttributes" || n.Name.Name == "attrs" {
				collectNames(n.Body, used)
			}
		case *ast.AssignStmt:
			if name, ok := n.Lhs[0].(*ast.Ident); ok && name.Name == "about" {
				collectNames(n.Rhs[0], used)
			}
		case *ast.CallExpr:
			of, ok := n.Fun.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			on, _ := of.X.(*ast.Ident)
			switch {
			case on != nil && on.Name == "slog" && len(n.Args) == 2:
				collectNames(n.Args[0], used)
			case logMethods.MatchString(of.Sel.Name):
				collectArguments(n, of.Sel.Name != "logAttributes", used)
			}
		}
		return true
	})
}

// collectArguments collects the attribute names in the arguments of a call. If hasMessage is true, the first literal
// argument is the log message and is skipped.
func collectArguments(call *ast.CallExpr, hasMessage bool, used map[string]bool) {
	for _, arg := range call.Args {
		switch a := arg.(type) {
		case *ast.BasicLit:
			if !hasMessage {
				collectNames(a, used)
			}
			hasMessage = false
		case *ast.CallExpr:
			collectArguments(a, false, used)
		}
	}
}

// collectNames collects the string literals in a node that have the form of an attribute name.
func collectNames(node ast.Node, used map[string]bool) {
	ast.Inspect(node, func(node ast.Node) bool {
		if text, ok := node.(*ast.BasicLit); ok && text.Kind == token.STRING {
			if name, err := strconv.Unquote(text.Value); err == nil && attributeName.MatchString(name) {
				used[name] = true
			}
		}
		return true
	})
}
