package catalog

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
)

// shortened reads a list that is shortened while it is read, in pieces of one byte where it is small.
func shortened(t *testing.T, body string) (*List, answer) {
	t.Helper()
	short, cut, err := shorten(strings.NewReader(body))
	if len(body) < 1<<12 {
		bytewise, bytewiseCut, bytewiseErr := shorten(iotest.OneByteReader(strings.NewReader(body)))
		if string(bytewise) != string(short) || bytewiseCut != cut || fmt.Sprint(bytewiseErr) != fmt.Sprint(err) {
			t.Errorf("%.200q is shortened to %.200q, and byte by byte to %.200q", body, short, bytewise)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	a := answerOf(opGenerations, string(short))
	a.cut = cut
	list, _, err := readList(a, remembered{})
	if err != nil {
		t.Fatalf("%.200q: %v", short, err)
	}
	return list, a
}

func TestASmallListIsReadAsItWasSent(t *testing.T) { // U11 I2
	for _, body := range listBodies {
		plain, wantErr := readGenerations(answerOf(opGenerations, body))
		short, cut, err := shorten(strings.NewReader(body))
		if err != nil || cut {
			t.Errorf("%.200q: %v, cut %v", body, err, cut)
		}
		got, gotErr := readGenerations(answerOf(opGenerations, string(short)))
		if !reflect.DeepEqual(got, plain) || KindOf(gotErr) != KindOf(wantErr) {
			t.Errorf("%.200q is read as\n%+v, %v, and shortened as\n%+v, %v", body, plain, wantErr, got, gotErr)
		}
	}
}

func TestLargeMembersOfAListAreLeftOut(t *testing.T) { // D8
	large := strings.Repeat("x", 900<<10)
	record := `"id":"g%[1]d","status":"succeeded","costCents":7,"inputs":{"prompt":"` + large + `","seed":1},"textOutput":"t","list":[[1,"]",{"}":"` + large + `"}]],"note":"n"`
	for shape, parts := range map[string][3]string{
		"an array":               {`[`, `{` + record + `}`, `]`},
		"a member":               {`{"total":3,"generations":[`, `{` + record + `}`, `],"next":"c"}`},
		"in an envelope":         {`{"data":{"items":[`, `{` + record + `}`, `]},"note":"` + large + `"}`},
		"wrapped records":        {`[`, `{"render":{` + record + `}}`, `]`},
		"twice wrapped records":  {`[`, `{"data":{"render":{` + record + `}}}`, `]`},
		"records by their id":    {`{`, `"g%[1]d":{` + record + `}`, `}`},
		"with escapes and space": {" [ ", ` { "note" : "\\\"]}" , ` + record + ` } `, " ] \n"},
	} {
		t.Run(shape, func(t *testing.T) {
			var records []string
			for i := range 20 {
				records = append(records, strings.ReplaceAll(fmt.Sprintf(strings.ReplaceAll(parts[1], large, "LARGE"), i), "LARGE", large))
			}
			list, a := shortened(t, parts[0]+strings.Join(records, " ,\n")+parts[2])
			if len(list.Records) != 20 || list.Cut || len(a.body) > 10<<10 {
				t.Fatalf("%d of 20 are listed, cut: %v, in %d bytes", len(list.Records), list.Cut, len(a.body))
			}
			g, ok := list.Find("g7")
			if !ok || g.State != StateSucceeded || *g.CostCents != 7 || g.Inputs != nil || *g.Text != "t" || !slices.Equal(g.Omitted, []string{"inputs", "upstream_fields"}) || membersOf(g.Extra)["note"] == nil || shape != "records by their id" && membersOf(g.Extra)["list"] != nil {
				t.Errorf("read as %+v", g)
			}
		})
	}
}

func TestWhatIsNoFieldInAStateIsNamedAsOneOfTheOthers(t *testing.T) {
	large := `"` + strings.Repeat("x", 900<<10) + `"`
	for record, want := range map[string]string{
		`"status":"succeeded","detail":LARGE,"textOutput":"t"`: "upstream_fields",
		`"status":"queued","detail":LARGE`:                     "upstream_fields",
		`"status":"failed","textOutput":LARGE`:                 "upstream_fields",
		`"status":"failed","error":LARGE,"message":"no"`:       "upstream_fields",
		`"status":"failed","error":LARGE`:                      "failure_message",
	} {
		list, _ := shortened(t, `[{"id":"g1",`+strings.ReplaceAll(record, "LARGE", large)+`}]`)
		g, _ := list.Find("g1")
		if got := strings.Join(g.Omitted, " "); got != want || strings.Contains(string(g.Extra), "omitted") {
			t.Errorf("of %s %q is left out: %+v", record, got, g)
		}
	}
}

func TestWhatAListLeavesOutIsNamed(t *testing.T) { // D8
	large := `"` + strings.Repeat("x", 900<<10) + `"`
	for members, want := range map[string]string{
		`"inputs":{"prompt":LARGE},"textOutput":"t"`:                                 "inputs",
		`"inputs":{"a":1},"textOutput":LARGE`:                                        "text",
		`"inputs":{"a":1},"textOutput":LARGE,"output_text":LARGE`:                    "text",
		`"inputs":{"a":1},"note":LARGE,"list":[LARGE]`:                               "upstream_fields",
		`"inputs":{"a":1},"result":{"note":LARGE,"kept":1}`:                          "upstream_fields",
		`"inputs":{"a":1},"data":{"item":{"note":LARGE,"kept":1}}`:                   "upstream_fields",
		`"inputs":{"prompt":LARGE},"textOutput":LARGE,"result":{"note":LARGE}`:       "inputs text upstream_fields",
		`"inputs":{"a":1},"textOutput":"t","note":"` + strings.Repeat("x", 99) + `"`: "",
	} {
		list, _ := shortened(t, `[{"id":"g1","status":"succeeded",`+strings.ReplaceAll(members, "LARGE", large)+`}]`)
		g, _ := list.Find("g1")
		if got := strings.Join(g.Omitted, " "); got != want || strings.Contains(fmt.Sprintf("%q %+q", deref(g.Text), g.Extra), "omitted") {
			t.Errorf("of %s %q is left out: %+v", members, got, g)
		}
		if (g.Inputs == nil) != strings.Contains(want, "inputs") || strings.Contains(members, "kept") != strings.Contains(string(g.Extra), "kept") {
			t.Errorf("of %s there are %s and %s", members, g.Inputs, g.Extra)
		}
	}
}

func deref(text *string) string {
	if text == nil {
		return ""
	}
	return *text
}

func TestAListIsFoundSoDeepAndNoDeeper(t *testing.T) {
	for depth := range 7 {
		body := strings.Repeat(`{"data":`, depth) + `[{"id":"g1"}]` + strings.Repeat(`}`, depth)
		if all, err := readGenerations(answerOf(opGenerations, body)); (err == nil) != (depth <= maxEnvelope+1) {
			t.Errorf("in %d envelopes there are %v: %v", depth, all, err)
		}
	}
}

func TestAListIsReadAsFarAsThereIsRoom(t *testing.T) { // D8
	inputs := strings.Repeat("x", shortMember/2)
	var records []string
	for i := range 3 * maxList / shortMember {
		records = append(records, fmt.Sprintf(`{"id":"g%d","status":"queued","inputs":{"prompt":%q}}`, i, inputs))
	}
	for shape, parts := range map[string][2]string{
		"an array":       {`[`, `]`},
		"in an envelope": {`{"data":{"items":[`, `],"next":"c"},"total":7}`},
	} {
		t.Run(shape, func(t *testing.T) {
			list, a := shortened(t, parts[0]+strings.Join(records, ",")+parts[1])
			if n := len(list.Records); !list.Cut || n >= len(records) || len(a.body) < maxList-2*shortMember || len(a.body) > maxList+shortMember {
				t.Errorf("%d of %d are listed, cut: %v, in %d bytes", n, len(records), list.Cut, len(a.body))
			}
			if g, ok := list.Find("g0"); !ok || len(g.Omitted) > 0 || membersOf(g.Inputs)["prompt"] != inputs {
				t.Errorf("the first is read as %.200v", g)
			}
		})
	}
}

func TestLargeRecordsLeaveRoomForAll(t *testing.T) { // D8
	var records []string
	for i := range 1000 {
		records = append(records, fmt.Sprintf(`{"id":"g%d","status":"queued","inputs":{"prompt":%q}}`, i, strings.Repeat("x", 50<<10)))
	}
	list, _ := shortened(t, `[`+strings.Join(records, ",")+`]`)
	first, _ := list.Find("g0")
	if len(list.Records) != 1000 || list.Cut || len(first.Omitted) > 0 {
		t.Errorf("%d of 1000 are listed, cut: %v; left out of the first: %v", len(list.Records), list.Cut, first.Omitted)
	}
}

func FuzzAShortenedListIsJSONWhereTheListIs(f *testing.F) { // U11
	for _, body := range listBodies {
		f.Add(body, 7)
	}
	f.Fuzz(func(t *testing.T, body string, size int) {
		body = strings.ReplaceAll(body, "a calm sea", strings.Repeat("a calm sea", min(max(size, 0), 1<<17)))
		short, cut, err := shorten(strings.NewReader(body))
		if err != nil || cut {
			t.Fatalf("%.200q: %v, cut %v", body, err, cut)
		}
		body, short = strings.TrimPrefix(body, "\uFEFF"), []byte(strings.TrimPrefix(string(short), "\uFEFF"))
		if json.Valid([]byte(body)) != json.Valid(short) && len(body) < 1<<10 {
			t.Errorf("%.200q is shortened to %.200q", body, short)
		}
	})
}
