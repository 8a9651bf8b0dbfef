package catalog

import (
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// usual is an answer about a generation as the catalog usually gives it.
const usual = `{"id":"gen_8qn1x08zckpva1f6kns7","modelId":"studio/landscape","status":"queued","costCents":28,"createdAt":"2026-11-20T23:35:21.964812563Z",` +
	`"inputs":{"prompt":"a calm sea at dusk with three small boats and a lighthouse","size":"1600x1000","seed":4711},` +
	`"queue":"standard","region":"eu-central","progress":0}`

// listBodies are lists of every shape, those beside each other as a catalog may answer them in turn.
var listBodies = []string{
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

// page is a list of generations, each with a status.
func page(statuses ...string) string {
	var items []string
	for i, status := range statuses {
		if status != "" {
			items = append(items, fmt.Sprintf(`{"id":"g%d","status":%q,"inputs":{"prompt":"a quiet sea at dawn"},"createdAt":%d}`, i, status, 1700000000+i))
		}
	}
	return `{"generations":[` + strings.Join(items, ",") + `]}`
}

// listAgain reads a list with the help of the last one, and fails the test where that is not what
// is read without.
func listAgain(t *testing.T, last remembered, a answer) ([]Version, remembered) {
	t.Helper()
	list, next, gotErr := readList(a, last)
	plain, wantErr := readGenerations(a)
	if fmt.Sprint(gotErr) != fmt.Sprint(wantErr) || KindOf(gotErr) != KindOf(wantErr) {
		t.Fatalf("%.300q fails with %v, and without a last list with %v", a.body, gotErr, wantErr)
	}
	if wantErr != nil {
		return nil, last
	}
	want := make([]Version, 0, len(plain))
	for _, g := range plain {
		want = append(want, g.Version())
	}
	if got := list.Records; !reflect.DeepEqual(got, want) {
		t.Fatalf("%.300q is read as\n%+v, and without a last list as\n%+v", a.body, got, want)
	}
	return list.Records, next
}

// listAt is a list with a body at a time.
func listAt(seconds int, body string) answer {
	a := answerOf(opGenerations, body)
	a.time = observed.Add(time.Duration(seconds) * time.Second)
	return a
}

func TestAListIsReadAlikeWithALastOneAndWithout(t *testing.T) { // U11 I2
	for i, first := range listBodies {
		for j, second := range listBodies {
			var last remembered
			for n, body := range []string{first, second, second, first} {
				_, last = listAgain(t, last, listAt(n, body))
			}
			if t.Failed() {
				t.Fatalf("lists %d and %d", i, j)
			}
		}
	}
}

func FuzzAListIsReadAlikeWithALastOneAndWithout(f *testing.F) { // U11 I2
	for i, body := range listBodies {
		f.Add(body, listBodies[(i+1)%len(listBodies)], 7)
	}
	f.Fuzz(func(t *testing.T, first, second string, cut int) {
		mixed := first[:min(max(cut, 0), len(first))] + second[min(max(cut, 0), len(second)):]
		var last remembered
		for n, body := range []string{first, mixed, second, first} {
			var all []Version
			all, last = listAgain(t, last, listAt(n, body))
			for _, one := range all {
				printsNoKey(t, "a listed generation", one)
			}
		}
	})
}

// lister is a client over a catalog whose list is a text.
type lister struct {
	*testing.T
	*Client
	body string
}

func newLister(t *testing.T) *lister {
	l := &lister{T: t, body: page("queued", "queued")}
	l.Client = newTestClient(t, roundTrip(func(r *http.Request) (*http.Response, error) { return reply(r, 200, nil, l.body), nil }))
	return l
}

// list gives what tells the inputs of each record from a copy of them.
func (l *lister) list(cred Credential) (inputs []uintptr) {
	l.Helper()
	list, err := l.List(l.Context(), cred, time.Now())
	if err != nil {
		l.Fatal(err)
	}
	for _, one := range list.Records {
		if one.Etag != one.Generation.Etag() {
			l.Errorf("the etag of %s is another", one.ID)
		}
		inputs = append(inputs, reflect.ValueOf(one.Inputs).Pointer())
	}
	return inputs
}

// decoded is how many of the records of a list were decoded after the list before.
func decoded(before, after []uintptr) (n int) {
	for _, inputs := range after {
		if !slices.Contains(before, inputs) {
			n++
		}
	}
	return n
}

func TestOnlyChangedRecordsAreDecoded(t *testing.T) {
	l, statuses := newLister(t), slices.Repeat([]string{"queued"}, 300)
	var before []uintptr
	for _, step := range []struct {
		name   string
		change func()
		want   int
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
		l.body = page(statuses...)
		after := l.list(testCredential)
		if n := decoded(before, after); n != step.want {
			t.Errorf("%s: %d are decoded, not %d", step.name, n, step.want)
		}
		before = after
	}
}

func TestTwoCredentialsShareNoRecord(t *testing.T) { // L7
	l := newLister(t)
	mine := l.list(testCredential)
	if theirs := l.list(Forwarded(NewSecret("another-key-of-another"))); decoded(mine, theirs) != 2 {
		t.Error("a record of one credential serves another")
	}
	if again := l.list(testCredential); decoded(mine, again) != 0 {
		t.Error("another credential's list was in the way")
	}
}

func TestARotatedAPIKeyDropsTheRecordsBefore(t *testing.T) { // U22
	keys := []string{"one-key-of-a-credential", "another-key-of-the-same"} // what looks like a key goes whoever it belongs to
	l, now := newLister(t), 0
	held := Held(func() Secret { return NewSecret(keys[now]) })
	l.body = `[{"id":"g1","status":"queued","one":"` + keys[0] + `","other":"` + keys[1] + `"}]`
	for _, now = range []int{0, 1, 0, 0} {
		list, err := l.List(t.Context(), held, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		if extra := string(list.Records[0].Extra); strings.Contains(extra, keys[now]) || !strings.Contains(extra, keys[1-now]) {
			t.Errorf("under %s: %s", keys[now], extra)
		}
	}
}

func TestTheCacheOfListsIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLister(t)
		kept := func(age time.Duration) int {
			time.Sleep(age)
			synctest.Wait()
			return l.lists.size()
		}
		l.list(testCredential)
		time.Sleep(time.Nanosecond)
		l.body = page(slices.Repeat([]string{"queued"}, maxRemembered/80)...)
		l.list(testCredential)
		if kept(listAge-1) != 1 || kept(1) != 0 {
			t.Error("a list that is too large is kept for more or less than its second")
		}
		l.body = page("queued")
		before := l.list(testCredential)
		time.Sleep(rememberTime)
		if after := l.list(testCredential); decoded(before, after) != 0 {
			t.Error("records are forgotten too early")
		}
		if kept(listAge+rememberTime-1) != 1 || kept(1) != 0 {
			t.Error("the records of a credential that lists nothing any more are kept for more or less than their time")
		}
	})
}

