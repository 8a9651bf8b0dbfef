package clients

import (
	"encoding/json"
	"net/http"
	"testing"

	"github.com/easel-grpc/easel/internal/proctest"
	"github.com/easel-grpc/easel/internal/sandbox"
)

// stack is a catalog with an administration API, and an Easel server for this catalog.
type stack struct{ *proctest.Stack }

// startStack starts the catalog and the Easel server. settings are additional server settings.
func startStack(t *testing.T, settings proctest.Settings) stack {
	t.Helper()
	return stack{proctest.NewStack(t, "--speed", "10").With(settings).Serve()}
}

// addKey creates an API key with a balance of 50 euros.
func (s stack) addKey(key string) {
	s.Helper()
	s.Control(http.MethodPost, "keys", `{"name":"`+key+`","balanceCents":5000,"key":"`+key+`"}`)
}

// awaitWatches waits until exactly want watches of single generations are open.
func (s stack) awaitWatches(want int) {
	s.Helper()
	proctest.Eventually(s, patience, "watches", func() bool { return s.Measured("easel_stream_open", "WatchGeneration") == float64(want) }, s.Status)
}

// holdRenders injects faults, so that the catalog reports every render as queued and responds to list requests with
// 503.
func (s stack) holdRenders() {
	s.Helper()
	s.Fault(`{"route":"GET /generations","status":503}`)
	s.Fault(`{"route":"GET /generations/{id}","set":{"status":"queued"}}`)
	s.Fault(`{"route":"POST /generations","set":{"status":"queued"}}`)
}

// onlyOrder returns the catalog's record of the only order of an API key. It fails the test unless there is exactly one
// order, which was charged once.
func (s stack) onlyOrder(key string) (order sandbox.AuditedGeneration) {
	s.Helper()
	var audit struct {
		sandbox.Audit
		Faults []string
	}
	if err := json.Unmarshal([]byte(s.Control(http.MethodGet, "audit?key="+key, "")), &audit); err != nil {
		s.Fatal(err)
	}
	if len(audit.Faults) > 0 || len(audit.Generations) != 1 || audit.Generations[0].Charges != 1 {
		s.Fatalf("the catalog's audit is %+v", audit)
	}
	return audit.Generations[0]
}

// readContent reads the file of a render directly from the catalog and returns it.
func (s stack) readContent(key string, order sandbox.AuditedGeneration) string {
	s.Helper()
	return proctest.Fetch(s, http.MethodGet, s.Sandbox.Catalog+"/generations/"+order.ID+"/content", "", "Authorization", "Bearer "+key)
}
