//go:build unix

package torture

import (
	"context"
	"encoding/json"
	"net/http"
	"syscall"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/sandbox"
)

// requests returns the number of requests that a catalog has received.
func requests(ctx context.Context, t *testing.T, addr string) (n int) {
	t.Helper()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+addr+sandbox.AdminPath+"requests", nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	var byRoute map[string]int
	if err := json.NewDecoder(answer.Body).Decode(&byRoute); err != nil {
		t.Fatal(err)
	}
	for _, count := range byRoute {
		n += count
	}
	return n
}

// C2: the generations end while the facade is stopped. The simulation stops it for minutes.
func TestAStoppedFacadeDeliversNothingOldAndDoesNotStorm(t *testing.T) {
	t.Parallel()
	const watches, rate = 40, 5
	s := startStack(t, func(catalog string) string { return catalog }, "0.5")
	var logs []*watchLog
	var ids []string
	for n := range watches {
		ids = append(ids, s.order(t, n+1).GetGenerationId())
		logs = append(logs, s.watch(t, ids[n]))
	}
	for _, w := range logs {
		eventually(t, "the first state", func() bool { return w.seen(func(m seenMessage) bool { return m.GetUpdate().GetInitial() }) })
	}
	if err := s.facade.command.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	open := 0
	for _, w := range logs {
		if !w.isOver() {
			open++
		}
	}
	stopped := time.Now()
	if _, err := settledAudit(s.ctx, s.catalog.found[0]); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the end of what was on its way", func() bool { return time.Since(stopped) > 3*time.Second })
	before := requests(s.ctx, t, s.catalog.found[0])
	began := time.Now()
	if err := s.facade.command.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}

	for _, id := range ids[:3] {
		answer, err := s.generations.GetGeneration(s.ctx, &easelv1.GetGenerationRequest{GenerationId: id, MaxStaleness: durationpb.New(time.Second)})
		if err != nil || !answer.GetGeneration().GetTerminal() {
			t.Errorf("a read that may be a second old says %v, %v", answer.GetGeneration().GetState(), err)
		}
	}
	for _, w := range logs {
		eventually(t, "the end of a watch", w.isOver)
		if err := w.goal(); err != nil {
			t.Errorf("a watch: %v", err)
		}
		if w.seen(func(m seenMessage) bool {
			return m.at.After(began) && m.GetUpdate() != nil && !m.GetUpdate().GetGeneration().GetTerminal()
		}) {
			t.Error("a watch told an old state")
		}
	}
	took := time.Since(began)
	asked := requests(s.ctx, t, s.catalog.found[0]) - before
	t.Logf("%d of %d watches were open; stopped for %v; all were notified within %v, by %d requests",
		open, watches, began.Sub(stopped).Round(time.Millisecond), took.Round(time.Millisecond), asked)
	if most := rate*(1+int(took/time.Second)+1) + 3; asked > most || open < watches/2 {
		t.Errorf("%d requests, want at most %d; %d watches were open", asked, most, open)
	}
}