func TestAListThatCannotBeReadLeavesTheLastOne(t *testing.T) {
	l := newLister(t)
	whole := l.body
	before := l.list(testCredential)
	l.body = strings.TrimSuffix(l.body, "}")
	if _, err := l.List(t.Context(), testCredential, time.Now()); KindOf(err) != KindMalformed {
		t.Errorf("got %v", err)
	}
	if l.body = whole; decoded(before, l.list(testCredential)) != 0 {
		t.Error("its records are decoded again")
	}
}

func BenchmarkAGeneration(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		g, err := readGeneration(answerOf(opGeneration, usual), "gen_8qn1x08zckpva1f6kns7")
		if err != nil || g.Version().Etag == "" {
			b.Fatal(err)
		}
	}
}

func BenchmarkAListOf200(b *testing.B) {
	statuses := slices.Repeat([]string{"queued"}, 200)
	body := page(statuses...)
	for _, changed := range []int{0, 1, 200} {
		b.Run(fmt.Sprint(changed, " changed"), func(b *testing.B) {
			copy(statuses, slices.Repeat([]string{"failed"}, changed))
			bodies := []string{body, page(statuses...)}
			var last remembered
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				list, next, err := readList(answerOf(opGenerations, bodies[i%2]), last)
				if err != nil || len(list.Records) != 200 {
					b.Fatal(err)
				}
				last = next
			}
		})
	}
}
