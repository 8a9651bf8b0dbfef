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

// unspoken are tables of the reading rules that no dialect needs to cover.
var unspoken = map[string]string{
	"timeLayouts":    "formats, and no words",
	"secretNames":    "members that a reader drops",
	"keyNames":       "members that a reader drops",
	"keySecretNames": "members that a reader drops",
}

func TestDialectsCoverEachReadingRule(t *testing.T) {
	spoken := map[string]bool{}
	for _, d := range sandbox.Dialects() {
		synctest.Test(t, func(t *testing.T) {
			b := openBubble(t, sandbox.Config{Dialect: d})
			for _, body := range b.everyBody(t) {
				hear(spoken, b.parse(body))
			}
		})
	}
	rows := readingRules(t)
	if len(rows) < 60 {
		t.Fatalf("rules.go has only %d rows", len(rows))
	}
	for row, words := range rows {
		if unspoken[row] == "" && !slices.ContainsFunc(words, func(word string) bool { return spoken[plain(word)] }) {
			t.Errorf("no dialect speaks a word of %s: %q", row, words)
		}
	}
}

// everyBody returns a response of each kind.
func (b *bubble) everyBody(t *testing.T) (bodies []string) {
	key := b.key
	ask := func(method, path, body string, head ...string) string {
		r := b.send(method, path, body, head...)
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
		id := b.id(b.parse(ask("POST", "/generations", order)))
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

// parse returns a body as decoded JSON, or as a string.
func (b *bubble) parse(body string) any {
	var v any
	dec := json.NewDecoder(strings.NewReader(body))
	dec.UseNumber()
	if dec.Decode(&v) != nil {
		return body
	}
	return v
}

// hear adds member names and values, and their parts between dots.
func hear(spoken map[string]bool, v any) {
	switch v := v.(type) {
	case map[string]any:
		for name, value := range v {
			hear(spoken, name)
			hear(spoken, value)
		}
	case []any:
		for _, item := range v {
			hear(spoken, item)
		}
	case string:
		for part := range strings.SplitSeq(v, ".") {
			spoken[plain(part)] = true
		}
	}
}

// plain removes differences in spelling: case and separators.
func plain(word string) string {
	return strings.NewReplacer("_", "", "-", "", " ", "").Replace(strings.ToLower(word))
}

// readingRules returns the words of each table in rules.go. A table that maps words to values is a row for each value.
func readingRules(t *testing.T) map[string][]string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "../catalog/rules.go", nil, 0)
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

// TestEveryDialectHasTheSameHistory runs a customer's day in each dialect, and reads it as a tolerant client does.
func TestEveryDialectHasTheSameHistory(t *testing.T) {
	for _, d := range sandbox.Dialects() {
		t.Run(d.Name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := openBubble(t, sandbox.Config{Dialect: d})
				if got := b.member(b.read("GET", "/me", ""), "balanceCents"); got != "1000" {
					t.Errorf("balance is %s", got)
				}
				if got := len(list(b.read("GET", "/models", ""))); got != 5 {
					t.Errorf("%d models", got)
				}
				detail := b.member(b.read("GET", "/models/detail?id=studio/landscape", ""), "inputFields")
				for _, name := range []string{"prompt", "time_of_day", "reflections"} {
					if !strings.Contains(detail, name) {
						t.Errorf("the fields do not have %s: %s", name, detail)
					}
				}
				if price := fmt.Sprint(b.read("POST", "/quote", small)); !strings.Contains(price, "5") {
					t.Errorf("price is %s", price)
				}
				seen := map[string]bool{}
				good, bad := b.watch(small, seen), b.watch(doomed, seen)
				if got := b.member(good, "status"); got != d.Word("succeeded") {
					t.Errorf("status is %q", got)
				}
				if got := b.member(bad, "status"); got != d.Word("refunded") && got != d.Word("failed") {
					t.Errorf("status is %q", got)
				}
				if seen[d.Word("running")] != d.ShowRunning {
					t.Errorf("statuses seen: %v", seen)
				}
				if b.member(good, "contentUrl") == "" || b.member(good, "costCents") != "5" || b.member(bad, "failureReason") == "" {
					t.Errorf("records are %v and %v", good, bad)
				}
				b.checkTimes(b.member(good, "createdAt"), d.Times)
				b.checkList(d)
				b.checkErrors()
			})
		})
	}
}

// read sends a request that must return JSON.
func (b *bubble) read(method, path, body string) any {
	b.t.Helper()
	r := b.send(method, path, body)
	if r.status >= 300 {
		b.t.Fatalf("%s %s: %d %s", method, path, r.status, r.body)
	}
	return b.decode(r)
}

