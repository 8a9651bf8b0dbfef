package simulation

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/easel-grpc/easel/internal/promises"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
	"github.com/easel-grpc/easel/internal/catalog"
	"github.com/easel-grpc/easel/internal/ledger"
	"github.com/easel-grpc/easel/internal/sandbox"
)

// allTenants returns all tenants that use the replicas, including the operator.
func (w *world) allTenants() []*tenant {
	if w.operator == nil {
		return w.tenants
	}
	return append(slices.Clone(w.tenants), w.operator)
}

// operate simulates the operator. In each round, an order is sent directly to the catalog, and the operator lists the
// generations of all owners and may delete one of them. In some rounds, the operator also orders and removes a
// generation, or watches all generations.
func (c *caller) operate() {
	for round := 0; !c.over() && c.world.history.Since() < c.world.plan.Length; round++ {
		c.sleep(c.about(c.world.plan.Length / 6))
		c.world.orderPast(round)
		c.oversee()
		switch round % 3 {
		case 0:
			c.then(c.essay(false), c.removeWatched)
		case 1:
			c.watchEverything(30 * time.Second)
		}
	}
}

// orderPast sends an order with the shared API key directly to the catalog, bypassing Easel. The generation therefore
// has no owner, and no team may see it. Its prompt starts with the name of the account instead of the name of a team,
// so checkOwner reports a leak if a team sees it.
func (w *world) orderPast(n int) {
	client, err := catalog.New(catalog.Config{BaseURL: "http://catalog" + sandbox.BasePath, AllowInsecure: true, Transport: cutTransport{handlerTransport{w.box}}})
	if err != nil {
		w.recordProblem("no client for orders past Easel: %v", err)
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_, _, _ = client.Polls().Post(ctx, catalog.Forwarded(catalog.NewSecret(w.account.key)), catalog.Order{ // may fail because of a fault
		ModelID: "studio/haiku", Inputs: json.RawMessage(fmt.Sprintf(`{"prompt":"held. %d"}`, n)), IdempotencyKey: fmt.Sprint(promises.Past, n),
	})
}

// cutTransport wraps a transport that calls a handler directly. It returns an error if the handler aborts the
// connection by panicking.
type cutTransport struct{ http.RoundTripper }

func (c cutTransport) RoundTrip(r *http.Request) (resp *http.Response, err error) {
	defer func() {
		if recover() != nil {
			err = errors.New("the connection was cut")
		}
	}()
	return c.RoundTripper.RoundTrip(r)
}

// oversee lists the latest generations of all owners and picks a random one. It deletes this generation, unless the
// generation belongs to the operator or its result is a file. At the end of the run, the files that callers have downloaded
// are compared with the catalog's files, which must therefore still exist.
func (c *caller) oversee() {
	ctx, cancel := context.WithTimeout(c.world.ctx, time.Minute)
	defer cancel()
	resp, err := c.endpoint().grpc.ListGenerations(c.endpoint().signedContext(ctx), &easelv1.ListGenerationsRequest{PageSize: 50})
	if err != nil {
		c.noteFailure(promises.Event{Process: c.endpoint().replica.currentProcess().name}, err)
		c.switchEndpoint()
		return
	}
	if all := resp.GetGenerations(); len(all) > 0 {
		if g := all[c.random.IntN(len(all))]; g.GetOwner() != promises.Operator && g.GetModelId() != "studio/abstract" {
			c.removeForeign(g.GetOwner(), g.GetGenerationId())
		}
	}
}

// removeForeign deletes another owner's generation, which an operator may do.
func (c *caller) removeForeign(owner, id string) {
	ctx, cancel := context.WithTimeout(c.world.ctx, 20*time.Second)
	defer cancel()
	_, err := c.endpoint().grpc.DeleteGeneration(c.endpoint().signedContext(ctx), &easelv1.DeleteGenerationRequest{GenerationId: id, Force: true})
	switch status.Code(err) {
	case codes.OK:
		c.note(promises.Event{Kind: promises.Deleted, Generation: id, Text: "of " + owner})
	case codes.NotFound, codes.Unavailable, codes.DeadlineExceeded, codes.ResourceExhausted, codes.Canceled:
	default:
		c.note(promises.Event{Kind: promises.Leaked, Generation: id, Text: fmt.Sprintf("an operator's deletion of %q's generation: %v", owner, err)})
	}
}

// verifyLedger compares the ledger with its journal, as 'easel ledger verify' does, and returns the differences.
func (w *world) verifyLedger() (differences []string) {
	looked, err := w.replicas[0].currentProcess().ledger.Verify(context.Background(), func(d ledger.Difference) { differences = append(differences, d.String()) })
	if err != nil || looked.Orders == 0 {
		w.recordProblem("the ledger was not verified in the end, but for %d orders: %v", looked.Orders, err)
	}
	return differences
}

// labels returns the labels for the caller's orders, or nil if the plan has no ledger. The value of the label "who" is
// the caller's name. In some teams, each value of this label has its own budget.
func (c *caller) labels() map[string]string {
	if !c.world.plan.Ledger {
		return nil
	}
	return map[string]string{"who": c.name}
}
