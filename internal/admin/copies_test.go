package admin

import (
	"strings"
	"testing"
	"time"

	"github.com/easel-grpc/easel/internal/ledger"
)

func TestStatusReportsDelayedAndFailedResultCopies(t *testing.T) {
	for name, test := range map[string]struct {
		copies bool
		known  ledger.ContentSummary
		say    []string
	}{
		"no problems":                     {true, ledger.ContentSummary{}, nil},
		"copies that wait for 14 minutes": {true, ledger.ContentSummary{Waiting: 3, Oldest: 14 * time.Minute}, nil},
		"copies that wait for 16 minutes": {true, ledger.ContentSummary{Waiting: 3, Oldest: 16 * time.Minute}, []string{"wait to be copied: 3, the oldest for 16m0s"}},
		"abandoned copies":                {true, ledger.ContentSummary{Failed: 2}, []string{"copy was abandoned: 2"}},
		"waiting and abandoned copies":    {true, ledger.ContentSummary{Waiting: 1, Oldest: time.Hour, Failed: 1}, []string{"the oldest for 1h0m0s", "copy was abandoned: 1"}},
		"no store":                        {false, ledger.ContentSummary{Waiting: 1, Oldest: time.Hour, Failed: 1}, nil},
	} {
		_, source := quietStatus()
		source.Copies = test.copies
		source.Ledger = func() ledger.Reading {
			return ledger.Reading{Up: true, Summary: ledger.Summary{Contents: test.known}}
		}
		made := source.report(t.Context())
		if len(made.Concerns) != len(test.say) {
			t.Errorf("%s: %+v", name, made.Concerns)
			continue
		}
		for n, say := range test.say {
			if !strings.Contains(made.Concerns[n].Text, say) || made.Concerns[n].Grave {
				t.Errorf("%s: %+v", name, made.Concerns[n])
			}
		}
		if made.Copies != test.copies || made.Ledger.Contents != test.known {
			t.Errorf("%s: the status shows %v, %+v", name, made.Copies, made.Ledger.Contents)
		}
	}
}
