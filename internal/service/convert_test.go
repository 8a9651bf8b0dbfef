package service

import (
	"encoding/json"
	"math"
	"reflect"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/callers"
	"github.com/easel-grpc/easel/internal/catalog"
	"github.com/easel-grpc/easel/internal/watch"
)

// reaches checks that a caller sees on the wire what the message gives in the process.
func reaches(t *testing.T, g catalog.Generation) *easelv1.Generation {
	t.Helper()
	message, seen := generationMessage(g, "e"), &easelv1.Generation{}
	wire, err := proto.Marshal(message)
	if err != nil {
		t.Fatal(err)
	}
	if err := proto.Unmarshal(wire, seen); err != nil || !proto.Equal(message, seen) {
		t.Errorf("%v: a caller sees\n%v\nand not\n%v", err, seen, message)
	}
	return seen
}

func TestTheMembersOfARecordReachACallerWhateverTheyAre(t *testing.T) {
	members := map[string]any{
		"null": nil, "yes": true, "no": false, "": "", "text": "é", "long": strings.Repeat("x", 300), "double": 1.5,
		"number": json.Number("-0.5"), "exact": json.Number("9007199254740993"), "huge": json.Number("1e999"), "zero": json.Number("0"),
		"list": []any{}, "lists": []any{[]any{nil, json.Number("1")}, map[string]any{"a": []any{"b"}}}, "empty": map[string]any{},
		"object": map[string]any{"a": map[string]any{"b": map[string]any{"c": strings.Repeat("y", 200)}}},
		"bad":    "a\xffb", "bad \xff name": json.Number("2"), "odd": struct{}{}, "infinite": math.Inf(1),
	}
	reaches(t, catalog.Generation{ID: "g"})
	seen := reaches(t, catalog.Generation{ID: "g", Inputs: members, Extra: map[string]any{}, CostCents: new(int64(0))})
	if seen.UpstreamFields == nil || len(seen.GetUpstreamFields().GetFields()) != 0 {
		t.Errorf("no members are %v", seen.GetUpstreamFields())
	}
	got := seen.GetInputs().GetFields()
	for name, want := range map[string]any{
		"null": nil, "yes": true, "no": false, "": "", "text": "é", "double": 1.5, "number": -0.5, "zero": 0., "infinite": math.Inf(1), "odd": nil,
		"exact": "9007199254740993", "huge": "1e999", // no double holds them
		"bad": "a\uFFFDb", "bad \uFFFD name": 2., "empty": map[string]any{}, "list": []any{},
		"lists": []any{[]any{nil, 1.}, map[string]any{"a": []any{"b"}}},
	} {
		if value, ok := got[name]; !ok || !reflect.DeepEqual(value.AsInterface(), want) && value.GetNumberValue() != want {
			t.Errorf("%q is %v, want %v", name, value, want)
		}
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
			reaches(t, catalog.Generation{ID: "g", Inputs: members, Extra: map[string]any{"all": members}})
		}
	})
}

func TestAnotherOwnersErrorIsToldByItsKindAlone(t *testing.T) {
	const secret = "GET /generations/{id}: unavailable (HTTP 500): generation g of another"
	behind := &callers.List{}
	for _, row := range []struct {
		name string
		call call
		beat watch.Heartbeat
		want string
	}{
		{"without a callers file", call{}, watch.Heartbeat{Condition: watch.ConditionUnreachable, LastError: secret}, secret},
		{"to an operator", call{listed: behind, operator: true}, watch.Heartbeat{Condition: watch.ConditionUnreachable, LastError: secret}, secret},
		{"of the own generation", call{listed: behind}, watch.Heartbeat{Condition: watch.ConditionUnreachable, LastError: secret, Own: true}, secret},
		{"unreachable", call{listed: behind}, watch.Heartbeat{Condition: watch.ConditionUnreachable, LastError: secret}, "unavailable"},
		{"throttled", call{listed: behind}, watch.Heartbeat{Condition: watch.ConditionThrottled, LastError: secret}, "rate limited"},
		{"rejected", call{listed: behind}, watch.Heartbeat{Condition: watch.ConditionCredentialRejected, LastError: secret}, "credential rejected"},
		{"healthy again", call{listed: behind}, watch.Heartbeat{Condition: watch.ConditionHealthy, LastError: secret}, ""},
		{"healthy", call{listed: behind}, watch.Heartbeat{Condition: watch.ConditionHealthy}, ""},
	} {
		if got := heartbeatMessage(row.call, row.beat).GetLastError(); got != row.want {
			t.Errorf("%s: %q, want %q", row.name, got, row.want)
		}
	}
}
