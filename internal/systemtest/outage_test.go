package systemtest

import (
	"slices"
	"strings"
	"testing"

	"github.com/easel-grpc/easel/internal/proctest"
)

// troubles returns the warnings and errors in the log, except those of calls.
func (f *facility) troubles() (all []string) {
	for line := range strings.SplitSeq(f.served.Stderr.String(), "\n") {
		if !strings.Contains(line, `"level":"INFO"`) && !strings.Contains(line, `"msg":"call"`) && line != "" {
			_, message, _ := strings.Cut(line, `"msg":"`)
			message, _, _ = strings.Cut(message, `"`)
			all = append(all, message)
		}
	}
	return all
}

// logs returns the number of times that the log has a message.
func (f *facility) logs(message string) int {
	return strings.Count(f.served.Stderr.String(), `"msg":"`+message+`"`)
}

func TestADatabaseOutageIsOneLineOfLog(t *testing.T) {
	t.Parallel()
	postgres := proctest.StartPostgres(t)
	one, two := startTwo(t, postgres.Database(t))
	both := []*facility{one, two}
	before := [][]string{one.troubles(), two.troubles()}
	postgres.Kill()
	for _, f := range both {
		f.until("line of the outage", func() bool { return f.logs("ledger unavailable") > 0 })
		easel(t, map[string]string{"EASEL_ADDR": f.grpc, "EASEL_API_KEY": f.keys[0]}, "generate", "studio/landscape", "prompt=sea", "--timeout", "3s")
	}
	if err := postgres.Start(); err != nil {
		t.Fatal(err)
	}
	for n, f := range both {
		f.until("line of the recovery", func() bool { return f.logs("ledger available") > 0 })
		if got := f.troubles()[len(before[n]):]; !slices.Equal(got, []string{"ledger unavailable"}) || f.logs("ledger available") != 1 {
			t.Errorf("an outage is logged as %q, and its end %d times", got, f.logs("ledger available"))
		}
		if !strings.Contains(f.served.Stderr.String(), `"msg":"ledger available","after":"`) {
			t.Error("the line of the recovery has no duration with a unit")
		}
	}
}

func TestTheStatusPageIsNotGreenDuringADatabaseOutage(t *testing.T) {
	t.Parallel()
	chromium(t)
	postgres := proctest.StartPostgres(t)
	f := newFacility(t, 1)
	f.served.Stop()
	f.serve(map[string]string{"EASEL_LEDGER_URL": postgres.Database(t)})
	b := f.seen("light", "All is well")
	postgres.Kill()
	b.until("a verdict on the outage", `document.getElementById('verdict').className === 'bad'`)
	if green := b.value(`[...document.querySelectorAll('#verdict.good, .good')].map(e => e.innerText).join('; ')`); green != "" {
		t.Errorf("the page has in green: %v", green)
	}
}
