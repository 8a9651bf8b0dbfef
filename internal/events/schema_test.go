package events_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/easel-grpc/easel/gen/openapi"
	"github.com/easel-grpc/easel/internal/events"
	"github.com/easel-grpc/easel/internal/ledger"
	"github.com/easel-grpc/easel/internal/proctest"
	"github.com/easel-grpc/easel/internal/service"
)

var update = flag.Bool("update", false, "Write docs/events.schema.json.")

// docs returns the path of a file in the docs directory.
func docs(name string) string { return filepath.Join("..", "..", "docs", name) }

// schema returns the JSON schema of events, which it takes from the contract's OpenAPI document.
func schema(t *testing.T) []byte {
	t.Helper()
	var contract struct {
		Components struct {
			Schemas map[string]map[string]any `json:"schemas"`
		} `json:"components"`
	}
	if err := json.Unmarshal(openapi.Document, &contract); err != nil {
		t.Fatal(err)
	}
	parts := map[string]any{}
	var take func(name string)
	take = func(name string) {
		if parts[name] != nil {
			return
		}
		part := maps.Clone(contract.Components.Schemas[name])
		parts[name] = part
		text, _ := json.Marshal(part)
		for _, found := range strings.Split(string(text), `"#/components/schemas/`)[1:] {
			other, _, _ := strings.Cut(found, `"`)
			take(other)
		}
	}
	take("Generation")
	take("Budget")
	properties := parts["Generation"].(map[string]any)["properties"].(map[string]any)
	delete(properties, "inputs")
	properties["resultUrl"] = map[string]any{"type": "string", "format": "uri", "description": "Address of the result, which is read with the team's own token. Set if the render has succeeded and EASEL_PUBLIC_URL is set."}
	of := func(kinds []string, data string, more map[string]any) map[string]any {
		properties := map[string]any{"type": map[string]any{"enum": kinds}, "data": map[string]any{"$ref": "#/$defs/" + data}}
		maps.Copy(properties, more)
		return map[string]any{"properties": properties, "required": slices.Sorted(maps.Keys(properties))}
	}
	text := map[string]any{"type": "string", "minLength": 1}
	whole, err := json.MarshalIndent(map[string]any{
		"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "An event of Easel", "$defs": parts, "type": "object",
		"description": "A CloudEvents 1.0 document about a render or a budget: docs/operators.md. More members may come.",
		"required":    []string{"specversion", "id", "source", "type", "subject", "time", "datacontenttype", "data"},
		"properties": map[string]any{
			"specversion": map[string]any{"const": "1.0"}, "id": text, "source": map[string]any{"type": "string", "format": "uri-reference"}, "subject": text,
			"time": map[string]any{"type": "string", "format": "date-time"}, "datacontenttype": map[string]any{"const": "application/json"},
		},
		"oneOf": []any{
			of([]string{ledger.EventSucceeded, ledger.EventFailed, ledger.EventRefunded, ledger.EventDeleted}, "Generation", nil),
			of([]string{ledger.EventBudget}, "Budget", map[string]any{"percent": map[string]any{"type": "integer"}}),
		},
	}, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	return append(bytes.ReplaceAll(whole, []byte("#/components/schemas/"), []byte("#/$defs/")), '\n')
}

func TestEventSchemaMatchesContract(t *testing.T) {
	want := schema(t)
	if *update {
		if err := os.WriteFile(docs("events.schema.json"), want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile(docs("events.schema.json")); err != nil || !bytes.Equal(got, want) {
		t.Errorf("docs/events.schema.json does not match the contract: run go test ./internal/events -run Schema -update (%v)", err)
	}
}

func TestEventSchemaAcceptsSentAndDocumentedEvents(t *testing.T) {
	compiled, err := jsonschema.NewCompiler().Compile(docs("events.schema.json"))
	if err != nil {
		t.Fatal(err)
	}
	validate := func(text string) error {
		value, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
		if err != nil {
			return err
		}
		return compiled.Validate(value)
	}
	var shown []string
	for _, block := range strings.Split(proctest.Read(t, "docs/operators.md"), "```json\n")[1:] {
		block, _, _ = strings.Cut(block, "```")
		shown = append(shown, block)
	}
	data := service.EventData{Catalog: "https://catalog.example/api"}
	o := ledger.Order{Owner: "studio", Caller: "poster-service", Labels: map[string]string{"job": "7"}, Time: time.Now(), Record: `{"ID":"g1","State":3,"Status":"succeeded","Etag":"e",
		"Extra":{"preview":"https://catalog.example/api/preview/1","more":[{"at":"see https://catalog.example"}],"size":7},"FailureMessage":"at https://catalog.example/api/x"}`}
	o.Generation, o.ModelID = "g1", "m"
	written := data.Generation(o, new("a haiku"))
	if strings.Contains(written, "catalog.example") || !strings.Contains(written, "a haiku") || strings.Contains(written, "inputs") || !strings.Contains(written, `"etag":"e"`) && !strings.Contains(written, `"etag": "e"`) {
		t.Errorf("the event data contains a catalog URL or inputs, or lacks a member: %s", written)
	}
	data.Results = "https://easel.example/"
	if of := data.Generation(o, new("a haiku")); strings.Contains(of, "resultUrl") {
		t.Errorf("a text result has the URL %s", of)
	}
	data.Texts = true
	if written = data.Generation(o, new("a haiku")); !strings.HasSuffix(written, `,"resultUrl":"https://easel.example/v1/generations/g1/content"}`) {
		t.Errorf("the event data does not end with the result URL: %s", written)
	}
	o.DeletedByCall = true
	deleted := data.Generation(o, new("a haiku"))
	if !strings.Contains(deleted, "STATE_DELETED") || strings.Contains(deleted, "resultUrl") || strings.Contains(deleted, "a haiku") {
		t.Errorf("the data of a deleted generation is %s", deleted)
	}
	for _, e := range []ledger.Event{
		{Type: ledger.EventSucceeded, Data: written},
		{Type: ledger.EventDeleted, Data: deleted},
		{Type: ledger.EventBudget, Percent: 80, Data: data.Budget(ledger.Budget{Period: "month", LimitCents: 7, Start: time.Now(), Reset: time.Now()})},
	} {
		e.ID, e.Owner, e.Subject, e.Time = "evt_1", "studio", "g1", time.Now().UTC()
		text, err := events.Document(e)
		if err != nil {
			t.Fatal(err)
		}
		shown = append(shown, string(text))
	}
	if len(shown) != 4 {
		t.Errorf("got %d documents, want 4", len(shown))
	}
	for _, text := range shown {
		if err := validate(text); err != nil {
			t.Errorf("%v\n%s", err, text)
		}
	}
	for _, wrong := range []string{`{}`, strings.Replace(shown[0], "generation.succeeded", "budget.threshold", 1), strings.Replace(shown[0], `"1.0"`, `"0.3"`, 1), strings.Replace(shown[0], "STATE_SUCCEEDED", "DONE", 1)} {
		if validate(wrong) == nil {
			t.Errorf("the schema accepts %s", wrong)
		}
	}
}
