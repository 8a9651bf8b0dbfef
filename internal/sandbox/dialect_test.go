package sandbox_test

import (
	"encoding/json"
	"reflect"
	"slices"
	"testing"

	"github.com/easel-grpc/easel/internal/sandbox"
)

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
	id := sh.create(small)
	sh.await(id, "succeeded")
	r := sh.do("GET", "/generations/"+id+"/content", "", "Range", "bytes=5-9").want(t, 200, "PNG")
	if r.header.Get("Content-Range") != "" || r.header.Get("ETag") == "" {
		t.Errorf("headers are %v", r.header)
	}
}
