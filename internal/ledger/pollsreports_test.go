package ledger_test

import (
	"maps"
	"testing"
	"time"

	"github.com/easel-grpc/easel/internal/ledger"
	"github.com/easel-grpc/easel/internal/ledger/shared"
)

func TestProcessesTellEachOtherOfTheirGates(t *testing.T) {
	onEach(t, func(t *testing.T, url string) {
		p := ledger.NewPolls(ledger.PollsConfig{Ledger: open(t, url)})
		exchange := func(apiKey, replica, report string, want map[string]string) (paused time.Duration) {
			t.Helper()
			others, err := p.Exchange(t.Context(), apiKey, replica, report)
			if err != nil || !maps.Equal(others.Reports, want) {
				t.Errorf("%s hears %v, %v; want %v", replica, others.Reports, err, want)
			}
			return others.Paused
		}
		exchange(theAPIKey, "a", "{1}", nil)
		exchange("another", "c", "{3}", nil)
		exchange(theAPIKey, "b", "{2}", map[string]string{"a": "{1}"})
		exchange(theAPIKey, "a", "{4}", map[string]string{"b": "{2}"})
		found(t, p, shared.Found{Pause: time.Now().Add(time.Minute)})
		if d := exchange(theAPIKey, "d", "", map[string]string{"a": "{4}", "b": "{2}"}); d < 30*time.Second || d > time.Minute {
			t.Errorf("and a pause of %v", d)
		}
		change(t, url, `UPDATE shared_reports SET told_time = told_time - 3600000001 WHERE replica = 'a'`)
		exchange(theAPIKey, "d", "", map[string]string{"b": "{2}"})
		if err := p.Forget(t.Context()); err != nil {
			t.Fatal(err)
		}
		change(t, url, `UPDATE shared_reports SET told_time = told_time + 3600000000`)
		exchange("another", "d", "", nil) // told in the future, by a clock that was set back since
	})
}
