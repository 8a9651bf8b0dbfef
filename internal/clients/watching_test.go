package clients

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	easel "github.com/easel-grpc/easel/clients/go"
	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/proctest"
)

func TestEveryHelperWatchesAllAndTheAccountThroughRestarts(t *testing.T) {
	t.Parallel() // most of it is waiting
	s := startStack(t)
	clients := slices.DeleteFunc(newClients(t, s), func(c *client) bool { return c.language == "rust" }) // an example, and no helper
	for _, c := range clients {
		dir := t.TempDir()
		build(t, dir, players[c.language].build)
		c.command = placed(t, dir, players[c.language].start)
		c.start(t, "account")
		c.account = c.run
		c.start(t, "all")
	}
	s.orderFor(t, clients)

	s.facade.Stop()
	s.serve(t)
	s.awaitStreams(t, "WatchGenerations", len(clients)) // all are back
	s.awaitStreams(t, "WatchAccount", len(clients))
	s.orderFor(t, clients)

	for _, c := range clients {
		s.admin(t, http.MethodDelete, "keys/"+c.key, "", nil)
	}
	s.facade.Kill()
	s.serve(t)
	together(t, clients, (*client).toldOnce)
}

// orderFor orders a render for each, and waits until its program has told of it.
func (s *stack) orderFor(t *testing.T, clients []*client) {
	t.Helper()
	together(t, clients, func(c *client) error {
		return errors.Join(c.order(t.Context(), s.addr), c.toldOfOrder())
	})
}

// order orders a render by another client, and waits for its end.
func (c *client) order(ctx context.Context, addr string) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	other, err := easel.New(ctx, easel.WithAddress(addr), easel.WithAPIKey(c.key))
	if err != nil {
		return err
	}
	render, err := other.Run(ctx, easel.Order{Model: "studio/haiku", Inputs: map[string]any{"prompt": "rain"}})
	if err != nil {
		return err
	}
	read, err := other.Accounts.GetAccount(ctx, &easelv1.GetAccountRequest{})
	c.want = map[*proctest.Process]string{
		c.run:     `(?m)^render (` + regexp.QuoteMeta(render.GenerationID) + `) SUCCEEDED `,
		c.account: fmt.Sprintf(`(?m)^balance (%d)$`, read.GetAccount().GetBalanceCents()),
	}
	return err
}

// toldOfOrder waits until the programs have told of the last order and of what it has left of the balance.
func (c *client) toldOfOrder() error {
	for run, want := range c.want {
		if _, err := run.Await(0, want, patience); err != nil {
			return err
		}
	}
	return nil
}

// toldOnce waits for the ends of programs whose API key was revoked, which have told nothing twice.
func (c *client) toldOnce() error {
	return errors.Join(endedOnce(c.run), endedOnce(c.account))
}

func endedOnce(run *proctest.Process) error {
	code, err := run.Wait(patience)
	said := run.Output.String()
	if err != nil || code != 0 || !strings.Contains(said, "failed Unauthenticated UPSTREAM_CREDENTIAL_REJECTED ") {
		return fmt.Errorf("it ended with %d, %v:\n%s", code, err, said)
	}
	lines := regexp.MustCompile("(?m)^(render|balance) .*$").FindAllString(said, -1)
	slices.Sort(lines)
	if once := slices.Compact(slices.Clone(lines)); len(once) != len(lines) {
		return fmt.Errorf("it tells something twice:\n%s", said)
	}
	return nil
}
