package orders

import (
	"context"
)

// maxOwned is how many generations are known to belong to somebody.
const maxOwned = 100_000

// ownedKey is a generation and who asks for it; of operators no name is the owner's.
type ownedKey struct{ owner, generationID string }

// Attribution says whose a generation is. It never changes.
type Attribution struct {
	Owner, Caller string
	Labels        map[string]string
}

// Owned says whether a generation belongs to an owner, or where that is nil to anybody. Generations of one's own
// alone are remembered: a foreign one and one that nobody has take the same way.
func (o *Orders) Owned(ctx context.Context, owner *string, generationID string) (Attribution, bool, error) {
	key := ownedKey{generationID: generationID}
	if owner != nil {
		key.owner = *owner
	}
	if a, ok := o.owned.get(key); ok {
		return a, true, nil
	}
	ctx, cancel := context.WithTimeout(ctx, ledgerTimeout)
	defer cancel()
	order, found, err := o.Ledger.Own(ctx, owner, generationID)
	if err != nil || !found {
		return Attribution{}, false, err
	}
	a := Attribution{order.Owner, order.Caller, order.Labels}
	o.owned.put(key, a)
	return a, true, nil
}