func (b *bubble) decode(r reply) any {
	b.t.Helper()
	var v any
	dec := json.NewDecoder(strings.NewReader(string(r.body)))
	dec.UseNumber()
	if err := dec.Decode(&v); err != nil {
		b.t.Fatal(err)
	}
	return v
}

// watch creates a generation and polls it until its final state.
func (b *bubble) watch(body string, seen map[string]bool) any {
	b.t.Helper()
	last := b.read("POST", "/generations", body)
	id := b.id(last)
	for range 25 {
		seen[b.member(last, "status")] = true
		time.Sleep(1200 * time.Millisecond)
		last = b.read("GET", "/generations/"+id, "")
	}
	return last
}

func (b *bubble) id(record any) string { return b.member(record, "id") }

// member returns a member by its name in the default dialect.
func (b *bubble) member(v any, name string) string {
	record := unwrap(v)
	if value := record[b.dialect.Word(name)]; value != nil {
		return fmt.Sprint(value)
	}
	return ""
}

func (b *bubble) checkTimes(created string, shape sandbox.TimeShape) {
	b.t.Helper()
	digits := map[sandbox.TimeShape]int{sandbox.TimeUnix: 9, sandbox.TimeUnixMilli: 12}[shape] // the bubble starts in 2000
	switch {
	case shape == sandbox.TimeAbsent && created != "",
		shape == sandbox.TimeRFC3339 && !strings.HasPrefix(created, "2000-01-01T"),
		digits > 0 && len(created) != digits:
		b.t.Errorf("createdAt is %q", created)
	}
}

func (b *bubble) checkList(d sandbox.Dialect) {
	b.t.Helper()
	for range 3 {
		b.read("POST", "/generations", haiku)
	}
	items := list(b.read("GET", "/generations", ""))
	want := 5
	if d.ListLimit != 0 {
		want = d.ListLimit
	}
	if len(items) != want {
		b.t.Fatalf("the list has %d items, want %d", len(items), want)
	}
	for _, item := range items {
		if b.member(item, "id") == "" || b.member(item, "status") == "" || (b.member(item, "inputs") == "") != d.SparseList {
			b.t.Errorf("the list has %v", item)
		}
	}
}

// checkErrors checks the code and the field in any shape.
func (b *bubble) checkErrors() {
	b.t.Helper()
	r := b.send("POST", "/quote", `{"modelId":"studio/haiku","inputs":{"prompt":"x","zoo":1}}`)
	r.want(b.t, 400, "INVALID_FIELD").want(b.t, 400, "zoo")
	b.send("GET", "/generations/1", "").want(b.t, 404, "GENERATION_NOT_FOUND")
	b.send("GET", "/me", "", "Authorization", "").want(b.t, 401, "UNAUTHORIZED")
}

// unwrap returns the record in an object with only one member.
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

// list returns an array, the only array of an object, or the members of an object.
func list(v any) []any {
	if items, ok := v.([]any); ok {
		return items
	}
	var members []any
	for _, inner := range v.(map[string]any) {
		if items, ok := inner.([]any); ok {
			return items
		}
		members = append(members, inner)
	}
	return members
}

func TestDialectsHaveNamesAndTheFirstIsTheDefault(t *testing.T) {
	var names []string
	for _, d := range sandbox.Dialects() {
		if d.Name == "" || slices.Contains(names, d.Name) {
			t.Errorf("name %q", d.Name)
		}
		names = append(names, d.Name)
	}
	if first := sandbox.Dialects()[0]; !reflect.DeepEqual(first, sandbox.Dialect{Name: "default"}) || len(names) > 6 {
		t.Errorf("%d dialects, the first is %+v", len(names), first)
	}
}

func TestNumericIDsAreExactNumbers(t *testing.T) {
	sh := open(t, sandbox.Config{Dialect: sandbox.Dialect{NumericIDs: true}})
	record := sh.do("POST", "/generations", haiku).want(t, 201, "").record(t)
	id, ok := record["id"].(json.Number)
	if !ok || len(id) != 16 {
		t.Fatalf("id is %#v", record["id"])
	}
	sh.do("GET", "/generations/"+id.String(), "").want(t, 200, "")
}

func TestWithoutRangeTheWholeFileComes(t *testing.T) {
	cfg := fast()
	cfg.Dialect.NoRange = true
	sh := open(t, cfg)
	id, _ := sh.create(small)
	sh.await(id, "succeeded")
	r := sh.do("GET", "/generations/"+id+"/content", "", "Range", "bytes=5-9").want(t, 200, "PNG")
	if r.header.Get("Content-Range") != "" || r.header.Get("ETag") == "" {
		t.Errorf("headers are %v", r.header)
	}
}
