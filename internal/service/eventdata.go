package service

import (
	"net/url"
	"strings"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/easel-grpc/easel/internal/ledger"
	"github.com/easel-grpc/easel/internal/orders"
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
	g := attributed(generationMessage(version.Generation, version.Etag), whose)
	g.Inputs = nil
	hide := d.hider()
	g.FailureMessage = hide.Replace(g.GetFailureMessage())
	hideFields(g.GetUpstreamFields(), hide)
	return eventJSON(g)
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

func hideFields(object *structpb.Struct, hide *strings.Replacer) {
	for _, v := range object.GetFields() {
		hideValue(v, hide)
	}
}

func hideValue(v *structpb.Value, hide *strings.Replacer) {
	switch kind := v.GetKind().(type) {
	case *structpb.Value_StringValue:
		kind.StringValue = hide.Replace(kind.StringValue)
	case *structpb.Value_StructValue:
		hideFields(kind.StructValue, hide)
	case *structpb.Value_ListValue:
		for _, item := range kind.ListValue.GetValues() {
			hideValue(item, hide)
		}
	}
}

// eventJSON writes a message as the REST form does.
func eventJSON(m proto.Message) string {
	text, err := protojson.MarshalOptions{EmitDefaultValues: true}.Marshal(m)
	if err != nil {
		return "{}" // its texts are valid UTF-8
	}
	return string(text)
}
