package orders

import (
	"testing"

	"github.com/easel-grpc/easel/internal/catalog"
	"github.com/easel-grpc/easel/internal/ledger"
)

func TestTooManyOrdersErrorReportsOrderNotPlaced(t *testing.T) {
	for _, tooMany := range []error{ledger.ErrTooManyOpen, ledger.ErrTooManyRefused} {
		err := (&placing{}).unaskedError(tooMany)
		if e, ok := err.(*Error); !ok || e.Outcome != NotPlacedByThisCall || catalog.KindOf(err) != catalog.KindBusy { //nolint:errorlint // exact type
			t.Errorf("the error is %v", err)
		}
	}
}
