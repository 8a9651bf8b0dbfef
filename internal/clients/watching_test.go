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
)

const watchingSource = root + "/internal/clients/testdata/watching"

// watching is how the program of each language that watches every render and the account is built and started.
var watching = map[string]struct{ build, start []string }{
	"go": {
		[]string{"go", "build", "-C", root, "-o", "DIR/watching", "./internal/clients/testdata/watching"},
		[]string{"DIR/watching"},
	},
	"python": {
		[]string{root + "/.build/clients/python/bin/mypy", "--strict", watchingSource + "/watching.py"},
		[]string{root + "/.build/clients/python/bin/python", watchingSource + "/watching.py"},
	},
	"asyncio": {
		[]string{root + "/.build/clients/python/bin/mypy", "--strict", watchingSource + "/watching_asyncio.py"},
		[]string{root + "/.build/clients/python/bin/python", watchingSource + "/watching_asyncio.py"},
	},
	"typescript": {
		[]string{"sh", "-c", "cp " + watchingSource + "/watching.mts . && " + compile + " watching.mts"},
		[]string{"node", "DIR/watching.mjs"},
	},
	"java": {
		[]string{"javac", "-cp", root + "/.build/clients/java/lib/*", "-d", "DIR", watchingSource + "/Watching.java"},
		[]string{"java", "-cp", "DIR:" + root + "/.build/clients/java/lib/*", "Watching"},
	},
}

func TestEveryHelperWatchesAllAndTheAccountThroughRestarts(t *testing.T) {
	t.Parallel() // most of it is waiting
	s := startStack(t)
	clients := slices.DeleteFunc(newClients(t, s), func(c *client) bool { return c.language == "rust" }) // an example, and no helper
	for _, c := range clients {
		dir := t.TempDir()
		build(t, dir, watching[c.language].build)
		c.command = placed(t, dir, watching[c.language].start)
		c.start(t)
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
	c.want = []string{
		`(?m)^render: (` + regexp.QuoteMeta(render.GenerationID) + `) (?:STATE_)?SUCCEEDED `,
		fmt.Sprintf(`(?m)^balance: (%d)$`, read.GetAccount().GetBalanceCents()),
	}
	return err
}

// toldOfOrder waits until the program has told of the last order and of what it has left of the balance.
func (c *client) toldOfOrder() error {
	for _, want := range c.want {
		if _, err := c.run.Await(0, want, patience); err != nil {
			return err
		}
	}
	return nil
}

// toldOnce waits for the end of a program whose API key was revoked, which has told nothing twice.
func (c *client) toldOnce() error {
	code, err := c.run.Wait(patience)
	said := c.run.Output.String()
	if err != nil || code != 0 {
		return fmt.Errorf("it ended with %d, %v:\n%s", code, err, said)
	}
	lines := strings.Split(strings.TrimSpace(said), "\n")
	slices.Sort(lines)
	if once := slices.Compact(slices.Clone(lines)); len(once) != len(lines) {
		return fmt.Errorf("it tells something twice:\n%s", said)
	}
	for _, end := range []string{"account: UPSTREAM_CREDENTIAL_REJECTED", "renders: UPSTREAM_CREDENTIAL_REJECTED"} {
		if !slices.Contains(lines, end) {
			return fmt.Errorf("it does not tell %q:\n%s", end, said)
		}
	}
	return nil
}
