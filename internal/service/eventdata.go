package service

import (
	"encoding/json"
	"net/url"
	"strings"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/easel-grpc/easel/internal/catalog"
	"github.com/easel-grpc/easel/internal/ledger"
	"github.com/easel-grpc/easel/internal/orders"
)

// EventData encodes the data of events as JSON, in the form that the contract defines.
type EventData struct {
	// Catalog is the catalog's base URL. Events must not contain it.
	Catalog string
	// Results is the base URL of this server's REST API, for links to results. Empty means that events contain no links.
	Results string
	// Texts reports whether text results can be downloaded like files. This is the case if Easel keeps copies of
	// results.
	Texts bool
}

// Generation returns the event data for an order's generation. The data describes the recorded state, without the
// inputs. text is the result, or nil if the result is not a text.
func (d EventData) Generation(o ledger.Order, text *string) string {
	version, whose := orders.Published(o, text)
	hide := d.hider()
	version.Inputs, version.FailureMessage = nil, hide.Replace(version.FailureMessage)
	if version.Extra != nil {
		version.Extra = catalog.Value(hide.Replace(string(version.Extra)))
	}
	return d.withResult(eventJSON(addAttribution(generationMessage(version.Generation, version.Etag), whose)), version.Generation)
}

// withResult returns data, a JSON object. If the result can be downloaded, it adds the URL of the result to the object.
func (d EventData) withResult(data string, g catalog.Generation) string {
	if d.Results == "" || g.State != catalog.StateSucceeded || g.Text != nil && g.File == nil && !d.Texts {
		return data
	}
	address, err := json.Marshal(strings.TrimRight(d.Results, "/") + "/v1/generations/" + url.PathEscape(g.ID) + "/content")
	if err != nil {
		return data // unreachable, because encoding a string cannot fail
	}
	return strings.TrimSuffix(data, "}") + `,"resultUrl":` + string(address) + "}"
}

// Budget returns the event data for a budget.
func (d EventData) Budget(b ledger.Budget) string {
	return eventJSON(budgetMessages([]ledger.Budget{b})[0])
}

// hider returns a replacer that replaces the catalog's address in strings with hiddenCatalog.
func (d EventData) hider() *strings.Replacer {
	u, err := url.Parse(d.Catalog)
	if err != nil || u.Host == "" {
		return strings.NewReplacer()
	}
	return strings.NewReplacer("https://"+u.Host, hiddenCatalog, "http://"+u.Host, hiddenCatalog, "//"+u.Host, hiddenCatalog)
}

// hiddenCatalog replaces the catalog's address in events.
const hiddenCatalog = "[catalog]"

// eventJSON encodes a message in the same way as the REST API.
func eventJSON(m proto.Message) string {
	text, err := protojson.MarshalOptions{EmitDefaultValues: true}.Marshal(m)
	if err != nil {
		return "{}" // unreachable, because the strings in m are valid UTF-8
	}
	return string(text)
}
