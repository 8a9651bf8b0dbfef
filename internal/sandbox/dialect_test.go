package sandbox_test

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/easel-grpc/easel/internal/sandbox"
)

// unspoken contains the tables in internal/catalog/membernames.go whose words need not occur in any dialect of the
// sandbox, each with the reason.
var unspoken = map[string]string{
	"timeLayouts":    "formats, not words",
	"secretNames":    "members that a reader drops",
	"keyNames":       "members that a reader drops",
	"keySecretNames": "members that a reader drops",
}

func TestSandboxDialectsCoverEveryMemberNameRule(t *testing.T) {
	spoken := map[string]bool{}
	for _, d := range sandbox.Dialects() {
		synctest.Test(t, func(t *testing.T) {
			b := newAccount(t, sandbox.Config{Dialect: d})
			for _, body := range b.everyBody(t, d) {
				collectWords(spoken, b.parseJSON(body))
			}
		})
	}
	rows := readingRules(t)
	if len(rows) < 60 {
		t.Fatalf("membernames.go has only %d rows", len(rows))
	}
	for row, words := range rows {
		if unspoken[row] == "" && !slices.ContainsFunc(words, func(word string) bool { return spoken[plainWord(word)] }) {
			t.Errorf("no dialect uses a word of the rule %s: %q", row, words)
		}
	}
}

// everyBody sends requests to a sandbox with the dialect d, and returns the bodies of all responses. They include
// each kind of body.
func (b *account) everyBody(t *testing.T, d sandbox.Dialect) (bodies []string) {
	key := b.key
	ask := func(method, path, body string, head ...string) string {
		r := b.do(method, path, body, head...)
		bodies = append(bodies, string(r.body))
		return string(r.body)
	}
	ask("GET", "/me", "")
	ask("GET", "/models", "")
	for _, model := range []string{"landscape", "abstract", "print", "none"} {
		ask("GET", "/models/detail?id=studio/"+model, "")
	}
	ask("POST", "/quote", small)
	ask("POST", "/quote", `{"modelId":"studio/haiku","inputs":{"prompt":""}}`)
	ask("POST", "/quote", `{"modelId":"studio/none","inputs":{}}`)
	ask("POST", "/quote", `{"modelId":"studio/haiku"}`)
	ask("POST", "/generations", haiku, "Idempotency-Key", " ")
	for _, order := range []string{haiku, small, doomed} {
		id := recordID(b.parseJSON(ask("POST", "/generations", order)), d)
		ask("GET", "/generations/"+id+"/content", "")
		for range 25 {
			time.Sleep(time.Second)
			ask("GET", "/generations/"+id, "")
		}
		ask("GET", "/generations", "")
		if order == haiku {
			ask("GET", "/generations/"+id+"/content", "")
		}
	}
	var err error
	if b.key, err = b.s.CreateKey(t.Context(), sandbox.KeyConfig{BalanceCents: 9, DailyCapCents: 1}); err != nil {
		t.Fatal(err)
	}
	ask("POST", "/generations", small)
	b.key = key
	return bodies
}

// parseJSON decodes a JSON body. If the body is not JSON, parseJSON returns it as a string.
func (b *account) parseJSON(body string) any {
	var v any
	dec := json.NewDecoder(strings.NewReader(body))
	dec.UseNumber()
	if dec.Decode(&v) != nil {
		return body
	}
	return v
}

// collectWords adds all member names and strings in v to spoken. It splits them at dots, and adds each part.
func collectWords(spoken map[string]bool, v any) {
	switch v := v.(type) {
	case map[string]any:
		for name, value := range v {
			collectWords(spoken, name)
			collectWords(spoken, value)
		}
	case []any:
		for _, item := range v {
			collectWords(spoken, item)
		}
	case string:
		for part := range strings.SplitSeq(v, ".") {
			spoken[plainWord(part)] = true
		}
	}
}

// plainWord converts a word to lower case and removes its separators.
func plainWord(word string) string {
	return strings.NewReplacer("_", "", "-", "", " ", "").Replace(strings.ToLower(word))
}

// readingRules returns the strings in internal/catalog/membernames.go, keyed by the name of their table. If a table maps
// strings to constants, the key also contains the name of the constant, after a space.
func readingRules(t *testing.T) map[string][]string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "../catalog/membernames.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string][]string{}
	add := func(row string, literal ast.Node) {
		if l, ok := literal.(*ast.BasicLit); ok && l.Kind == token.STRING {
			if word, err := strconv.Unquote(l.Value); err == nil {
				rows[row] = append(rows[row], word)
			}
		}
	}
	for _, declaration := range file.Decls {
		group, ok := declaration.(*ast.GenDecl)
		if !ok || group.Tok != token.VAR {
			continue
		}
		for _, spec := range group.Specs {
			row := spec.(*ast.ValueSpec)
			ast.Inspect(row, func(node ast.Node) bool {
				if pair, ok := node.(*ast.KeyValueExpr); ok {
					if value, ok := pair.Value.(*ast.Ident); ok {
						add(row.Names[0].Name+" "+value.Name, pair.Key)
						return false
					}
				}
				add(row.Names[0].Name, node)
				return true
			})
		}
	}
	return rows
}

// recordID returns the ID of a record from a sandbox with the dialect d.
func recordID(record any, d sandbox.Dialect) string { return fmt.Sprint(unwrap(record)[d.Word("id")]) }

// unwrap returns v as a record. If v has only one member, and the value of this member is an object, unwrap returns the
// object.
func unwrap(v any) map[string]any {
	record, _ := v.(map[string]any)
	if len(record) == 1 {
		for _, inner := range record {
			if m, ok := inner.(map[string]any); ok {
				return m
			}
		}
	}
	return record
}

func TestFirstDialectIsDefault(t *testing.T) {
	var names []string
	for _, d := range sandbox.Dialects() {
		if d.Name == "" || slices.Contains(names, d.Name) {
			t.Errorf("empty or repeated name %q", d.Name)
		}
		names = append(names, d.Name)
	}
	if first := sandbox.Dialects()[0]; !reflect.DeepEqual(first, sandbox.Dialect{Name: "default"}) || len(names) > 6 {
		t.Errorf("got %d dialects, want at most 6; the first is %+v", len(names), first)
	}
}

func TestNumericIDsHaveSixteenDigits(t *testing.T) {
	sh := open(t, sandbox.Config{Dialect: sandbox.Dialect{NumericIDs: true}})
	record := sh.do("POST", "/generations", haiku).want(t, 201, "").record(t)
	id, ok := record["id"].(json.Number)
	if !ok || len(id) != 16 {
		t.Fatalf("the id is %#v, want a number of 16 digits", record["id"])
	}
	sh.do("GET", "/generations/"+id.String(), "").want(t, 200, "")
}

func TestDialectWithoutRangesReturnsWholeFile(t *testing.T) {
	cfg := fastConfig()
	cfg.Dialect.NoRange = true
	sh := open(t, cfg)
	id := sh.create(small)
	sh.awaitStatus(id, "succeeded")
	r := sh.do("GET", "/generations/"+id+"/content", "", "Range", "bytes=5-9").want(t, 200, "PNG")
	if r.header.Get("Content-Range") != "" || r.header.Get("ETag") == "" {
		t.Errorf("the headers are %v", r.header)
	}
}
