package catalog

import (
	"strings"
	"testing"
	"time"
)

// usual is a generation in the usual form of a catalog's response.
const usual = `{"id":"gen_8qn1x08zckpva1f6kns7","modelId":"studio/landscape","status":"queued","costCents":28,"createdAt":"2026-11-20T23:35:21.964812563Z",` +
	`"inputs":{"prompt":"a calm sea at dusk with three small boats and a lighthouse","size":"1600x1000","seed":4711},` +
	`"queue":"standard","region":"eu-central","progress":0}`

// listBodies contains list responses in all formats that the client reads, and malformed responses.
var listBodies = []string{
	`[` + usual + `]`,
	`[` + usual + `,{"id":"g2","status":"queued","inputs":{"a":[1,{"b":null}]}}]`,
	` [ {"id":"g2","status":"queued","inputs":{"a":[1,{"b":null}]}} , ` + usual + ` ] `,
	`{"generations":[{"id":"g2","status":"queued","inputs":{"a":[1,{"b":null}]}},` + usual + `],"next":"x"}`,
	`{"generations":[{"id":"g2","status":"succeeded","textOutput":"a \"]}\" text"},` + usual + `]}`,
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
}

func FuzzAListHoldsNoAPIKey(f *testing.F) {
	for _, body := range listBodies {
		f.Add(body)
	}
	f.Fuzz(func(t *testing.T, body string) {
		list, err := readList(answerOf(opGenerations, body))
		if err != nil {
			return
		}
		for _, one := range list.Records {
			printsNoKey(t, "a listed generation", one)
			if one.Etag != one.Generation.Etag() {
				t.Errorf("the etag of %s in the list differs from that of the generation", one.ID)
			}
		}
	})
}

func TestListRedactsCurrentAPIKeyAfterRotation(t *testing.T) {
	keys := []string{"one-key-of-a-credential", "another-key-of-the-same"} // each list must redact only the key with which it was requested
	now := 0
	shared := Shared(func() Secret { return NewSecret(keys[now]) })
	c := newTestClient(t, answeringTransport(200, "application/json", `[{"id":"g1","status":"queued","one":"`+keys[0]+`","other":"`+keys[1]+`"}]`))
	for _, now = range []int{0, 1, 0, 0} {
		list, err := c.List(t.Context(), shared, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		if extra := string(list.Records[0].Extra); strings.Contains(extra, keys[now]) || !strings.Contains(extra, keys[1-now]) {
			t.Errorf("with the current key %s, the extra members are %s", keys[now], extra)
		}
	}
}
