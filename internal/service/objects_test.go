package service

import (
	"encoding/json"
	"math"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/catalog"
)

// wholeGeneration is the message of a record the slow way: each member in its field.
func wholeGeneration(g catalog.Generation, etag string) *easelv1.Generation {
	out := generationMessage(g, etag)
	out.ProtoReflect().SetUnknown(nil)
	out.Inputs, out.UpstreamFields = object(g.Inputs), object(g.Extra)
	return out
}

// sameOnTheWire reports whether the message of a record is the one of the slow way.
func sameOnTheWire(t *testing.T, g catalog.Generation) {
	t.Helper()
	wire, err := proto.Marshal(generationMessage(g, "e"))
	if err != nil {
		t.Fatal(err)
	}
	slow, fast := wholeGeneration(g, "e"), &easelv1.Generation{}
	if err := proto.Unmarshal(wire, fast); err != nil || !proto.Equal(slow, fast) {
		t.Errorf("%v: a caller sees\n%v\nand not\n%v", err, fast, slow)
	}
	if len(fast.ProtoReflect().GetUnknown()) > 0 {
		t.Error("something has no field")
	}
	if len(wire) != proto.Size(slow) {
		t.Errorf("it takes %d bytes, not %d", len(wire), proto.Size(slow))
	}
}

func TestTheMembersOfARecordReachACallerWhateverTheyAre(t *testing.T) {
	members := map[string]any{
		"null": nil, "yes": true, "no": false, "": "", "text": "é", "long": strings.Repeat("x", 300), "double": 1.5,
		"number": json.Number("-0.5"), "exact": json.Number("9007199254740993"), "huge": json.Number("1e999"), "zero": json.Number("0"),
		"list": []any{}, "lists": []any{[]any{nil, json.Number("1")}, map[string]any{"a": []any{"b"}}}, "empty": map[string]any{},
		"object": map[string]any{"a": map[string]any{"b": map[string]any{"c": strings.Repeat("y", 200)}}},
		"bad":    "a\xffb", "bad \xff name": json.Number("2"), "odd": struct{}{}, "infinite": math.Inf(1),
	}
	for _, g := range []catalog.Generation{
		{ID: "g"}, {ID: "g", Inputs: members}, {ID: "g", Extra: members}, {ID: "g", Inputs: map[string]any{}, Extra: members, CostCents: catalog.Int64(0)},
	} {
		sameOnTheWire(t, g)
	}
}

func FuzzTheMembersOfARecordReachACaller(f *testing.F) {
	f.Add(`{"a":[1,{"b":null}],"c":{"d":"é","e":1e400,"f":-0}}`)
	f.Add(`{"\ud800":"\u0000","deep":[[[[[[{"a":{"b":{"c":true}}}]]]]]]}`)
	f.Fuzz(func(t *testing.T, text string) {
		decoder := json.NewDecoder(strings.NewReader(text))
		decoder.UseNumber()
		var members map[string]any
		if decoder.Decode(&members) == nil {
			sameOnTheWire(t, catalog.Generation{ID: "g", Inputs: members, Extra: map[string]any{"all": members}})
		}
	})
}

func BenchmarkAGeneration(b *testing.B) {
	g := catalog.Generation{
		ID: "gen_8qn1x08zckpva1f6kns7", ModelID: "studio/landscape", State: catalog.StateQueued, Status: "queued", CostCents: catalog.Int64(28),
		Inputs: map[string]any{"prompt": "a calm sea at dusk with three small boats and a lighthouse", "size": "1600x1000", "seed": json.Number("4711")},
		Extra:  map[string]any{"queue": "standard", "region": "eu-central", "progress": json.Number("0")},
	}
	for name, message := range map[string]func(catalog.Generation, string) *easelv1.Generation{"ours": generationMessage, "by fields": wholeGeneration} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := proto.Marshal(message(g, "e")); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
