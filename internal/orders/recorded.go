package orders

import (
	"github.com/easel-grpc/easel/internal/catalog"
	"github.com/easel-grpc/easel/internal/ledger"
)

// recordedGeneration is what the ledger has of the generation of a placed order.
func recordedGeneration(order ledger.Order) catalog.Generation {
	return catalog.Generation{ID: order.Generation, ModelID: order.ModelID, State: catalog.StateQueued, CostCents: order.CostCents, CreateTime: order.Time, ObserveTime: order.Time}
}
