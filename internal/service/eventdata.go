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

// EventData writes the data of events in the words of the contract, as JSON.
type EventData struct {
	// Catalog is the catalog's base URL, which no event names.
	Catalog string
	// Results is the base address of this server's REST form, where results are read; "" is not known.
	Results string
	// Texts means that results that are texts are files too, as copies are.
	Texts bool
}

// Generation is the data of an event about the generation of an order: as the ledger has recorded it, without its
// inputs.
func (d EventData) Generation(o ledger.Order, text *string) string {
	version, whose := orders.Published(o, text)
	hide := d.hider()
	version.Inputs, version.FailureMessage = nil, hide.Replace(version.FailureMessage)
	if version.Extra != nil {
		version.Extra = catalog.Value(hide.Replace(string(version.Extra)))
	}
	return d.withResult(eventJSON(attributed(generationMessage(version.Generation, version.Etag), whose)), version.Generation)
}

// withResult adds where the result is read, if there is one.
func (d EventData) withResult(data string, g catalog.Generation) string {
	if d.Results == "" || g.State != catalog.StateSucceeded || g.Text != nil && g.File == nil && !d.Texts {
		return data
	}
	address, err := json.Marshal(strings.TrimRight(d.Results, "/") + "/v1/generations/" + url.PathEscape(g.ID) + "/content")
	if err != nil {
		return data // a text can be written
	}
	return strings.TrimSuffix(data, "}") + `,"resultUrl":` + string(address) + "}"
}

// Budget is the data of an event about a budget.
func (d EventData) Budget(b ledger.Budget) string {
	return eventJSON(budgetMessages([]ledger.Budget{b})[0])
}

// hider takes the address of the catalog out of texts.
func (d EventData) hider() *strings.Replacer {
	u, err := url.Parse(d.Catalog)
	if err != nil || u.Host == "" {
		return strings.NewReplacer()
	}
	return strings.NewReplacer("https://"+u.Host, hiddenCatalog, "http://"+u.Host, hiddenCatalog, "//"+u.Host, hiddenCatalog)
}

// hiddenCatalog stands in the place of the catalog's address.
const hiddenCatalog = "[catalog]"

// eventJSON writes a message as the REST form does.
func eventJSON(m proto.Message) string {
	text, err := protojson.MarshalOptions{EmitDefaultValues: true}.Marshal(m)
	if err != nil {
		return "{}" // its texts are valid UTF-8
	}
	return string(text)
}
