package catalog

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
	"unsafe"
)

// listAgain reads a list with the help of the last one, and fails the test where that is not what
// is read without.
func listAgain(t *testing.T, last *Recall, a answer) []Listed {
	t.Helper()
	got, gotErr := readListed(a, last)
	plain, wantErr := readGenerations(a)
	if fmt.Sprint(gotErr) != fmt.Sprint(wantErr) || KindOf(gotErr) != KindOf(wantErr) {
		t.Fatalf("%.300q fails with %v, and without a last list with %v", a.body, gotErr, wantErr)
	}
	if wantErr != nil {
		return nil
	}
	want := make([]Listed, 0, len(plain))
	for _, g := range plain {
		want = append(want, g.Listed())
	}
	if !reflect.DeepEqual(got, want) {
		t.Fatalf("%.300q is read as\n%+v, and without a last list as\n%+v", a.body, got, want)
	}
	return got
}

// at is an answer with a body at a time.
func at(seconds int, body string) answer {
	a := answerOf(opGenerations, body)
	a.time = observed.Add(time.Duration(seconds) * time.Second)
	return a
}

// lists are lists of every shape, those beside each other as a catalog may answer them in turn.
var lists = []string{
	`[` + usual + `]`,
	`[` + usual + `,{"id":"g2","status":"queued","inputs":{"a":[1,{"b":null}]}}]`,
	` [ {"id":"g2","status":"queued","inputs":{"a":[1,{"b":null}]}} , ` + usual + ` ] `,
	`{"generations":[{"id":"g2","status":"queued","inputs":{"a":[1,{"b":null}]}},` + usual + `],"next":"x"}`,
	`{"generations":[{"id":"g2","status":"succeeded","textOutput":"a \"]}\" text"},` + usual + `]}`,
	`{"generations":[{"id":"g2","status":"succeeded","textOutput":"a \"]}\" text"},` + usual,
	`{"generations":[{"id":"g2","status":"succeeded","textOutput":"a \"]}\" text"}` + usual + `]}`,
	`{"generations":[{"id":"g2","status":"succeeded","textOutput":"a \"]}\" text"}x]}`,
	`{"generations":[{"id":"g2","status":"succeeded","textOutput":"a \"]}\" text"}],"generations":[` + usual + `,]}`,
	`{"generations":[{"id":"g2","status":"failed","error":{"message":"x"}}],"generations":[` + usual + `]}`,
	`{"data":{"items":[{"id":"g2","status":"failed","error":{"message":"x"}}]}}`,
	`{"data":[{"id":"g2","status":"failed","error":{"message":"x"}}],"other":[` + usual + `]}`,
	`{"a":[{"id":"g2","status":"failed","error":{"message":"x"}}]}`,
	`{"a":[{"id":"g2","status":"failed","error":{"message":"x"}}],"b":[{"id":"g3","status":"queued"}]}`,
	`{"g2":{"status":"queued","a":[{"id":"g3","status":"queued"}]},"g3":{"id":"g3","status":"queued"}}`,
	`[[{"id":"g2","status":"queued"}],[{"id":"g3","status":"queued"}]]`,
	`[{"generation":{"id":"g2","status":"queued"}},{"generation":[{"id":"g3","status":"queued"}]},[{"id":"g4"}]]`,
	`[{"id":"g2","id":"g3","status":"queued"},{"id":"g2","id":"g3","status":"queued"}]`,
	`[{"id":"g2","status":"queued"},{"id":"g2","status":"queued"},{"id":"g2","status":"failed"}]`,
	`[{},{"id":""},null,7,"text",{"status":"queued"},{"id":"g3"}]`,
	`[{},{"id":""},null,7,"text",{"status":"queued"}]`,
	`[{"id":"g2","key":"` + testKey + `","note":"my ` + testKey + ` is","` + testKey + `":1,"status":"` + testKey + `"},{"id":"g3","status":"queued"}]`,
	`[{"id":"g2","note":"wk_live_` + strings.Repeat("0", 24) + `","token":"t","status":"failed","message":"see <b>"}]`,
	`[{"id":"\u0067\u0032","status":"queued"},{"id":"g\ud800","status":"queued"}]`,
	"[{\"id\":\"g2\",\"status\":\"queued\",\"note\":\"\xff\"},{\"id\":\"g\xff\"}]",
	`[{"id":"g2","a":` + strings.Repeat("[", 99) + strings.Repeat("]", 99) + `}]`,
	`{"x":[{"id":"g2","a":` + strings.Repeat("[", 97) + strings.Repeat("]", 97) + `}]}`,
	`[{"id":"g2","a":` + strings.Repeat("[", 97) + strings.Repeat("]", 97) + `}]`,
	"\uFEFF[{\"id\":\"g2\",\"status\":\"queued\"}]",
	`[]`, `{}`, ``, `null`, `{"generations":null}`, `{"generations":[]}`, `"text"`, `[`, `[{`, `[{"id":"g2"`, `[{"id":"g2"}`, `[{"id":"g2"},`, `[{"id":"g2"}]]`,
	`[{"":f`, `[{"a":nul`, `[{"a":1,`, `[{"a":"\u00`, `[{"a":-`,
}

