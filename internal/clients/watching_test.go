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
)

func TestEveryHelperWatchesAllThroughRestarts(t *testing.T) {
	t.Parallel() // the test mostly waits
	s := startStack(t, nil)
	clients := slices.DeleteFunc(newClients(t, s), func(c *client) bool { return c.language == "rust" }) // Rust has an example but no client library
	for _, c := range clients {
		dir := t.TempDir()
		build(t, dir, players[c.language].build)
		c.command = placed(t, dir, players[c.language].start)
		c.start(t, "all")
	}
	s.orderFor(t, clients)

	s.Server.Stop()
	s.Serve()
	s.awaitStreams("WatchGenerations", len(clients)) // waits until all clients have reconnected
	s.orderFor(t, clients)

	for _, c := range clients {
		s.Control(http.MethodDelete, "keys/"+c.key, "")
	}
	s.Server.Kill()
	s.Serve()
	together(t, clients, (*client).toldOnce)
}

// orderFor orders a render for each client and waits until the client's program has printed it.
func (s stack) orderFor(t *testing.T, clients []*client) {
	t.Helper()
	together(t, clients, func(c *client) error {
		return errors.Join(c.order(t.Context(), s.Server.GRPC), c.toldOfOrder())
	})
}

// order orders a render with another client and waits until it is finished.
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
	c.want = `(?m)^render (` + regexp.QuoteMeta(render.GenerationID) + `) SUCCEEDED `
	return nil
}

// toldOfOrder waits until the program has printed the latest order.
func (c *client) toldOfOrder() error {
	_, err := c.run.Await(0, c.want, patience)
	return err
}

// toldOnce waits until a program whose API key was revoked has exited. It checks that the program printed no line
// about a render twice.
func (c *client) toldOnce() error {
	code, err := c.run.Wait(patience)
	said := c.run.Output.String()
	if err != nil || code != 0 || !strings.Contains(said, "failed Unauthenticated UPSTREAM_CREDENTIAL_REJECTED ") {
		return fmt.Errorf("the program exited with %d, %v:\n%s", code, err, said)
	}
	lines := regexp.MustCompile("(?m)^render .*$").FindAllString(said, -1)
	slices.Sort(lines)
	if once := slices.Compact(slices.Clone(lines)); len(once) != len(lines) {
		return fmt.Errorf("the program printed a line twice:\n%s", said)
	}
	return nil
}
