package catalog

import (
	"encoding/json"
	"math/rand"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var observed = time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)

func answerOf(op, body string) answer {
	return answer{op: op, status: 200, body: []byte(body), time: observed, redactor: newRedactor(testKey)}
}

// readGenerations returns the generations in a list response.
func readGenerations(a answer) (all []Generation, err error) {
	list, err := readList(a)
	if err != nil {
		return nil, err
	}
	for _, one := range list.Records {
		all = append(all, one.Generation)
	}
	return all, nil
}

func TestGenerationIsParsedInEveryFormat(t *testing.T) {
	queued := Generation{ID: "g1", State: StateQueued, Status: "queued", ObserveTime: observed}
	for name, body := range map[string]string{
		"bare":                         `{"id":"g1","status":"queued"}`,
		"without an identifier":        `{"status":"queued"}`,
		"in a generation member":       `{"generation":{"id":"g1","status":"queued"}}`,
		"in a data member":             `{"data":{"id":"g1","status":"queued"}}`,
		"in two wrappers":              `{"data":{"generation":{"id":"g1","status":"queued"}}}`,
		"as a list of one":             `[{"id":"g1","status":"queued"}]`,
		"in an envelope with a status": `{"status":"success","data":{"id":"g1","status":"queued"}}`,
		"in an envelope with an id":    `{"id":"req-7","data":{"id":"g1","status":"queued"}}`,
		"next to another member":       `{"generation":{"id":"g1","status":"queued"},"balanceCents":7}`,
		"with generationId":            `{"generationId":"g1","status":"queued"}`,
		"with generation_id":           `{"generation_id":"g1","status":"queued"}`,
		"after another ID":             `{"id":17,"generationId":"g1","status":"queued"}`,
		"with null members":            `{"id":"g1","status":"queued","costCents":null,"contentUrl":null,"textOutput":null}`,
		"after a byte order mark":      "\uFEFF" + `{"id":"g1","status":"queued"}`,
		"with a duplicate member":      `{"id":"g1","status":"failed","status":"queued"}`,
	} {
		t.Run(name, func(t *testing.T) {
			got, err := readGeneration(answerOf(opGeneration, body), "g1")
			if err != nil {
				t.Fatal(err)
			}
			got.Extra = nil
			if diff := cmp.Diff(queued, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestResponseWithoutGenerationIsMalformed(t *testing.T) {
	for _, body := range []string{
		``, ` `, `null`, `7`, `"queued"`, `[]`, `[1,2]`, `{}`, `{"ok":true}`, `{"error":{"code":"X"}}`,
		`<html>`, `{"id":"g1"`, `{"id":"g1"} {}`, `{"status":"success","data":null}`, `{"status":"success","data":{}}`,
		strings.Repeat(`{"data":`, 20_000) + `1` + strings.Repeat(`}`, 20_000),
	} {
		if _, err := readGeneration(answerOf(opGeneration, body), "g1"); KindOf(err) != KindMalformed {
			t.Errorf("%.40q: got %v, want a malformed response", body, err)
		}
	}
}

func TestStatusIsNormalizedAndMappedToState(t *testing.T) {
	for status, want := range map[string]State{
		`"queued"`: StateQueued, `" Queued "`: StateQueued, `"PENDING"`: StateQueued, `"waiting"`: StateQueued, `"created"`: StateQueued,
		`"running"`: StateRunning, `"processing"`: StateRunning, `"in_progress"`: StateRunning, `"In-Progress"`: StateRunning,
		`"in progress"`: StateRunning, `"started"`: StateRunning,
		`"succeeded"`: StateSucceeded, `"completed"`: StateSucceeded, `"done"`: StateSucceeded, `"success"`: StateSucceeded, `"finished"`: StateSucceeded,
		`"failed"`: StateFailed, `"error"`: StateFailed, `"errored"`: StateFailed,
		`"refunded"`: StateRefunded,
		`"canceled"`: StateUnrecognized, `"deleted"`: StateUnrecognized, `"hibernating"`: StateUnrecognized, `""`: StateUnrecognized,
		`3`: StateUnrecognized, `true`: StateUnrecognized, `null`: StateUnrecognized, `{"is":"queued"}`: StateUnrecognized,
	} {
		got, err := readGeneration(answerOf(opGeneration, `{"id":"g1","status":`+status+`}`), "g1")
		if sent, err := strconv.Unquote(status); err == nil && got.Status != sent {
			t.Errorf("%s is stored as %q", status, got.Status)
		}
		if err != nil || got.State != want {
			t.Errorf("%s: got %v, %v, want %v", status, got.State, err, want)
		}
	}
}

func TestGenerationIDCanBeStringOrInteger(t *testing.T) {
	for body, want := range map[string]string{
		`[{"id":"a/b ü","status":"queued"}]`:                 "a/b ü",
		`[{"id":9007199254740993123,"status":"queued"}]`:     "9007199254740993123",
		`[{"uuid":"u-1","status":"queued"}]`:                 "u-1",
		`[{"ID":"x","status":"queued"}]`:                     "x",
		`[{"id":null,"generationId":"x","status":"queued"}]`: "x",
		`[{"id":1.5,"uuid":"x","status":"queued"}]`:          "x",
		`[{"id":1e3,"uuid":"x","status":"queued"}]`:          "x",
		`[{"id":"","uuid":"x","status":"queued"}]`:           "x",
	} {
		got, err := readGenerations(answerOf(opGenerations, body))
		if err != nil || len(got) != 1 || got[0].ID != want {
			t.Errorf("%s: got %+v, %v, want the id %q", body, got, err, want)
		}
	}
}

func TestGenerationListIsParsedInEveryFormat(t *testing.T) {
	const one = `{"id":"a","status":"queued"}`
	for body, want := range map[string]int{
		`[]`:                                       0,
		`null`:                                     0,
		`[` + one + `]`:                            1,
		`{"generations":[` + one + `]}`:            1,
		`{"generations":null,"total":0}`:           0,
		`{"data":[` + one + `],"errors":[]}`:       1,
		`{"items":[` + one + `],"next":"x"}`:       1,
		`{"whatever":[` + one + `]}`:               1,
		`{"data":{"generations":[` + one + `]}}`:   1,
		`{"a":` + one + `,"b":{"status":"done"}}`:  2,
		`[{"generation":` + one + `}]`:             1,
		`[` + one + `,{"status":"queued"},7,null]`: 1,
	} {
		got, err := readGenerations(answerOf(opGenerations, body))
		if err != nil || len(got) != want {
			t.Errorf("%s: got %d, %v, want %d", body, len(got), err, want)
		}
	}
	for _, body := range []string{`7`, `"a"`, `{}`, `{"a":[],"b":[]}`, `[{"status":"queued"}]`, `[1]`, `{"error":{"code":"X"}}`} {
		if _, err := readGenerations(answerOf(opGenerations, body)); KindOf(err) != KindMalformed {
			t.Errorf("%s: got %v, want a malformed response", body, err)
		}
	}
}

func TestResultCanContainFileAndText(t *testing.T) {
	for name, c := range map[string]struct {
		body string
		text string // expected text; "-" means no text
		file bool
		list bool // whether the generation also has the file if it is read from a list; used only if it has a file
	}{
		"a URL":                    {`"status":"succeeded","contentUrl":"https://x/y"`, "-", true, true},
		"a URL in snake case":      {`"status":"succeeded","content_url":"https://x/y"`, "-", true, true},
		"a text":                   {`"status":"succeeded","textOutput":"hi"`, "hi", false, true},
		"a text in snake case":     {`"status":"succeeded","text_output":"hi"`, "hi", false, true},
		"a text and a null URL":    {`"status":"succeeded","textOutput":"hi","contentUrl":null`, "hi", false, true},
		"a text and a URL":         {`"status":"succeeded","textOutput":"hi","contentUrl":"https://x/y"`, "hi", true, true},
		"an empty text":            {`"status":"succeeded","textOutput":""`, "", false, true},
		"an empty text and a URL":  {`"status":"succeeded","textOutput":"","contentUrl":"https://x/y"`, "-", true, true},
		"a numeric text and a URL": {`"status":"succeeded","textOutput":7,"contentUrl":"https://x/y"`, "-", true, true},
		"neither text nor URL":     {`"status":"succeeded"`, "-", true, false},
		"only a content type":      {`"status":"succeeded","contentType":"image/png"`, "-", true, true},
		"a queued render":          {`"status":"queued","contentUrl":"https://x/y","textOutput":"hi"`, "-", false, true},
	} {
		t.Run(name, func(t *testing.T) {
			check := func(g Generation, file bool) {
				t.Helper()
				text := "-"
				if g.Text != nil {
					text = *g.Text
				}
				if text != c.text || (g.File != nil) != file {
					t.Errorf("got text %q and file %v, want %q and %v", text, g.File, c.text, file)
				}
			}
			single, err := readGeneration(answerOf(opGeneration, `{"id":"g1",`+c.body+`}`), "g1")
			if err != nil {
				t.Fatal(err)
			}
			check(single, c.file)
			list, err := readGenerations(answerOf(opGenerations, `[{"id":"g1",`+c.body+`}]`))
			if err != nil {
				t.Fatal(err)
			}
			check(list[0], c.file && c.list)
		})
	}
}

func TestGenerationFieldsAreParsed(t *testing.T) {
	got, err := readGeneration(answerOf(opGeneration, `{"id":"g1","model_id":"a/b","status":"failed","cost_cents":12,
		"inputs":{"prompt":"sea","seed":9007199254740993},"created_at":1700000000,"finishedAt":"2023-11-14T22:13:25.5Z",
		"failureReason":"ran out of memory","region":"eu","score":0.10,"contentUrl":"https://x/y","labels":["a",null]}`), "g1")
	if err != nil {
		t.Fatal(err)
	}
	want := Generation{
		ID: "g1", ModelID: "a/b", State: StateFailed, Status: "failed", CostCents: new(int64(12)),
		Inputs:         jsonOf(map[string]any{"prompt": "sea", "seed": json.Number("9007199254740993")}),
		FailureMessage: "ran out of memory",
		CreateTime:     time.Date(2023, 11, 14, 22, 13, 20, 0, time.UTC),
		TerminalTime:   time.Date(2023, 11, 14, 22, 13, 25, 500_000_000, time.UTC),
		ObserveTime:    observed,
		Extra:          jsonOf(map[string]any{"region": "eu", "score": json.Number("0.10"), "labels": []any{"a", nil}}),
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestAnActiveGenerationHasNoTerminalTime(t *testing.T) {
	got, err := readGeneration(answerOf(opGeneration, `{"status":"queued","finishedAt":"2030-11-14T22:13:25Z"}`), "g1")
	if err != nil || !got.TerminalTime.IsZero() || membersOf(got.Extra)["finishedAt"] == nil {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestFailureReasonIsParsedInEveryFormat(t *testing.T) {
	for _, member := range []string{
		`"failureMessage":"too hot"`, `"failure_reason":"too hot"`, `"error":"too hot"`, `"errorMessage":"too hot"`,
		`"error":{"code":"HOT","message":"too hot"}`, `"failure":{"reason":"too hot"}`, `"reason":"too hot"`, `"message":" too hot "`,
		`"error":null,"message":"too hot"`,
	} {
		for _, status := range []string{"failed", "refunded"} {
			got, err := readGeneration(answerOf(opGeneration, `{"status":"`+status+`",`+member+`}`), "g1")
			if err != nil || got.FailureMessage != "too hot" {
				t.Errorf("%s: got %q, %v", member, got.FailureMessage, err)
			}
		}
	}
	got, _ := readGeneration(answerOf(opGeneration, `{"status":"queued","message":"in line"}`), "g1")
	if got.FailureMessage != "" || membersOf(got.Extra)["message"] != "in line" {
		t.Errorf("a queued render has failure message %q, want none", got.FailureMessage)
	}
}

func TestInvalidAmountIsTreatedAsAbsent(t *testing.T) {
	for amount, want := range map[string]*int64{
		`0`: new(int64(0)), `1200`: new(int64(1200)), `9007199254740992`: new(int64(1 << 53)),
		`9007199254740993`: nil, `-1`: nil, `-0`: nil, `1.5`: nil, `12.0`: nil, `1e3`: nil, `"12"`: nil, `"12 €"`: nil,
		`null`: nil, `true`: nil, `[12]`: nil, `{"cents":12}`: nil, `99999999999999999999`: nil,
	} {
		g, err := readGeneration(answerOf(opGeneration, `{"id":"g1","status":"queued","costCents":`+amount+`}`), "g1")
		if err != nil || !cmp.Equal(g.CostCents, want) {
			t.Errorf("costCents %s: got %v, %v, want %v", amount, g.CostCents, err, want)
		}
		a, err := readAccount(answerOf(opAccount, `{"balanceCents":`+amount+`}`))
		if err != nil || !cmp.Equal(a.BalanceCents, want) {
			t.Errorf("balanceCents %s: got %v, %v, want %v", amount, a.BalanceCents, err, want)
		}
	}
}

func TestTimestampIsReadInEveryFormat(t *testing.T) {
	at := time.Date(2023, 11, 14, 22, 13, 20, 0, time.UTC)
	for sent, want := range map[string]time.Time{
		`1700000000`: at, `1700000000000`: at, `1700000000.25`: at.Add(250 * time.Millisecond), `"1700000000"`: at, `"1700000000000"`: at,
		`1.7e9`: at, `"2023-11-14T22:13:20Z"`: at, `"2023-11-14T23:13:20+01:00"`: at, `"2023-11-14T22:13:20.000Z"`: at,
		`"2023-11-14T22:13:20"`: at, `"2023-11-14 22:13:20"`: at, `"2023-11-14 22:13:20+00:00"`: at, `"Tue, 14 Nov 2023 22:13:20 GMT"`: at,
		`0`: {}, `-5`: {}, `""`: {}, `"soon"`: {}, `null`: {}, `true`: {}, `"0001-01-01T00:00:00Z"`: {}, `1e300`: {}, `"NaN"`: {},
		`"9999-12-31T23:59:59-01:00"`: {}, `99999999999999999`: {},
	} {
		g, err := readGeneration(answerOf(opGeneration, `{"id":"g1","status":"queued","createdAt":`+sent+`}`), "g1")
		if err != nil || !g.CreateTime.Equal(want) {
			t.Errorf("%s: got %v, %v, want %v", sent, g.CreateTime, err, want)
		}
		_ = g.Etag() // must not panic
	}
}

func TestEtagIgnoresMemberOrderAndReadTime(t *testing.T) {
	members := []string{
		`"id":"g1"`, `"status":"succeeded"`, `"costCents":12`, `"contentUrl":"https://x/y"`, `"b":{"y":1,"x":[1,{"q":2,"p":3}]}`,
		`"a":"é"`, `"inputs":{"z":1,"a":2}`, `"createdAt":1700000000`, `"cost_cents":13`, `"generationId":"g9"`,
	}
	read := func(at time.Time) Generation {
		a := answerOf(opGeneration, "{"+strings.Join(members, ",")+"}")
		a.time = at
		g, err := readGeneration(a, "g1")
		if err != nil {
			t.Fatal(err)
		}
		return g
	}
	first := read(observed)
	for range 200 {
		rand.Shuffle(len(members), func(i, j int) { members[i], members[j] = members[j], members[i] })
		if again := read(time.Now()); again.Etag() != first.Etag() {
			t.Fatalf("the etag of the same record changed:\n%+v\n%+v", first, again)
		}
	}
	list, err := readGenerations(answerOf(opGenerations, `[{"id":"g1","status":"queued"}]`))
	if err != nil {
		t.Fatal(err)
	}
	single, err := readGeneration(answerOf(opGeneration, `{"data":{"status":"queued","id":"g1"}}`), "g1")
	if err != nil || list[0].Etag() != single.Etag() {
		t.Errorf("the etags of a list and a read of the same record differ: %v", err)
	}
	if list[0].Etag() == first.Etag() {
		t.Error("two different records have the same etag")
	}
}

func TestEveryVisibleFieldChangesTheEtag(t *testing.T) {
	whole := Generation{File: &File{}, Text: new(string)}
	seen := map[string]string{whole.Etag(): "nothing"}
	change := func(name string, field reflect.Value, value any) {
		before := reflect.New(field.Type()).Elem()
		before.Set(field)
		field.Set(reflect.ValueOf(value))
		if other, twice := seen[whole.Etag()]; twice {
			t.Errorf("%s and %s lead to the same etag", name, other)
		}
		seen[whole.Etag()] = name
		field.Set(before)
	}
	number, word := int64(7), "other"
	for _, part := range []reflect.Value{reflect.ValueOf(whole.File).Elem(), reflect.ValueOf(&whole).Elem()} {
		for i := range part.NumField() {
			name, field := part.Type().Field(i).Name, part.Field(i)
			switch field.Interface().(type) {
			case string:
				change(name, field, name)
			case *string:
				change(name, field, &word)
				change(name+" that is missing", field, (*string)(nil))
			case *int64:
				change(name, field, &number)
			case State:
				change(name, field, StateFailed)
			case []string:
				change(name, field, []string{"inputs"})
			case time.Time:
				if name != "ObserveTime" {
					change(name, field, observed.Add(time.Duration(i)))
				}
			case Value:
				change(name, field, jsonOf(map[string]any{name: json.Number("1")}))
				change(name+" in a number", field, jsonOf(map[string]any{name: json.Number("1.0")}))
			case *File:
				change(name+" that is missing", field, (*File)(nil))
			default:
				t.Errorf("%s has a type that this test does not support", name)
			}
		}
	}
	whole.ObserveTime = observed
	if seen[whole.Etag()] != "nothing" {
		t.Error("the time of the read changes the etag")
	}
}

func TestAPIKeyAndContentURLAreRemovedFromGeneration(t *testing.T) {
	a := answerOf(opGeneration, `{"id":"g1","status":"succeeded","contentUrl":"https://cdn/x","content_URL":"https://cdn/x",
		"downloadUrl":"https://cdn/x","apiKey":"abc","KEY":"abc","auth_token":"ok","Authorization":"Bearer abc","secret":"s","token":"t",
		"echo":"you sent `+testKey+`","deep":{"list":[{"contentUrl":"https://cdn/x","kept":1,"note":"`+strings.ToUpper(testKey)+`"}]},
		"other":"other_live_abcdef","header":"Bearer abcdefgh","kept":true}`)
	g, err := readGeneration(a, "g1")
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]any{
		"kept": true, "auth_token": "ok",
		"deep": map[string]any{"list": []any{map[string]any{"kept": json.Number("1")}}},
	}
	if diff := cmp.Diff(want, membersOf(g.Extra)); diff != "" {
		t.Error(diff)
	}
	account, err := readAccount(answerOf(opAccount, `{"key":{"balanceCents":7,"name":"prod","key":"`+testKey+`","prefix":"easel_live_"}}`))
	if err != nil || *account.BalanceCents != 7 || !cmp.Equal(membersOf(account.Extra), map[string]any{"name": "prod", "prefix": "easel_live_"}) {
		t.Errorf("got %+v, %v", account, err)
	}
}

func TestAPIKeyIsRemovedFromAccountDetails(t *testing.T) {
	for body, want := range map[string]map[string]any{
		`{"balanceCents":7,"key":{"name":"prod","dailyCapCents":500,"spent":{"todayCents":3,"raw":"abc"},"value":"abc","token":"abc","apiKey":"abc","list":[{"key":"abc"}]}}`: {
			"key": map[string]any{"name": "prod", "dailyCapCents": json.Number("500"), "spent": map[string]any{"todayCents": json.Number("3")}, "list": []any{map[string]any{}}},
		},
		`{"balanceCents":7,"api_key":{"dailyCapCents":500,"key":{"plain_text":"abc","id":"k1"}}}`: {
			"api_key": map[string]any{"dailyCapCents": json.Number("500"), "key": map[string]any{"id": "k1"}},
		},
		`{"balanceCents":7,"value":"kept","key":"abc","apiKey":["abc"],"token":{"value":"abc","n":1},"credentials":{"name":"abc"}}`: {"value": "kept"},
		`{"balanceCents":7,"key":{"note":"` + testKey + `","other":"other_live_abcdef","n":1}}`:                                     {"key": map[string]any{"n": json.Number("1")}},
	} {
		account, err := readAccount(answerOf(opAccount, body))
		if err != nil || *account.BalanceCents != 7 {
			t.Fatalf("%s: %+v, %v", body, account, err)
		}
		if diff := cmp.Diff(want, membersOf(account.Extra)); diff != "" {
			t.Errorf("%s: %s", body, diff)
		}
	}
}

func TestOnlyAPIKeyIsRedactedInInputs(t *testing.T) {
	g, err := readGeneration(answerOf(opGeneration, `{"status":"queued","inputs":{"prompt":"my_live_show","token":"x",
		"leak":["`+testKey+`"],"a `+testKey+`":1,"n":1e400}}`), "g1")
	want := map[string]any{"prompt": "my_live_show", "token": "x", "leak": []any{redacted}, "n": json.Number("1e400")}
	if diff := cmp.Diff(want, membersOf(g.Inputs)); diff != "" || err != nil {
		t.Error(diff, err)
	}
}

func TestDeeplyNestedMembersAreOmitted(t *testing.T) {
	deep := strings.Repeat(`{"a":`, 200) + `1` + strings.Repeat(`}`, 200)
	g, err := readGeneration(answerOf(opGeneration, `{"status":"queued","inputs":`+deep+`,"x":[`+deep+`],"y":1}`), "g1")
	if err != nil || g.Inputs != nil {
		t.Fatalf("got %v, %v", g.Inputs, err)
	}
	if text, _ := json.Marshal(g.Extra); strings.Count(string(text), "{") > 2*maxDepth || membersOf(g.Extra)["y"] == nil {
		t.Errorf("got %s", text)
	}
	_ = g.Etag()
}

func TestInvalidUTF8IsReplaced(t *testing.T) {
	g, err := readGeneration(answerOf(opGeneration, "{\"id\":\"g\xff1\",\"status\":\"queued\",\"a\xff\":\"b\xff\"}"), "g1")
	if err != nil || membersOf(g.Extra)["a\uFFFD"] != "b\uFFFD" {
		t.Errorf("got %+v, %v", g, err)
	}
}

func TestOrderResponseNeedsOnlyGenerationID(t *testing.T) {
	for body, want := range map[string]Generation{
		`{"id":"g1"}`: {ID: "g1", State: StateQueued}, `{"generationId":7}`: {ID: "7", State: StateQueued},
		`{"data":{"id":"g1","status":"pending"}}`:                 {ID: "g1", State: StateQueued, Status: "pending"},
		`{"status":"success","data":{"generationId":"g1"}}`:       {ID: "g1", State: StateQueued},
		`{"success":true,"generation":{"id":"g1","status":"up"}}`: {ID: "g1", State: StateUnrecognized, Status: "up"},
	} {
		got, err := readCreated(answerOf(OpCreate, body))
		got.Extra, want.ObserveTime = nil, observed
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%s: %v %s", body, err, diff)
		}
	}
	for _, body := range []string{``, `{}`, `{"status":"queued"}`, `[]`, `{"id":null}`, `{"id":{}}`, `"g1"`, `<html>`} {
		if _, err := readCreated(answerOf(OpCreate, body)); KindOf(err) != KindMalformed {
			t.Errorf("%s: got %v, want a malformed response", body, err)
		}
	}
}