func TestAListIsReadWithTheHelpOfAnotherAsItIsReadWithout(t *testing.T) {
	for i, first := range lists {
		for j, second := range lists {
			last := new(Recall)
			for n, body := range []string{first, second, second, first} {
				listAgain(t, last, at(n, body))
			}
			if t.Failed() {
				t.Fatalf("lists %d and %d", i, j)
			}
		}
	}
}

func FuzzAListIsReadWithTheHelpOfAnotherAsItIsReadWithout(f *testing.F) { // U11 I2
	for i, body := range lists {
		f.Add(body, lists[(i+1)%len(lists)], 7)
	}
	f.Fuzz(func(t *testing.T, first, second string, cut int) {
		last := new(Recall)
		mixed := first[:min(max(cut, 0), len(first))] + second[min(max(cut, 0), len(second)):]
		for n, body := range []string{first, mixed, second, first} {
			for _, one := range listAgain(t, last, at(n, body)) {
				printsNoKey(t, "a listed generation", one)
			}
		}
	})
}

// page is a list of renders, each with a status.
func page(statuses ...string) string {
	var items []string
	for i, status := range statuses {
		if status != "" {
			items = append(items, fmt.Sprintf(`{"id":"g%d","status":%q,"inputs":{"prompt":"a quiet sea at dawn"},"createdAt":%d}`, i, status, 1700000000+i))
		}
	}
	return `{"generations":[` + strings.Join(items, ",") + `]}`
}

// readAnew is how many objects of a list have to be read that the last one did not have.
func readAnew(t *testing.T, last *Recall, body string) (n int) {
	t.Helper()
	value, err := decode(body, last.of(answerOf(opGenerations, body)))
	if err != nil {
		t.Fatal(err)
	}
	items, _ := list(value, generationListNames, generationWeights)
	for _, item := range items {
		if r, ok := item.(*recalled); !ok || r.members != nil {
			n++
		}
	}
	return n
}

func TestOnlyTheRecordsOfAListThatChangedAreReadAgain(t *testing.T) {
	statuses := slices.Repeat([]string{"queued"}, 300)
	last := new(Recall)
	for _, step := range []struct {
		name   string
		change func()
		anew   int
	}{
		{"the first list", func() {}, 300},
		{"the same", func() {}, 0},
		{"one has changed", func() { statuses[70] = "succeeded" }, 1},
		{"the last is gone", func() { statuses[299] = "" }, 0},
		{"a hundred are gone", func() { clear(statuses[50:150]) }, 0},
		{"all have changed", func() { copy(statuses, slices.Repeat([]string{"failed"}, 300)) }, 300},
		{"a new one", func() { statuses = append(statuses, "queued") }, 1},
	} {
		step.change()
		body := page(statuses...)
		if n := readAnew(t, last, body); n != step.anew {
			t.Errorf("%s: %d are read, not %d", step.name, n, step.anew)
		}
		listAgain(t, last, at(0, body))
	}
	backwards := strings.Split(strings.TrimSuffix(strings.TrimPrefix(page(statuses[:200]...), `{"generations":[`), `]}`), `,{`)
	for i := range backwards {
		backwards[i] = "{" + strings.TrimPrefix(backwards[i], "{")
	}
	listAgain(t, last, at(1, page(statuses[:200]...)))
	slices.Reverse(backwards)
	if n := readAnew(t, last, `[`+strings.Join(backwards, ",")+`]`); n != 0 {
		t.Errorf("in another order: %d are read", n)
	}
}

