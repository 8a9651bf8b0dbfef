package service

import (
	"net/url"
	"strings"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/easel-grpc/easel/internal/ledger"
	"github.com/easel-grpc/easel/internal/orders"
	"github.com/easel-grpc/easel/internal/rawjson"
)

// EventData writes the data of events in the words of the contract, as JSON.
type EventData struct {
	// Catalog is the catalog's base URL, which no event names.
	Catalog string
}

// Generation is the data of an event about the generation of an order: as the ledger has recorded it, without its
// inputs.
func (d EventData) Generation(o ledger.Order, text *string) string {
	version, whose := orders.Published(o, text)
	hide := d.hider()
	version.Inputs, version.FailureMessage = nil, hide.Replace(version.FailureMessage)
	if version.Extra != nil {
		version.Extra = rawjson.Value(hide.Replace(string(version.Extra)))
	}
	return eventJSON(decoded(attributed(generationMessage(version.Generation, version.Etag), whose)))
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
