package ledger

import (
	"fmt"
	"testing"

	"github.com/easel-grpc/easel/internal/ledger/lifecycle"
)

func TestALineOfTheAuditNamesWhatIsErasedOfEachOwner(t *testing.T) {
	open, placed := lifecycle.Order{State: lifecycle.Open}, lifecycle.Order{State: lifecycle.Placed}
	all := []Order{
		{ID: "open", Owner: "studio", Order: open},
		{ID: "before", Owner: "studio", Order: placed, Erased: true},
		{ID: "a", Owner: "studio", Order: placed},
		{ID: "b", Owner: "print", Order: placed},
	}
	if got := fmt.Sprint(erasedNow(all)); got != "map[print:[b] studio:[a]]" {
		t.Errorf("named are %s", got)
	}
	for n := range 300 {
		all = append(all, Order{ID: fmt.Sprint(n), Owner: "print", Order: placed})
	}
	if got := erasedNow(all); len(got["studio"])+len(got["print"]) != mostErasedNamed {
		t.Errorf("named are %d and %d", len(got["studio"]), len(got["print"]))
	}
}