func TestARecordIsCleanedAgainWhereTheKeyIsAnother(t *testing.T) { // a held key is rotated
	one, other := "one-key-of-a-credential", "another-key-of-the-same" // what looks like a key goes whoever it belongs to
	last := new(Recall)
	body := `[{"id":"g1","status":"queued","one":"` + one + `","other":"` + other + `"}]`
	for _, keys := range [][2]string{{one, other}, {other, one}, {one, other}, {one, other}} {
		a := answerOf(opGenerations, body)
		a.hide = newScrubber(keys[0])
		got := listAgain(t, last, a)
		if extra := fmt.Sprint(got[0].Extra); strings.Contains(extra, keys[0]) || !strings.Contains(extra, keys[1]) {
			t.Errorf("read %v", got)
		}
	}
}

func TestWhatIsRememberedOfAListIsBounded(t *testing.T) {
	last := new(Recall)
	listAgain(t, last, at(0, page("queued")))
	if len(last.records) != 1 {
		t.Fatalf("%d are remembered", len(last.records))
	}
	large := `[{"id":"g1","status":"queued","note":"` + strings.Repeat("long ", maxRecalled/5) + `"}]`
	listAgain(t, last, at(0, large))
	if len(last.records) != 0 {
		t.Error("a list is remembered that is too large")
	}
	if _, err := readListed(at(0, page("queued")), last); err != nil || len(last.records) != 1 {
		t.Errorf("%d are remembered, %v", len(last.records), err)
	}
	if _, err := readListed(at(0, "broken"), last); err == nil || len(last.records) != 1 {
		t.Errorf("%d are remembered after a list that was none, %v", len(last.records), err)
	}
}

func TestWhatIsRememberedOfAListIsPartOfItsLastBodyAlone(t *testing.T) {
	last := new(Recall)
	listAgain(t, last, at(0, page("queued")))
	body := page("queued", "failed")
	listAgain(t, last, at(1, body))
	first, second := last.records[0].text, last.records[1].text
	place := func(text string) uintptr { return uintptr(unsafe.Pointer(unsafe.StringData(text))) }
	if place(second)-place(first) != uintptr(strings.Index(body, second)-strings.Index(body, first)) {
		t.Error("a record keeps the body that had it first")
	}
}

func TestNoRecordKeepsTheBodyOfAListThatCouldNotBeRead(t *testing.T) {
	last := new(Recall)
	listAgain(t, last, at(0, page("queued", "failed")))
	for n := range 2 { // each body has another of the records
		statuses := []string{"queued", "failed"}
		statuses[1-n] = ""
		listAgain(t, last, at(1, strings.TrimSuffix(page(statuses...), "}")+strings.Repeat(" ", 1<<10)))
	}
	if len(last.records) != 0 {
		t.Errorf("%d are remembered, each with a body of its own", len(last.records))
	}
}

func TestARecallThatIsMissingRemembersNothing(t *testing.T) {
	c := newTestClient(t, answering(200, "application/json", page("queued", "failed")))
	for range 2 {
		if got, err := c.List(t.Context(), testCredential); err != nil || len(got) != 2 || got[0].Etag != got[0].Generation.Etag() {
			t.Errorf("read %v, %v", got, err)
		}
	}
}

func BenchmarkReadAListAgain(b *testing.B) {
	statuses := slices.Repeat([]string{"queued"}, 200)
	body := page(statuses...)
	for _, changed := range []int{0, 1, 200} {
		b.Run(fmt.Sprint(changed, " of 200 changed"), func(b *testing.B) {
			copy(statuses, slices.Repeat([]string{"failed"}, changed))
			bodies := []string{body, page(statuses...)}
			last := new(Recall)
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				if list, err := readListed(answerOf(opGenerations, bodies[i%2]), last); err != nil || len(list) != 200 {
					b.Fatal(err)
				}
			}
		})
	}
}
