package ledger

import (
	"fmt"
	"testing"
)

func TestALineOfTheAuditNamesSomeOfWhatIsErased(t *testing.T) {
	all := []Order{{ID: "a", Owner: "studio"}}
	for n := range 300 {
		all = append(all, Order{ID: fmt.Sprint(n), Owner: "print"})
	}
	if got := idsByOwner(all); len(got["studio"]) != 1 || len(got["print"]) != mostErasedNamed-1 || got["print"][0] != "0" {
		t.Errorf("named are %d and %d", len(got["studio"]), len(got["print"]))
	}
}
