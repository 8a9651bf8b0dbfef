package orders

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/easel-grpc/easel/internal/catalog"
	"github.com/easel-grpc/easel/internal/ledger"
)

// listed are orders of one owner, the newest first.
func listed(first, n int) (all []Listed) {
	for i := first + n - 1; i >= first; i-- {
		id := fmt.Sprint("g", i)
		all = append(all, Listed{
			Version: catalog.Version{Generation: catalog.Generation{ID: id}}, Attribution: ledger.Attribution{Owner: "studio", Model: id},
			Position: ledger.Position{Time: time.Unix(int64(i), 0), ID: id},
		})
	}
	return all
}

func TestOwnOrdersKeepTheNewestAndTheUnsettledAlone(t *testing.T) {
	own := (&Orders{}).OwnOrders(catalog.Credential{Held: true}, new("studio"))
	unsettled := listed(0, 10)
	if fresh := own.note(answer{newest: listed(0, 20), unsettled: unsettled}); len(fresh) != 0 {
		t.Errorf("at first %q are new", fresh)
	}
	const step, steps = 500, 100
	for n := range steps {
		if fresh := own.note(answer{newest: listed(20+n*step, step), unsettled: unsettled}); len(fresh) != step {
			t.Fatalf("%d are new", len(fresh))
		}
	}
	if kept := len(own.recent) + len(own.older); kept < maxCovered || kept > 2*(maxCovered+step) {
		t.Errorf("%d are kept of %d", kept, step*steps)
	}
	last := 20 + step*steps
	for id, want := range map[string]bool{"g0": true, "g9": true, "g15": false, fmt.Sprint("g", last-1): true, fmt.Sprint("g", last-maxCovered): true, fmt.Sprint("g", last): false} {
		if whose, known := own.Whose(id); known != want || known && whose.Model != id {
			t.Errorf("%s is known: %v, as %v", id, known, whose)
		}
	}
	if len(own.unknown) != 2 || len(own.Unsettled()) != 10 {
		t.Errorf("%v are unknown, and %q unsettled", own.unknown, own.Unsettled())
	}
}

func TestOwnOrdersAskForAMinuteForWhatIsLookedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		own := (&Orders{}).OwnOrders(catalog.Credential{Held: true}, nil)
		own.note(answer{})
		for i := range 2 * maxCovered {
			own.Whose(fmt.Sprint("g", i))
		}
		if len(own.unknown) != maxCovered {
			t.Errorf("%d are to be asked for", len(own.unknown))
		}
		now := time.Now()
		if first, again, later := len(own.due(now)), len(own.due(now.Add(time.Second))), len(own.due(now.Add(askedEvery))); first != maxCovered || again != 0 || later != maxCovered {
			t.Errorf("the ledger is asked for %d, %d and %d", first, again, later)
		}
		time.Sleep(askedFor)
		if fresh := own.note(answer{listed: map[string]ledger.Attribution{"g0": {Owner: "studio"}}}); len(fresh) != 1 || len(own.unknown) != maxCovered-1 {
			t.Errorf("%q are new, and %d to be asked for", fresh, len(own.unknown))
		}
		time.Sleep(time.Second)
		own.note(answer{})
		if whose, known := own.Whose("g0"); len(own.unknown) != 0 || !known || whose.Owner != "studio" {
			t.Errorf("%d are to be asked for, and the one that was found is %v", len(own.unknown), whose)
		}
	})
}
