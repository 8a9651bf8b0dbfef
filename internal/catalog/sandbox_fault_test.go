package catalog_test

import (
	"crypto/sha256"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/easel-grpc/easel/internal/catalog"
	"github.com/easel-grpc/easel/internal/sandbox"
)

func TestAResultThatIsNotThereYetIsNotReady(t *testing.T) {
	b := open(t, sandbox.Config{Speed: 0.001}, sandbox.KeyConfig{BalanceCents: 1000})
	g, _, err := b.Post(t.Context(), b.cred, catalog.Order{ModelID: picture, Inputs: small, IdempotencyKey: "k"})
	if err != nil {
		t.Fatal(err)
	}
	_, _, err = b.download(g.ID)
	kind(t, err, catalog.KindContentNotReady)
}

func TestAResultArrivesWholeOrNotAtAll(t *testing.T) { // U16
	const some = 20_000
	for _, dialect := range []sandbox.Dialect{{Name: "ranges"}, {Name: "no ranges", NoRange: true}} {
		t.Run(dialect.Name, func(t *testing.T) {
			b := open(t, sandbox.Config{Dialect: dialect}, sandbox.KeyConfig{BalanceCents: 1000})
			g := b.generation(picture, `{"prompt":"harbour","size":"320x200"}`)
			want := b.file(g.ID)
			for name, c := range map[string]struct {
				fault sandbox.Fault
				whole bool // whether resuming is sure to help
			}{
				"cut at once":               {sandbox.Fault{Count: 1, Cut: true}, true},
				"cut in the middle":         {sandbox.Fault{Count: 1, Cut: true, CutAfter: some}, true},
				"cut three times":           {sandbox.Fault{Count: 3, Cut: true, CutAfter: some}, true},
				"reset":                     {sandbox.Fault{Count: 1, Reset: true}, true},
				"hanging":                   {sandbox.Fault{Count: 1, Hang: true}, false},
				"dripping":                  {sandbox.Fault{Count: 1, Drip: 2}, true},
				"a length that is too long": {sandbox.Fault{Count: 1, ContentLengthDelta: 1000}, !dialect.NoRange},
				"a length that is short":    {sandbox.Fault{Count: 1, ContentLengthDelta: -1000}, !dialect.NoRange},
				"no ETag, cut":              {sandbox.Fault{Count: 1, Cut: true, CutAfter: some, Header: map[string]string{"ETag": ""}}, true},
				"a weak ETag, cut":          {sandbox.Fault{Count: 1, Cut: true, CutAfter: some, Header: map[string]string{"ETag": `W/"x"`}}, true},
				"another part":              {sandbox.Fault{Count: 1, Header: map[string]string{"Content-Range": "bytes 5-9/10"}}, dialect.NoRange},
				"down":                      {sandbox.Fault{Count: 2, Status: 503, Body: "<html>"}, true},
				"down for ever":             {sandbox.Fault{Status: 503, Body: "<html>"}, false},
			} {
				t.Run(name, func(t *testing.T) {
					if dialect.NoRange && name == "a length that is short" {
						t.Skip("can't be noticed without ranges")
					}
					b.t = t
					c.fault.Route = "GET /generations/{id}/content"
					fresh := *b
					fresh.Client = b.another(catalog.Config{AttemptTimeout: 400 * time.Millisecond, BodyIdleTimeout: 200 * time.Millisecond})
					fault := b.box.Inject(c.fault)
					defer fault.Remove()
					_, body, err := fresh.download(g.ID)
					if err == nil && sha256.Sum256(body) != want {
						t.Errorf("%d wrong bytes without an error", len(body))
					}
					if c.whole && err != nil {
						t.Errorf("got %d bytes, %v", len(body), err)
					}
					if fault.Fired() == 0 {
						t.Error("the fault did not fire")
					}
				})
			}
		})
	}
}

func TestAnOutageCostsHardlyMoreRequestsThanCallsOverTheWire(t *testing.T) { // U1
	b := open(t, sandbox.Config{}, sandbox.KeyConfig{})
	fault := b.box.Inject(sandbox.Fault{Status: 503, Body: "<html>down</html>", Header: map[string]string{"Content-Type": "text/html"}})
	const load = 100
	for range load {
		_, err := b.Models(t.Context(), b.cred)
		if e := kind(t, err, catalog.KindUnavailable); e.Message != "" {
			t.Errorf("HTML is echoed: %q", e.Message)
		}
	}
	if fired := fault.Fired(); fired < load || fired > load*110/100 {
		t.Errorf("%d requests for %d calls", fired, load)
	}
}

func TestTheKeyInAnErrorOfTheCatalogIsRedacted(t *testing.T) { // U22
	b := open(t, sandbox.Config{}, sandbox.KeyConfig{})
	text := fmt.Sprintf(`{"code":"BAD","message":"key %s is odd","details":{"field":"%s"}}`, b.key, b.key)
	fault := b.box.Inject(sandbox.Fault{Status: 400, Body: text})
	_, err := b.Account(t.Context(), b.cred)
	if e := kind(t, err, catalog.KindInvalidInput); strings.Contains(fmt.Sprintf("%+v %#v %v", e, *e, err), b.key) || fault.Fired() != 1 {
		t.Errorf("the key is in %+v", e)
	}
}

func TestUnknownMembersStatusesAndTypesAreSurvived(t *testing.T) { // U11
	b := open(t, sandbox.Config{}, sandbox.KeyConfig{BalanceCents: 1000})
	g := b.generation(picture, string(small))
	for name, set := range map[string]map[string]any{
		"an unknown status":  {"status": "hibernating"},
		"a number":           {"status": 5},
		"no status":          {"status": nil},
		"wrong types":        {"costCents": "a", "inputs": []int{1}, "createdAt": true, "modelId": []string{}, "textOutput": 7, "contentUrl": 9},
		"a deep member":      {"x": map[string]any{"y": []any{map[string]any{"z": 1e300}}}},
		"numbers of no kind": {"costCents": 1e300, "createdAt": -1e300},
	} {
		fault := b.box.Inject(sandbox.Fault{Route: "GET /generations/{id}", Set: set})
		got, err := b.Generation(t.Context(), b.cred, g.ID)
		if _, stated := set["status"]; err != nil || got.ID != g.ID || stated != (got.State == catalog.StateUnrecognized) || fault.Fired() != 1 {
			t.Errorf("%s: got %+v, %v", name, got, err)
		}
		fault.Remove()
	}
}
