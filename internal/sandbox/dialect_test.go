package sandbox_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/easel-grpc/easel/internal/sandbox"
)

// TestEveryDialectHasTheSameHistory runs one customer's day in each dialect, and reads it as a tolerant
// client would.
func TestEveryDialectHasTheSameHistory(t *testing.T) {
	for _, d := range sandbox.Dialects() {
		t.Run(d.Name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := openBubble(t, sandbox.Config{Dialect: d})
				if got := member(b.read("GET", "/me", ""), "balanceCents"); got != "1000" {
					t.Errorf("balance is %s", got)
				}
				if got := len(list(b.read("GET", "/models", ""))); got != 5 {
					t.Errorf("%d models", got)
				}
				detail := member(b.read("GET", "/models/detail?id=studio/landscape", ""), "inputFields")
				for _, name := range []string{"prompt", "time_of_day", "reflections"} {
					if !strings.Contains(detail, name) {
						t.Errorf("the fields do not have %s: %s", name, detail)
					}
				}
				price := fmt.Sprint(b.read("POST", "/quote", small))
				if record, ok := b.read("POST", "/quote", small).(map[string]any); ok {
					price = member(record, "priceCents", "costCents", "cents", "price")
				}
				if price != "5" {
					t.Errorf("price is %s", price)
				}
				words := map[string]bool{}
				good, bad := b.watch(small, words), b.watch(doomed, words)
				if want := "succeeded"; normal(member(good, "status")) != want {
					t.Errorf("status is %q", member(good, "status"))
				}
				if got := normal(member(bad, "status")); got != "refunded" && got != "failed" {
					t.Errorf("status is %q", got)
				}
				if words["running"] != d.ShowRunning {
					t.Errorf("words seen: %v", words)
				}
				if member(good, "contentUrl") == "" || member(good, "costCents") != "5" || member(bad, "failureReason") == "" {
					t.Errorf("records are %v and %v", good, bad)
				}
				b.checkTimes(member(good, "createdAt"), d.Times)
				b.checkList(d)
				b.checkErrors()
			})
		})
	}
}

// read sends a request that must be answered with JSON.
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

// watch creates a generation and polls it until nothing more can happen.
func (b *bubble) watch(body string, words map[string]bool) any {
	b.t.Helper()
	last := b.read("POST", "/generations", body)
	id := member(last, "id")
	for range 25 {
		words[normal(member(last, "status"))] = true
		time.Sleep(1200 * time.Millisecond)
		last = b.read("GET", "/generations/"+id, "")
	}
	return last
}

func (b *bubble) checkTimes(created string, shape sandbox.TimeShape) {
	b.t.Helper()
	digits := map[sandbox.TimeShape]int{sandbox.TimeUnix: 9, sandbox.TimeUnixMilli: 12}[shape] // the bubble begins in 2000
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
		want = max(d.ListLimit, 0)
	}
	if len(items) != want {
		b.t.Fatalf("the list has %d items, want %d", len(items), want)
	}
	for _, item := range items {
		if member(item, "id") == "" || member(item, "status") == "" || (member(item, "inputs") == "") != d.SparseList {
			b.t.Errorf("the list has %v", item)
		}
	}
}

// checkErrors looks for the code and the field, whatever is around them.
func (b *bubble) checkErrors() {
	b.t.Helper()
	r := b.send("POST", "/quote", `{"modelId":"studio/haiku","inputs":{"prompt":"x","zoo":1}}`)
	r.want(b.t, 400, "INVALID_FIELD").want(b.t, 400, "zoo")
	b.send("GET", "/generations/1", "").want(b.t, 404, "GENERATION_NOT_FOUND")
	b.send("GET", "/me", "", "Authorization", "").want(b.t, 401, "UNAUTHORIZED")
}

// unwrap takes a record out of the object that holds nothing else.
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

// list is an array, an object's one array, or the members of an object.
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

// member is the first member there is, in either spelling.
func member(v any, names ...string) string {
	record := unwrap(v)
	for _, name := range names {
		var spelled strings.Builder
		for _, r := range name {
			if r >= 'A' && r <= 'Z' {
				spelled.WriteString("_")
			}
			spelled.WriteString(strings.ToLower(string(r)))
		}
		for _, name := range []string{name, spelled.String()} {
			if record[name] != nil {
				return fmt.Sprint(record[name])
			}
		}
	}
	return ""
}

func normal(status string) string {
	status = strings.ToLower(strings.TrimSpace(status))
	foreign := map[string]string{"pending": "queued", "processing": "running", "completed": "succeeded", "error": "failed"}
	if word, ok := foreign[status]; ok {
		return word
	}
	return status
}

func TestDialectsHaveNamesAndTheFirstIsTheDefault(t *testing.T) {
	var names []string
	for _, d := range sandbox.Dialects() {
		if d.Name == "" || slices.Contains(names, d.Name) {
			t.Errorf("name %q", d.Name)
		}
		names = append(names, d.Name)
	}
	if first := sandbox.Dialects()[0]; first != (sandbox.Dialect{Name: "default"}) {
		t.Errorf("the first dialect is %+v", first)
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
