package cli

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
)

// observedGeneration returns a generation whose state was observed the given time ago.
func observedGeneration(state easelv1.State, ago time.Duration) *easelv1.Generation {
	g := render("gen_1", state)
	g.ObserveTime = timestamppb.New(time.Now().Add(-ago))
	return g
}

func TestStaleStateIsPrintedWithItsAge(t *testing.T) {
	for name, test := range map[string]struct {
		state easelv1.State
		ago   time.Duration
		want  string
	}{
		"queued, observed 3m ago":        {queued, 3 * time.Minute, "as of 3m0s ago: the catalog has not answered since"},
		"queued, observed 10s ago":       {queued, 10 * time.Second, ""},
		"succeeded, observed 1h ago":     {succeeded, time.Hour, ""},
		"queued, observed in the future": {queued, -time.Hour, ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := &scripted{
					get: func(*easelv1.GetGenerationRequest) (*easelv1.Generation, error) {
						return observedGeneration(test.state, test.ago), nil
					},
					watch: func(_ *easelv1.WatchGenerationRequest, s oneStream) error {
						return errors.Join(sendRender(s, observedGeneration(test.state, test.ago)), sendRender(s, render("gen_1", succeeded)))
					},
				}
				dial := server.serve(t)
				for _, command := range []string{"get", "watch"} {
					got := easelRun(t.Context(), dial, command, "gen_1")
					_, first, _ := strings.Cut(got.stdout, stateWord(render("gen_1", test.state)))
					first, _, _ = strings.Cut(first, "\n")
					if got.exit != ExitOK || strings.Contains(first, "as of") != (test.want != "") || !strings.Contains(first, test.want) {
						t.Errorf("easel %s exits with %d and prints\n%s%s", command, got.exit, got.stdout, got.stderr)
					}
				}
			})
		})
	}
}
