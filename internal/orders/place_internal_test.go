package orders

import (
	"testing"

	"github.com/easel-grpc/easel/internal/catalog"
	"github.com/easel-grpc/easel/internal/ledger"
)

func TestAnOwnerWithTooManyOpenOrdersHasPlacedNone(t *testing.T) { // A6
	err := (&placing{}).unasked(ledger.ErrTooManyOpen)
	if e, ok := err.(*Error); !ok || e.Outcome != NotPlacedByThisCall || catalog.KindOf(err) != catalog.KindBusy { //nolint:errorlint // it is this type
		t.Errorf("it is %v", err)
	}
}
