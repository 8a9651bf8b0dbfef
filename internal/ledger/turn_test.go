package ledger_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/easel-grpc/easel/internal/ledger"
	"github.com/easel-grpc/easel/internal/ledger/lifecycle"
)

func TestReportsLeaveTheBookToOrdersAndReads(t *testing.T) { // D7
	onEach(t, func(t *testing.T, url string) {
		l := open(t, url)
		conclude(t, l, write(t, l, request("placed")), lifecycle.Named, "g1")
		end := l.TakeTurns(t, "print")
		if _, step := call(t, l, request("k")); step.Action != lifecycle.Write {
			t.Errorf("beside them an order is %+v", step)
		}
		if o := own(t, l, "g1"); o.Generation != "g1" {
			t.Errorf("beside them a read finds %+v", o)
		}
		soon, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		report := ledger.UsageQuery{Start: time.Unix(0, 0), End: time.Now().Add(time.Hour), Most: 1}
		if _, err := l.Usage(soon, report); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("one report more: %v", err)
		}
		end()
		if rows, err := l.Usage(t.Context(), report); err != nil || len(rows) != 1 {
			t.Errorf("after them a report is %v, %v", rows, err)
		}
	})
}

func TestAReportThatTakesTooLongIsNoOutage(t *testing.T) {
	if testing.Short() {
		t.Skip("it is of scale: .ci/nightly runs it")
	}
	onEach(t, func(t *testing.T, url string) {
		l := open(t, url)
		defer l.TakeTurns(t, "print")()
		_, err := l.Usage(t.Context(), ledger.UsageQuery{Start: time.Unix(0, 0), End: time.Now(), Most: 1})
		if _, busy := errors.AsType[*ledger.Busy](err); !busy {
			t.Errorf("it is %v", err)
		}
	})
}
